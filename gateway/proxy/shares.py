"""What the processes that serve one session count together, so that its limits hold for all of them as one.

Each process writes a row of its own and reads the others'; no lock is needed. Two that look in the same microsecond may
both take the last place: a limit can be exceeded by one connection for each further process, never by more.
"""

import mmap
import os
import tempfile
from typing import Final, Self

_LIVE: Final = 0
_NEW: Final = 1
_REQUESTS: Final = 2
_COLUMNS: Final = 3
_BYTES: Final = 8


class Shares:
    """Counters of `rows` processes in shared memory; this one writes row `row`. Changes.

    `descriptor` refers to the memory and may be inherited. Live connections go up and down; new connections and
    requests on kept ones are counted from the start.
    """

    def __init__(self, descriptor: int, row: int, rows: int) -> None:
        self.descriptor = descriptor
        self.rows = rows
        self._mine = row * _COLUMNS
        self._memory = mmap.mmap(descriptor, rows * _COLUMNS * _BYTES)
        self._cells = memoryview(self._memory).cast("q")
        self._others = tuple(index * _COLUMNS for index in range(rows) if index != row)
        self._seen_new = 0
        self._seen_requests = 0

    @classmethod
    def create(cls, rows: int) -> Self:
        """New memory, which has no name anywhere; this process writes the first row."""
        with tempfile.TemporaryFile() as file:
            # Written, not only made that long: a full disk must show here, and not at the first connection.
            file.write(bytes(rows * _COLUMNS * _BYTES))
            file.flush()
            return cls(os.dup(file.fileno()), 0, rows)

    def set_live(self, count: int) -> None:
        """This process has so many connections open."""
        self._cells[self._mine + _LIVE] = count

    def add_new(self) -> None:
        """This process has taken one more connection in."""
        self._cells[self._mine + _NEW] += 1

    def add_request(self) -> None:
        """One more request on a kept connection."""
        self._cells[self._mine + _REQUESTS] += 1

    def live_elsewhere(self) -> int:
        """Connections that are open in the other processes."""
        return sum(self._cells[other + _LIVE] for other in self._others)

    def new_elsewhere(self) -> int:
        """Connections that the other processes have taken in since this was last asked."""
        total = sum(self._cells[other + _NEW] for other in self._others)
        fresh, self._seen_new = total - self._seen_new, total
        return fresh

    def requests_elsewhere(self) -> int:
        """The same for requests on kept connections."""
        total = sum(self._cells[other + _REQUESTS] for other in self._others)
        fresh, self._seen_requests = total - self._seen_requests, total
        return fresh

    def clear_live(self, row: int) -> None:
        """The process of this row is gone, and its connections with it."""
        self._cells[row * _COLUMNS + _LIVE] = 0

    def close(self) -> None:
        """Gives the memory back. Idempotent; nothing may be counted any more."""
        if self.descriptor >= 0:
            self._cells.release()
            self._memory.close()
            os.close(self.descriptor)
            self.descriptor = -1
