"""Holds the files of one chain together, and the chain against its entry in the register."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from gateway.audit.event import GENESIS
from gateway.audit.register import Entry, Found, Mark, State
from gateway.audit.signing import Signed
from gateway.audit.written_file import is_written
from gateway.review.findings import ChainReport, Problem, ProblemKind
from gateway.review.scan import Scan

_START: Final = Mark(0, GENESIS)


@dataclass(frozen=True, slots=True)
class Chain:
    """The scans of a chain's files, in order, and its entry, if the register has one. `is_whole` is False where the
    caller named single files, which prove nothing about the others."""

    name: str
    scans: Sequence[Scan]
    entry: Entry | None
    is_whole: bool


def judge_entry(found: Found | None) -> tuple[Entry | None, Problem | None]:
    """The entry, as far as it may be believed."""
    if found is None:
        return None, None
    if found.entry is not None and found.signed is Signed.GOOD:
        return found.entry, None
    reasons = {
        Signed.FOREIGN: "it is signed with a key that is not ours",
        Signed.BAD: "its signature does not fit: it was written anew",
    }
    text = f"the register's entry cannot be believed: {reasons.get(found.signed, 'it is damaged')}"
    return None, Problem(ProblemKind.REGISTER, str(found.path), 0, found.chain, text)


def link(chain: Chain) -> tuple[ChainReport, list[Problem], list[str]]:
    """What a chain amounts to, what is wrong with it, and what is to be known."""
    full = [scan for scan in chain.scans if scan.start is not None]
    problems = [problem for scan in chain.scans for problem in scan.problems]
    notes: list[str] = []
    problems += _beginning(chain, full, notes)
    for before, after in pairwise(full):
        problems += _joint(chain, before, after)
    problems += _halves(chain, notes)
    if chain.entry is not None and chain.is_whole:
        problems += _end(chain, chain.entry, full)
    return _report(chain, full, notes), problems, notes


def gone(entry: Entry) -> Problem:
    """A chain that the register knows and nobody finds."""
    text = f"the files of this chain are gone, with {entry.tip.count} records or more; retention did not remove them"
    return Problem(ProblemKind.GONE, entry.directory, 0, entry.chain, text)


def _beginning(chain: Chain, full: list[Scan], notes: list[str]) -> Iterator[Problem]:
    if not full:
        return
    first = full[0]
    assert first.start is not None
    removed = chain.entry.removed if chain.entry else None
    if first.start.count == 0:
        return  # the scan tells of a first line that is no first one
    path = str(first.file.path)
    if removed is not None and first.start.count <= removed.count:
        if first.start.count == removed.count and first.start.head not in ("", removed.head):
            text = "this file does not follow from what retention removed before it"
            yield Problem(ProblemKind.EDITED, path, 1, chain.name, text)
        return
    if not chain.is_whole:
        notes.append(f"{path} begins at record {first.start.count}; what comes before was not looked at")
        return
    kept = removed.count if removed else 0
    text = f"records {kept} to {first.start.count - 1} are gone; retention did not remove them"
    yield Problem(ProblemKind.GONE, path, 1, chain.name, text)


def _joint(chain: Chain, before: Scan, after: Scan) -> Iterator[Problem]:
    """Whether a file goes on where the one before ends."""
    assert before.tip is not None
    assert after.start is not None
    if before.tip.count == after.start.count and (
        before.tip.head == after.start.head or not (before.tip.head and after.start.head)
    ):
        return
    here, there = str(before.file.path), str(after.file.path)
    missing = after.start.count - before.tip.count
    if missing < 0:
        text = f"record {after.start.count} is here again, or files have changed their names"
        yield Problem(ProblemKind.REORDERED, there, 1, chain.name, text)
    elif missing == 0:
        if not any(problem.line == before.lines for problem in before.problems):
            text = f"this record (number {before.tip.count - 1}) is not what was written"
            yield Problem(ProblemKind.EDITED, here, before.lines, chain.name, text)
    elif any(scan.start == before.tip for scan in chain.scans):
        text = f"record {after.start.count} stands where record {before.tip.count} should: files have changed places"
        yield Problem(ProblemKind.REORDERED, there, 1, chain.name, text)
    elif chain.is_whole or after.file.rotation == before.file.rotation + 1:
        text = f"records {before.tip.count} to {after.start.count - 1} are missing behind this line"
        kind = ProblemKind.CUT
        if after.file.rotation > before.file.rotation + 1:
            kind = ProblemKind.GONE
            numbers = f"{before.file.rotation + 1:04d} to {after.file.rotation - 1:04d}"
            text = f"the files {numbers} of this chain are gone; {text}"
        yield Problem(kind, here, before.lines, chain.name, text)


def _halves(chain: Chain, notes: list[str]) -> Iterator[Problem]:
    """Half a line is what a crash leaves, in the last file of a chain that nobody closed."""
    for scan in chain.scans:
        if not scan.half:
            continue
        if scan is chain.scans[-1] and not scan.is_closed:
            if not _is_written(scan):
                notes.append(
                    f"{scan.file.path}:{scan.lines + 1}: half a record of {scan.half} bytes without a line end, as a "
                    "crash leaves it; what it was about did not happen"
                )
            continue
        text = f"{scan.half} bytes without a line end stand where no crash can have left them"
        yield Problem(ProblemKind.ADDED, str(scan.file.path), scan.lines + 1, chain.name, text)


def _end(chain: Chain, entry: Entry, full: list[Scan]) -> Iterator[Problem]:
    """Whether the chain goes as far as the register says, and through the same record there."""
    last = full[-1] if full else chain.scans[-1]
    path, tip = str(last.file.path), full[-1].tip if full else _START
    assert tip is not None
    heads = {_START.count: _START.head} | {seq: head for scan in full for seq, head in scan.heads.items()}
    if tip.count < entry.tip.count:
        text = f"the tail was cut: {entry.tip.count - tip.count} records are missing behind this line"
        yield Problem(ProblemKind.CUT, path, last.lines, chain.name, text)
    elif heads.get(entry.tip.count, entry.tip.head) != entry.tip.head:
        line = last.lines - (tip.count - entry.tip.count)
        text = f"record {entry.tip.count - 1} is not the one that the register knows: it, or one before, was changed"
        yield Problem(ProblemKind.EDITED, path, max(line, 0), chain.name, text)
    elif entry.state is State.CLOSED and tip.count > entry.tip.count:
        line = last.lines - (tip.count - entry.tip.count) + 1
        text = "a record stands behind the end of the log"
        yield Problem(ProblemKind.ADDED, path, max(line, 0), chain.name, text)


def _report(chain: Chain, full: list[Scan], notes: list[str]) -> ChainReport:
    first, tip = (full[0].start, full[-1].tip) if full else (_START, _START)
    assert first is not None
    assert tip is not None
    records = sum(scan.lines for scan in full)
    signed = max((scan.signed for scan in full), default=0)
    if chain.entry is not None:
        signed = max(signed, min(chain.entry.tip.count, tip.count))
    unsigned = min(records, max(0, tip.count - signed))
    is_closed = bool(full) and full[-1].is_closed
    state = "closed" if is_closed else "open" if _is_written(chain.scans[-1]) else "ended"
    if state == "ended" and records:
        notes.append(_ended(chain, full[-1], unsigned))
    return ChainReport(
        chain.name, len(chain.scans), records, records - unsigned, unsigned, first.count, state
    )


def _ended(chain: Chain, last: Scan, unsigned: int) -> str:
    rest = (
        f"the last {unsigned} records are chained but not signed"
        if unsigned
        else "all of its records are signed"
    )
    tail = (
        "records of the last second before that may be lost or cut"
        if chain.entry
        else "it is not in the register, so nobody can tell whether its tail was cut"
    )
    return f"{last.file.path}: its process was killed, or never closed it: {rest}; {tail}"


def _is_written(scan: Scan) -> bool:
    """Whether a process writes the file now."""
    path = scan.file.path
    try:
        return not scan.file.is_compressed and path.stat().st_size > 0 and is_written(path)
    except OSError:
        return False
