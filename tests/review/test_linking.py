"""Files held together, and against the register: what each of the two knows better than the other."""

from pathlib import Path

import pytest

from gateway.audit.names import named
from gateway.audit.register import Entry, Found, Mark, State
from gateway.audit.signing import Signed
from gateway.review.findings import ProblemKind
from gateway.review.linking import Chain, gone, judge_entry, link
from gateway.review.scan import Scan

K = ProblemKind
ZEROS, A, B, C = "0" * 64, "a" * 64, "b" * 64, "c" * 64
NAME = "4711-0123abcd"


def part(rotation: int, start: Mark | None, tip: Mark | None, *, closed: bool = False, half: int = 0) -> Scan:
    """A file from one mark to another, all of it signed where it is closed."""
    lines = tip.count - start.count if start and tip else 0
    file = named(Path(f"/audit/20260102T030405Z-{NAME}-{rotation:04d}.jsonl.gz"))
    signed = tip.count if tip and closed else 0
    heads = {tip.count: tip.head} if tip else {}
    return Scan(file, lines, start, tip, signed, NAME, closed, half, heads)


def entry(tip: Mark, state: State = State.CLOSED, removed: Mark | None = None) -> Entry:
    return Entry(NAME, "/audit", tip, state, removed)


START, TEN, TWENTY, THIRTY = Mark(0, ZEROS), Mark(10, A), Mark(20, B), Mark(30, C)
FIRST, SECOND = part(0, START, TEN), part(1, TEN, TWENTY)
THIRD = part(2, TWENTY, THIRTY, closed=True)
WHOLE = (FIRST, SECOND, THIRD)


@pytest.mark.parametrize(
    ("name", "scans", "known", "expected"),
    [
        ("whole", WHOLE, entry(THIRTY), []),
        ("whole, without an entry", WHOLE, None, []),
        ("the entry is behind", (FIRST, SECOND), entry(TEN, State.OPEN), []),
        ("removed by retention", (SECOND, THIRD), entry(THIRTY, removed=TEN), []),
        ("about to be removed", WHOLE, entry(THIRTY, removed=TEN), []),
        ("removed by somebody", (SECOND, THIRD), entry(THIRTY), [(K.GONE, "0001", 1)]),
        ("removed by somebody beyond retention", (THIRD,), entry(THIRTY, removed=TEN), [(K.GONE, "0002", 1)]),
        ("another one after retention", (SECOND, THIRD), entry(THIRTY, removed=Mark(10, C)), [(K.EDITED, "0001", 1)]),
        ("a file is gone", (FIRST, THIRD), entry(THIRTY), [(K.GONE, "0000", 10)]),
        ("the last file is gone", (FIRST, SECOND), entry(THIRTY), [(K.CUT, "0001", 10)]),
        ("a file was cut", (FIRST, part(1, TEN, Mark(15, B)), THIRD), entry(THIRTY), [(K.CUT, "0001", 5)]),
        ("the seam does not hold", (FIRST, part(1, Mark(10, C), TWENTY), THIRD), None,
         [(K.EDITED, "0000", 10)]),
        ("files changed places", (FIRST, part(1, TWENTY, THIRTY), part(2, TEN, TWENTY)), None,
         [(K.REORDERED, "0001", 1), (K.REORDERED, "0002", 1)]),
        ("a file is there twice", (FIRST, part(1, START, TEN)), None, [(K.REORDERED, "0001", 1)]),
        ("another record where the entry knows one", (FIRST,), entry(Mark(10, C), State.OPEN),
         [(K.EDITED, "0000", 10)]),
        ("more than the end", (FIRST, SECOND), entry(TWENTY), []),
        ("behind the end", (FIRST, SECOND), entry(TEN), [(K.ADDED, "0001", 1)]),
        ("nothing is left", (part(0, None, None),), entry(TEN), [(K.CUT, "0000", 0)]),
        ("nothing was there", (part(0, None, None),), entry(START, State.OPEN), []),
        ("half a line in the middle", (part(0, START, TEN, half=3), SECOND), None, [(K.ADDED, "0000", 11)]),
        ("half a line behind the end", (part(0, START, TEN, closed=True, half=3),), None, [(K.ADDED, "0000", 11)]),
        ("half a line of a crash", (FIRST, part(1, TEN, TWENTY, half=3)), entry(TWENTY, State.OPEN), []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_chain(
    name: str, scans: tuple[Scan, ...], known: Entry | None, expected: list[tuple[ProblemKind, str, int]]
) -> None:
    _, problems, _ = link(Chain(NAME, scans, known, is_whole=True))
    assert [(one.kind, one.file[-13:-9], one.line) for one in problems] == expected


def test_what_a_chain_amounts_to() -> None:
    report, _, notes = link(Chain(NAME, WHOLE, entry(THIRTY), is_whole=True))
    assert (report.files, report.records, report.signed, report.unsigned) == (3, 30, 30, 0)
    assert (report.removed, report.state) == (0, "closed")
    assert notes == []
    report, _, notes = link(Chain(NAME, (SECOND,), entry(Mark(15, A), State.OPEN, TEN), is_whole=True))
    assert (report.records, report.signed, report.unsigned) == (10, 5, 5)
    assert (report.removed, report.state) == (10, "ended")
    assert "the last 5 records are chained but not signed" in notes[0]


def test_single_files() -> None:
    _, problems, notes = link(Chain(NAME, (SECOND,), entry(THIRTY), is_whole=False))
    assert problems == []
    assert "what comes before was not looked at" in notes[0]


@pytest.mark.parametrize(
    ("signed", "text"),
    [(Signed.BAD, "written anew"), (Signed.FOREIGN, "not ours"), (Signed.NONE, "damaged")],
)
def test_entries_that_are_not_believed(signed: Signed, text: str) -> None:
    believed, problem = judge_entry(Found(Path("/x"), NAME, entry(TEN), signed))
    assert believed is None
    assert problem is not None
    assert problem.kind is K.REGISTER
    assert text in problem.text


def test_entries_that_are_believed() -> None:
    assert judge_entry(None) == (None, None)
    assert judge_entry(Found(Path("/x"), NAME, entry(TEN), Signed.GOOD)) == (entry(TEN), None)
    assert judge_entry(Found(Path("/x"), NAME, None, Signed.GOOD))[1] is not None


def test_a_chain_that_is_gone() -> None:
    problem = gone(entry(TEN))
    assert (problem.kind, problem.file, problem.chain) == (K.GONE, "/audit", NAME)
    assert "10 records or more" in problem.text
