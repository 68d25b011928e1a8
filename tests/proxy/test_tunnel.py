"""The first bytes of a granted tunnel. Here: port 443, where nobody but TLS is spoken; elsewhere: tests/hostile."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.policy.egress import Transport
from gateway.policy.limits import Allowance
from gateway.proxy.connection import Admission, Connection, Gate
from gateway.proxy.connection import Origin as Whose
from gateway.proxy.embedding import connect_flow, egress_mode
from gateway.proxy.guard import Stage
from gateway.proxy.peer import Peer
from gateway.proxy.runner import Runner
from gateway.proxy.tunnel import carry
from tests.fakes.asking import CONNECT, SOCKS, tunnel
from tests.fakes.certificate import client_context, server_context
from tests.fakes.gateway import ROOMY, Gateway, Record
from tests.fakes.hello import hello
from tests.fakes.origin import Origin, echo
from tests.fakes.rules import GOOD, rules_for
from tests.fakes.wire import Wire


@dataclass(frozen=True, slots=True)
class Granted:
    """A tunnel to the good host at port 443 that was granted and recorded; the test holds both far ends."""

    gateway: Gateway
    client: Wire
    server: Wire

    def closed(self) -> Record:
        return self.gateway.await_record(state="closed")


@contextmanager
def granted(folder: Path, *, port: int = 443, raw: bool = False) -> Iterator[Granted]:
    """Such a tunnel, carrying what the client sends. Not everybody may listen at port 443: nobody is dialled."""
    rules = rules_for(port, raw=[(GOOD, port)] if raw else [])
    client, near = socket.socketpair()
    far, server = socket.socketpair()
    with Gateway(folder, rules) as gateway, Wire(client) as client_wire, Wire(server) as server_wire:

        def start() -> None:
            near.setblocking(False)
            far.setblocking(False)
            reactor, session = gateway.loop.reactor, gateway.session
            gate = Gate(gateway.door, gateway.proxies.hooks, gateway.resolver, gateway.clock, reactor)
            admission = Admission(0, Allowance(1.0, 0.0))
            origin = Whose(
                session, ROOMY, egress_mode(session.id), ("127.0.0.1", 0), lambda: admission, lambda: 0.0
            )
            connection = Connection(
                gate, origin, admission, Peer(near, reactor), ("127.0.0.1", 0), lambda _: None
            )
            asked = connection.ask_for(Transport.CONNECT, GOOD, port)
            connection.fire("http_connect", connect_flow(connection.mitm_client, asked), asked, Stage.ALLOWED)
            connection.upstream = Peer(far, reactor)
            asked.guard.stage = Stage.RECORDED
            asked.guard.raw = raw
            gateway.door.open(asked.guard.attempt)
            connection.server = asked
            connection.runner = Runner(_carry(connection), reactor.loop)
            connection.runner.step()

        async def _carry(connection: Connection) -> None:
            asked = connection.server
            assert asked is not None
            await carry(connection, asked, b"")

        gateway.call(start)
        yield Granted(gateway, client_wire, server_wire)


# First bytes that are no TLS.
NOT_TLS = [
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"GET / HTTP/1.1\r\nHost: api.allowed.test\r\n\r\n",
    b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n",
    b"EHLO me.test\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"G",
    b"\0",
    b"\x15\x03\x01\0\x02\x01\0",
    b"\x80\x2e\x01\0\x02",
]


@pytest.mark.parametrize("first", NOT_TLS, ids=repr)
def test_other_protocols_on_443(first: bytes, tmp_path: Path) -> None:
    """B-61: refused by the first byte; no answer, for who knows in which protocol; no byte to the server."""
    with granted(tmp_path) as tunnel:
        tunnel.client.send(first)
        assert tunnel.client.rest() == b""
        assert tunnel.server.rest() == b""
        closed = tunnel.closed()
        wanted = {
            "verdict": "deny",
            "code": "not_tls",
            "bytes_up": 0,
            "bytes_down": 0,
            "close": "not_tls",
            "port": 443,
        }
        assert {name: closed[name] for name in wanted} == wanted
        assert "refused" not in {record["state"] for record in tunnel.gateway.records()}


@pytest.mark.parametrize("first", NOT_TLS, ids=repr)
def test_other_protocols_on_a_raw_443(first: bytes, tmp_path: Path) -> None:
    with granted(tmp_path, raw=True) as tunnel:
        tunnel.client.send(first)
        assert tunnel.server.exactly(len(first)) == first
        tunnel.server.send(b"hello")
        assert tunnel.client.exactly(5) == b"hello"


def test_tls_on_443(tmp_path: Path) -> None:
    with granted(tmp_path) as tunnel:
        first = hello(GOOD)
        tunnel.client.send(first[:7])
        tunnel.gateway.call(lambda: None)
        tunnel.client.send(first[7:])
        assert tunnel.server.exactly(len(first)) == first
        tunnel.server.send(b"hello")
        assert tunnel.client.exactly(5) == b"hello"
        tunnel.client.finish()
        assert tunnel.server.rest() == b""
        tunnel.server.send(b"bye")
        assert tunnel.client.exactly(3) == b"bye"


def test_server_that_speaks_before_the_client_on_443(tmp_path: Path) -> None:
    """What it says waits until the client has shown a name that fits."""
    with granted(tmp_path) as tunnel:
        tunnel.server.send(b"early")
        first = hello(GOOD)
        tunnel.client.send(first)
        assert tunnel.client.exactly(5) == b"early"
        assert tunnel.server.exactly(len(first)) == first


def test_server_that_is_gone_before_the_client_speaks(tmp_path: Path) -> None:
    with Origin(lambda _: None) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, CONNECT, origin.port)
        origin.wait_ended(1)
        wire.send(hello(GOOD))
        assert wire.rest() == b""
        wire.close()
        closed = gateway.await_record(state="closed")
        assert (closed["verdict"], closed["code"]) == ("allow", "")


def test_client_that_ends_before_it_speaks(tmp_path: Path) -> None:
    """Nothing was sent, so nothing is refused."""
    with granted(tmp_path) as tunnel:
        tunnel.client.finish()
        assert tunnel.client.rest() == b""
        closed = tunnel.closed()
        assert (closed["verdict"], closed["code"], closed["close"]) == ("allow", "", "client_closed")


@pytest.mark.parametrize("transport", [CONNECT, SOCKS], ids=str)
def test_both_ends_of_tls(transport: Transport, tmp_path: Path) -> None:
    """A real client and a real server, whose greeting has whatever their library puts into it."""
    with echo(tls=server_context()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.start_tls(client_context(), GOOD)
        for number in range(20):
            text = b"%d" % number * 1000
            wire.send(text)
            assert wire.exactly(len(text)) == text
        wire.close()
        assert gateway.await_record(state="closed")["sni"] == GOOD
