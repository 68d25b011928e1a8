"""A file without a name that holds a push while something is not known yet: its kind, or a person's answer.

Gone with its descriptor, however this process ends. It never holds a credential, and its size has a bound.
"""

import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

# The largest push that GitHub takes.
LIMIT: Final = 2 << 30
PIECE: Final = 256 * 1024

_TOO_LARGE: Final = f"a push that has to wait may have {LIMIT >> 30} GiB, not more"
_NO_ROOM: Final = "the gateway has no room on its disk for a push that has to wait"


class SpoolError(Exception):
    """The push cannot be held. `sentence` is a line the client may read."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence


class Spool:
    """Written to its end, then read from its beginning. Changes; blocking, so call it from a worker thread.

    `folder` is where the file lies without a name; it should be on a disk, not in memory.
    """

    def __init__(self, folder: Path | None, *, limit: int = LIMIT) -> None:
        self.size = 0
        self._limit = limit
        try:
            self._file = tempfile.TemporaryFile(buffering=0, dir=folder)  # noqa: SIM115  (closed by `close`)
        except OSError as error:
            raise SpoolError(_NO_ROOM) from error

    def write(self, data: bytes) -> None:
        """Appends. SpoolError when there is too much of it, or no room."""
        if self.size + len(data) > self._limit:
            raise SpoolError(_TOO_LARGE)
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            raise SpoolError(_NO_ROOM) from error
        self.size += len(data)

    def rewind(self) -> None:
        """Reading starts at the beginning."""
        self._file.seek(0)

    def read(self) -> bytes:
        """The next piece, nothing at the end. SpoolError when the disk fails."""
        try:
            return self._file.read(PIECE)
        except OSError as error:
            raise SpoolError("the gateway's disk failed while it held the push") from error

    def close(self) -> None:
        """Gives the room back. Idempotent."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
