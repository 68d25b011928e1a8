"""Whole lines of plain and compressed files, in order, within bounds."""

import gzip
from pathlib import Path

import pytest

from gateway.audit.names import named
from gateway.review import files
from gateway.review.files import UnreadableFile, audit_files, chains, count_bytes, iter_blocks, iter_lines
from tests.fakes.audit_log import files_of, read_lines, write_log


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("data", "lines", "rest"),
    [
        (b"", [], b""),
        (b"a\n", [b"a"], b""),
        (b"a\n\nb\n", [b"a", b"", b"b"], b""),
        (b"a\nhalf", [b"a"], b"half"),
        (b"half", [], b"half"),
        (b"a\r\n\x00\n", [b"a\r", b"\x00"], b""),
    ],
)
def test_whole_lines_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    packed: bool,
    data: bytes,
    lines: list[bytes],
    rest: bytes,
) -> None:
    """Also where a line goes over the end of what is read at a time."""
    path = tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")
    path.write_bytes(gzip.compress(data) if packed else data)
    for size in (1, 2, 1 << 20):
        monkeypatch.setattr(files, "_BLOCK", size)
        assert list(iter_lines(named(path))) == lines
        left = [behind for _, behind in iter_blocks(named(path))]
        assert (left or [b""])[-1] == rest


@pytest.mark.parametrize("packed", [False, True])
def test_going_on_where_one_stopped(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")
    path.write_bytes(gzip.compress(b"a\nb\nc\n") if packed else b"a\nb\nc\n")
    assert list(iter_lines(named(path), 2)) == [b"b", b"c"]
    assert list(iter_lines(named(path), 6)) == []


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_BLOCK", 10)
    monkeypatch.setattr(files, "MAX_LINE", 25)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"x" * 25 + b"\n")
    assert len(list(iter_lines(named(path)))) == 1
    path.write_bytes(b"x" * 40)
    with pytest.raises(UnreadableFile, match="a line of more than"):
        list(iter_lines(named(path)))


@pytest.mark.parametrize(
    "data",
    [b"no gzip", gzip.compress(b"a\n" * 1_000)[:-10], gzip.compress(b"a\n")[:-8] + b"\0" * 8],
    ids=["no gzip", "cut", "wrong sum"],
)
def test_a_compressed_file_that_is_broken(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(data)
    with pytest.raises(UnreadableFile, match="cannot be read"):
        list(iter_lines(named(path)))


def test_a_file_that_is_compressed_between_finding_and_reading(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    (file,) = audit_files(tmp_path / "audit")
    lines = read_lines(file.path)
    file.path.with_name(file.path.name + ".gz").write_bytes(gzip.compress(file.path.read_bytes()))
    file.path.unlink()
    assert list(iter_lines(file)) == lines
    file.path.with_name(file.path.name + ".gz").unlink()
    with pytest.raises(UnreadableFile):
        list(iter_lines(file))


def test_places(tmp_path: Path) -> None:
    """Directories and files, each file once, chain by chain."""
    write_log(tmp_path, 30, max_bytes=3_000)
    write_log(tmp_path, 3)
    paths = files_of(tmp_path)
    found = audit_files(tmp_path / "audit", paths[0])
    assert sorted(file.path for file in found) == sorted(paths)
    by_chain = chains(tmp_path / "audit")
    assert sorted(len(several) for several in by_chain.values()) == [1, len(paths) - 1]
    for several in by_chain.values():
        assert [file.rotation for file in several] == list(range(len(several)))
    assert [file.path for file in audit_files(paths[0])] == [paths[0]]
    assert count_bytes(found) == sum(path.stat().st_size for path in paths)
    paths[0].unlink()
    assert count_bytes(found) < sum(1 << 20 for _ in paths)


def test_places_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="No such file"):
        audit_files(tmp_path / "nowhere")
