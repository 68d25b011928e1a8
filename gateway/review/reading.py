"""Records in the order of their time, out of the files of many processes. What cannot be read is noted, and the rest is
read all the same.

Each file is in order already; they are merged, and one is opened when its time comes, so that a month of runs costs
few descriptors and little memory.
"""

import heapq
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Final

from gateway.audit.names import LogFile
from gateway.audit.written_file import is_written
from gateway.review.files import UnreadableFile, count_bytes, iter_blocks
from gateway.review.records import Damage, DamagedLine, Record, moment_of, parse_line
from gateway.review.selection import Selection

type Progress = Callable[[int, int], None]

# Damaged places that are named; beyond it they are counted.
_NAMED: Final = 100
# How every line of the log begins, and what two lines without a newline between them look like.
HEAD: Final = re.compile(
    rb'\{"v":1,"ts":"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)","seq":\d+,"prev":"[0-9a-f]{64}"'
)
_RUN_TOGETHER: Final = b'}{"v":'
# Bytes at the end of a file among which its last line is looked for.
_TAIL: Final = 64 << 10


@dataclass(slots=True)
class Damages:
    """What could not be read. Changes: `count` of all, the first ones by name."""

    count: int = 0
    named: list[Damage] = field(default_factory=list)

    def note(self, damage: Damage) -> None:
        """Adds one."""
        self.count += 1
        if len(self.named) < _NAMED:
            self.named.append(damage)

    def take(self, count: int, named: Sequence[Damage]) -> None:
        """Adds what somebody else could not read: so many places, of which these have names."""
        self.count += count
        self.named += named[: _NAMED - len(self.named)]


@dataclass(frozen=True, slots=True)
class Line:
    """A record and the line it stands in."""

    data: bytes
    record: Record


def read_records(
    files: Sequence[LogFile],
    selection: Selection,
    damages: Damages,
    progress: Progress = lambda done, total: None,
) -> Iterator[Line]:
    """The wanted records of these files (chain by chain, each in order), the oldest first. Lines that are certainly not
    wanted are looked at, but not parsed: they count as damaged only where that shows."""
    kept = tuple(in_span(files, selection))
    reading = _Reading(selection, damages, progress, count_bytes(kept))
    # Files of our naming wait until their time; the number keeps the order of equal times, and of one chain.
    waiting = [(_begun(file), number, file) for number, file in enumerate(kept)]
    heapq.heapify(waiting)
    open_files: list[_Open] = []
    while waiting or open_files:
        while waiting and (not open_files or waiting[0][0] <= open_files[0][0]):
            _, number, file = heapq.heappop(waiting)
            _advance(open_files, number, reading.lines(file))
        if open_files:
            _, number, line, lines = heapq.heappop(open_files)
            yield line
            _advance(open_files, number, lines)


# Time of the next line, the file's number, the line, and those behind it.
type _Open = tuple[str, int, Line, Iterator[Line]]


def _advance(open_files: list[_Open], number: int, lines: Iterator[Line]) -> None:
    """Puts the next line of a file among those of the others, or closes it."""
    following = next(lines, None)
    if following is not None:
        heapq.heappush(open_files, (moment_of(following.data), number, following, lines))


class _Reading:
    """What the files of one reading have in common. Changes."""

    def __init__(self, selection: Selection, damages: Damages, progress: Progress, total: int) -> None:
        self._selection = selection
        self._damages = damages
        self._progress = progress
        self._total = total
        self._done = 0

    def lines(self, file: LogFile) -> Iterator[Line]:
        """The wanted lines of a file."""
        number = 0
        for lines, rest in self._blocks(file):
            for line in lines:
                number += 1
                if not self._selection.may_match(line) and looks_whole(line):
                    continue
                try:
                    record = parse_line(line)
                except DamagedLine as error:
                    self._damages.note(Damage(str(file.path), number, str(error)))
                    continue
                if self._selection.matches(record):
                    yield Line(line, record)
            if rest is not None:
                note_rest(file, number, rest, self._damages)

    def _blocks(self, file: LogFile) -> Iterator[tuple[list[bytes], bytes | None]]:
        """The blocks; with the last one what stands behind the last newline. An unreadable file is noted."""
        rest = b""
        try:
            for lines, left in iter_blocks(file):
                rest = left
                if not file.is_compressed:
                    self._tell(sum(map(len, lines)) + len(lines))
                yield lines, None
        except UnreadableFile as error:
            self._damages.note(unreadable(file, error))
            return
        if file.is_compressed:
            self._tell(count_bytes((file,)))
        yield [], rest

    def _tell(self, more: int) -> None:
        self._done += more
        self._progress(min(self._done, self._total), self._total)


