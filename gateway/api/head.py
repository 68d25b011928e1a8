"""What the agent listener takes for the head of a request: one spelling of HTTP/1, in which nothing can be smuggled.

Judges bytes before any other parser sees them; reads nothing and answers nothing.
"""

import re
from typing import Final

# A path with owner and repository at their longest takes less; what is longer is nothing that is served.
_TARGET_BYTES: Final = 1024
# Clients send about ten.
_FIELDS: Final = 100

_REQUEST_LINE = re.compile(rb"([A-Z]{1,20}) ([\x21-\x7e]+) HTTP/1\.([01])")
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)")
_LENGTH = re.compile(rb"[0-9]{1,18}")


def own_hosts(port: int) -> frozenset[bytes]:
    """How a client may name a listener on this port: anything else is a page that had its name turned to loopback."""
    hosts = {b"127.0.0.1:%d" % port, b"localhost:%d" % port}
    if port == 80:
        hosts |= {b"127.0.0.1", b"localhost"}
    return frozenset(hosts)


def find_fault(head: bytes, hosts: frozenset[bytes]) -> str:
    """What is wrong with the head of a request, in one sentence; empty for nothing. `head` ends with its empty line.

    Stricter than RFC 9112 allows: origin-form targets alone, CRLF alone, no folding, `Host`, `Content-Length` and
    `Transfer-Encoding` once at most, no codings but `chunked`, none of those in HTTP/1.0.
    """
    if not head.endswith(b"\r\n\r\n"):
        return "the head does not end with CRLF CRLF"
    first, *lines = head[:-4].split(b"\r\n")
    found = _REQUEST_LINE.fullmatch(first)
    if found is None:
        return "the request line is not METHOD TARGET HTTP/1.1"
    target, version = found[2], found[3]
    if not target.startswith(b"/"):
        return "the target is not a path"
    if len(target) > _TARGET_BYTES:
        return f"the target is longer than {_TARGET_BYTES} bytes"
    fields: dict[bytes, list[bytes]] = {}
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None:
            return "a header line is folded" if line[:1] in {b" ", b"\t"} else "a header line is malformed"
        fields.setdefault(field[1].lower(), []).append(field[2].rstrip(b" \t"))
    if len(lines) > _FIELDS:
        return f"there are more than {_FIELDS} header lines"
    return _fault_of_host(fields, version, hosts) or _fault_of_framing(fields, version)


def _fault_of_host(fields: dict[bytes, list[bytes]], version: bytes, hosts: frozenset[bytes]) -> str:
    values = fields.get(b"host", [])
    if len(values) > 1:
        return "there are two Host fields"
    if not values:
        return "" if version == b"0" else "there is no Host field"
    return "" if values[0].lower() in hosts else "the Host field does not name this listener"


def _fault_of_framing(fields: dict[bytes, list[bytes]], version: bytes) -> str:
    lengths = fields.get(b"content-length", [])
    codings = fields.get(b"transfer-encoding", [])
    if len(lengths) + len(codings) > 1:
        return "the body's length is given twice"
    if lengths and not _LENGTH.fullmatch(lengths[0]):
        return "Content-Length is not a number"
    if codings and version == b"0":
        return "HTTP/1.0 knows no Transfer-Encoding"
    if codings and codings[0].lower() != b"chunked":
        return "Transfer-Encoding is not chunked"
    return ""
