"""Says what was done to a file whose chain is broken: the slow reading, for the files that need it.

A line's `prev` is the hash of the line before, so an edit shows at the line behind it. Where two lines could be the
edited one, that is the one which the line behind it disowns.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.audit.event import GENESIS
from gateway.audit.names import LogFile
from gateway.review.files import iter_lines
from gateway.review.findings import Problem, ProblemKind

# How every line begins: its number, and the hash of the line before.
START: Final = re.compile(
    rb'\{"v":1,"ts":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z","seq":(\d{1,18}),"prev":"([0-9a-f]{64})"'
)

_AGAIN: Final = re.compile(rb'"event":"checkpoint","chain":"[^"]*","head":"([0-9a-f]{64})"')


@dataclass(frozen=True, slots=True)
class _Row:
    """One line: its number in the chain and the hash of the one before, as it says; None where it is no record. A
    checkpoint says that hash twice, `again` is the other time."""

    seq: int | None
    prev: str
    head: str
    again: str = ""


def diagnose(file: LogFile, problems: list[Problem], most: int) -> None:
    """Adds what is wrong with the lines of a file, in their order, until there are `most`."""
    rows = [_row(line) for line in iter_lines(file)]
    for kind, line, text in _Diagnosis(rows).faults():
        if len(problems) >= most:
            return
        problems.append(Problem(kind, str(file.path), line, file.chain, text))


def _row(line: bytes) -> _Row:
    found = START.match(line) if line.endswith(b"}") else None
    head = hashlib.sha256(line).hexdigest()
    if found is None:
        return _Row(None, "", head)
    again = _AGAIN.search(line)
    return _Row(int(found[1]), found[2].decode(), head, again[1].decode() if again else "")


type _Fault = tuple[ProblemKind, int, str]


class _Diagnosis:
    """Goes through the rows of a file. Changes."""

    def __init__(self, rows: list[_Row]) -> None:
        self._rows = rows
        self._places: dict[int, int] = {}
        for index, row in enumerate(rows):
            if row.seq is not None:
                self._places.setdefault(row.seq, index)
        # What the next row should say; None where that cannot be known behind an edited line.
        self._seq: int | None = None
        self._head: str | None = None

    def faults(self) -> Iterator[_Fault]:
        """Kind, line (from 1) and text of what is wrong. Behind a line that was moved nothing more can be said."""
        for index, row in enumerate(self._rows):
            fault = self._judge(index, row)
            if fault is not None:
                yield fault
                if fault[0] is ProblemKind.REORDERED:
                    return

    def _judge(self, index: int, row: _Row) -> _Fault | None:
        expected, head = self._seq, self._head
        if row.seq is None:
            # Behind it the chain goes on with the next number; what its hash was is known to the next line alone.
            self._seq, self._head = (None if expected is None else expected + 1), None
            return ProblemKind.EDITED, index + 1, "this line is no record of this log"
        self._seq, self._head = row.seq + 1, row.head
        if expected is None:
            if row.seq == 0 and row.prev != GENESIS:
                return ProblemKind.EDITED, index + 1, "the first record of the log does not begin its chain"
            return None
        if row.seq == expected:
            return None if head is None or row.prev == head else self._edited(index, row, row.seq)
        if head is not None and row.prev == head:
            self._seq, self._head = expected + 1, None
            return ProblemKind.EDITED, index + 1, f"record {expected} calls itself {row.seq}"
        if row.seq < expected:
            return self._behind(index, row, row.seq, expected)
        return self._ahead(index, row.seq, expected)

    def _edited(self, index: int, row: _Row, seq: int) -> _Fault:
        if row.again == self._rows[index - 1].head:
            self._head = None
            return ProblemKind.EDITED, index + 1, f"this record (number {seq}) is not what was written"
        if index + 1 < len(self._rows) and self._rows[index + 1].prev != row.head:
            self._head = None
            text = f"this record (number {seq}), or the one before, is not what was written"
            return ProblemKind.EDITED, index + 1, text
        return ProblemKind.EDITED, index, f"this record (number {seq - 1}) is not what was written"

    def _ahead(self, index: int, seq: int, expected: int) -> _Fault:
        place = self._places.get(expected)
        if place is not None and place > index:
            text = f"record {seq} stands where record {expected} stood, which is in line {place + 1} now"
            return ProblemKind.REORDERED, index + 1, text
        what = f"record {expected} is" if seq == expected + 1 else f"records {expected} to {seq - 1} are"
        return ProblemKind.MISSING, index + 1, f"{what} missing before this line"

    def _behind(self, index: int, row: _Row, seq: int, expected: int) -> _Fault:
        before = self._rows[index - 1]
        place = self._places.get(seq)
        if place is not None and place < index and self._rows[place].head == row.head:
            self._seq, self._head = expected, before.head
            return ProblemKind.ADDED, index + 1, f"line {place + 1} is here a second time"
        if seq == before.seq and row.prev == before.prev:
            is_genuine = index + 1 < len(self._rows) and self._rows[index + 1].prev == row.head
            if not is_genuine:
                self._head = before.head
            line = index if is_genuine else index + 1
            return ProblemKind.ADDED, line, f"there are two records {seq}, and this one was added"
        return ProblemKind.REORDERED, index + 1, f"record {seq} stands where record {expected} should"
