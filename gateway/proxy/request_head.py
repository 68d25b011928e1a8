"""Reads the head of an HTTP/1 request strictly (RFC 9112): what two parsers could read in two ways is refused.

Pure; the same reader serves CONNECT, absolute-form requests to the proxy, and origin-form requests inside a tunnel. A
whole head is checked by one regular expression: it stands on the way of every request.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gateway.policy.egress import Code
from gateway.policy.hosts import HostError, PortError, split_authority
from gateway.proxy.bounds import HEAD_FIELDS, HEAD_LINE, HEAD_TOTAL

_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_LINE: Final = _TOKEN + rb"{1,32} [\x21-\x7e]+ HTTP/1\.[01]"
_VALUE: Final = rb"[^\x00-\x08\x0a-\x1f\x7f]*"
_REQUEST_LINE: Final = re.compile(_LINE)
_HEAD: Final = re.compile(
    rb"("
    + _TOKEN
    + rb"{1,32}) ([\x21-\x7e]+) HTTP/1\.([01])\r\n((?:"
    + _TOKEN
    + rb"+:"
    + _VALUE
    + rb"\r\n)*)\r\n"
)
# Fields that decide how the request is read, or that concern one hop only (RFC 9110 section 7.6.1).
_SPECIAL: Final = re.compile(
    rb"^(host|content-length|transfer-encoding|connection|upgrade|expect|keep-alive|proxy-connection"
    rb"|proxy-authenticate|proxy-authorization|te|trailer|http2-settings):([^\r]*)",
    re.IGNORECASE | re.MULTILINE,
)
_FIELD: Final = re.compile(rb"([^:\r\n]+):([^\r]*)\r\n")
# Around a value. Never part of a pattern: one that looks for the last of many spaces takes time by their square.
_BLANKS: Final = b" \t"
_ABSOLUTE: Final = re.compile(rb"http://([^/?#]*)([/?][^#]*)?", re.IGNORECASE)
# A method that a proxy answers itself, or that is not a request at all but the preface of HTTP/2.
_REFUSED_METHODS: Final = frozenset({b"CONNECT", b"TRACE", b"PRI", b"TRACK"})
_DIGITS: Final = re.compile(rb"[0-9]{1,18}")
_HTTP_PORT: Final = 80
# Heads whose reading is remembered: how many, and bytes of each at most.
_REMEMBERED_HEADS: Final = 256
_REMEMBERED_HEAD: Final = 1024

_HOP_FIELDS: Final = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"upgrade",
        b"http2-settings",
    }
)
# Fields that a Connection field cannot take away: without them the request would mean something else.
_KEPT_FIELDS: Final = frozenset(
    {
        b"host",
        b"content-length",
        b"transfer-encoding",
        b"content-type",
        b"authorization",
        b"cookie",
        b"expect",
    }
)

_Special = dict[bytes, list[bytes]]


class HeadError(Exception):
    """A head that is refused: HTTP status, code, and one sentence. `host` is the text as asked, where there is one."""

    def __init__(
        self, reason: str, status: int = 400, code: Code = Code.MALFORMED_REQUEST, host: str = ""
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status
        self.code = code
        self.host = host


@dataclass(frozen=True, slots=True)
class RequestHead:
    """A request. `host` is in normal form (empty for origin-form), `target` the path with its query, `length` the
    body's bytes (None = chunked), `close` whether the client wants the connection closed after it, `authority` the
    Host field, `block` all fields as they came and `fields` the same by name and value, `hops` the names of those that
    concern this hop only."""

    method: bytes
    host: str
    port: int
    target: bytes
    version: int
    block: bytes
    authority: str
    length: int | None
    close: bool
    upgrade: bytes
    hops: frozenset[bytes]
    fields: tuple[tuple[bytes, bytes], ...]

    @property
    def path(self) -> str:
        """The path without its query, as text."""
        return self.target.partition(b"?")[0].decode("ascii", "backslashreplace")

    def forwarded(self) -> bytes:
        """The head as the server gets it: origin-form, without the fields that concern this hop only."""
        block = self.block
        if self.hops:
            block = b"".join(
                line
                for line in block.splitlines(keepends=True)
                if line.partition(b":")[0].lower() not in self.hops
            )
        if self.upgrade:
            block += b"Upgrade: " + self.upgrade + b"\r\nConnection: Upgrade\r\n"
        elif self.close:
            block += b"Connection: close\r\n"
        return b"%b %b HTTP/1.%d\r\n%b\r\n" % (self.method, self.target, self.version, block)


def find_head_end(buffer: bytes) -> int:
    """Where the head ends (past the empty line), or -1 when it is not complete. HeadError once it is too large."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        if len(buffer) > HEAD_TOTAL:
            raise HeadError("the request head is larger than 64 KiB", 431)
        if len(buffer) > HEAD_LINE and buffer.find(b"\r\n", 0, HEAD_LINE + 2) < 0:
            raise HeadError("the request line is longer than 16 KiB", 414)
        _check_begun(buffer)
        return -1
    if end + 4 > HEAD_TOTAL:
        raise HeadError("the request head is larger than 64 KiB", 431)
    return end + 4


