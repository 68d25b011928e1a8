"""A session's pair of proxies: accepting, ending, and nothing shared with another session."""

import contextlib
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.policy.egress import Transport
from tests.fakes.asking import (
    ACCEPTED,
    CONNECT,
    GREETING,
    HTTP,
    SOCKS,
    TRANSPORTS,
    answer,
    ask,
    assert_refused,
    assert_serves,
    assert_upstream_trouble,
    connect_head,
    domain,
    figures,
    get_head,
    start,
    tunnel,
)
from tests.fakes.gateway import ROOMY, Gateway
from tests.fakes.hello import hello
from tests.fakes.origin import Origin, answering, echo, full_backlog, http_origin
from tests.fakes.rules import GOOD, rules_for
from tests.fakes.wire import Wire

every_transport = pytest.mark.parametrize("transport", TRANSPORTS, ids=str)
both_tunnels = pytest.mark.parametrize("transport", [CONNECT, SOCKS], ids=str)


# --- The end of a session ---


@both_tunnels
def test_closing_cuts_tunnels(transport: Transport, tmp_path: Path) -> None:
    """Each gets its record, before the session's own."""
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wires = [tunnel(gateway, transport, origin.port, first=hello(GOOD)) for _ in range(3)]
        for wire in wires:
            assert wire.exactly(len(hello(GOOD))) == hello(GOOD)
        gateway.close(gateway.session)
        assert [wire.rest() for wire in wires] == [b""] * 3
        origin.wait_ended(3)
        closed = [record for record in gateway.records() if record["state"] == "closed"]
        size = len(hello(GOOD))
        assert [figures(record) for record in closed] == [
            {"verdict": "allow", "code": "", "bytes_up": size, "bytes_down": size, "close": "session_closed"}
        ] * 3
        last = gateway.records("session")[-1]
        assert last["state"] == "closed"
        assert all(int(str(record["seq"])) < int(str(last["seq"])) for record in closed)
        for wire in wires:
            wire.close()


def test_closing_cuts_whatever_is_under_way(tmp_path: Path) -> None:
    """At every stage: silent, half a request, no ClientHello yet, an answer awaited, an answer half read, kept."""

    def talk(wire: Wire) -> None:
        request = wire.message()
        if request.target == "/half":
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
        elif request.target == "/kept":
            wire.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        asked.append(request.target)
        wire.rest()

    asked: list[str] = []
    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        silent = [gateway.ask_http(b""), gateway.ask_socks(b"")]
        half = [gateway.ask_http(connect_head(GOOD, 443)[:20]), gateway.ask_socks(b"\x05\x01\0\x05")]
        greeted = [tunnel(gateway, CONNECT, origin.port), tunnel(gateway, SOCKS, origin.port)]
        waiting = [
            gateway.ask_http(get_head(GOOD, origin.port, path)) for path in ("/waiting", "/half", "/kept")
        ]
        body = gateway.ask_http(
            get_head(GOOD, origin.port, "/up", "Content-Length: 9").replace(b"GET", b"PUT") + b"x"
        )
        gateway.until(lambda: len(asked) == 3)
        origin.wait_accepted(6)
        gateway.close(gateway.session)
        wires = silent + half + greeted + waiting + [body]
        for wire in wires:
            wire.rest()
            wire.close()
        origin.wait_ended(6)
        states = [record["state"] for record in gateway.records()]
        assert states.count("closed") == 6
        assert {
            str(record.get("path")): record["close"] for record in gateway.records() if "close" in record
        } == {
            "None": "session_closed",
            "/waiting": "session_closed",
            "/half": "session_closed",
            "/kept": "finished",
            "/up": "session_closed",
        }
        assert "refused" not in states


@every_transport
def test_closing_ends_a_dial(transport: Transport, tmp_path: Path) -> None:
    with full_backlog() as port, Gateway(tmp_path, rules_for(port)) as gateway:
        wire = start(gateway, transport, GOOD, port)
        gateway.until(lambda: gateway.resolver.asked == [GOOD])
        gateway.close(gateway.session)
        wire.rest()
        wire.close()


def test_closing_frees_the_ports(tmp_path: Path) -> None:
    """B-88: nobody reaches anything at the ports of a session that has ended."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        gateway.close(gateway.session)
        for port in (gateway.http, gateway.socks):
            with pytest.raises(ConnectionRefusedError):
                Wire.to(port)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", gateway.http))


def test_other_sessions_stay(tmp_path: Path) -> None:
    """B-88: rules, tunnels and counts are a session's own."""
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        first = tunnel(gateway, CONNECT, origin.port, first=hello(GOOD))
        ports = (gateway.http, gateway.socks)
        _, gateway.http, gateway.socks = gateway.open("s2", rules_for())
        told = ask(gateway, CONNECT, GOOD, origin.port)
        assert told.status == 403
        told.wire.close()
        assert gateway.records()[-1]["session"] == "s2"
        gateway.call(lambda: gateway.proxies.close("s2"))
        assert first.exactly(len(hello(GOOD))) == hello(GOOD)
        first.send(b"still here")
        assert first.exactly(10) == b"still here"
        first.close()
        gateway.http, gateway.socks = ports
        again = tunnel(gateway, SOCKS, origin.port)
        again.close()
        counts = gateway.call(lambda: gateway.door.counts("s1"))
        assert (counts.allowed, counts.denied) == (2, 0)


# --- Accepting ---


