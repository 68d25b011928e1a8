"""Requests and answers that two readers could read in two ways, and protocols that come where another was asked for."""

import gzip
import threading
from pathlib import Path

import pytest

from gateway.policy.egress import Transport
from tests.fakes.asking import (
    CONNECT,
    HTTP,
    SOCKS,
    answer,
    assert_cut,
    assert_one_denial,
    assert_refused,
    assert_serves,
    assert_untouched,
    get_head,
    send_head,
    tunnel,
)
from tests.fakes.gateway import Gateway
from tests.fakes.origin import Origin, answering, http_origin, recorder
from tests.fakes.rules import GOOD, rules_for
from tests.fakes.wire import PATIENCE, Wire

both_tunnels = pytest.mark.parametrize("transport", [CONNECT, SOCKS], ids=str)

# Fields that leave the end of the request's body open to opinion, and what comes behind the head.
FRAMINGS = [
    ("both", "Content-Length: 5\r\nTransfer-Encoding: chunked", b"0\r\n\r\n"),
    ("both, the other way round", "Transfer-Encoding: chunked\r\nContent-Length: 5", b"0\r\n\r\n"),
    ("two lengths", "Content-Length: 5\r\nContent-Length: 6", b"hello!"),
    ("the same length twice", "Content-Length: 5\r\nContent-Length: 5", b"hello"),
    ("a list of lengths", "Content-Length: 5, 5", b"hello"),
    ("a signed length", "Content-Length: +5", b"hello"),
    ("a negative length", "Content-Length: -5", b"hello"),
    ("a hexadecimal length", "Content-Length: 0x5", b"hello"),
    ("a length with a space", "Content-Length: 5 5", b"hello"),
    ("a length with an underscore", "Content-Length: 1_0", b"hellohello"),
    ("an empty length", "Content-Length:", b""),
    ("a length beyond counting", "Content-Length: 99999999999999999999", b""),
    ("an unknown coding", "Transfer-Encoding: xchunked", b"0\r\n\r\n"),
    ("a further coding", "Transfer-Encoding: chunked, identity", b"0\r\n\r\n"),
    ("a coding before it", "Transfer-Encoding: gzip, chunked", b"0\r\n\r\n"),
    ("identity", "Transfer-Encoding: identity", b""),
    ("chunked twice", "Transfer-Encoding: chunked, chunked", b"0\r\n\r\n"),
    ("two lines of codings", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", b"0\r\n\r\n"),
    ("an empty coding", "Transfer-Encoding:", b""),
    ("a quoted coding", 'Transfer-Encoding: "chunked"', b"0\r\n\r\n"),
    ("a vertical tab", "Transfer-Encoding:\x0bchunked", b"0\r\n\r\n"),
    ("a space before the colon", "Transfer-Encoding : chunked", b"0\r\n\r\n"),
    ("a folded coding", "Transfer-Encoding:\r\n chunked", b"0\r\n\r\n"),
]

# Chunked bodies of requests that are not exactly size, data, and an end without trailers.
CHUNKS = [
    ("an extension", b"5;a=b\r\nhello\r\n0\r\n\r\n"),
    ("an extension in quotes", b'5;a="\r\nhello\r\n0\r\n\r\n'),
    ("an empty extension", b"5;\r\nhello\r\n0\r\n\r\n"),
    ("line feeds alone", b"5\nhello\n0\n\n"),
    ("carriage returns alone", b"5\rhello\r0\r\r\n"),
    ("a line feed behind the data", b"5\r\nhello\n0\r\n\r\n"),
    ("a prefix", b"0x5\r\nhello\r\n0\r\n\r\n"),
    ("a sign", b"+5\r\nhello\r\n0\r\n\r\n"),
    ("a negative size", b"-5\r\nhello\r\n0\r\n\r\n"),
    ("a space before", b" 5\r\nhello\r\n0\r\n\r\n"),
    ("a space behind", b"5 \r\nhello\r\n0\r\n\r\n"),
    ("no size", b"\r\nhello\r\n0\r\n\r\n"),
    ("no hexadecimal size", b"g\r\nhello\r\n0\r\n\r\n"),
    ("a size beyond counting", b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n"),
    ("too much data", b"4\r\nhello\r\n0\r\n\r\n"),
    ("a trailer", b"5\r\nhello\r\n0\r\nX-Late: 1\r\n\r\n"),
    ("a size line without end", b"5" + b"0" * 20_000),
]

# Answers of a server that cannot be trusted to end where they seem to, and whether the head may go through.
ANSWERS = [
    ("both", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    ("two lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"),
    ("a list of lengths", b"HTTP/1.1 200 OK\r\nContent-Length: 2, 3\r\n\r\nabc"),
    ("a negative length", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nabc"),
    ("an unknown coding", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
    (
        "two codings",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    ("a folded field", b"HTTP/1.1 200 OK\r\nX: 1\r\n folded\r\nContent-Length: 0\r\n\r\n"),
    ("a space before the colon", b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n"),
    ("a line without colon", b"HTTP/1.1 200 OK\r\nhello\r\nContent-Length: 0\r\n\r\n"),
    ("a bare line feed", b"HTTP/1.1 200 OK\r\nX: 1\nContent-Length: 5\r\nContent-Length: 0\r\n\r\n"),
    ("a bare carriage return", b"HTTP/1.1 200 OK\r\nX: 1\rContent-Length: 5\r\n\r\n"),
    ("a zero byte", b"HTTP/1.1 200 OK\r\nX: \0\r\nContent-Length: 0\r\n\r\n"),
    ("another version", b"HTTP/2 200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("no version", b"200 OK\r\nContent-Length: 0\r\n\r\n"),
    ("no number", b"HTTP/1.1 two OK\r\nContent-Length: 0\r\n\r\n"),
    ("a number too small", b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n"),
    ("a number too long", b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n"),
    ("another protocol", b"SSH-2.0-OpenSSH_9.6\r\n\r\n"),
    ("a huge head", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n"),
    ("too many fields", b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 200 + b"\r\n"),
    ("nothing", b""),
    ("half a head", b"HTTP/1.1 200 OK\r\nContent-"),
]


def post(port: int, fields: str, body: bytes, version: str = "1.1") -> bytes:
    """A POST to the good host, in absolute form."""
    line = f"POST http://{GOOD}:{port}/up HTTP/{version}\r\nHost: {GOOD}:{port}\r\n{fields}\r\n\r\n"
    return line.encode("latin-1") + body


def post_inside(port: int, fields: str, body: bytes) -> bytes:
    """The same inside a tunnel."""
    return f"POST /up HTTP/1.1\r\nHost: {GOOD}:{port}\r\n{fields}\r\n\r\n".encode("latin-1") + body


def get_inside(port: int, path: str = "/", host: str = GOOD) -> bytes:
    """A GET inside a tunnel."""
    return f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()


# --- Requests ---


@pytest.mark.parametrize(("what", "fields", "body"), FRAMINGS, ids=[what for what, _, _ in FRAMINGS])
def test_framing_of_a_request(what: str, fields: str, body: bytes, tmp_path: Path) -> None:
    """B-54."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = send_head(gateway, post(origin.port, fields, body))
        assert_refused(gateway, told, "malformed_request", port=-1)
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


@pytest.mark.parametrize(("what", "fields", "body"), FRAMINGS, ids=[what for what, _, _ in FRAMINGS])
def test_framing_of_a_connect(what: str, fields: str, body: bytes, tmp_path: Path) -> None:
    """B-54: CONNECT has no body, and none that could be read in two ways."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        head = f"CONNECT {GOOD}:{origin.port} HTTP/1.1\r\nHost: {GOOD}:{origin.port}\r\n{fields}\r\n\r\n"
        told = send_head(gateway, head.encode("latin-1") + body)
        assert_refused(gateway, told, "malformed_request", port=-1)
        assert_untouched(gateway, origin)


@both_tunnels
@pytest.mark.parametrize(("what", "fields", "body"), FRAMINGS, ids=[what for what, _, _ in FRAMINGS])
def test_framing_of_a_request_in_a_tunnel(
    what: str, fields: str, body: bytes, transport: Transport, tmp_path: Path
) -> None:
    """B-54, B-38."""
    with recorder() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(post_inside(origin.port, fields, body))
        assert refusal(wire, HTTP) == (400, "malformed_request")
        assert wire.rest() == b""
        wire.close()
        closed = assert_cut(gateway, transport, origin.port, "malformed_request")
        assert closed["bytes_up"] == 0
        origin.wait_ended(1)
        assert origin.received == b""


def test_chunked_request_of_http_1_0(tmp_path: Path) -> None:
    """B-54."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = send_head(gateway, post(origin.port, "Transfer-Encoding: chunked", b"0\r\n\r\n", "1.0"))
        assert_refused(gateway, told, "malformed_request")
        assert_untouched(gateway, origin)


@pytest.mark.parametrize("late", [False, True], ids=["with the head", "later"])
@pytest.mark.parametrize(("what", "body"), CHUNKS, ids=[what for what, _ in CHUNKS])
def test_chunks_of_a_request(what: str, body: bytes, late: bool, tmp_path: Path) -> None:
    """B-54. The head has gone up already; what is wrong about the body does not, and nothing is answered from there."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        head = post(origin.port, "Transfer-Encoding: chunked", b"")
        wire = gateway.ask_http(head if late else head + body)
        if late:
            origin.wait_accepted(1)
            wire.send(body)
        assert refusal(wire, HTTP) == (400, "malformed_request")
        assert wire.rest() == b""
        wire.close()
        gateway.await_record(state="closed")
        assert_one_denial(gateway, "malformed_request")
        origin.wait_ended(1)
        assert origin.requests == []
        assert_serves(gateway, origin)


def test_second_request_to_a_denied_host(tmp_path: Path) -> None:
    """B-55: each request on a connection is judged by itself."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(get_head(GOOD, origin.port, "/1") + get_head("evil.test", 80, "/2"))
        assert wire.message().status == 200
        assert refusal(wire, HTTP) == (403, "not_listed")
        assert wire.rest() == b""
        wire.close()
        gateway.settle()
        refused = assert_one_denial(gateway, "not_listed")
        wanted = {"state": "refused", "host": "evil.test", "port": 80, "method": "GET", "path": "/2"}
        assert {name: refused[name] for name in wanted} == wanted
        assert gateway.resolver.asked == [GOOD]
        assert [request.target for request in origin.requests] == ["/1"]


def test_second_request_that_names_another_host(tmp_path: Path) -> None:
    """B-44, B-55: to the same target, but its Host field says otherwise."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        second = f"GET http://{GOOD}:{origin.port}/2 HTTP/1.1\r\nHost: evil.test\r\n\r\n".encode()
        wire = gateway.ask_http(get_head(GOOD, origin.port, "/1") + second)
        assert wire.message().status == 200
        assert refusal(wire, HTTP) == (403, "authority_mismatch")
        assert wire.rest() == b""
        wire.close()
        gateway.settle()
        refused = assert_one_denial(gateway, "authority_mismatch")
        assert (refused["state"], refused["path"]) == ("refused", "/2")
        assert [request.target for request in origin.requests] == ["/1"]


def test_request_behind_a_body_that_is_too_short(tmp_path: Path) -> None:
    """A second request hidden in what the first one's length does not cover is a request, and judged as one."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        hidden = b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"
        wire = gateway.ask_http(post(origin.port, "Content-Length: 2", b"hi" + hidden))
        assert wire.message().status == 200
        assert refusal(wire, HTTP) == (403, "not_listed")
        wire.close()
        gateway.settle()
        assert [request.body for request in origin.requests] == [b"hi"]


@both_tunnels
@pytest.mark.parametrize("host", ["evil.test", "x.wild.test", "127.0.0.1"])
def test_other_host_in_a_tunnel(host: str, transport: Transport, tmp_path: Path) -> None:
    """B-38, B-44."""
    with recorder() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(get_inside(origin.port, host=host))
        assert refusal(wire, HTTP) == (403, "authority_mismatch")
        assert wire.rest() == b""
        wire.close()
        closed = assert_cut(gateway, transport, origin.port, "authority_mismatch")
        assert (closed["bytes_up"], closed["method"], closed["path"]) == (0, "GET", "/")
        origin.wait_ended(1)
        assert origin.received == b""


@both_tunnels
@pytest.mark.parametrize(
    "line",
    [
        "GET http://evil.test/ HTTP/1.1",
        "CONNECT evil.test:443 HTTP/1.1",
        "TRACE / HTTP/1.1",
        "GET evil.test HTTP/1.1",
    ],
)
def test_other_forms_in_a_tunnel(line: str, transport: Transport, tmp_path: Path) -> None:
    """A request inside a tunnel names a path, and nobody asks there for a further tunnel."""
    with recorder() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(f"{line}\r\nHost: {GOOD}:{origin.port}\r\n\r\n".encode())
        assert refusal(wire, HTTP) == (400, "malformed_request")
        assert wire.rest() == b""
        wire.close()
        assert_cut(gateway, transport, origin.port, "malformed_request")
        origin.wait_ended(1)
        assert origin.received == b""


@both_tunnels
@pytest.mark.parametrize("early", [False, True], ids=["after the answer", "with the request"])
def test_plain_http_in_a_tunnel(early: bool, transport: Transport, tmp_path: Path) -> None:
    """B-38, B-56: allowed on a port that is not for TLS, each request judged and recorded."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        first = get_inside(origin.port, "/a?q=1")
        wire = tunnel(gateway, transport, origin.port, first=first if early else b"")
        if not early:
            wire.send(first)
        assert wire.message().body == b"hello"
        wire.send(get_inside(origin.port, "/b"))
        assert wire.message().body == b"hello"
        wire.close()
        gateway.settle()
        assert [request.target for request in origin.requests] == ["/a?q=1", "/b"]
        assert origin.accepted == 1
        records = gateway.records()
        assert {record["connection"] for record in records} == {records[0]["connection"]}
        shown = [(record["state"], record.get("path"), record.get("close")) for record in records]
        assert [one for one in shown if one[0] == "closed" or one[1] is None] == [
            ("opened", None, None),
            ("closed", "/a", "finished"),
            ("closed", "/b", "finished"),
            ("closed", None, "client_closed"),
        ]
        assert records[-1]["bytes_up"] == sum(int(str(one.get("bytes_up", 0))) for one in records[:-1])
        assert records[-1]["bytes_down"] == sum(int(str(one.get("bytes_down", 0))) for one in records[:-1])


# --- Other protocols ---

# First bytes in a tunnel, code. Nothing here is TLS; what begins like a request is answered as one.
FIRST_BYTES = [
    (b"\0", "not_tls"),
    (b"\0\x01\x02\x03random", "not_tls"),
    (b"{}", "not_tls"),
    (b"\r\n", "not_tls"),
    (b"get / http/1.1\r\n\r\n", "not_tls"),
    (b"\x15\x03\x01\0\x02\x01\0", "not_tls"),
    (b"\x05\x01\0", "not_tls"),
    (b"SSH-2.0-OpenSSH_9.6\r\n", "malformed_request"),
    (b"EHLO me.test\r\n", "malformed_request"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "malformed_request"),
    (b"HTTP/1.1 200 OK\r\n\r\n", "malformed_request"),
    (b"GET /\n", "malformed_request"),
]


@both_tunnels
@pytest.mark.parametrize(("first", "code"), FIRST_BYTES, ids=[repr(first) for first, _ in FIRST_BYTES])
def test_other_protocols_in_a_tunnel(first: bytes, code: str, transport: Transport, tmp_path: Path) -> None:
    """B-61."""
    with recorder() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(first)
        if code == "malformed_request":
            assert refusal(wire, HTTP) == (400, code)
        assert wire.rest() == b""
        wire.close()
        closed = assert_cut(gateway, transport, origin.port, code)
        assert (closed["bytes_up"], closed["bytes_down"]) == (0, 0)
        origin.wait_ended(1)
        assert origin.received == b""


@both_tunnels
def test_server_that_speaks_first(transport: Transport, tmp_path: Path) -> None:
    """B-62: what the server says does not reach a client that has not shown what it speaks."""

    def talk(wire: Wire) -> None:
        wire.send(b"SSH-2.0-x\r\n")
        wire.rest()

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        gateway.advance(10.1)
        assert wire.rest() == b""
        wire.close()
        assert_cut(gateway, transport, origin.port, "timeout")


def test_upgrade_to_http_2(tmp_path: Path) -> None:
    """B-58: no server is talked into a protocol that nobody reads on the way."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        fields = (
            "Connection: Upgrade, HTTP2-Settings",
            "Upgrade: h2c",
            "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
        )
        wire = gateway.ask_http(get_head(GOOD, origin.port, "/", *fields))
        assert wire.message().status == 200
        wire.close()
        names = {name.lower() for name, _ in origin.requests[0].fields}
        assert not names & {"upgrade", "http2-settings", "connection"}


WEBSOCKET = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"


def switching(first: bytes = b"") -> Origin:
    """Switches protocols and then sends back what it gets."""

    def talk(wire: Wire) -> None:
        wire.message()
        wire.send(SWITCHING + first)
        while data := wire.some():
            wire.send(data)

    return Origin(talk)


@pytest.mark.parametrize("first", [b"", b"\x81\x05hello"], ids=["client first", "server first"])
def test_websocket(first: bytes, tmp_path: Path) -> None:
    """B-59: afterwards whatever bytes flow, to the same server only, and they are counted."""
    with switching(first) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(get_head(GOOD, origin.port, "/chat", *WEBSOCKET))
        message = wire.message()
        assert (message.status, message.field("Upgrade")) == (101, "websocket")
        assert wire.exactly(len(first)) == first
        sent = b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n" + bytes(range(256))
        wire.send(sent)
        assert wire.exactly(len(sent)) == sent
        wire.close()
        closed = gateway.await_record(state="closed")
        assert (closed["status"], closed["path"]) == (101, "/chat")
        assert closed["bytes_up"] == len(origin.received)
        assert origin.received.endswith(sent)
        assert closed["bytes_down"] == len(SWITCHING) + len(first) + len(sent)


@both_tunnels
def test_websocket_in_a_tunnel(transport: Transport, tmp_path: Path) -> None:
    """B-59."""
    with switching() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        fields = "\r\n".join(WEBSOCKET)
        first = f"GET /chat HTTP/1.1\r\nHost: {GOOD}:{origin.port}\r\n{fields}\r\n\r\n".encode()
        wire = tunnel(gateway, transport, origin.port, first=first)
        assert wire.message().status == 101
        wire.send(b"\0ping")
        assert wire.exactly(5) == b"\0ping"
        wire.close()
        gateway.await_record(state="closed", verdict="allow", status=101)


def test_websocket_to_a_denied_host(tmp_path: Path) -> None:
    """B-60."""
    with Gateway(tmp_path, rules_for()) as gateway:
        told = send_head(gateway, get_head("evil.test", 80, "/", *WEBSOCKET))
        assert_refused(gateway, told, "not_listed", host="evil.test", method="GET", path="/")
        assert_untouched(gateway)


def test_websocket_that_the_server_declines(tmp_path: Path) -> None:
    """B-60: no tunnel without 101; what comes next is a request like any other."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        second = get_head("evil.test", 80)
        wire = gateway.ask_http(get_head(GOOD, origin.port, "/", *WEBSOCKET) + second)
        assert wire.message().status == 200
        assert refusal(wire, HTTP) == (403, "not_listed")
        wire.close()
        assert origin.requests[0].field("Upgrade") == "websocket"


@pytest.mark.parametrize(
    "fields",
    [
        WEBSOCKET[2:],
        WEBSOCKET[1:],
        WEBSOCKET[:1] + WEBSOCKET[2:],
        ("Connection: Upgrade", "Upgrade: h2c"),
        (),
    ],
    ids=["keys only", "no Connection", "no Upgrade", "h2c", "none"],
)
def test_switch_that_nobody_asked_for(fields: tuple[str, ...], tmp_path: Path) -> None:
    """B-60: a server that answers 101 all the same gets no tunnel."""
    with switching(b"evil") as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = answer(gateway.ask_http(get_head(GOOD, origin.port, "/", *fields)), HTTP)
        assert told.message is not None
        assert (told.status, told.message.field("X-Agent-Gateway")) == (502, "upstream; code=unreachable")
        assert told.wire.rest() == b""
        told.wire.close()
        gateway.await_record(state="closed")


# --- Answers ---


@pytest.mark.parametrize(("what", "said"), ANSWERS, ids=[what for what, _ in ANSWERS])
def test_answer_that_cannot_be_read(what: str, said: bytes, tmp_path: Path) -> None:
    """The client is told so by the gateway, and nothing of the answer reaches it."""

    def talk(wire: Wire) -> None:
        wire.until(b"\r\n\r\n")
        wire.send(said)
        wire.finish()
        wire.rest()

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = answer(gateway.ask_http(get_head(GOOD, origin.port)), HTTP)
        assert told.message is not None
        assert (told.status, told.message.field("X-Agent-Gateway")) == (502, "upstream; code=unreachable")
        assert told.wire.rest() == b""
        told.wire.close()
        gateway.settle()
        closed = gateway.records()[-1]
        assert (closed["state"], closed["verdict"], closed["code"]) == ("closed", "allow", "unreachable")


SECOND = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"


@pytest.mark.parametrize(
    ("first", "method"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "GET"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "GET"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 40\r\n\r\n", "GET"),
        (b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", "GET"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n", "HEAD"),
    ],
    ids=["length", "chunks", "204", "304", "HEAD"],
)
@pytest.mark.parametrize("together", [True, False], ids=["in one breath", "later"])
def test_second_answer_that_nobody_asked_for(
    together: bool, first: bytes, method: str, tmp_path: Path
) -> None:
    """It never answers the next request, which goes over a connection of its own, if over any."""
    read, said = threading.Event(), threading.Event()

    def talk(wire: Wire) -> None:
        wire.message()
        wire.send(first + SECOND if together else first)
        if not together:
            assert read.wait(PATIENCE)
            wire.send(SECOND)
        said.set()
        wire.rest()

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        head = get_head(GOOD, origin.port).replace(b"GET", method.encode(), 1)
        wire = gateway.ask_http(head)
        message = wire.message(to=method)
        assert (message.status, message.body in {b"", b"ok"}) == (int(first.split()[1]), True)
        read.set()
        assert said.wait(PATIENCE)
        if together:
            assert wire.rest() == b""
        else:
            wire.send(head)
            assert wire.message(to=method) == message
            assert origin.accepted == 2
        wire.close()


def test_alternative_services_are_not_passed_on(tmp_path: Path) -> None:
    """B-64: HTTP/3 has no way out of the sandbox."""
    respond = answering(
        b"hello", "200 OK", 'Alt-Svc: h3=":443"; ma=86400', 'alt-svc: h3=":8443"', "X-Other: 1"
    )
    with http_origin(respond) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(get_head(GOOD, origin.port))
        message = wire.message()
        assert message.field("Alt-Svc") is None
        assert message.field("X-Other") == "1"
        wire.close()


def test_fields_of_one_hop(tmp_path: Path) -> None:
    """B-66: they stay here, the proxy's credentials first of all; what a request is made of is not taken away."""
    fields = (
        "Connection: close, X-Private, Authorization, Host, Content-Length",
        "Proxy-Connection: keep-alive",
        "Proxy-Authorization: Basic c2VjcmV0",
        "Keep-Alive: timeout=5",
        "TE: trailers",
        "Trailer: X-Late",
        "X-Private: 1",
        "X-Public: 2",
        "Authorization: Bearer of-the-user",
    )
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(get_head(GOOD, origin.port, "/", *fields))
        assert wire.message().status == 200
        assert wire.rest() == b""
        wire.close()
        assert origin.requests[0].fields == (
            ("Host", f"{GOOD}:{origin.port}"),
            ("X-Public", "2"),
            ("Authorization", "Bearer of-the-user"),
            ("Connection", "close"),
        )


def test_compressed_bomb(tmp_path: Path) -> None:
    """B-78: bodies are not opened."""
    bomb = gzip.compress(bytes(64 << 20), 9)
    with (
        http_origin(answering(bomb, "200 OK", "Content-Encoding: gzip")) as origin,
        Gateway(tmp_path, rules_for(origin.port)) as gateway,
    ):
        wire = gateway.ask_http(get_head(GOOD, origin.port))
        message = wire.message()
        assert message.body == bomb
        assert message.field("Content-Encoding") == "gzip"
        wire.close()
        closed = gateway.await_record(state="closed")
        assert int(str(closed["bytes_down"])) < 2 * len(bomb)


def refusal(wire: Wire, transport: Transport) -> tuple[int, str]:
    """Status and code of a refusal in HTTP."""
    told = answer(wire, transport)
    assert told.message is not None
    code = str(told.message.json()["code"])
    assert told.message.field("X-Agent-Gateway") == f"deny; code={code}"
    return told.status, code
