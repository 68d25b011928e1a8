"""Request heads: what is read, what is refused, and what the server gets of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.egress import Code
from gateway.proxy.request_head import HeadError, find_head_end, read_connect, read_request

# Target, host, port, path as recorded, target as forwarded.
TARGETS = [
    ("http://a.test/", "a.test", 80, "/", "/"),
    ("http://a.test", "a.test", 80, "/", "/"),
    ("HTTP://A.Test:8080/x", "a.test", 8080, "/x", "/x"),
    ("http://a.test./x", "a.test", 80, "/x", "/x"),
    ("http://a.test?q=1", "a.test", 80, "/", "/?q=1"),
    ("http://a.test/x?q=http://b.test/", "a.test", 80, "/x", "/x?q=http://b.test/"),
    ("http://a.test/x?a?b", "a.test", 80, "/x", "/x?a?b"),
    ("http://a.test//b.test/", "a.test", 80, "//b.test/", "//b.test/"),
    ("http://a.test/../x", "a.test", 80, "/../x", "/../x"),
    ("http://a.test/%2e%2e", "a.test", 80, "/%2e%2e", "/%2e%2e"),
    ("http://a.test:80/@x", "a.test", 80, "/@x", "/@x"),
    ("http://127.0.0.1:8080/", "127.0.0.1", 8080, "/", "/"),
    ("http://[::1]:8080/", "::1", 8080, "/", "/"),
    ("http://[::FFFF:7f00:1]/", "::ffff:127.0.0.1", 80, "/", "/"),
    ("http://a.test:0/", "a.test", 0, "/", "/"),
    ("http://a.test:65536/", "a.test", 65536, "/", "/"),
]

# Target, code. Absolute form is asked for.
BROKEN_TARGETS = [
    ("/", Code.MALFORMED_REQUEST),
    ("*", Code.MALFORMED_REQUEST),
    ("a.test:80", Code.MALFORMED_REQUEST),
    ("https://a.test/", Code.MALFORMED_REQUEST),
    ("ftp://a.test/", Code.MALFORMED_REQUEST),
    ("http:/a.test/", Code.MALFORMED_REQUEST),
    ("http//a.test/", Code.MALFORMED_REQUEST),
    ("http://a.test/#x", Code.MALFORMED_REQUEST),
    ("http://a.test#@b.test/", Code.MALFORMED_REQUEST),
    ("http:///", Code.MALFORMED_HOST),
    ("http://:80/", Code.MALFORMED_HOST),
    ("http://u@a.test/", Code.MALFORMED_HOST),
    ("http://a.test:/", Code.MALFORMED_HOST),
    ("http://a.test:http/", Code.MALFORMED_HOST),
    ("http://a.test:080/", Code.MALFORMED_HOST),
    ("http://a..test/", Code.MALFORMED_HOST),
    ("http://a%2etest/", Code.MALFORMED_HOST),
    ("http://a.test\\@b.test/", Code.MALFORMED_HOST),
    ("http://[::1/", Code.MALFORMED_HOST),
    ("http://[::1%25lo]/", Code.MALFORMED_HOST),
    ("http://[a.test]/", Code.MALFORMED_HOST),
    ("http://::1/", Code.MALFORMED_HOST),
]


def head(target: str = "http://a.test/", *fields: str, method: str = "GET", version: str = "1.1") -> bytes:
    lines = (f"{method} {target} HTTP/{version}", "Host: a.test", *fields)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@pytest.mark.parametrize(("target", "host", "port", "path", "forwarded"), TARGETS)
def test_target(target: str, host: str, port: int, path: str, forwarded: str) -> None:
    request = read_request(head(target))
    assert (request.host, request.port, request.path) == (host, port, path)
    assert request.target == forwarded.encode()
    assert request.forwarded() == f"GET {forwarded} HTTP/1.1\r\nHost: a.test\r\n\r\n".encode()


@pytest.mark.parametrize(("target", "code"), BROKEN_TARGETS)
def test_target_that_is_refused(target: str, code: Code) -> None:
    with pytest.raises(HeadError) as refused:
        read_request(head(target))
    assert (refused.value.code, refused.value.status) == (code, 400)
    assert refused.value.reason


@pytest.mark.parametrize("target", ["/", "/a?b", "//x", "*"])
def test_target_in_a_tunnel(target: str) -> None:
    request = read_request(head(target), inside=True)
    assert (request.host, request.port, request.target) == ("", 0, target.encode())


@pytest.mark.parametrize("target", ["http://a.test/", "a.test", "a.test:80", "?x"])
def test_target_in_a_tunnel_that_is_refused(target: str) -> None:
    with pytest.raises(HeadError):
        read_request(head(target), inside=True)


@pytest.mark.parametrize(
    ("target", "host", "port"),
    [
        ("a.test:443", "a.test", 443),
        ("A.TEST.:443", "a.test", 443),
        ("[::1]:443", "::1", 443),
        ("127.0.0.1:443", "127.0.0.1", 443),
        ("a.test:70000", "a.test", 70000),
    ],
)
def test_connect(target: str, host: str, port: int) -> None:
    assert read_connect(head(target, method="CONNECT")) == (host, port)


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("a.test", Code.MALFORMED_HOST),
        (":443", Code.MALFORMED_HOST),
        ("*:443", Code.MALFORMED_HOST),
        ("a.test:443:443", Code.MALFORMED_HOST),
        ("u@a.test:443", Code.MALFORMED_HOST),
        ("/", Code.MALFORMED_REQUEST),
        ("http://a.test:443", Code.MALFORMED_REQUEST),
    ],
)
def test_connect_that_is_refused(target: str, code: Code) -> None:
    with pytest.raises(HeadError) as refused:
        read_connect(head(target, method="CONNECT"))
    assert refused.value.code == code


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "TRACK", "PRI"])
def test_method_that_is_refused(method: str) -> None:
    with pytest.raises(HeadError, match=method):
        read_request(head(method=method))


@pytest.mark.parametrize("method", ["GET", "get", "PROPFIND", "M-SEARCH", "X" * 32, "!#$%&'*+-.^_`|~"])
def test_method_that_passes(method: str) -> None:
    assert read_request(head(method=method)).method == method.encode()


# Fields, length, close, upgrade.
MEANINGS = [
    ((), 0, False, b""),
    (("Content-Length: 5",), 5, False, b""),
    (("content-length:0",), 0, False, b""),
    (("Transfer-Encoding: chunked",), None, False, b""),
    (("transfer-encoding:  CHUNKED\t",), None, False, b""),
    (("Connection: close",), 0, True, b""),
    (("Connection: x", "connection: CLOSE, y"), 0, True, b""),
    (("Connection: closed",), 0, False, b""),
    (("Connection: Upgrade", "Upgrade: WebSocket"), 0, False, b"websocket"),
    (("Connection: keep-alive, upgrade", "Upgrade: websocket"), 0, False, b"websocket"),
    (("Upgrade: websocket",), 0, False, b""),
    (("Connection: Upgrade",), 0, False, b""),
    (("Connection: Upgrade", "Upgrade: h2c"), 0, False, b""),
    (("Connection: Upgrade", "Upgrade: websocket, h2c"), 0, False, b""),
    (("X-Connection: close", "Content-Length-X: 7"), 0, False, b""),
]


@pytest.mark.parametrize(("fields", "length", "close", "upgrade"), MEANINGS)
def test_meaning_of_fields(fields: tuple[str, ...], length: int | None, close: bool, upgrade: bytes) -> None:
    request = read_request(head("http://a.test/", *fields))
    assert (request.length, request.close, request.upgrade) == (length, close, upgrade)


def test_http_1_0_closes() -> None:
    request = read_request(head(version="1.0"))
    assert request.close
    assert request.forwarded().startswith(b"GET / HTTP/1.0\r\n")


# Fields as they come, as they are passed on.
PASSED_ON = [
    (["X: 1", "x:2", "Y:  3 "], ["X: 1", "x:2", "Y:  3 "]),
    (["Proxy-Authorization: Basic x", "Proxy-Connection: keep-alive", "X: 1"], ["X: 1"]),
    (["Keep-Alive: timeout=1", "TE: trailers", "Trailer: X", "Upgrade: h2c", "HTTP2-Settings: x"], []),
    (["Connection: x-mine, X-YOURS", "X-Mine: 1", "x-yours: 2", "X-Ours: 3"], ["X-Ours: 3"]),
    (
        ["Connection: host, content-length, cookie", "Content-Length: 0", "Cookie: a"],
        ["Content-Length: 0", "Cookie: a"],
    ),
    (["Connection: Transfer-Encoding", "Transfer-Encoding: chunked"], ["Transfer-Encoding: chunked"]),
    (["Connection: close", "X: 1"], ["X: 1", "Connection: close"]),
    (["Connection: Upgrade", "Upgrade: WebSocket"], ["Upgrade: websocket", "Connection: Upgrade"]),
    (["Expect: 100-continue", "Content-Length: 5"], ["Expect: 100-continue", "Content-Length: 5"]),
]


@pytest.mark.parametrize(("fields", "passed_on"), PASSED_ON)
def test_fields_that_are_passed_on(fields: list[str], passed_on: list[str]) -> None:
    forwarded = read_request(head("http://a.test/", *fields)).forwarded()
    assert forwarded == "\r\n".join(["GET / HTTP/1.1", "Host: a.test", *passed_on, "", ""]).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"GET http://a.test/ HTTP/1.1\r\n\r\n",
        b"GET http://a.test/ HTTP/1.1\r\nHost:\r\n\r\n",
        head("http://a.test/", "Host: a.test"),
        head("http://a.test/", "X : 1"),
        head("http://a.test/", " X: 1"),
        head("http://a.test/", "X"),
        head("http://a.test/", "X: \x00"),
        head("http://a.test/", "X: a\x7f"),
        head("http://a.test/", "X(: 1"),
        head("http://a.test/", "Upgrade: a", "Upgrade: b"),
        head("http://a.test/", "Content-Length: 1", "Content-Length: 1"),
        head("http://a.test/", "Content-Length: 1", "Transfer-Encoding: chunked"),
        head("http://a.test/", "Transfer-Encoding: chunked", version="1.0"),
        head(version="2.0"),
        head(version="1.10"),
        b"GET  http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
        b"GET http://a.test/\r\nHost: a.test\r\n\r\n",
        b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\nX: 1\r\n\r\n",
        b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\rX: 1\r\n\r\n",
        b"\r\nGET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_head_that_is_refused(data: bytes) -> None:
    with pytest.raises(HeadError) as refused:
        read_request(data)
    assert refused.value.status == 400


def test_bounds() -> None:
    """16 KiB a line, 128 fields, 64 KiB in all."""
    assert read_request(head("http://a.test/" + "a" * 16_300)).path
    with pytest.raises(HeadError) as refused:
        read_request(head("http://a.test/" + "a" * 16_400))
    assert refused.value.status == 414
    with pytest.raises(HeadError) as refused:
        read_request(head("http://a.test/", "X: " + "a" * 16_400))
    assert refused.value.status == 431
    assert read_request(head("http://a.test/", *["X: 1"] * 127))
    with pytest.raises(HeadError) as refused:
        read_request(head("http://a.test/", *["X: 1"] * 128))
    assert refused.value.status == 431


def test_end_of_a_head() -> None:
    whole = head()
    for end in range(len(whole)):
        assert find_head_end(whole[:end]) == -1
    assert find_head_end(whole) == len(whole)
    assert find_head_end(whole + whole) == len(whole)


@pytest.mark.parametrize(
    ("begun", "status"),
    [
        (b"GET http://a.test/" + b"a" * 16_400, 414),
        (b"GET http://a.test/ HTTP/1.1\r\nX: " + b"a" * 65_536, 431),
        (b"GET http://a.test/ HTTP/1.1\r\n" + b"X: 1\r\n" * 11_000, 431),
        (b"GET http://a.test/ HTTP/1.1\n", 400),
        (b"GET http://a.test/ HTTP/1.1\r\nX: 1\n", 400),
        (b"\n", 400),
        (b"SSH-2.0-x\r\n", 400),
        (b"GET /\r\n", 400),
        (b"hello\r\n", 400),
    ],
)
def test_beginning_that_nothing_can_mend(begun: bytes, status: int) -> None:
    """Refused before its end has come."""
    with pytest.raises(HeadError) as refused:
        find_head_end(begun)
    assert refused.value.status == status


def test_carriage_return_at_the_end_of_what_has_come() -> None:
    """Its line feed may be the next byte."""
    assert find_head_end(b"GET http://a.test/ HTTP/1.1\r") == -1
    assert find_head_end(b"GET http://a.test/ HTTP/1.1\r\nHost: a\r") == -1


@pytest.mark.parametrize(
    "line",
    [
        "GET http://u:hidden@a.test/ HTTP/1.1",
        "GET /x?hidden HTTP/1.1",
        "GET ftp://a.test/?hidden HTTP/1.1",
        "GET http://a.test/#hidden HTTP/1.1",
        "GET http://a.test/?hidden",
        "CONNECT https://a.test/?hidden HTTP/1.1",
        "hidden",
    ],
)
def test_query_is_never_quoted(line: str) -> None:
    """What a refusal quotes goes into the log."""
    data = f"{line}\r\nHost: a.test\r\n\r\n".encode()
    with pytest.raises(HeadError) as refused:
        (read_connect if line.startswith("CONNECT") else read_request)(data)
    assert "hidden" not in refused.value.host.partition("@")[2]
    assert "hidden" not in refused.value.host or "@" in refused.value.host
    assert "hidden" not in refused.value.reason


tokens = st.text("abcXYZ012-_", min_size=1, max_size=10)
values = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20)


@given(st.lists(st.tuples(tokens, values), max_size=20))
def test_forwarding_loses_and_invents_nothing(fields: list[tuple[str, str]]) -> None:
    """Of fields without a meaning here, the server gets exactly what came."""
    lines = [f"x{name}: {value}" for name, value in fields]
    request = read_request(head("http://a.test/", *lines))
    assert request.forwarded() == "\r\n".join(["GET / HTTP/1.1", "Host: a.test", *lines, "", ""]).encode()
    assert [(name, value) for name, value in request.fields][1:] == [
        (f"x{name}".encode(), value.strip(" \t").encode()) for name, value in fields
    ]


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    for read in (find_head_end, read_connect, read_request):
        try:
            read(data + b"\r\n\r\n")
        except HeadError as refused:
            assert refused.status in {400, 414, 431}


@given(st.text("GET http://a.test/HTTP/1.1\r\n: Host,chunked?#@[]%0", max_size=80))
def test_heads_that_are_nearly_right(text: str) -> None:
    """What is accepted is read the same a second time, after forwarding."""
    data = text.encode() + b"\r\n\r\n"
    try:
        request = read_request(data[: find_head_end(data)])
    except HeadError:
        return
    again = read_request(request.forwarded(), inside=True)
    assert (again.target, again.length, again.authority) == (
        request.target,
        request.length,
        request.authority,
    )


# Names with a meaning for the proxy, and one without.
FIELD_NAMES = [
    "Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Expect", "Keep-Alive", "TE", "Trailer",
    "Proxy-Connection", "Proxy-Authorization", "Proxy-Authenticate", "HTTP2-Settings", "Cookie", "X-Mine",
]  # fmt: skip
HOP_NAMES = {
    b"keep-alive", b"te", b"trailer", b"proxy-connection", b"proxy-authorization", b"proxy-authenticate",
    b"http2-settings",
}  # fmt: skip
field_names = st.sampled_from(FIELD_NAMES).flatmap(
    lambda name: st.sampled_from([name, name.lower(), name.upper(), f"{name} ", name.replace("-", "_")])
)
field_values = st.one_of(
    st.sampled_from(
        [
            "a.test",
            "0",
            "5",
            "5, 5",
            "chunked",
            "close",
            "Upgrade",
            "x-mine, close",
            "websocket",
            "h2c",
            "cookie",
            "",
        ]
    ),
    st.lists(st.sampled_from(["close", "x-mine", "host", "TE", "upgrade", " ", "", "\t"])).map(",".join),
    st.text(st.characters(max_codepoint=255), max_size=12),
)
requests = st.builds(
    lambda method, target, version, fields: (
        f"{method} {target} HTTP/1.{version}\r\n"
        + "".join(f"{name}:{value}\r\n" for name, value in fields)
        + "\r\n"
    ).encode("latin-1"),
    st.sampled_from(["GET", "POST", "X"]),
    st.sampled_from(["http://a.test/", "http://a.test:8080/x?y", "HTTP://A.TEST?x", "http://[::1]/"]),
    st.sampled_from("01"),
    st.lists(st.tuples(field_names, field_values), max_size=6),
)


@given(requests)
def test_what_the_server_gets(data: bytes) -> None:
    """One head of whole lines; no field that concerns this hop only; one host, one length; read again, the same."""
    try:
        assert find_head_end(data) == len(data)
        request = read_request(data)
    except HeadError:
        return
    forwarded = request.forwarded()
    assert forwarded.endswith(b"\r\n\r\n")
    assert forwarded.count(b"\r\n\r\n") == 1
    line, *fields = forwarded.removesuffix(b"\r\n\r\n").split(b"\r\n")
    assert line == b"%b %b HTTP/1.%d" % (request.method, request.target, request.version)
    assert not any(byte in forwarded.replace(b"\r\n", b"") for byte in b"\r\n\0")
    named = [field.partition(b":")[0].lower() for field in fields]
    assert not HOP_NAMES.intersection(named)
    assert named.count(b"host") == 1 or (request.version, named.count(b"host")) == (0, 0)
    assert named.count(b"content-length") + named.count(b"transfer-encoding") <= 1
    passed = [field.lower() for field in fields if field.lower().startswith((b"connection:", b"upgrade:"))]
    if request.upgrade:
        assert passed == [b"upgrade: websocket", b"connection: upgrade"]
    else:
        assert passed == ([b"connection: close"] if request.close else [])
    again = read_request(forwarded, inside=True)
    kept = ("method", "target", "version", "authority", "length", "upgrade")
    assert [getattr(again, name) for name in kept] == [getattr(request, name) for name in kept]
    assert again.close == (request.close and not request.upgrade) or not again.version
    assert again.forwarded() == forwarded


@given(requests, st.lists(st.integers(1, 40)))
def test_head_in_pieces(data: bytes, sizes: list[int]) -> None:
    """Where it ends does not depend on how it comes; what is refused before its end would be refused whole."""
    have = 0
    for size in (*sizes, len(data)):
        have = min(have + size, len(data))
        try:
            end = find_head_end(data[:have])
        except HeadError:
            with pytest.raises(HeadError):
                read_request(data)
            return
        assert end == (-1 if have < len(data) else len(data))


FULL = 65536

# What, how a head of 64 KiB goes on in which a careless pattern would get lost.
LONG = [
    ("spaces inside a value", b"Connection: a" + b" " * FULL + b"b"),
    ("spaces inside another value", b"X: a" + b" " * FULL + b"b"),
    ("spaces and tabs", b"Content-Length: 5" + b" \t" * (FULL // 2) + b"5"),
    ("only spaces", b"Transfer-Encoding:" + b" " * FULL),
    ("tokens", b"Connection: " + b"a, " * (FULL // 3)),
    ("commas", b"Connection: " + b"," * FULL),
    ("a long name", b"a" * FULL + b": x"),
    ("colons", b":" * FULL),
    ("many fields", b"a:\r\n" * (FULL // 4) + b"b:"),
    ("many fields, the last without a colon", b"a:\r\n" * (FULL // 4) + b"b"),
    ("carriage returns", b"X: " + b"\r" * FULL),
    ("line feeds", b"X: " + b"\n" * FULL),
    ("line ends", b"\r\n" * (FULL // 2) + b"X: 1"),
    ("slashes", b"/" * FULL),
    ("colons and brackets", b"[:" * (FULL // 2)),
]


@pytest.mark.parametrize(("what", "shape"), LONG, ids=[row[0] for row in LONG])
@pytest.mark.parametrize(
    "start",
    [
        b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n",
        b"CONNECT a.test:443 HTTP/1.1\r\n",
        b"GET http://",
        b"",
    ],
    ids=["fields", "connect", "target", "method"],
)
@pytest.mark.parametrize("size", [16_000, FULL], ids=["a line", "a head"])
def test_long_head(size: int, start: bytes, what: str, shape: bytes) -> None:
    """Read or refused after a look or two at each byte; a pattern that tries again and again would not come back."""
    data = start + shape[: size - len(start) - 8] + b"\r\n\r\n"
    for read in (find_head_end, read_connect, read_request):
        try:
            read(data)
        except HeadError as refused:
            assert refused.status in {400, 414, 431}
            assert len(refused.host) <= 4 * 1024


def test_long_values_are_read() -> None:
    """What stands between many spaces is found, and so are both ends of it."""
    spaces = " " * 16_000
    request = read_request(
        head("http://a.test/", f"X:{spaces}a", f"Y: a{spaces}b", f"Z: a{spaces}\t", f"V:{spaces}")
    )
    assert request.fields[1:] == (
        (b"X", b"a"),
        (b"Y", f"a{spaces}b".encode()),
        (b"Z", b"a"),
        (b"V", b""),
    )
    assert read_request(head("http://a.test/", f"Content-Length:{spaces}5{spaces[:300]}")).length == 5
