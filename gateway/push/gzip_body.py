"""The content coding of a request's body (RFC 9110 section 8.4): none or gzip, inflated piece by piece with caps.

Pure. Never holds more than one piece; a body that inflates without end is refused, not read to its end. C git never
compresses a push, other clients may.
"""

import zlib
from collections.abc import Iterator
from typing import Final, Never

from gateway.push.commands import CommandError

# The largest push that GitHub takes.
INFLATED_LIMIT: Final = 2 << 30
# A pack is deflated already, so only the commands shrink: far less than this, and they are over within the allowance.
RATIO_LIMIT: Final = 50
RATIO_ALLOWANCE: Final = 2 << 20
# A file of many members is somebody's way to cost time: each needs a decompressor, however empty it is.
MEMBER_LIMIT: Final = 64

_PIECE: Final = 1 << 16  # bytes handed on at a time
# Bytes given to zlib at a time: it returns a copy of what it did not get to, once for each piece that comes out.
_INPUT: Final = 1 << 14
_GZIP: Final = 16 + zlib.MAX_WBITS  # with gzip's head and checksum, and nothing else


class BodyDecoder:
    """Decodes one body. Changes. `encoding` is the value of `Content-Encoding`, "" or None where there is none.

    CommandError 415 for a coding other than identity, gzip and x-gzip.
    """

    def __init__(self, encoding: str | None, *, inflated_limit: int = INFLATED_LIMIT) -> None:
        coding = (encoding or "identity").strip(" \t").lower()
        if coding not in {"identity", "gzip", "x-gzip"}:
            raise CommandError(415, "the body of a push may be sent as it is or as gzip, in no other coding")
        self._gzip = coding != "identity"
        self._limit = inflated_limit
        self._member: zlib._Decompress | None = None
        self._members = 0
        self._error: CommandError | None = None
        self.taken = 0  # bytes of the body that were used up
        self.given = 0  # bytes that they made

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decoded bytes of the next piece of the body, 64 KiB at a time at most where they had to be inflated.

        CommandError 400 for what is not gzip, also behind the end of a member; 413 above the caps; again at every
        further call. To be used up before the next call.
        """
        if self._error:
            raise self._error
        if not self._gzip:
            self.taken += len(data)
            self.given += len(data)
            if data:
                yield data
            return
        for start in range(0, len(data), _INPUT):
            yield from self._inflate(data[start : start + _INPUT])

    def finish(self) -> None:
        """To be called at the body's end: CommandError 400 if it ended in the middle of a member."""
        if self._error:
            raise self._error
        if self._member is not None or (self._gzip and not self._members):
            raise CommandError(400, "the gzip body of the push is cut off")

    def _inflate(self, data: bytes) -> Iterator[bytes]:
        while data:
            member = self._member = self._member or self._next_member()
            piece = self._decompress(member, data)
            # At the member's end what is left stands in `unused_data`, and once more in `unconsumed_tail`.
            left = member.unused_data if member.eof else member.unconsumed_tail
            self.taken += len(data) - len(left)
            data = left
            if member.eof:
                self._member = None
            if piece:
                self._count(len(piece))
                yield piece

    def _next_member(self) -> "zlib._Decompress":
        self._members += 1
        if self._members > MEMBER_LIMIT:
            self._fail(413, f"the gzip body of a push may have {MEMBER_LIMIT} members, not more")
        return zlib.decompressobj(_GZIP)

    def _decompress(self, member: "zlib._Decompress", data: bytes) -> bytes:
        try:
            return member.decompress(data, _PIECE)
        except zlib.error:
            self._fail(400, "the gzip body of the push is damaged, or something follows it")

    def _count(self, size: int) -> None:
        self.given += size
        if self.given > self._limit:
            self._fail(413, f"a push may inflate to {self._limit} bytes, not more")
        if self.given > max(RATIO_ALLOWANCE, RATIO_LIMIT * self.taken):
            self._fail(413, f"the gzip body of a push may inflate {RATIO_LIMIT} times, not more")

    def _fail(self, status: int, sentence: str) -> Never:
        self._error = CommandError(status, sentence)
        raise self._error
