"""Reads the first bytes of a tunnel: is it a TLS ClientHello, and which server names does it carry?

Pure parsing (RFC 8446, RFC 6066); whether the names are right is the policy's question.
"""

from dataclasses import dataclass
from typing import Final

from gateway.policy.egress import HelloKind

_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
_HOST_NAME: Final = 0
_ENCRYPTED_CLIENT_HELLO: Final = 0xFE0D
_RECORD_HEADER: Final = 5
_HELLO_HEADER: Final = 4
# The largest TLS plaintext record (RFC 8446 section 5.1).
_RECORD_LIMIT: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Hello:
    """What the first bytes are. `names` are the raw server names, undecoded beyond ASCII escapes; `ech` is set when
    the encrypted_client_hello extension is there."""

    kind: HelloKind
    names: tuple[str, ...] = ()
    ech: bool = False


_NOT_TLS: Final = Hello(HelloKind.NOT_TLS)
_MALFORMED: Final = Hello(HelloKind.MALFORMED)


def read_hello(data: bytes) -> Hello | int:
    """Judges bytes that a client sent first; while a ClientHello is not complete, how many bytes it takes at least.

    Who asks again with that many bytes asks a few dozen times at most, however small the records are.
    """
    if not data:
        return 1
    if data[0] != _HANDSHAKE or (len(data) > 1 and data[1] != 3):
        return _NOT_TLS
    body = b""
    missing = _HELLO_HEADER  # bytes of the message that are to come, as far as its beginning says
    offset = 0
    while missing > 0:
        start = offset + _RECORD_HEADER
        if len(data) < start:
            return start + missing if body else start
        length = data[offset + 3] << 8 | data[offset + 4]
        if data[offset] != _HANDSHAKE or data[offset + 1] != 3 or not 0 < length <= _RECORD_LIMIT:
            return _MALFORMED
        if len(data) > start and not body and data[start] != _CLIENT_HELLO:
            return _MALFORMED
        offset = start + length
        body += data[start:offset]
        missing = _HELLO_HEADER - len(body)
        if missing <= 0:
            missing += int.from_bytes(body[1:_HELLO_HEADER])
        if len(data) < offset:
            further = missing - (offset - len(data))  # what this record has no room for
            return offset + _RECORD_HEADER + further if further > 0 else offset
    return _read_message(body) if missing == 0 else _MALFORMED


def _read_message(body: bytes) -> Hello:
    """The ClientHello message; anything that does not add up exactly is malformed."""
    end = len(body)
    try:
        at = _HELLO_HEADER + 2 + 32
        at += 1 + body[at]
        at += 2 + (body[at] << 8 | body[at + 1])
        at += 1 + body[at]
        if at == end:
            return Hello(HelloKind.TLS)
        if at + 2 + (body[at] << 8 | body[at + 1]) != end:
            return _MALFORMED
    except IndexError:
        return _MALFORMED
    return _read_extensions(body, at + 2, end)


def _read_extensions(body: bytes, at: int, end: int) -> Hello:
    names: tuple[str, ...] | None = None
    ech = False
    while at < end:
        if at + 4 > end:
            return _MALFORMED
        kind = body[at] << 8 | body[at + 1]
        length = body[at + 2] << 8 | body[at + 3]
        at += 4
        if at + length > end:
            return _MALFORMED
        if kind == _SERVER_NAME:
            found = _read_names(body[at : at + length])
            if names is not None or not found:
                return _MALFORMED
            names = found
        elif kind == _ENCRYPTED_CLIENT_HELLO:
            ech = True
        at += length
    return Hello(HelloKind.TLS, names or (), ech)


def _read_names(data: bytes) -> tuple[str, ...]:
    """The server_name extension's host names (RFC 6066 section 3); empty when it is malformed."""
    end = len(data)
    if end < 2 or data[0] << 8 | data[1] != end - 2:
        return ()
    names = []
    at = 2
    while at < end:
        if at + 3 > end or data[at] != _HOST_NAME:
            return ()
        length = data[at + 1] << 8 | data[at + 2]
        name = data[at + 3 : at + 3 + length]
        if not name or len(name) != length:
            return ()
        names.append(name.decode("ascii", "backslashreplace"))
        at += 3 + length
    return tuple(names)
