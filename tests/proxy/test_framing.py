"""Where an HTTP/1 message ends: response heads and chunked bodies, whole and in pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.proxy.framing import ChunkReader, FramingError, ResponseHead, read_response_head

# What, method, head (without the empty line), status, length, close.
HEADS = [
    ("length", b"GET", b"HTTP/1.1 200 OK\r\nContent-Length: 5", 200, 5, False),
    (
        "length twice, the same",
        b"GET",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5",
        200,
        5,
        False,
    ),
    ("chunked", b"GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", 200, None, False),
    (
        "chunked, spelt otherwise",
        b"GET",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding:\tChunked ",
        200,
        None,
        False,
    ),
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
    (
        "close among others",
        b"GET",
        b"HTTP/1.1 200 OK\r\nconnection: x, Close\r\nContent-Length: 5",
        200,
        5,
        True,
    ),
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
    found = read(b'HTTP/1.1 200 OK\r\nAlt-Svc: h3=":443"\r\nX: 1\r\nALT-SVC: clear\r\nContent-Length: 0')
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


def outcome(pieces: list[bytes], strict: bool) -> tuple[int, bool] | None:
    """Bytes taken and whether the body is over; None when it cannot be read."""
    reader, taken = ChunkReader(strict=strict), 0
    try:
        for piece in pieces:
            while used := reader.feed(piece):
                taken, piece = taken + used, piece[used:]
    except FramingError:
        return None
    return taken, reader.done


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
    assert outcome([body], strict) is None


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


def test_head_with_as_many_fields_as_a_request_may_have() -> None:
    assert read(b"HTTP/1.1 200 OK" + b"\r\nX: 1" * 127 + b"\r\nContent-Length: 5").length == 5


# What, begin of a body, whether a request may begin like that, whether a response may.
BEGUN = [
    ("half a size", b"1", True, True),
    ("a size and half a line end", b"1\r", True, True),
    ("an extension", b"1;a=", False, True),
    ("no line end behind the data", b"1\r\nax", False, False),
    ("half a line end behind the data", b"1\r\na\r", True, True),
    ("a size ended with CR", b"0\r\r", False, False),
    ("a request behind that", b"0\r\rGET / HTTP/1.1\rHost: b.test\r\r", False, False),
    ("the same in an extension", b"1;\rGET / HTTP/1.1\r", False, False),
    ("the same in a trailer", b"0\r\nX: 1\rGET / HTTP/1.1\r", False, False),
    ("no size", b"GET", False, True),
    ("16 digits", b"0000000000000000", False, True),
    ("a trailer", b"0\r\nX: 1", False, True),
    ("half the end", b"0\r\n\r", True, True),
]


@pytest.mark.parametrize(
    ("what", "begun", "strictly", "leniently"), BEGUN, ids=[f"begun with {row[0]}" for row in BEGUN]
)
def test_begun_line_that_nothing_can_mend(what: str, begun: bytes, strictly: bool, leniently: bool) -> None:
    """Is not passed on, byte by byte or at once: a server that reads lines otherwise could find a request in it."""
    for strict, accepted in ((True, strictly), (False, leniently)):
        expected = (len(begun), False) if accepted else None
        assert outcome([begun], strict) == expected
        assert outcome([bytes([byte]) for byte in begun], strict) == expected


nearly_chunks = st.lists(
    st.sampled_from(
        [b"0", b"1", b"2", b"a", b"F", b";", b"=", b"x", b" ", b"\r\n", b"\r", b"\n", b"\0", b"\xff"]
    )
).map(b"".join)


@given(nearly_chunks, st.booleans())
def test_byte_by_byte_is_at_once(data: bytes, strict: bool) -> None:
    """Whatever comes: the same bytes belong to the body, or it is refused either way."""
    assert outcome([data], strict) == outcome([bytes([byte]) for byte in data], strict)


@given(nearly_chunks)
def test_strict_accepts_no_more(data: bytes) -> None:
    strictly = outcome([data], strict=True)
    assert strictly is None or strictly == outcome([data], strict=False)


names = st.sampled_from(
    [
        "Content-Length",
        "content-length",
        "Transfer-Encoding",
        "TRANSFER-ENCODING",
        "Connection",
        "Alt-Svc",
        "X",
    ]
)
worths = st.sampled_from(
    ["0", "5", "05", "5, 5", "-1", "", "chunked", "gzip, chunked", "close", 'h3=":443"', " 7 "]
)
statuses = st.sampled_from([100, 101, 200, 204, 304, 404, 599])
methods = st.sampled_from([b"GET", b"HEAD", b"POST"])


@given(statuses, methods, st.lists(st.tuples(names, worths), max_size=4), st.binary(max_size=20))
def test_head_that_is_read_has_one_length(
    status: int, method: bytes, fields: list[tuple[str, str]], rest: bytes
) -> None:
    """What is passed on names the length that is followed, nothing leads to HTTP/3, and reading it again says the
    same."""
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in fields), "", ""]
    try:
        found = read_response_head("\r\n".join(lines).encode() + rest, method)
    except FramingError:
        return
    assert found is not None
    head, behind = found
    assert behind == rest
    assert b"alt-svc" not in head.data.lower()
    assert read_response_head(head.data, method) == (head, b"")
    lengths = {value.strip() for name, value in fields if name.lower() == "content-length"}
    codings = [value.strip() for name, value in fields if name.lower() == "transfer-encoding"]
    if method == b"HEAD" or status in {100, 101, 204, 304}:
        assert head.length == 0
    elif codings:
        assert (codings, lengths, head.length) == (["chunked"], set(), None)
    else:
        assert {int(length) for length in lengths} == (set() if head.length == -1 else {head.length})


FULL = 65536

# What, how a head of 64 KiB goes on in which a careless pattern would get lost.
LONG = [
    ("spaces inside a value", b"Connection: a" + b" " * FULL + b"b"),
    ("spaces inside another value", b"X: a" + b" " * FULL + b"b"),
    ("spaces and tabs", b"Content-Length: 5" + b" \t" * (FULL // 2) + b"5"),
    ("only spaces", b"Transfer-Encoding:" + b" " * FULL),
    ("words", b"Alt-Svc: " + b"a " * (FULL // 2)),
    ("a long name", b"a" * FULL + b": x"),
    ("colons", b":" * FULL),
    ("many fields", b"a:\r\n" * (FULL // 4) + b"b:"),
    ("many fields, the last without a colon", b"a:\r\n" * (FULL // 4) + b"b"),
    ("many alternative services", b"Alt-Svc:\r\n" * (FULL // 10) + b"b:"),
    ("carriage returns", b"X: " + b"\r" * FULL),
    ("line ends", b"\r\n" * (FULL // 2) + b"X: 1"),
]


@pytest.mark.parametrize(("what", "shape"), LONG, ids=[row[0] for row in LONG])
@pytest.mark.parametrize("start", [b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 "], ids=["fields", "reason"])
def test_long_head(start: bytes, what: str, shape: bytes) -> None:
    """Read or refused after a look or two at each byte; a pattern that tries again and again would not come back."""
    size = FULL - len(start)
    for head in (start + shape[:size], start + shape[: size // 2] + b"\r\n" + shape[: size // 2 - 2]):
        try:
            found = read_response_head(head + b"\r\n\r\n", b"GET")
        except FramingError:
            continue
        assert found is not None
        assert found[0].status == 200
