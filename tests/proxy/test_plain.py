"""Plain HTTP through the running proxy: every shape of request and answer, bodies unchanged, each request judged."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.policy.egress import Transport
from tests.fakes.asking import (
    CONNECT,
    HTTP,
    PLAIN,
    SOCKS,
    answer,
    ask,
    assert_upstream_trouble,
    get_head,
    tunnel,
)
from tests.fakes.gateway import Gateway
from tests.fakes.origin import Origin, Talk, answering, closed_port, http_origin
from tests.fakes.rules import GOOD, rules_for
from tests.fakes.wire import PATIENCE, Message, Wire

LARGE = 32 << 20
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def request(method: str, port: int, path: str = "/", *fields: str, host: str = GOOD) -> bytes:
    """A request in absolute form."""
    return get_head(host, port, path, *fields).replace(b"GET", method.encode(), 1)


def pieces(size: int) -> Iterator[bytes]:
    """That many bytes, no two pieces alike."""
    for number in range(size >> 16):
        yield hashlib.sha256(number.to_bytes(8)).digest() * 2048


def digest_of(size: int) -> str:
    whole = hashlib.sha256()
    for piece in pieces(size):
        whole.update(piece)
    return whole.hexdigest()


# --- Connections ---


def test_many_requests_on_one_connection(tmp_path: Path) -> None:
    with (
        http_origin(lambda asked: answering(asked.target.encode())(asked)) as origin,
        Gateway(tmp_path, rules_for(origin.port)) as gateway,
    ):
        wire = gateway.ask_http(b"")
        for number in range(20):
            wire.send(request("GET", origin.port, f"/{number}"))
            assert wire.message().body == f"/{number}".encode()
        wire.close()
        gateway.settle()
        assert origin.accepted == 1
        assert gateway.call(lambda: gateway.door.counts("s1").allowed) == 20


def test_request_as_the_server_gets_it(tmp_path: Path) -> None:
    """Origin-form, with the fields as they came, in their order and spelling."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(
            request("PATCH", origin.port, "/a/../b?x=%20", "X-One: 1", "x-one:2", "Accept:  */* ")
        )
        assert wire.message().status == 200
        assert origin.received == (
            b"PATCH /a/../b?x=%20 HTTP/1.1\r\n"
            + f"Host: {GOOD}:{origin.port}\r\n".encode()
            + b"X-One: 1\r\nx-one:2\r\nAccept:  */* \r\n\r\n"
        )
        wire.close()


def test_answer_as_the_client_gets_it(tmp_path: Path) -> None:
    said = b"HTTP/1.1 299 Made Up\r\nx-b: 2\r\nX-A:1\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 2\r\n\r\nhi"
    with http_origin(lambda _: said) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port, "/", "Connection: close"))
        assert wire.rest() == said
        wire.close()


def test_two_hosts_on_one_connection(tmp_path: Path) -> None:
    """The connection to the first is closed before the second is asked."""
    with (
        http_origin(answering(b"one")) as first,
        http_origin(answering(b"two")) as second,
        Gateway(tmp_path, rules_for(first.port, second.port)) as gateway,
    ):
        wire = gateway.ask_http(request("GET", first.port))
        assert wire.message().body == b"one"
        wire.send(request("GET", second.port, host="x.wild.test"))
        assert wire.message().body == b"two"
        first.wait_ended(1)
        wire.send(request("GET", first.port))
        assert wire.message().body == b"one"
        wire.close()
        gateway.settle()
        assert gateway.resolver.asked == [GOOD, "x.wild.test", GOOD]
        closed = [record for record in gateway.records() if record["state"] == "closed"]
        assert [record["host"] for record in closed] == [GOOD, "x.wild.test", GOOD]
        assert len({record["connection"] for record in closed}) == 3


