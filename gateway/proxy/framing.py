"""Where an HTTP/1 message's body ends (RFC 9112 sections 6 and 7): lengths, chunks, and the head of a response.

Pure and incremental; bytes are passed on as they came, only counted.
"""

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from gateway.proxy.bounds import HEAD_FIELDS, HEAD_LINE, HEAD_TOTAL

_VALUE: Final = rb"[^\x00-\x08\x0a-\x1f\x7f]*"
_HEAD: Final = re.compile(
    rb"HTTP/1\.([01]) ([1-9][0-9][0-9])(?: " + _VALUE + rb")?\r\n"
    rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:" + _VALUE + rb"\r\n)*"
)
_SPECIAL: Final = re.compile(
    rb"^(content-length|transfer-encoding|connection|alt-svc|x-agent-gateway):([^\r]*)",
    re.IGNORECASE | re.MULTILINE,
)
# `Alt-Svc` would invite the client to HTTP/3, which has no way out of the sandbox; the other is the gateway's own mark
# of a refusal, which no server may forge.
_DROPPED: Final = re.compile(rb"^(?:alt-svc|x-agent-gateway):[^\r]*\r\n", re.IGNORECASE | re.MULTILINE)
# Lines of a chunked body read before others have their turn: a body of tiny chunks is all lines.
_LINES_PER_TURN: Final = 256
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(;[^\x00-\x08\x0a-\x1f\x7f]*)?")
_DIGITS: Final = re.compile(rb"[0-9]{1,18}")
_NO_BODY: Final = frozenset({204, 304})
# Heads whose reading is remembered: how many, and bytes of each at most.
_REMEMBERED_HEADS: Final = 256
_REMEMBERED_HEAD: Final = 1024


class FramingError(Exception):
    """The message's end cannot be told for sure."""


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """`length` is the body's bytes, None when it is chunked, -1 when it lasts until the server closes.
    `data` is the head as the client is to get it."""

    status: int
    length: int | None
    close: bool
    data: bytes

    @property
    def interim(self) -> bool:
        """True for 1xx other than 101: the real answer is still to come."""
        return self.status < 200 and self.status != 101


def read_response_head(buffer: bytes, method: bytes) -> tuple[ResponseHead, bytes] | None:
    """The head of the answer to a request with this method, and the bytes after it; None while it is not complete."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0 or end > HEAD_TOTAL:
        if len(buffer) > HEAD_TOTAL:
            raise FramingError("the server's response head is larger than 64 KiB")
        return None
    head, rest = buffer[: end + 2], buffer[end + 4 :]
    read = _read_known_head if end <= _REMEMBERED_HEAD else _read_head
    return read(head, method), rest


def _read_head(head: bytes, method: bytes) -> ResponseHead:
    match = _HEAD.fullmatch(head)
    if match is None or head.count(b"\n") > 1 + HEAD_FIELDS:
        raise FramingError("the server did not answer with an HTTP/1 response")
    status, close = int(match[2]), match[1] == b"0"
    lengths: set[bytes] = set()
    codings: list[bytes] = []
    for name, padded in _SPECIAL.findall(head):
        value = padded.strip(b" \t")
        match name.lower():
            case b"content-length":
                lengths.add(value)
            case b"transfer-encoding":
                codings.append(value.lower())
            case b"connection":
                close = close or b"close" in value.lower()
            case _:
                head = _DROPPED.sub(b"", head)
    length = _response_length(status, method, lengths, codings)
    return ResponseHead(status, length, close or length == -1, head + b"\r\n")


# A server that is asked the same again within a second answers with the same head.
_read_known_head = lru_cache(_REMEMBERED_HEADS)(_read_head)


def _response_length(status: int, method: bytes, lengths: set[bytes], codings: list[bytes]) -> int | None:
    """Bytes of the body, None when chunked, -1 until the server closes (RFC 9112 section 6.3). FramingError."""
    if len(lengths) > 1 or (lengths and codings) or codings not in ([], [b"chunked"]):
        raise FramingError("the server's response gives its length in two ways or in an unknown coding")
    length = lengths.pop() if lengths else None
    if length is not None and not _DIGITS.fullmatch(length):
        raise FramingError("the server's response gives no number for its length")
    if method == b"HEAD" or status < 200 or status in _NO_BODY:
        return 0
    if codings:
        return None
    return -1 if length is None else int(length)


class _State(Enum):
    SIZE = 0
    DATA = 1
    DATA_END = 2
    TRAILER = 3
    DONE = 4


# How a line may begin whose end has not come yet. Nothing else is passed on: a line that turns out to be malformed
# only at its end could be the end of the body, and another request, to a server that reads lines in another way.
_BEGUN_STRICT: Final = {
    _State.SIZE: re.compile(rb"[0-9A-Fa-f]{0,15}\r?"),
    _State.DATA_END: re.compile(rb"\r?"),
    _State.TRAILER: re.compile(rb"\r?"),
}
_BEGUN: Final = {
    _State.SIZE: re.compile(rb"[^\r]*\r?"),
    _State.DATA_END: re.compile(rb"\r?"),
    _State.TRAILER: re.compile(rb"[^\r]*\r?"),
}


class ChunkReader:
    """Follows a chunked body. Changes. `strict` (requests) refuses chunk extensions and trailers, which nobody needs
    and two readers understand differently; a response may have both."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict
        self._begun = _BEGUN_STRICT if strict else _BEGUN
        self._state = _State.SIZE
        self._left = 0
        self._line = b""
        self._trailer_bytes = 0

    @property
    def done(self) -> bool:
        """True once the last chunk and the trailer section have been seen."""
        return self._state is _State.DONE

    def feed(self, data: bytes) -> int:
        """Bytes of `data` that belong to this body, read so far: call again with the rest until `done` is set or
        nothing is left. FramingError."""
        at = lines = 0
        while at < len(data) and self._state is not _State.DONE and lines < _LINES_PER_TURN:
            if self._state is _State.DATA:
                taken = min(self._left, len(data) - at)
                self._left -= taken
                at += taken
                if self._left == 0:
                    self._state = _State.DATA_END
                continue
            lines += 1
            end = data.find(b"\n", at)
            piece = data[at : end + 1] if end >= 0 else data[at:]
            self._line += piece
            at += len(piece)
            if len(self._line) > HEAD_LINE:
                raise FramingError("a chunk's size line is longer than 16 KiB")
            if end >= 0:
                line, self._line = self._line, b""
                self._take_line(line)
            elif not self._begun[self._state].fullmatch(self._line):
                raise FramingError("a chunk's line is malformed")
        return at

    def _take_line(self, line: bytes) -> None:
        if not line.endswith(b"\r\n"):
            raise FramingError("a chunk's line does not end with CR LF")
        text = line[:-2]
        match self._state:
            case _State.SIZE:
                self._take_size(text)
            case _State.DATA_END:
                if text:
                    raise FramingError("a chunk is longer than its size says")
                self._state = _State.SIZE
            case _:
                self._take_trailer(text)

    def _take_size(self, text: bytes) -> None:
        match = _CHUNK_SIZE.fullmatch(text)
        if match is None or (self._strict and text != match[1]):
            raise FramingError("a chunk's size line is malformed")
        self._left = int(match[1], 16)
        self._state = _State.DATA if self._left else _State.TRAILER

    def _take_trailer(self, text: bytes) -> None:
        self._trailer_bytes += len(text)
        if not text:
            self._state = _State.DONE
        elif self._strict or self._trailer_bytes > HEAD_TOTAL:
            raise FramingError("the chunked body has trailer fields")
