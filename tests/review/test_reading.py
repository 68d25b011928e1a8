"""Records in the order of their time, out of many files, with what cannot be read named."""

import gzip
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.review.reading import Damages, name_damages, read_records, readable
from gateway.review.records import parse_line
from gateway.review.selection import Selection
from tests.fakes.review_log import Writer, files


def hosts(place: Path, selection: Selection | None = None, damages: Damages | None = None) -> list[str]:
    """The hosts of the records that are read, in order."""
    lines = read_records(
        files(place), selection or Selection(events=frozenset({"egress"})), damages or Damages()
    )
    return [line.record["host"] for line in lines]


def test_processes_are_merged_by_time(tmp_path: Path) -> None:
    one, two = Writer(tmp_path), Writer(tmp_path, at=1)
    first, second = one.open("s1"), two.open("s2")
    for number in range(6):
        writer, session = ((one, first), (two, second))[number % 2]
        writer.at = 10 + number
        writer.refuse(session, f"h{number}.test")
    one.log.close()
    two.log.close()
    assert hosts(tmp_path) == [f"h{number}.test" for number in range(6)]


def test_one_chain_goes_on_over_files_and_compressed_ones(tmp_path: Path) -> None:
    writer = Writer(tmp_path, max_bytes=3000)
    session = writer.open()
    for number in range(40):
        writer.at = number
        writer.refuse(session, f"h{number}.test")
    writer.log.close()
    paths = [file.path for file in files(tmp_path)]
    assert len(paths) > 3
    packed = gzip.compress(paths[1].read_bytes())
    paths[1].with_name(paths[1].name + ".gz").write_bytes(packed)
    paths[1].unlink()
    assert hosts(tmp_path) == [f"h{number}.test" for number in range(40)]
    # Files in which nothing of the span can stand are left out, and change nothing.
    egress = frozenset({"egress"})
    since, until = "2026-01-01T00:00:10.000000Z", "2026-01-01T00:00:31.000000Z"
    span = Selection(events=egress, since=since, until=until)
    assert hosts(tmp_path, span) == [f"h{number}.test" for number in range(10, 31)]


def test_damage_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    session = writer.open()
    for number in range(4):
        writer.refuse(session, f"h{number}.test")
    writer.log.close()
    (file,) = files(tmp_path)
    lines = file.path.read_bytes().split(b"\n")
    lines[2] = lines[2][:40] + b"\x00garbage"
    lines[3] = lines[3] + lines[4]
    del lines[4]
    file.path.write_bytes(b"\n".join(lines)[:-1] + b'\n{"v":1,"ts":"20')
    damages = Damages()
    assert hosts(tmp_path, damages=damages) == ["h0.test"]
    assert [(one.line, one.why) for one in damages.named] == [
        (3, "no JSON"),
        (4, "no JSON"),
        (5, "half a line at the end: its writer was stopped"),
    ]
    assert str(damages.named[0]) == f"{file.path}:3: no JSON"
    # The same where the line is not parsed, since it cannot be wanted.
    unwanted = Damages()
    assert hosts(tmp_path, Selection(texts=("nothing like it",)), unwanted) == []
    assert unwanted.count == 3
    again = Damages()
    name_damages(file, 5, again)
    assert [one.line for one in again.named] == [3, 4, 5, 0]
    assert again.named[-1].why == "2 more lines that the database cannot read"


def test_half_a_line_that_is_being_written_is_no_damage(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    session = writer.open()
    writer.refuse(session, "a.test")
    with writer.log.path.open("ab") as file:
        file.write(b'{"v":1')
    damages = Damages()
    assert hosts(tmp_path, damages=damages) == ["a.test"]
    assert damages.count == 0


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.refuse(writer.open(), "a.test")
    writer.log.close()
    (tmp_path / "20260101T000000Z-1-00000000-0000.jsonl.gz").write_bytes(b"\x1f\x8b\x08broken")
    damages = Damages()
    assert hosts(tmp_path, damages=damages) == ["a.test"]
    assert [(one.line, "cannot be read" in one.why) for one in damages.named] == [(0, True)]


def test_files_that_can_be_read(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.refuse(writer.open(), "a.test")
    writer.log.close()
    (tmp_path / "20260101T000000Z-1-00000000-0000.jsonl.gz").write_bytes(b"broken")
    (tmp_path / "20260101T000000Z-2-00000000-0000.jsonl.gz").write_bytes(b"")
    damages = Damages()
    assert [file.path for file in readable(files(tmp_path), damages)] == [writer.log.path]
    assert damages.count == 1


def test_progress_is_told(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.refuse(writer.open(), "a.test")
    writer.log.close()
    told: list[tuple[int, int]] = []
    list(
        read_records(files(tmp_path), Selection(), Damages(), lambda done, total: told.append((done, total)))
    )
    size = sum(file.path.stat().st_size for file in files(tmp_path))
    assert told[-1] == (size, size)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3), st.text(max_size=20)), min_size=1, max_size=20)
)
def test_whatever_is_written_is_read(records: list[tuple[int, int, str]]) -> None:
    """From three processes, with any text in a field, as many and in the order of their time."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        writers = [Writer(Path(folder)) for _ in range(3)]
        at = 0
        for number, gap, text in records:
            at += gap
            writers[number].at = at
            writers[number].refuse(
                writers[number].sessions.get("s") or writers[number].open("s"), text or "x"
            )
        for writer in writers:
            writer.log.close()
        damages = Damages()
        lines = list(read_records(files(Path(folder)), Selection(), damages))
        moments = [line.record["ts"] for line in lines]
        assert moments == sorted(moments)
        written = sum(len(file.path.read_bytes().splitlines()) for file in files(Path(folder)))
        assert (len(lines), damages.count) == (written, 0)
        assert all(parse_line(line.data) == line.record for line in lines)