@pytest.mark.parametrize("same", [True, False], ids=["same host", "other host"])
def test_two_requests_in_one_breath(same: bool, tmp_path: Path) -> None:
    """Pipelining: answered in order."""
    with (
        http_origin(answering(b"one")) as first,
        http_origin(answering(b"two")) as second,
        Gateway(tmp_path, rules_for(first.port, second.port)) as gateway,
    ):
        other = first if same else second
        wire = gateway.ask_http(request("GET", first.port, "/1") + request("GET", other.port, "/2"))
        assert wire.message().body == b"one"
        assert wire.message().body == (b"one" if same else b"two")
        wire.close()
        assert [asked.target for asked in first.requests + second.requests] == ["/1", "/2"]


def test_pipelined_requests_with_bodies(tmp_path: Path) -> None:
    """Where one body ends, the next request begins: by length, and by chunks."""
    with (
        http_origin(lambda asked: answering(asked.body)(asked)) as origin,
        Gateway(tmp_path, rules_for(origin.port)) as gateway,
    ):
        by_length = request("POST", origin.port, "/", "Content-Length: 3") + b"one"
        by_chunks = request("POST", origin.port, "/", "Transfer-Encoding: chunked") + b"3\r\ntwo\r\n0\r\n\r\n"
        wire = gateway.ask_http((by_length + by_chunks) * 3)
        assert [wire.message().body for _ in range(6)] == [b"one", b"two"] * 3
        wire.close()


def test_server_that_closed_meanwhile(tmp_path: Path) -> None:
    """Between two requests: the next one gets a connection of its own, and no 502."""

    def talk(wire: Wire) -> None:
        wire.message()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port))
        for number in range(1, 4):
            assert wire.message().status == 200
            origin.wait_ended(number)
            if number < 3:
                wire.send(request("GET", origin.port))
        assert origin.accepted == 3
        wire.close()


@pytest.mark.parametrize("field", ["Connection: close", "connection: Keep-Alive, CLOSE"])
def test_client_that_wants_the_connection_closed(field: str, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port, "/", field))
        assert wire.message().status == 200
        assert wire.rest() == b""
        wire.close()
        origin.wait_ended(1)
        assert origin.requests[0].field("Connection") == "close"


def test_client_of_http_1_0(tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert wire.message().body == b"hello"
        assert wire.rest() == b""
        wire.close()
        assert origin.requests[0].line == "GET / HTTP/1.0"


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
        b"HTTP/1.0 200 OK\r\nServer: old\r\n\r\nuntil the end",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 13\r\n\r\nuntil the end",
    ],
    ids=["1.1", "1.0", "close"],
)
def test_body_until_the_end(said: bytes, tmp_path: Path) -> None:
    def talk(wire: Wire) -> None:
        wire.message()
        wire.send(said)

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port))
        assert wire.rest() == said
        wire.close()


def test_body_that_is_cut(tmp_path: Path) -> None:
    """The client sees the cut, as it would without the proxy."""

    def talk(wire: Wire) -> None:
        wire.message()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port))
        assert wire.rest().endswith(b"half")
        wire.close()
        assert gateway.await_record(state="closed")["status"] == 200


# --- Answers without a body ---


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
        ("HEAD", b"HTTP/1.1 404 Not Found\r\n\r\n"),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n"),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\nETag: x\r\n\r\n"),
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("OPTIONS", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
        ("DELETE", b"HTTP/1.1 204 No Content\r\n\r\n"),
    ],
)
def test_answer_without_a_body(method: str, said: bytes, tmp_path: Path) -> None:
    """The connection goes on right after the head."""
    with http_origin(lambda _: said) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(b"")
        for _ in range(2):
            wire.send(request(method, origin.port))
            assert wire.exactly(len(said)) == said
        wire.close()
        assert origin.accepted == 1


# --- Interim answers and expectations ---


def test_interim_answers(tmp_path: Path) -> None:
    """Each is passed on before the answer, with its fields."""
    said = (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    )
    with (
        http_origin(lambda _: b"".join(said)) as origin,
        Gateway(tmp_path, rules_for(origin.port)) as gateway,
    ):
        wire = gateway.ask_http(request("GET", origin.port))
        for one in said:
            assert wire.exactly(len(one)) == one
        wire.send(request("GET", origin.port))
        assert wire.message().field("Link") == "</a.css>"
        wire.close()
        assert origin.accepted == 1