def test_many_at_once(tmp_path: Path) -> None:
    """U35: a burst of clients, each served."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wires = [start(gateway, TRANSPORTS[number % 3], GOOD, origin.port) for number in range(150)]
        for number, wire in enumerate(wires):
            assert answer(wire, TRANSPORTS[number % 3]).granted
            wire.close()
        assert origin.accepted == 150


@contextlib.contextmanager
def no_more_descriptors() -> Iterator[None]:
    """This process gets no further file descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(os.devnull, "rb") as lowest_free:
        free = lowest_free.fileno()
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_no_descriptor_left(tmp_path: Path) -> None:
    """Said loudly; the clients that wait are served once there is room again."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
            with no_more_descriptors():
                client.connect(("127.0.0.1", gateway.http))
                gateway.until(lambda: bool(gateway.noted))
            gateway.advance(0.6)
            wire = Wire(client)
            wire.send(get_head(GOOD, origin.port))
            assert answer(wire, HTTP).granted
        assert any("cannot accept" in error for error in gateway.take_errors())
        assert_serves(gateway, origin)


@every_transport
def test_no_descriptor_left_for_the_target(transport: Transport, tmp_path: Path) -> None:
    """The client is told, whatever it is that cannot be opened, and one record says so."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_socks(GREETING) if transport is SOCKS else gateway.ask_http(b"")
        gateway.until(lambda: gateway.proxies.live("s1") == 1)
        with no_more_descriptors():
            if transport is SOCKS:
                assert wire.exactly(2) == ACCEPTED
                wire.send(b"\x05\x01\0" + domain(GOOD) + origin.port.to_bytes(2))
            else:
                wire.send((connect_head if transport is CONNECT else get_head)(GOOD, origin.port))
            told = answer(wire, transport)
        assert_upstream_trouble(gateway, told, "unreachable")
        assert_serves(gateway, origin)


def test_no_descriptor_left_to_look_at_an_address(tmp_path: Path) -> None:
    """Whether an address is this machine's own cannot be told: it is not dialled."""
    with Gateway(tmp_path, rules_for()) as gateway:
        gateway.resolver.answer(GOOD, ("127.0.0.77",))
        wire = gateway.ask_http(b"")
        gateway.until(lambda: gateway.proxies.live("s1") == 1)
        with no_more_descriptors():
            wire.send(connect_head(GOOD, 443))
            told = answer(wire, CONNECT)
        assert_upstream_trouble(gateway, told, "unreachable")


def test_client_that_is_gone_when_it_is_accepted(tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        for _ in range(20):
            gateway.ask_http(b"").reset()
            gateway.ask_socks(b"").reset()
        gateway.settle()
        assert_serves(gateway, origin)


def test_refused_client_that_does_not_hang_up(tmp_path: Path) -> None:
    """It gets a moment to read, and then its connection ends."""
    with Gateway(tmp_path, rules_for()) as gateway:
        told = ask(gateway, CONNECT, "evil.test", 443)
        assert gateway.call(lambda: gateway.proxies.live("s1")) == 1
        gateway.advance(2.1)
        gateway.settle()
        assert_refused(gateway, told, "not_listed")


def test_refused_client_that_goes_on_sending(tmp_path: Path) -> None:
    """What it sends is read for a while, so that its answer is not lost in a reset; but not for ever."""
    with Gateway(tmp_path, rules_for()) as gateway:
        wire = gateway.ask_http(connect_head("evil.test", 443) + bytes(500_000))
        told = answer(wire, CONNECT)
        assert told.status == 403
        with pytest.raises(OSError):
            while True:
                wire.send(bytes(1 << 20))
        wire.close()
        gateway.settle()


# --- Listeners that are Unix sockets ---


def wire_to(path: Path) -> Wire:
    """A connection to a Unix socket."""
    connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connected.connect(str(path))
    return Wire(connected)


@every_transport
def test_unix_listeners_serve_the_same(transport: Transport, tmp_path: Path) -> None:
    """What a bridge connects to has neither address nor options of TCP."""
    body = b"x" * 300_000
    served = http_origin(answering(body)) if transport is HTTP else echo()
    with (
        served as origin,
        Gateway(tmp_path, rules_for(origin.port)) as gateway,
        contextlib.ExitStack() as stack,
    ):
        listeners = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(2)]
        for name, listener in zip(("http", "socks"), listeners, strict=True):
            listener.bind(str(tmp_path / name))
            listener.listen()
        session, *_ = gateway.open("s2", rules_for(origin.port))
        gateway.call(lambda: gateway.proxies.close(session.id))
        http, socks = (listener.dup() for listener in listeners)
        gateway.call(lambda: gateway.proxies.open(session, ROOMY, http, socks, own_ports=frozenset()))
        wire = stack.enter_context(wire_to(tmp_path / ("socks" if transport is SOCKS else "http")))
        if transport is HTTP:
            wire.send(get_head(GOOD, origin.port))
            assert wire.message().body == body
        else:
            wire.send(connect_head(GOOD, origin.port) if transport is CONNECT else GREETING)
            if transport is SOCKS:
                assert wire.exactly(2) == ACCEPTED
                wire.send(b"\x05\x01\x00" + domain(GOOD) + origin.port.to_bytes(2))
                assert wire.exactly(10)[1] == 0
            else:
                assert wire.message(to="HEAD").status == 200
            wire.send(hello(GOOD) + body)
            assert wire.exactly(len(hello(GOOD) + body)) == hello(GOOD) + body
        gateway.close(session)
