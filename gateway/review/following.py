"""Follows a log while it is written: new lines of old files, and files that new processes begin.

A file may be full, and compressed in the meantime; what was not read of it is then read from there.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.audit.names import LogFile
from gateway.review.files import UnreadableFile, audit_files, iter_blocks
from gateway.review.reading import Damages, Line, looks_whole, unreadable
from gateway.review.records import Damage, DamagedLine, moment_of, parse_line
from gateway.review.selection import Selection

# Seconds between two looks.
INTERVAL: Final = 0.25
# How many times as many records as are wanted may be held.
_ENOUGH: Final = 16


@dataclass(slots=True)
class _Place:
    """How far a file was read: bytes of its text, lines, and what lay on the disk by then. Changes."""

    offset: int = 0
    lines: int = 0
    read: tuple[bool, int] = (False, 0)


@dataclass(slots=True)
class Follower:
    """Reads on where it stopped. Changes. `places` are directories and files, as for every reading; one that is not
    there yet is waited for."""

    places: Sequence[Path]
    selection: Selection
    damages: Damages
    _known: dict[tuple[str, int, str], _Place] = field(default_factory=dict)

    def catch_up(self, last: int) -> list[Line]:
        """The last so many wanted records of what is there now; later looks go on behind it."""
        return self._look(last)

    def follow(self, waits: Callable[[], bool]) -> Iterator[Line]:
        """The wanted records that come, each look's in the order of their time, for as long as `waits` says so: it
        waits between two looks, and is asked before the first one."""
        while waits():
            yield from self._look()

    def _look(self, last: int | None = None) -> list[Line]:
        try:
            files = audit_files(*(place for place in self.places if place.exists()))
        except UnreadableFile as error:
            self.damages.note(Damage("the log", 0, error.message))
            return []
        there = {_identity(file) for file in files}
        self._known = {key: place for key, place in self._known.items() if key in there}
        found: list[Line] = []
        for file in files:
            lines = self._new_lines(file)
            # One file after the other, so that a log of many costs one descriptor.
            found += lines if last is None else deque(lines, maxlen=last)
            if last is not None and len(found) > _ENOUGH * last:
                found = _newest(found, last)
        return _newest(found, last)

    def _new_lines(self, file: LogFile) -> Iterator[Line]:
        place = self._known.setdefault(_identity(file), _Place())
        try:
            now: tuple[bool, int] | None = (file.is_compressed, file.path.stat().st_size)
        except FileNotFoundError:
            now = None  # compressed, or removed, at this moment: reading it finds the compressed one
        except OSError as error:
            self.damages.note(Damage(str(file.path), 0, f"cannot be read: {error.strerror or error}"))
            return
        if now == place.read:
            return
        try:
            for lines, _ in iter_blocks(file, place.offset):
                for data in lines:
                    place.offset += len(data) + 1
                    place.lines += 1
                    line = self._wanted(file, place.lines, data)
                    if line is not None:
                        yield line
        except UnreadableFile as error:
            if now is not None:
                self.damages.note(unreadable(file, error))
        # What came while it was read is found at the next look, since the file is longer then.
        place.read = now or place.read

    def _wanted(self, file: LogFile, number: int, data: bytes) -> Line | None:
        if not self.selection.may_match(data) and looks_whole(data):
            return None
        try:
            record = parse_line(data)
        except DamagedLine as error:
            self.damages.note(Damage(str(file.path), number, str(error)))
            return None
        return Line(data, record) if self.selection.matches(record) else None


def _newest(lines: list[Line], last: int | None) -> list[Line]:
    """The lines in the order of their time; the last so many of them."""
    ordered = sorted(lines, key=lambda line: moment_of(line.data))
    return ordered if last is None else ordered[len(ordered) - min(last, len(ordered)) :]


def _identity(file: LogFile) -> tuple[str, int, str]:
    """The same for a file and what it is compressed to."""
    return (file.chain, file.rotation, "" if file.is_ours else str(file.path))