def test_expectation_that_is_met(tmp_path: Path) -> None:
    """Expect: 100-continue reaches the server, whose 100 reaches the client, which then sends."""

    def talk(wire: Wire) -> None:
        _line, fields = wire.head()
        assert ("Expect", "100-continue") in fields
        wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        assert wire.exactly(4) == b"body"
        wire.send(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("PUT", origin.port, "/", "Expect: 100-continue", "Content-Length: 4"))
        assert wire.message().status == 100
        wire.send(b"body")
        assert wire.message().status == 201
        wire.close()
        assert origin.faults == []


def test_expectation_that_is_not_met(tmp_path: Path) -> None:
    """The answer comes instead of 100, and the body never."""
    with (
        Origin(_answer_the_head(b"HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n")) as origin,
        Gateway(tmp_path, rules_for(origin.port)) as gateway,
    ):
        wire = gateway.ask_http(request("PUT", origin.port, "/", "Expect: 100-continue", "Content-Length: 4"))
        assert wire.message().status == 417
        assert wire.rest() == b""
        wire.close()
        assert gateway.await_record(state="closed")["status"] == 417


def test_answer_before_the_body_is_whole(tmp_path: Path) -> None:
    """A server that has seen enough. What the client still sends is no request, so the connection ends."""
    with (
        Origin(_answer_the_head(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")) as origin,
        Gateway(tmp_path, rules_for(origin.port)) as gateway,
    ):
        wire = gateway.ask_http(request("POST", origin.port, "/", "Content-Length: 100000") + b"x" * 100)
        message = wire.message()
        assert (message.status, message.body) == (413, b"no")
        assert wire.rest() == b""
        wire.close()


def test_client_that_goes_on_sending_after_the_answer(tmp_path: Path) -> None:
    """It is not met with a reset, in which its answer could get lost."""
    with (
        Origin(_answer_the_head(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")) as origin,
        Gateway(tmp_path, rules_for(origin.port)) as gateway,
    ):
        wire = gateway.ask_http(request("POST", origin.port, "/", "Content-Length: 100000000"))
        assert wire.message().status == 413
        for _ in range(8):
            wire.send(bytes(50_000))
            gateway.call(lambda: None)
        assert wire.some() == b""
        wire.close()
        gateway.settle()


def _answer_the_head(said: bytes) -> Talk:
    def talk(wire: Wire) -> None:
        wire.head()
        wire.send(said)
        wire.rest()

    return talk


# --- Bodies ---


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_large_download(chunked: bool, tmp_path: Path) -> None:
    def respond(_: Message) -> Iterator[bytes]:
        if chunked:
            yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            for piece in pieces(LARGE):
                yield b"%x\r\n%b\r\n" % (len(piece), piece)
            yield b"0\r\n\r\n"
        else:
            yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % LARGE
            yield from pieces(LARGE)

    with http_origin(respond) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port))
        wire.head()
        whole, size = hashlib.sha256(), 0
        while size < LARGE:
            piece = wire.chunk() if chunked else wire.some()
            whole.update(piece)
            size += len(piece)
        if chunked:
            assert wire.chunk() == b""
        assert (size, whole.hexdigest()) == (LARGE, digest_of(LARGE))
        wire.close()


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_large_upload(chunked: bool, tmp_path: Path) -> None:
    told: list[tuple[int, str]] = []

    def talk(wire: Wire) -> None:
        wire.head()
        whole, size = hashlib.sha256(), 0
        while size < LARGE:
            piece = wire.chunk() if chunked else wire.some()
            whole.update(piece)
            size += len(piece)
        told.append((size, whole.hexdigest()))
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        field = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {LARGE}"
        wire = gateway.ask_http(request("POST", origin.port, "/", field))
        for piece in pieces(LARGE):
            wire.send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if chunked:
            wire.send(b"0\r\n\r\n")
        assert wire.message().status == 200
        assert told == [(LARGE, digest_of(LARGE))]
        wire.close()
        closed = gateway.await_record(state="closed")
        assert int(str(closed["bytes_up"])) > LARGE


def test_chunks_pass_as_they_came(tmp_path: Path) -> None:
    """Sizes, extensions and trailers of an answer are the server's and the client's business."""
    said = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nTrailer: X-Sum\r\n\r\n"
        b'003;sig=abc\r\none\r\nA ; q="x"\r\n0123456789\r\n0\r\nX-Sum: 7\r\n\r\n'
    )
    with http_origin(lambda _: said) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(b"")
        for _ in range(2):
            wire.send(request("GET", origin.port))
            assert wire.exactly(len(said)) == said
        wire.close()
        assert origin.accepted == 1


@pytest.mark.parametrize("step", [1, 2, 7])
def test_answer_in_small_pieces(step: int, tmp_path: Path) -> None:
    """Wherever the segments of an answer end."""
    said = (
        b"HTTP/1.1 100 Continue\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n0\r\nX: 1\r\n\r\n"
    )

    def respond(_: Message) -> Iterator[bytes]:
        for at in range(0, len(said), step):
            yield said[at : at + step]
            if at + step < len(said):
                gateway.call(lambda: None)

    with http_origin(respond) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port))
        assert wire.exactly(len(said)) == said
        wire.close()