def _check_begun(buffer: bytes) -> None:
    """Refuses a head that no further byte can mend, so that its client need not wait for the deadline. HeadError."""
    line, ended, _ = buffer.partition(b"\r\n")
    if buffer.count(b"\n") != buffer.count(b"\r\n"):
        raise HeadError("the lines of a request head end with CR LF", host=_asked(line.partition(b"\n")[0]))
    if ended and _REQUEST_LINE.fullmatch(line) is None:
        raise HeadError("the request line is not METHOD TARGET HTTP/1.1", host=_asked(line))


def read_connect(head: bytes) -> tuple[str, int]:
    """Host in normal form and port of a CONNECT request; `head` ends with the empty line. HeadError."""
    return _read_known_connect(head) if len(head) <= _REMEMBERED_HEAD else _read_connect(head)


def _read_connect(head: bytes) -> tuple[str, int]:
    _, target, version, block = _split(head)
    if target.startswith(b"/") or b"://" in target:
        raise HeadError("a CONNECT target is HOST:PORT, without scheme or path", host=_named(target))
    host, port = _authority(target, None)
    lower = block.lower()
    if b"content-length" in lower or b"transfer-encoding" in lower:
        _body_length(_special(block), version)
    return host, port


# A client opens tunnels to a few hosts again and again, with the same head to the byte.
_read_known_connect = lru_cache(_REMEMBERED_HEADS)(_read_connect)


def read_request(head: bytes, *, inside: bool = False) -> RequestHead:
    """A plain request: absolute-form to the proxy, or origin-form (`inside` a tunnel). HeadError."""
    read = _read_known_request if len(head) <= _REMEMBERED_HEAD else _read_request
    return read(head, inside)


def _read_request(head: bytes, inside: bool) -> RequestHead:
    method, asked, version, block = _split(head)
    if method in _REFUSED_METHODS:
        raise HeadError(f"the method {_text(method)} is not forwarded")
    host, port, target = ("", 0, _origin(asked)) if inside else _absolute(asked)
    special = _special(block)
    authority = _single(special, b"host")
    if not authority and version == 1:
        raise HeadError("the request has no Host field, or an empty one", host=host)
    connection = _tokens(special.get(b"connection", []))
    upgrade = _single(special, b"upgrade").lower()
    return RequestHead(
        method=method,
        host=host,
        port=port,
        target=target,
        version=version,
        block=block,
        authority=authority.decode("latin-1"),
        length=_body_length(special, version),
        close=version == 0 or b"close" in connection,
        upgrade=upgrade if upgrade == b"websocket" and b"upgrade" in connection else b"",
        hops=(_HOP_FIELDS & special.keys()) | (connection - _KEPT_FIELDS),
        fields=tuple((name, value.strip(_BLANKS)) for name, value in _FIELD.findall(block)),
    )


