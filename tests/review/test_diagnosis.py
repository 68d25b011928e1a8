"""What was done to the lines of a file, told by what each says about the one before."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.audit.names import named
from gateway.review.diagnosis import diagnose
from gateway.review.findings import Problem, ProblemKind

K = ProblemKind
TIME = "2026-01-02T03:04:05.000006Z"


def chain(count: int, start: int = 0, prev: str = "0" * 64) -> list[bytes]:
    """So many good lines."""
    lines = []
    for seq in range(start, start + count):
        line = f'{{"v":1,"ts":"{TIME}","seq":{seq},"prev":"{prev}","event":"config","n":{seq}}}'.encode()
        prev = hashlib.sha256(line).hexdigest()
        lines.append(line)
    return lines


GOOD = chain(12)


def say(tmp_path: Path, lines: Sequence[bytes], most: int = 20) -> list[tuple[ProblemKind, int]]:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    problems: list[Problem] = []
    diagnose(named(path), problems, most)
    assert all((one.file, one.chain) == (str(path), "a") for one in problems)
    return [(one.kind, one.line) for one in problems]


def edited(*indexes: int) -> list[bytes]:
    return [line.replace(b"config", b"egress") if n in indexes else line for n, line in enumerate(GOOD)]


@pytest.mark.parametrize(
    ("name", "lines", "expected"),
    [
        ("nothing", GOOD, []),
        ("nothing, from the middle on", GOOD[5:], []),
        ("one edited", edited(4), [(K.EDITED, 5)]),
        ("two edited, apart", edited(2, 7), [(K.EDITED, 3), (K.EDITED, 8)]),
        ("neighbours edited", edited(4, 5), [(K.EDITED, 6)]),
        ("the last but one", edited(10), [(K.EDITED, 11)]),
        ("rubbish in a line's place", [*GOOD[:4], b"x", *GOOD[5:]], [(K.EDITED, 5)]),
        ("rubbish at the start", [b"x", *GOOD[1:]], [(K.EDITED, 1)]),
        ("rubbish at the end", [*GOOD[:-1], b"x"], [(K.EDITED, 12)]),
        ("another schema", [*GOOD[:4], GOOD[4].replace(b'"v":1', b'"v":2'), *GOOD[5:]], [(K.EDITED, 5)]),
        ("the first does not begin", chain(3, prev="f" * 64), [(K.EDITED, 1)]),
        ("one missing", GOOD[:4] + GOOD[5:], [(K.MISSING, 5)]),
        ("many missing, twice", GOOD[:3] + GOOD[5:7] + GOOD[9:], [(K.MISSING, 4), (K.MISSING, 6)]),
        ("edited and missing", edited(2)[:6] + GOOD[8:], [(K.EDITED, 3), (K.MISSING, 7)]),
        ("neighbours swapped", [*GOOD[:4], GOOD[5], GOOD[4], *GOOD[6:]], [(K.REORDERED, 5)]),
        ("moved to the front", [GOOD[8], *GOOD[:8], *GOOD[9:]], [(K.REORDERED, 2)]),
        ("moved to the back", [*GOOD[:4], *GOOD[5:], GOOD[4]], [(K.REORDERED, 5)]),
        ("twice", [*GOOD[:5], *GOOD[4:]], [(K.ADDED, 6)]),
        ("twice, later", [*GOOD[:9], GOOD[2], *GOOD[9:]], [(K.ADDED, 10)]),
        ("all of it twice", GOOD + GOOD[:2], [(K.ADDED, 13), (K.ADDED, 14)]),
        ("nothing at all", [], []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_was_done(
    tmp_path: Path, name: str, lines: Sequence[bytes], expected: list[tuple[ProblemKind, int]]
) -> None:
    assert say(tmp_path, lines) == expected


def test_a_number_that_was_changed(tmp_path: Path) -> None:
    for number in (b"9", b"2", b"99"):
        lines = [line.replace(b'"seq":4', b'"seq":' + number) for line in GOOD]
        assert say(tmp_path, lines)[0] == (K.EDITED, 5)


def test_a_hash_that_was_changed(tmp_path: Path) -> None:
    line = GOOD[4]
    start = line.index(b'"prev":"') + 8
    changed = line[:start] + (b"0" if line[start : start + 1] != b"0" else b"1") + line[start + 1 :]
    assert say(tmp_path, [*GOOD[:4], changed, *GOOD[5:]]) == [(K.EDITED, 5)]


def test_a_record_that_was_added_well_chained(tmp_path: Path) -> None:
    """The line behind says which of two records of one number is the genuine one."""
    forged = GOOD[5].replace(b"config", b"egress")
    assert say(tmp_path, [*GOOD[:5], forged, *GOOD[5:]]) == [(K.ADDED, 6)]
    assert say(tmp_path, [*GOOD[:6], forged, *GOOD[6:]]) == [(K.ADDED, 7)]


def test_not_more_than_are_wanted(tmp_path: Path) -> None:
    assert say(tmp_path, [b"x"] * 30, most=3) == [(K.EDITED, 1), (K.EDITED, 2), (K.EDITED, 3)]