def unreadable(file: LogFile, error: UnreadableFile) -> Damage:
    """A file that cannot be read to its end."""
    return Damage(str(file.path), 0, error.message.removeprefix(f"{file.path} "))


def readable(files: Sequence[LogFile], damages: Damages) -> tuple[LogFile, ...]:
    """The files that can be read to their end; the others are noted. It reads all of them: for after a fault."""
    kept: list[LogFile] = []
    for file in files:
        try:
            if sum(len(lines) + bool(rest) for lines, rest in iter_blocks(file)):
                kept.append(file)
        except UnreadableFile as error:
            damages.note(unreadable(file, error))
    return tuple(kept)


def note_rest(file: LogFile, lines: int, rest: bytes, damages: Damages) -> bool:
    """Notes what stands behind the last newline, and says so; not what is being written at this moment."""
    if not rest:
        return False
    try:
        if not file.is_compressed and is_written(file.path):
            return False
    except OSError:
        pass  # gone or unreadable: nobody finishes that line
    damages.note(Damage(str(file.path), lines + 1, "half a line at the end: its writer was stopped"))
    return True


def name_damages(file: LogFile, count: int, damages: Damages) -> None:
    """Notes what somebody else found `count` damaged lines in this file, by reading it once more."""
    known = damages.count
    number, rest = 0, b""
    try:
        for lines, left in iter_blocks(file):
            rest = left
            for line in lines:
                number += 1
                try:
                    parse_line(line)
                except DamagedLine as error:
                    damages.note(Damage(str(file.path), number, str(error)))
    except UnreadableFile as error:
        damages.note(unreadable(file, error))
        return
    is_being_written = not note_rest(file, number, rest, damages) and bool(rest)
    unnamed = count - (damages.count - known) - is_being_written
    if unnamed > 0:
        damages.note(Damage(str(file.path), 0, f"{unnamed} more lines that the database cannot read"))


def looks_whole(line: bytes) -> bool:
    """Whether a line that is not parsed begins and ends as one of the log's does."""
    return HEAD.match(line) is not None and line.endswith(b"}") and _RUN_TOGETHER not in line


def _begun(file: LogFile) -> str:
    """A moment that is not after the first record of the file; empty where its name does not say it."""
    text = file.started
    if not text:
        return ""
    return f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[9:11]}:{text[11:13]}:{text[13:15]}"


def in_span(files: Sequence[LogFile], selection: Selection) -> Iterator[LogFile]:
    """Without the files in which nothing of the wanted span of time can stand."""
    for _, group in groupby(files, key=lambda file: file.chain):
        chain = [*group]
        for file, following in pairwise([*chain, None]):
            assert file is not None
            if selection.until and _begun(file) >= selection.until:
                continue
            if selection.since and _ended(file, following) < selection.since:
                continue
            yield file


def _ended(file: LogFile, following: LogFile | None) -> str:
    """A moment that is not before the last record of the file; one that is after all where it cannot be told."""
    unknown = "~"
    if following is not None:
        return f"{_begun(following)}.999999Z" if following.started else unknown
    if file.is_compressed:
        return unknown
    try:
        with open(file.path, "rb", buffering=0) as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(max(0, size - _TAIL))
            tail = stream.read(_TAIL)
    except OSError:
        return unknown
    if not tail.endswith(b"\n"):
        return unknown
    return moment_of(tail[:-1].rpartition(b"\n")[2]) or unknown
