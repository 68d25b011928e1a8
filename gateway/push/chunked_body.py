"""A chunked request body (RFC 9112 section 7.1), read many chunks at a time: git sends 300 MB in 25,000 of them, and
tornado takes three steps of the event loop for each.

Strict: a size is hexadecimal digits and nothing else, there are no extensions and no trailers, and nothing follows
before the answer. It looks at no content.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, cast

from tornado.httputil import HTTPInputError

# Bytes read at once, and so given away at once at most.
ROOM: Final = 256 * 1024

_LINE_END: Final = b"\r\n"
# What stands before a chunk's content. More digits than a size of 64 bits has nobody needs.
_SIZE: Final = re.compile(rb"\r\n([0-9A-Fa-f]{1,16})\r\n")
_BEGINNING_OF_SIZE: Final = re.compile(rb"(?:\r(?:\n(?:[0-9A-Fa-f]{1,16}\r?)?)?)?")


class Source(Protocol):
    """A connection, as `tornado.iostream.IOStream` reads it."""

    def read_into(self, buf: bytearray, partial: bool = False) -> Awaitable[int]:
        """Reads into the buffer what is there, at least a byte; how many. StreamClosedError."""


async def read_chunked(source: Source, most: int, give: Callable[[bytes], Awaitable[None] | None]) -> None:
    """Reads a body to its end and gives its content away, at most `ROOM` bytes at a time; what `give` returns is
    waited for. HTTPInputError for what is no chunked body, or has more than `most` bytes; StreamClosedError."""
    body = ChunkedBody(source, most)
    while data := await body.read():
        waiting = give(data)
        if waiting is not None:
            await waiting


class ChunkedBody:
    """One body. Changes. Of the source it reads no more than what came together with the body's last bytes."""

    def __init__(self, source: Source, most: int) -> None:
        self._source = source
        self._most = most
        self._place = bytearray(ROOM)
        self._view = memoryview(self._place)
        # As if a chunk had just ended: so every size stands between two line ends.
        self._place[: len(_LINE_END)] = _LINE_END
        self._at, self._end = 0, len(_LINE_END)
        self._left = 0
        self._ended = False

    async def read(self) -> bytes:
        """The next bytes of the content, nothing at its end. HTTPInputError, StreamClosedError."""
        while not self._ended:
            if pieces := self._take():
                return b"".join(pieces)
            if not self._ended:
                await self._fill()
        return b""

    async def _fill(self) -> None:
        """Reads on, behind the few bytes of a size that are there already."""
        rest = bytes(self._view[self._at : self._end])
        self._view[: len(rest)] = rest
        self._at, self._end = 0, len(rest)
        room = cast(bytearray, self._view[self._end :])  # tornado takes whatever can be written to
        self._end += await self._source.read_into(room, partial=True)

    def _take(self) -> list[memoryview]:
        """All the content that is there. Good until more is read."""
        pieces: list[memoryview] = []
        while self._left or self._read_size():
            piece = self._view[self._at : min(self._end, self._at + self._left)]
            if not piece:
                break
            pieces.append(piece)
            self._at += len(piece)
            self._left -= len(piece)
        return pieces

    def _read_size(self) -> bool:
        """Goes on to the next chunk's content. False at the body's end, and while the size is not all there."""
        match = _SIZE.match(self._place, self._at, self._end)
        if match is None:
            if _BEGINNING_OF_SIZE.fullmatch(self._place, self._at, self._end) is None:
                raise HTTPInputError("a chunk does not begin with its size")
            return False
        size = int(match[1], 16)
        if size == 0:
            self._read_end(match.end())
            return False
        self._most -= size
        if self._most < 0:
            raise HTTPInputError("the body is too long")
        self._left, self._at = size, match.end()
        return True

    def _read_end(self, position: int) -> None:
        """What stands behind the last chunk's size, if it is there."""
        rest = bytes(self._view[position : self._end])
        if not _LINE_END.startswith(rest[:2]) or len(rest) > len(_LINE_END):
            raise HTTPInputError("something follows the last chunk")
        self._ended = rest == _LINE_END
