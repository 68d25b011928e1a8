"""Where an HTTP/1 message ends: response heads and chunked bodies, whole and in pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.framing import ChunkReader, FramingError, ResponseHead, read_response_head

# What, method, head (without the empty line), status, length, close.
HEADS = [
    ("length", b"GET", b"HTTP/1.1 200 OK\r\nContent-Length: 5", 200, 5, False),
    ("length twice, the same", b"GET", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5", 200, 5, False),
    ("chunked", b"GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", 200, None, False),
    ("chunked, spelt otherwise", b"GET", b"HTTP/1.1 200 OK\r\ntransfer-encoding:\tChunked ", 200, None, False),
    ("until the end", b"GET", b"HTTP/1.1 200 OK\r\nServer: x", 200, -1, True),
    ("no reason", b"GET", b"HTTP/1.1 200\r\nContent-Length: 0", 200, 0, False),
    ("an empty reason", b"GET", b"HTTP/1.1 200 \r\nContent-Length: 0", 200, 0, False),
    ("a reason in Latin 1", b"GET", b"HTTP/1.1 200 D\xe9j\xe0\r\nContent-Length: 0", 200, 0, False),
    ("HEAD with length", b"HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5", 200, 0, False),
    ("HEAD, chunked", b"HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", 200, 0, False),
    ("204", b"GET", b"HTTP/1.1 204 No Content\r\nContent-Length: 5", 204, 0, False),
    ("304", b"GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5", 304, 0, False),
    ("100", b"GET", b"HTTP/1.1 100 Continue", 100, 0, False),
    ("101", b"GET", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket", 101, 0, False),
    ("close", b"GET", b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5", 200, 5, True),
    ("close among others", b"GET", b"HTTP/1.1 200 OK\r\nconnection: x, Close\r\nContent-Length: 5", 200, 5, True),
    ("1.0", b"GET", b"HTTP/1.0 200 OK\r\nContent-Length: 5", 200, 5, True),
    ("an empty field", b"GET", b"HTTP/1.1 200 OK\r\nX:\r\nContent-Length: 5", 200, 5, False),
    ("colons in a value", b"GET", b"HTTP/1.1 200 OK\r\nX: a:b: c\r\nContent-Length: 5", 200, 5, False),
]

# What, head (without the empty line).
BROKEN = [
    ("both", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked"),
    ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6"),
    ("two lengths, one number", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 05"),
    ("a list of lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 5, 5"),
    ("a signed length", b"HTTP/1.1 200 OK\r\nContent-Length: +5"),
    ("an empty length", b"HTTP/1.1 200 OK\r\nContent-Length:"),
    ("a length beyond counting", b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000000"),
    ("digits of another script", "HTTP/1.1 200 OK\r\nContent-Length: \u0665".encode()),
    ("gzip, chunked", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked"),
    ("chunked twice", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
    ("a space before the colon", b"HTTP/1.1 200 OK\r\nContent-Length : 5"),
    ("a folded field", b"HTTP/1.1 200 OK\r\nX: 1\r\n\tfolded"),
    ("no colon", b"HTTP/1.1 200 OK\r\nhello"),
    ("no name", b"HTTP/1.1 200 OK\r\n: x"),
    ("a bare line feed", b"HTTP/1.1 200 OK\r\nX: 1\nY: 2"),
    ("a bare line feed first", b"HTTP/1.1 200 OK\nX: 1"),
    ("a bare carriage return", b"HTTP/1.1 200 OK\r\nX: 1\rY: 2"),
    ("a zero byte", b"HTTP/1.1 200 OK\r\nX: \0"),
    ("an escape in the reason", b"HTTP/1.1 200 \x1b[2J"),
    ("HTTP/2", b"HTTP/2 200 OK"),
    ("HTTP/1.2", b"HTTP/1.2 200 OK"),
    ("HTTP/0.9", b"hello"),
    ("two spaces", b"HTTP/1.1  200 OK"),
    ("status 99", b"HTTP/1.1 99 X"),
    ("status 0xx", b"HTTP/1.1 099 X"),
    ("status of four digits", b"HTTP/1.1 2000 X"),
    ("nothing", b""),
    ("129 fields", b"HTTP/1.1 200 OK" + b"\r\nX: 1" * 129),
    ("64 KiB", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 65536),
]


def read(head: bytes, method: bytes = b"GET") -> ResponseHead:
    found = read_response_head(head + b"\r\n\r\nrest", method)
    assert found is not None
    assert found[1] == b"rest"
    return found[0]


@pytest.mark.parametrize(
    ("what", "method", "head", "status", "length", "close"), HEADS, ids=[row[0] for row in HEADS]
)
def test_head(what: str, method: bytes, head: bytes, status: int, length: int | None, close: bool) -> None:
    found = read(head, method)
    assert (found.status, found.length, found.close) == (status, length, close)
    assert found.data == head + b"\r\n\r\n"
    assert found.interim is (status == 100)


@pytest.mark.parametrize(("what", "head"), BROKEN, ids=[row[0] for row in BROKEN])
def test_head_that_cannot_be_read(what: str, head: bytes) -> None:
    with pytest.raises(FramingError):
        read(head)


@pytest.mark.parametrize("head", [row[2] for row in HEADS[:8]])
def test_every_cut_of_a_head(head: bytes) -> None:
    whole = head + b"\r\n\r\n"
    for end in range(len(whole)):
        assert read_response_head(whole[:end], b"GET") is None


def test_head_that_does_not_end() -> None:
    """Refused as soon as it is too large, not when it ends."""
    head = b"HTTP/1.1 200 OK\r\nX: "
    assert read_response_head(head + b"a" * (65536 - len(head)), b"GET") is None
    with pytest.raises(FramingError):
        read_response_head(head + b"a" * 65536, b"GET")


def test_alternative_services_are_left_out() -> None:
    found = read(b"HTTP/1.1 200 OK\r\nAlt-Svc: h3=\":443\"\r\nX: 1\r\nALT-SVC: clear\r\nContent-Length: 0")
    assert found.data == b"HTTP/1.1 200 OK\r\nX: 1\r\nContent-Length: 0\r\n\r\n"


# What, body, whether a request may have it.
BODIES = [
    ("one chunk", b"5\r\nhello\r\n0\r\n\r\n", True),
    ("none", b"0\r\n\r\n", True),
    ("zeros before", b"0005\r\nhello\r\n0\r\n\r\n", True),
    ("many zeros at the end", b"5\r\nhello\r\n000\r\n\r\n", True),
    ("capital letters", b"A\r\n0123456789\r\na\r\n0123456789\r\n0\r\n\r\n", True),
    ("line ends inside", b"4\r\n\r\n\r\n\r\n0\r\n\r\n", True),
    ("an extension", b"5;a=b\r\nhello\r\n0\r\n\r\n", False),
    ("a quoted extension", b'5; a="x;y"\r\nhello\r\n0;last\r\n\r\n', False),
    ("spaces behind the size", b"5 \t\r\nhello\r\n0\r\n\r\n", False),
    ("a trailer", b"5\r\nhello\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n", False),
]
BROKEN_BODIES = [
    ("no size", b"\r\nhello\r\n0\r\n\r\n"),
    ("a sign", b"+5\r\nhello\r\n0\r\n\r\n"),
    ("a prefix", b"0x5\r\nhello\r\n0\r\n\r\n"),
    ("an underscore", b"1_0\r\n0123456789abcdef\r\n0\r\n\r\n"),
    ("a space before", b" 5\r\nhello\r\n0\r\n\r\n"),
    ("16 digits", b"0000000000000005\r\nhello\r\n0\r\n\r\n"),
    ("a line feed alone", b"5\nhello\r\n0\r\n\r\n"),
    ("a line feed behind the data", b"5\r\nhello\n0\r\n\r\n"),
    ("too much data", b"4\r\nhello\r\n0\r\n\r\n"),
    ("too little data", b"6\r\nhello\r\n0\r\n\r\n"),
    ("a control character", b"5;a=\x00\r\nhello\r\n0\r\n\r\n"),
    ("a carriage return in an extension", b"5;a=\r;b\r\nhello\r\n0\r\n\r\n"),
    ("an endless size line", b"5;" + b"a" * 20_000),
    ("endless trailers", b"0\r\n" + b"X: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 4000),
]


@pytest.mark.parametrize(("what", "body", "strict"), BODIES, ids=[row[0] for row in BODIES])
def test_body(what: str, body: bytes, strict: bool) -> None:
    """It ends where it ends, and what comes behind is left alone."""
    reader = ChunkReader(strict=False)
    assert reader.feed(body + b"GET / HTTP/1.1") == len(body)
    assert reader.done
    if strict:
        assert ChunkReader(strict=True).feed(body) == len(body)
    else:
        with pytest.raises(FramingError):
            ChunkReader(strict=True).feed(body)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(("what", "body"), BROKEN_BODIES, ids=[row[0] for row in BROKEN_BODIES])
def test_body_that_cannot_be_read(what: str, body: bytes, strict: bool) -> None:
    with pytest.raises(FramingError):
        ChunkReader(strict=strict).feed(body)


@pytest.mark.parametrize(("what", "body", "strict"), BODIES, ids=[row[0] for row in BODIES])
def test_body_byte_by_byte(what: str, body: bytes, strict: bool) -> None:
    reader = ChunkReader(strict=strict)
    for number, byte in enumerate(body):
        assert not reader.done, number
        assert reader.feed(bytes([byte])) == 1
    assert reader.done
    assert reader.feed(b"more") == 0


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=8), st.lists(st.integers(1, 40)), st.booleans())
def test_body_in_any_pieces(chunks: list[bytes], sizes: list[int], strict: bool) -> None:
    """Counts exactly the bytes of the body, wherever the pieces end."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    stream = body + b"5\r\nother\r\n"
    reader, at, taken = ChunkReader(strict=strict), 0, 0
    for size in (*sizes, len(stream)):
        piece = stream[at : at + size]
        used = reader.feed(piece)
        taken += used
        if used < len(piece):
            break
        at += size
    assert reader.done
    assert taken == len(body)


@given(st.binary(max_size=100), st.booleans())
def test_any_bytes_as_a_body(data: bytes, strict: bool) -> None:
    reader = ChunkReader(strict=strict)
    try:
        assert 0 <= reader.feed(data) <= len(data)
    except FramingError:
        assert not reader.done


@given(st.binary(max_size=200))
def test_any_bytes_as_a_head(data: bytes) -> None:
    try:
        found = read_response_head(data, b"GET")
    except FramingError:
        return
    assert found is None or found[0].status >= 100