def test_server_sent_events(tmp_path: Path) -> None:
    """U40: each event reaches the client before the server sends the next."""
    seen = threading.Semaphore(0)

    def respond(_: Message) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        for number in range(20):
            event = b"data: %d\n\n" % number
            yield b"%x\r\n%b\r\n" % (len(event), event)
            assert seen.acquire(timeout=PATIENCE)
        yield b"0\r\n\r\n"

    with http_origin(respond) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port))
        assert wire.head()[0] == "HTTP/1.1 200 OK"
        for number in range(20):
            assert wire.chunk() == b"data: %d\n\n" % number
            seen.release()
        assert wire.chunk() == b""
        wire.close()


# --- Ends ---


@pytest.mark.parametrize("where", ["waiting", "in the middle"])
def test_client_that_resets(where: str, tmp_path: Path) -> None:
    """B-79: the server's connection is closed at once, not when it next says something."""
    asked = threading.Event()

    def talk(wire: Wire) -> None:
        wire.message()
        if where == "in the middle":
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        asked.set()
        wire.rest()

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port))
        assert asked.wait(PATIENCE)
        if where == "in the middle":
            wire.until(b"half")
        wire.reset()
        origin.wait_ended(1)
        gateway.settle()
        closed = gateway.await_record(state="closed")
        assert closed["verdict"] == "allow"


def test_client_that_resets_in_the_middle_of_its_body(tmp_path: Path) -> None:
    """B-79."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("POST", origin.port, "/", "Content-Length: 100") + b"half")
        origin.wait_accepted(1)
        gateway.until(lambda: origin.received.endswith(b"half"))
        wire.reset()
        origin.wait_ended(1)
        gateway.settle()
        assert origin.requests == []
        assert [record["state"] for record in gateway.records()] == PLAIN


def test_client_that_ends_in_the_middle_of_its_body(tmp_path: Path) -> None:
    """The end where more was promised is no end that another reader would see."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("POST", origin.port, "/", "Content-Length: 100") + b"half")
        wire.finish()
        assert answer(wire, HTTP).status == 400
        wire.close()
        origin.wait_ended(1)
        assert origin.requests == []