# A client that polls asks the same again and again.
_read_known_request = lru_cache(_REMEMBERED_HEADS)(_read_request)


def _split(head: bytes) -> tuple[bytes, bytes, int, bytes]:
    """Method, target, minor version and the block of fields. HeadError."""
    if len(head) > HEAD_LINE and max(map(len, head.split(b"\r\n"))) > HEAD_LINE:
        raise HeadError(
            "a line of the request head is longer than 16 KiB", 414 if _long_first_line(head) else 431
        )
    match = _HEAD.fullmatch(head)
    if match is None:
        line = head.partition(b"\r\n")[0]
        if _REQUEST_LINE.fullmatch(line) is None:
            raise HeadError("the request line is not METHOD TARGET HTTP/1.1", host=_asked(line))
        raise HeadError("a request field is not NAME: VALUE", host=_asked(line))
    block = match[4]
    if block.count(b"\n") > HEAD_FIELDS:
        raise HeadError("the request has more than 128 fields", 431)
    return match[1], match[2], int(match[3]), block


def _long_first_line(head: bytes) -> bool:
    return head.find(b"\r\n") > HEAD_LINE


def _authority(text: bytes, default_port: int | None) -> tuple[str, int]:
    try:
        return split_authority(text.decode("ascii"), default_port)
    except PortError as error:
        return error.host, error.port
    except HostError as error:
        raise HeadError(str(error), code=Code.MALFORMED_HOST, host=_text(text)) from error


def _absolute(target: bytes) -> tuple[str, int, bytes]:
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        raise HeadError(
            "a proxy is asked with http://HOST/PATH, or with CONNECT for https", host=_named(target)
        )
    host, port = _authority(match[1], _HTTP_PORT)
    path = match[2] or b"/"
    return host, port, path if path.startswith(b"/") else b"/" + path


def _origin(target: bytes) -> bytes:
    if not target.startswith(b"/") and target != b"*":
        raise HeadError("inside a tunnel a request names only its path", host=_named(target))
    return target


def _special(block: bytes) -> _Special:
    found: _Special = {}
    for name, value in _SPECIAL.findall(block):
        found.setdefault(name.lower(), []).append(value.strip(_BLANKS))
    return found


def _single(special: _Special, name: bytes) -> bytes:
    values = special.get(name)
    if values is None:
        return b""
    if len(values) > 1:
        raise HeadError(f"the request has more than one {_text(name)} field")
    return values[0]


def _tokens(values: list[bytes]) -> frozenset[bytes]:
    return frozenset(token.strip(_BLANKS).lower() for value in values for token in value.split(b","))


def _body_length(special: _Special, version: int) -> int | None:
    """Bytes of the body; None = chunked. HeadError where two readers could disagree (RFC 9112 section 6.3)."""
    if b"transfer-encoding" in special:
        coding = _single(special, b"transfer-encoding")
        if b"content-length" in special or version == 0 or coding.lower() != b"chunked":
            raise HeadError("the request body's length is given in two ways or in an unknown coding")
        return None
    if b"content-length" not in special:
        return 0
    length = _single(special, b"content-length")
    if not _DIGITS.fullmatch(length):
        raise HeadError("the request's Content-Length is not a number")
    return int(length)


def _asked(line: bytes) -> str:
    """What a malformed request line seems to ask for, for the record."""
    parts = line.split(b" ")
    return _named(parts[1]) if len(parts) > 1 else ""


def _named(target: bytes) -> str:
    """A target for the record, which never holds a query."""
    return _text(target.partition(b"?")[0].partition(b"#")[0])


def _text(data: bytes) -> str:
    return data[:1024].decode("ascii", "backslashreplace")
