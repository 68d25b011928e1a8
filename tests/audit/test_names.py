"""Which files belong to a log, and in which order they were written."""

from pathlib import Path

import pytest

from gateway.audit.names import file_name, find_files, in_order, named


@pytest.mark.parametrize(
    ("name", "chain", "rotation", "compressed", "ours"),
    [
        ("20260102T030405Z-4711-0123abcd-0000.jsonl", "4711-0123abcd", 0, False, True),
        ("20260102T030405Z-4711-0123abcd-12345.jsonl", "4711-0123abcd", 12345, False, True),
        ("20260102T030405Z-4711-0123abcd-0001.jsonl.gz", "4711-0123abcd", 1, True, True),
        ("20260102T030405Z-4711-0123ABCD-0001.jsonl", "20260102T030405Z-4711-0123ABCD-0001", 0, False, False),
        ("20260102T030405Z-4711-0123abcd-001.jsonl", "20260102T030405Z-4711-0123abcd-001", 0, False, False),
        ("copy.jsonl", "copy", 0, False, False),
        ("copy.jsonl.gz", "copy", 0, True, False),
    ],
)
def test_what_a_name_says(name: str, chain: str, rotation: int, compressed: bool, ours: bool) -> None:
    file = named(Path("/somewhere") / name)
    assert (file.chain, file.rotation, file.is_compressed, file.is_ours) == (
        chain,
        rotation,
        compressed,
        ours,
    )


def test_a_name_that_is_made_is_read_back() -> None:
    file = named(Path(file_name("20260102T030405Z", "4711-0123abcd", 7)))
    assert (file.started, file.chain, file.rotation) == ("20260102T030405Z", "4711-0123abcd", 7)


def test_a_directory(tmp_path: Path) -> None:
    """Chain by chain, the one that began first in front, each as it was written; what is no file of a log stays out."""
    order = [
        "20260101T000000Z-9-0123abcd-0000.jsonl.gz",
        "20260103T000000Z-9-0123abcd-0001.jsonl",
        "20260103T000000Z-9-0123abcd-10000.jsonl",
        "20260102T000000Z-10-0123abcd-0000.jsonl",
    ]
    for name in (*order, "20260103T000000Z-9-0123abcd-0001.jsonl.gz", "notes.txt", ".x.jsonl.gz.part"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / order[0])
    files = find_files(tmp_path)
    assert [file.path.name for file in files] == order
    assert in_order(reversed(files)) == files


def test_a_directory_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find_files(tmp_path / "nowhere")


def test_only_those_that_began_late_enough(tmp_path: Path) -> None:
    names = (
        "20260101T000000Z-1-aaaaaaaa-0000.jsonl",
        "20260102T000000Z-1-aaaaaaaa-0001.jsonl.gz",
        "20260103T000000Z-2-bbbbbbbb-0000.jsonl",
        "copy.jsonl",
    )
    for name in names:
        (tmp_path / name).touch()
    found = [file.path.name for file in find_files(tmp_path, "20260102T000000Z")]
    assert sorted(found) == sorted(names[1:])
    assert len(find_files(tmp_path)) == 4