def test_client_that_finishes_and_still_reads(tmp_path: Path) -> None:
    """A half-closed client gets its answer."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port))
        wire.finish()
        assert wire.message().body == b"hello"
        assert wire.rest() == b""
        wire.close()
        gateway.settle()


def test_client_that_ends_in_the_middle_of_a_head(tmp_path: Path) -> None:
    with Gateway(tmp_path, rules_for()) as gateway:
        wire = gateway.ask_http(b"GET http://api.allowed.test/ HTTP/1.1\r\nHost:")
        wire.finish()
        told = answer(wire, HTTP)
        assert told.status == 400
        wire.close()
        assert gateway.await_record(state="refused")["code"] == "malformed_request"


def test_client_that_says_nothing(tmp_path: Path) -> None:
    """Connected and gone: nothing was asked, so there is nothing to record."""
    with Gateway(tmp_path, rules_for()) as gateway:
        gateway.ask_http(b"").close()
        gateway.ask_socks(b"").close()
        wire = gateway.ask_http(b"")
        wire.finish()
        assert wire.rest() == b""
        wire.close()
        gateway.settle()
        assert gateway.records() == []


def test_server_that_resets_before_it_answers(tmp_path: Path) -> None:
    """B-79."""

    def talk(wire: Wire) -> None:
        wire.message()
        wire.reset()

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = answer(gateway.ask_http(request("GET", origin.port)), HTTP)
        assert told.message is not None
        assert (told.status, told.message.field("X-Agent-Gateway")) == (502, "upstream; code=unreachable")
        told.wire.close()
        gateway.await_record(state="closed", verdict="allow", code="unreachable")


def test_server_that_resets_in_the_middle(tmp_path: Path) -> None:
    """B-79: the client sees a cut body, and no second answer behind half of the first."""

    def talk(wire: Wire) -> None:
        wire.message()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        assert read.wait(PATIENCE)
        wire.reset()

    read = threading.Event()
    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port))
        wire.until(b"half")
        read.set()
        assert wire.rest() == b""
        wire.close()
        assert gateway.await_record(state="closed")["status"] == 200


def test_target_that_refuses_ends_the_connection_only(tmp_path: Path) -> None:
    with closed_port() as port, Gateway(tmp_path, rules_for(port)) as gateway:
        told = ask(gateway, HTTP, GOOD, port)
        record = assert_upstream_trouble(gateway, told, "connect_refused", method="GET", path="/")
        assert record["transport"] == "http"


# --- Records ---


def shown(gateway: Gateway) -> list[tuple[object, ...]]:
    """What the records say of each request."""
    return [
        (record["state"], record.get("path"), record.get("status"), record.get("close"))
        for record in gateway.records()
    ]


def closed(gateway: Gateway) -> list[tuple[object, ...]]:
    """The same of those that are over."""
    return [one[1:] for one in shown(gateway) if one[0] == "closed"]


def inside(port: int, path: str = "/", *fields: str, host: str = GOOD) -> bytes:
    """A request inside a tunnel."""
    return request("GET", port, path, *fields, host=host).replace(f"http://{host}:{port}".encode(), b"", 1)


def test_record_is_there_with_the_answer(tmp_path: Path) -> None:
    """Not when the kept connection is used again, or closed."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(b"")
        for number in range(1, 4):
            wire.send(request("GET", origin.port, f"/{number}?q"))
            assert wire.message().status == 200
            assert closed(gateway)[-1] == (f"/{number}", 200, "finished")
            assert len(gateway.records()) == number * len(PLAIN)
        gateway.advance(30)
        wire.close()
        gateway.settle()
        assert [record["state"] for record in gateway.records()] == PLAIN * 3
        assert gateway.call(lambda: gateway.door.counts("s1").allowed) == 3


def test_records_of_two_requests_in_one_breath(tmp_path: Path) -> None:
    with (
        http_origin(lambda asked: answering(asked.target.encode())(asked)) as origin,
        Gateway(tmp_path, rules_for(origin.port)) as gateway,
    ):
        wire = gateway.ask_http(
            request("POST", origin.port, "/1", "Content-Length: 3")
            + b"one"
            + request("GET", origin.port, "/22")
        )
        assert [wire.message().body for _ in range(2)] == [b"/1", b"/22"]
        wire.close()
        gateway.settle()
        assert closed(gateway) == [("/1", 200, "finished"), ("/22", 200, "finished")]
        first, second = (record for record in gateway.records() if record["state"] == "closed")
        assert int(str(first["bytes_up"])) + int(str(second["bytes_up"])) == len(origin.received)
        assert int(str(second["bytes_down"])) - int(str(first["bytes_down"])) == 1
        assert first["connection"] == second["connection"]


