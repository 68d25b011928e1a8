"""Heads of requests: one spelling is taken, the ways around it are named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.api.head import find_fault, own_hosts

HOSTS = own_hosts(3180)
HOST = b"Host: 127.0.0.1:3180\r\n"


def head(line: bytes = b"GET /git/x HTTP/1.1\r\n", fields: bytes = HOST) -> bytes:
    return line + fields + b"\r\n"


GOOD = {
    "plain": head(),
    "name": head(fields=b"Host: localhost:3180\r\n"),
    "case of the name": head(fields=b"hOST: LocalHost:3180\r\n"),
    "1.0 without host": head(b"GET / HTTP/1.0\r\n", b""),
    "length": head(b"POST /git/x HTTP/1.1\r\n", HOST + b"Content-Length: 4\r\n"),
    "chunked": head(b"POST /git/x HTTP/1.1\r\n", HOST + b"Transfer-Encoding: chunked\r\n"),
    "empty value": head(fields=HOST + b"Git-Protocol:\r\n"),
    "latin-1 value": head(fields=HOST + b"X: \xe9\r\n"),
    "longest target": head(b"GET /" + b"a" * 1023 + b" HTTP/1.1\r\n"),
}
BAD = {
    "two spaces": (head(b"GET  / HTTP/1.1\r\n"), "request line"),
    "tab": (head(b"GET\t/ HTTP/1.1\r\n"), "request line"),
    "lower case": (head(b"get / HTTP/1.1\r\n"), "request line"),
    "other version": (head(b"GET / HTTP/2.0\r\n"), "request line"),
    "not ascii": (head(b"GET /\xc3\xa9 HTTP/1.1\r\n"), "request line"),
    "empty line before": (b"\r\n" + head(), "request line"),
    "absolute form": (head(b"GET http://127.0.0.1:3180/ HTTP/1.1\r\n"), "not a path"),
    "authority form": (head(b"CONNECT a.test:443 HTTP/1.1\r\n"), "not a path"),
    "asterisk": (head(b"OPTIONS * HTTP/1.1\r\n"), "not a path"),
    "long target": (head(b"GET /" + b"a" * 1024 + b" HTTP/1.1\r\n"), "longer than 1024"),
    "bare line feed": (b"GET / HTTP/1.1\n" + HOST + b"\r\n", "request line"),
    "bare line feed later": (head(fields=HOST + b"X: 1\nY: 2\r\n"), "malformed"),
    "bare line feed at the end": (b"GET / HTTP/1.1\r\n" + HOST + b"\n", "CRLF CRLF"),
    "bare carriage return": (head(fields=HOST + b"X: 1\rY: 2\r\n"), "malformed"),
    "folded": (head(fields=HOST + b"X: 1\r\n 2\r\n"), "folded"),
    "folded with tab": (head(fields=HOST + b"X: 1\r\n\t2\r\n"), "folded"),
    "space before colon": (head(fields=HOST + b"Content-Length : 4\r\n"), "malformed"),
    "no colon": (head(fields=HOST + b"nonsense\r\n"), "malformed"),
    "null in a value": (head(fields=HOST + b"X: a\0b\r\n"), "malformed"),
    "too many": (head(fields=HOST + b"X: 1\r\n" * 100), "more than 100"),
    "no host": (head(fields=b""), "no Host"),
    "two hosts": (head(fields=HOST + HOST), "two Host"),
    "two hosts in 1.0": (head(b"GET / HTTP/1.0\r\n", HOST + HOST), "two Host"),
    "foreign host": (head(fields=b"Host: evil.test:3180\r\n"), "does not name"),
    "foreign host in 1.0": (head(b"GET / HTTP/1.0\r\n", b"Host: evil.test\r\n"), "does not name"),
    "other port": (head(fields=b"Host: 127.0.0.1:3181\r\n"), "does not name"),
    "no port": (head(fields=b"Host: 127.0.0.1\r\n"), "does not name"),
    "other loopback": (head(fields=b"Host: 127.0.0.2:3180\r\n"), "does not name"),
    "dot": (head(fields=b"Host: localhost.:3180\r\n"), "does not name"),
    "user": (head(fields=b"Host: a@127.0.0.1:3180\r\n"), "does not name"),
    "length twice": (head(fields=HOST + b"Content-Length: 4\r\nContent-Length: 4\r\n"), "given twice"),
    "length list": (head(fields=HOST + b"Content-Length: 4, 4\r\n"), "not a number"),
    "negative length": (head(fields=HOST + b"Content-Length: -4\r\n"), "not a number"),
    "length with sign": (head(fields=HOST + b"Content-Length: +4\r\n"), "not a number"),
    "length and coding": (
        head(fields=HOST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"),
        "given twice",
    ),
    "coding twice": (
        head(fields=HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
        "given twice",
    ),
    "unknown coding": (head(fields=HOST + b"Transfer-Encoding: xchunked\r\n"), "not chunked"),
    "coding list": (head(fields=HOST + b"Transfer-Encoding: gzip, chunked\r\n"), "not chunked"),
    "coding in 1.0": (head(b"POST / HTTP/1.0\r\n", b"Transfer-Encoding: chunked\r\n"), "HTTP/1.0"),
}


@pytest.mark.parametrize("data", GOOD.values(), ids=GOOD.keys())
def test_good(data: bytes) -> None:
    assert find_fault(data, HOSTS) == ""


@pytest.mark.parametrize(("data", "fault"), BAD.values(), ids=BAD.keys())
def test_bad(data: bytes, fault: str) -> None:
    assert fault in find_fault(data, HOSTS)


def test_port_80_needs_no_port() -> None:
    assert find_fault(head(fields=b"Host: 127.0.0.1\r\n"), own_hosts(80)) == ""


@given(st.binary(max_size=200))
def test_never_raises(data: bytes) -> None:
    find_fault(data + b"\r\n\r\n", HOSTS)
