"""A log followed while it is written: old files, new ones, full ones, compressed ones, damaged ones."""

import gzip
import os
from pathlib import Path

from gateway.review.following import Follower
from gateway.review.reading import Damages
from gateway.review.selection import Selection
from tests.fakes.review_log import Writer, files

EGRESS = Selection(events=frozenset({"egress"}))


class Following:
    """A follower, one look at a time."""

    def __init__(self, place: Path, selection: Selection = EGRESS) -> None:
        self.damages = Damages()
        self.follower = Follower((place,), selection, self.damages)

    def before(self, last: int) -> list[str]:
        return [line.record["host"] for line in self.follower.catch_up(last)]

    def look(self) -> list[str]:
        turns = iter([True, False])
        return [line.record["host"] for line in self.follower.follow(lambda: next(turns))]


def test_it_begins_with_the_newest_and_goes_on(tmp_path: Path) -> None:
    one, two = Writer(tmp_path), Writer(tmp_path)
    first, second = one.open("s1"), two.open("s2")
    for number in range(4):
        one.at = two.at = number
        (one if number % 2 else two).refuse(first if number % 2 else second, f"h{number}.test")
    following = Following(tmp_path)
    assert following.before(3) == ["h1.test", "h2.test", "h3.test"]
    assert following.look() == []
    two.at, one.at = 11, 10
    two.refuse(second, "late.test")
    one.refuse(first, "early.test")
    assert following.look() == ["early.test", "late.test"]
    assert following.look() == []


def test_it_can_begin_with_nothing_and_before_there_is_anything(tmp_path: Path) -> None:
    following = Following(tmp_path / "audit")
    assert following.before(5) == []
    assert following.look() == []
    writer = Writer(tmp_path / "audit")
    writer.refuse(writer.open(), "a.test")
    assert following.look() == ["a.test"]
    quiet = Following(tmp_path / "audit")
    assert quiet.before(0) == []
    assert quiet.look() == []


def test_new_processes_and_full_files(tmp_path: Path) -> None:
    writer = Writer(tmp_path, max_bytes=3000)
    session = writer.open()
    following = Following(tmp_path)
    following.before(0)
    for number in range(30):
        writer.at = number
        writer.refuse(session, f"h{number}.test")
    assert len(files(tmp_path)) > 3
    other = Writer(tmp_path, at=100)
    other.refuse(other.open("s2"), "other.test")
    assert following.look() == [*(f"h{number}.test" for number in range(30)), "other.test"]


def test_a_file_that_is_compressed_meanwhile(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    session = writer.open()
    writer.refuse(session, "a.test")
    following = Following(tmp_path)
    assert following.before(9) == ["a.test"]
    writer.refuse(session, "b.test")
    writer.log.close()
    path = writer.log.path
    path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert following.look() == ["b.test"]
    assert following.look() == []
    # By a name of its own, it is another log.
    os.rename(path.with_name(path.name + ".gz"), tmp_path / "copy.jsonl.gz")
    assert following.look() == ["a.test", "b.test"]
    assert following.damages.count == 0


def test_a_line_is_told_when_it_is_whole(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    session = writer.open()
    writer.refuse(session, "a.test")
    writer.log.close()
    whole = writer.log.path.read_bytes()
    following = Following(tmp_path)
    writer.log.path.write_bytes(whole[:-20])
    assert following.before(5) == []
    writer.log.path.write_bytes(whole)
    assert following.look() == ["a.test"]


def test_damage_is_named_once(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    session = writer.open()
    following = Following(tmp_path)
    following.before(0)
    with writer.log.path.open("ab") as file:
        file.write(b"garbage\n")
    assert following.look() == following.look() == []
    assert [(one.line, one.why) for one in following.damages.named] == [(2, "no JSON")]
    assert session.id == "s1"


def test_a_file_that_is_removed_is_forgotten(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.refuse(writer.open(), "a.test")
    writer.log.close()
    following = Following(tmp_path)
    following.before(0)
    writer.log.path.unlink()
    assert following.look() == []
    assert following.damages.count == 0