def test_records_of_two_hosts(tmp_path: Path) -> None:
    with (
        http_origin(answering()) as first,
        http_origin(answering()) as second,
        Gateway(tmp_path, rules_for(first.port, second.port)) as gateway,
    ):
        wire = gateway.ask_http(request("GET", first.port, "/1"))
        assert wire.message().status == 200
        wire.send(request("GET", second.port, "/2", host="x.wild.test"))
        assert wire.message().status == 200
        assert closed(gateway) == [("/1", 200, "finished"), ("/2", 200, "finished")]
        wire.send(request("GET", 22, "/3"))
        assert answer(wire, HTTP).status == 403
        wire.close()
        gateway.settle()
        states = [record["state"] for record in gateway.records()]
        assert states == [*PLAIN * 2, "refused"]


@pytest.mark.parametrize(
    ("said", "close"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi", "finished"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", "finished"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", "client_closed"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", "client_closed"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n", "client_closed"),
    ],
    ids=["close", "until the end", "cut", "chunks cut", "chunks broken"],
)
def test_record_of_the_last_answer(said: bytes, close: str, tmp_path: Path) -> None:
    """Whether it came whole shows."""

    def talk(wire: Wire) -> None:
        wire.message()
        wire.send(said)

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port, "/1"))
        wire.rest()
        wire.close()
        gateway.settle()
        assert closed(gateway) == [("/1", 200, close)]
        assert [record["state"] for record in gateway.records()] == PLAIN


def test_record_of_an_answer_that_came_early(tmp_path: Path) -> None:
    """The request was not sent whole, so it is not finished."""
    with (
        Origin(_answer_the_head(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")) as origin,
        Gateway(tmp_path, rules_for(origin.port)) as gateway,
    ):
        wire = gateway.ask_http(request("POST", origin.port, "/1", "Content-Length: 1000") + b"x")
        assert wire.message().status == 413
        wire.close()
        gateway.settle()
        assert closed(gateway) == [("/1", 413, "client_closed")]


@pytest.mark.parametrize("fields", [("Content-Length: 9",), ("Transfer-Encoding: chunked",)], ids=str)
def test_record_of_a_body_that_is_cut(fields: tuple[str, ...], tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("POST", origin.port, "/1", *fields) + b"4\r\n")
        wire.finish()
        assert answer(wire, HTTP).status == 400
        wire.close()
        gateway.settle()
        assert [record["state"] for record in gateway.records()] == PLAIN
        last = gateway.records()[-1]
        assert (last["verdict"], last["code"], last["path"]) == ("deny", "malformed_request", "/1")
        assert gateway.call(lambda: gateway.door.counts("s1").denied) == 1


def hold(answer: bytes) -> tuple[Talk, threading.Event, threading.Event]:
    """A server that answers when it is told to: what it does, when it was asked, and what tells it."""
    asked, told = threading.Event(), threading.Event()

    def talk(wire: Wire) -> None:
        while True:
            wire.message()
            asked.set()
            assert told.wait(PATIENCE)
            wire.send(answer)

    return talk, asked, told


def test_request_that_takes_long(tmp_path: Path) -> None:
    """Recorded once it has run for a second, so that it stands in the log whatever becomes of the gateway."""
    talk, asked, told = hold(EMPTY)
    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(request("GET", origin.port, "/long"))
        assert asked.wait(PATIENCE)
        gateway.advance(0.9)
        assert [record["state"] for record in gateway.records()] == PLAIN[:-1]
        gateway.advance(0.2)
        assert shown(gateway) == [("opened", "/long", None, None)]
        gateway.advance(5)
        told.set()
        assert wire.message().status == 200
        assert shown(gateway)[1:] == [("closed", "/long", 200, "finished")]
        assert gateway.records()[-1]["duration_ms"] == 6100
        # The next one has its own second, however long the connection was idle.
        gateway.advance(20)
        told.clear()
        asked.clear()
        wire.send(request("GET", origin.port, "/next"))
        assert asked.wait(PATIENCE)
        gateway.advance(0.9)
        assert len(gateway.records()) == 2 + len(PLAIN) - 1
        told.set()
        assert wire.message().status == 200
        assert gateway.records()[-1]["duration_ms"] == 900
        wire.close()


def test_protocol_that_is_switched(tmp_path: Path) -> None:
    """Recorded before the client is told, since it may go on for days."""

    def talk(wire: Wire) -> None:
        wire.message()
        wire.send(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
        wire.send(wire.exactly(4))
        wire.rest()

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(
            request("GET", origin.port, "/chat", "Connection: upgrade", "Upgrade: websocket")
        )
        assert wire.message().status == 101
        assert shown(gateway) == [("opened", "/chat", None, None)]
        wire.send(b"ping")
        assert wire.exactly(4) == b"ping"
        gateway.advance(30)
        wire.close()
        gateway.settle()
        state, path, status, _ = shown(gateway)[-1]
        assert (len(gateway.records()), state, path, status) == (2, "closed", "/chat", 101)
        assert gateway.records()[-1]["duration_ms"] == 30_000


# --- Records of a tunnel ---

both_tunnels = pytest.mark.parametrize("transport", [CONNECT, SOCKS], ids=str)


def assert_in_tunnel(gateway: Gateway, *expected: tuple[object, object, object]) -> None:
    """The tunnel was opened first; then these ends, each of a request (path, status, close) or of the tunnel itself."""
    gateway.settle()
    records = gateway.records()
    assert ("method" in records[0], records[0]["state"]) == (False, "opened")
    assert len({record["connection"] for record in records}) == 1
    assert closed(gateway) == list(expected)


@both_tunnels
def test_tunnel_whose_client_hangs_up(transport: Transport, tmp_path: Path) -> None:
    """The tunnel's last record has the figures of all of it."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        gateway.advance(2)
        for path in ("/1", "/2", "/3"):
            wire.send(inside(origin.port, path))
            assert wire.message().status == 200
            assert closed(gateway)[-1] == (path, 200, "finished")
        gateway.advance(3)
        wire.close()
        requests = [(path, 200, "finished") for path in ("/1", "/2", "/3")]
        assert_in_tunnel(gateway, *requests, (None, None, "client_closed"))
        last = gateway.records()[-1]
        assert (last["duration_ms"], last["bytes_up"]) == (5000, len(origin.received))
        assert "method" not in last
        counts = gateway.call(lambda: gateway.door.counts("s1"))
        assert (counts.allowed, counts.denied) == (1, 0)


@both_tunnels
def test_tunnel_whose_last_request_closes_it(transport: Transport, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(inside(origin.port, "/1", "Connection: close"))
        assert wire.message().status == 200
        assert wire.rest() == b""
        wire.close()
        assert_in_tunnel(gateway, ("/1", 200, "finished"), (None, None, "client_closed"))


@both_tunnels
def test_tunnel_whose_second_request_is_refused(transport: Transport, tmp_path: Path) -> None:
    """That is the tunnel's end, and its last record."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(inside(origin.port, "/1"))
        assert wire.message().status == 200
        wire.send(inside(origin.port, "/2", host="evil.test"))
        assert answer(wire, HTTP).status == 403
        wire.close()
        assert_in_tunnel(gateway, ("/1", 200, "finished"), ("/2", None, "client_closed"))
        last = gateway.records()[-1]
        wanted = {"verdict": "deny", "code": "authority_mismatch", "bytes_up": 0, "bytes_down": 0}
        assert {name: last[name] for name in wanted} == wanted
        counts = gateway.call(lambda: gateway.door.counts("s1"))
        assert (counts.allowed, counts.denied) == (0, 1)


@both_tunnels
def test_tunnel_whose_second_request_is_malformed(transport: Transport, tmp_path: Path) -> None:
    """There is no request to record, so it is the tunnel that is denied."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(inside(origin.port, "/1"))
        assert wire.message().status == 200
        wire.send(b"GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n")
        assert answer(wire, HTTP).status == 400
        wire.close()
        assert_in_tunnel(gateway, ("/1", 200, "finished"), (None, None, "client_closed"))
        last = gateway.records()[-1]
        assert (last["verdict"], last["code"]) == ("deny", "malformed_request")


@both_tunnels
def test_tunnel_that_is_cut_in_a_request(transport: Transport, tmp_path: Path) -> None:
    talk, asked, told = hold(b"")
    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(inside(origin.port, "/1"))
        assert asked.wait(PATIENCE)
        gateway.close(gateway.session)
        told.set()
        wire.rest()
        wire.close()
        assert_in_tunnel(gateway, ("/1", None, "session_closed"))


@both_tunnels
def test_tunnel_that_is_idle(transport: Transport, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(inside(origin.port, "/1"))
        assert wire.message().status == 200
        gateway.advance(0)
        gateway.advance(3601)
        assert wire.rest() == b""
        wire.close()
        assert_in_tunnel(gateway, ("/1", 200, "finished"), (None, None, "idle"))


@both_tunnels
def test_tunnel_whose_server_hangs_up_between_requests(transport: Transport, tmp_path: Path) -> None:
    """The next request gets a connection of its own: the tunnel's end is recorded, the request's as well."""

    def talk(wire: Wire) -> None:
        wire.message()
        wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        for number in (1, 2):
            wire.send(inside(origin.port, f"/{number}"))
            assert wire.message().status == 200
            origin.wait_ended(number)
        wire.close()
        gateway.settle()
        assert closed(gateway) == [
            ("/1", 200, "finished"),
            (None, None, "next_host"),
            ("/2", 200, "finished"),
        ]


@both_tunnels
def test_long_request_in_a_tunnel(transport: Transport, tmp_path: Path) -> None:
    talk, asked, told = hold(EMPTY)
    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        gateway.advance(5)
        wire.send(inside(origin.port, "/1"))
        assert asked.wait(PATIENCE)
        gateway.advance(0.9)
        assert len(gateway.records()) == len(PLAIN)
        gateway.advance(0.2)
        assert shown(gateway)[1:] == [("opened", "/1", None, None)]
        told.set()
        assert wire.message().status == 200
        wire.close()
        assert_in_tunnel(gateway, ("/1", 200, "finished"), (None, None, "client_closed"))


# --- Pushes past the gateway ----------------------------------------------------------------------


@pytest.mark.parametrize("first", [False, True], ids=["first request", "on a kept connection"])
@pytest.mark.parametrize("path", ["/a/b/info/refs?service=git-receive-pack", "/a/b/git-receive-pack"])
def test_push_to_the_forge_is_refused(path: str, first: bool, tmp_path: Path) -> None:
    with http_origin(answering()) as origin:
        rules = replace(rules_for(origin.port), forges=frozenset({GOOD}))
        with Gateway(tmp_path, rules) as gateway:
            wire = gateway.ask_http(b"")
            if first:
                wire.send(request("GET", origin.port, "/a/b/info/refs?service=git-upload-pack"))
                assert wire.message().status == 200
            wire.send(request("GET", origin.port, path))
            answer = wire.message()
            wire.close()
            assert (answer.status, answer.json()["code"]) == (403, "push_bypass")
            assert "git push" in str(answer.json()["message"])
            gateway.settle()
            states = [(record["state"], record["code"]) for record in gateway.records()]
            assert states == [("closed", "")] * first + [("refused", "push_bypass")]
            assert b"receive-pack" not in origin.received
