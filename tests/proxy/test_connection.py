"""One connection: what it asks for, its one end, and its figures. What clients see of it: the fronts' tests."""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.policy.egress import Code, Transport
from gateway.policy.limits import Allowance, Limits
from gateway.proxy.connection import Admission, Connection, Gate, Origin, Refused
from gateway.proxy.embedding import connect_flow, egress_mode
from gateway.proxy.guard import GuardedServer, Stage
from gateway.proxy.peer import Peer
from gateway.proxy.runner import Runner
from tests.fakes.asking import CONNECT, HTTP, SOCKS
from tests.fakes.gateway import ROOMY, Gateway
from tests.fakes.origin import echo
from tests.fakes.rules import GOOD, rules_for
from tests.fakes.wire import Wire

ALONE = Admission(0, Allowance(1.0, 0.0))
LIMITS = Limits(tunnels=10, new_per_second=10, burst=10, idle=60)


class Bench:
    """One connection of a gateway's session, its client in the test's hand."""

    def __init__(self, gateway: Gateway, limits: Limits, admission: Admission) -> None:
        self.gateway = gateway
        self.ended: list[Connection] = []
        # What the session has left when the client goes on to another host.
        self.further = Admission(0, Allowance(5.0, 0.0))
        client, near = socket.socketpair()
        near.setblocking(False)
        self.client = Wire(client)
        self.connection = gateway.call(lambda: self._make(near, limits, admission))

    def _make(self, near: socket.socket, limits: Limits, admission: Admission) -> Connection:
        gateway = self.gateway
        reactor, session = gateway.loop.reactor, gateway.session
        gate = Gate(gateway.door, gateway.proxies.hooks, gateway.resolver, gateway.clock, reactor)
        origin = Origin(
            session, limits, egress_mode(session.id), ("127.0.0.1", 0), lambda: self.further, lambda: 0.0
        )
        return Connection(gate, origin, admission, Peer(near, reactor), ("127.0.0.1", 0), self.ended.append)

    def ask(self, port: int, host: str = GOOD) -> GuardedServer:
        """Asks for a tunnel, up to where the host is allowed."""
        server = self.connection.ask_for(CONNECT, host, port)
        self.connection.fire(
            "http_connect", connect_flow(self.connection.mitm_client, server), server, Stage.ALLOWED
        )
        return server

    def open(self, port: int, then: Callable[[], None] = lambda: None) -> None:
        """Asks for a tunnel and connects it."""
        done: list[str] = []

        async def work() -> None:
            await self.connection.connect(self.ask(port))
            then()
            done.append("done")

        runner = self.gateway.call(lambda: Runner(work(), self.gateway.loop))
        self.gateway.call(runner.step)
        self.gateway.until(lambda: bool(done))


@contextmanager
def bench(
    folder: Path,
    *ports: int,
    limits: Limits = ROOMY,
    admission: Admission = ALONE,
) -> Iterator[Bench]:
    with Gateway(folder, rules_for(*ports)) as gateway:
        made = Bench(gateway, limits, admission)
        yield made
        gateway.call(lambda: made.connection.end("test"))
        made.client.close()


# --- Asking ---


def test_asking(tmp_path: Path) -> None:
    with bench(tmp_path) as one:
        server = one.gateway.call(lambda: one.ask(443))
        assert server.guard.stage is Stage.ALLOWED
        assert (server.guard.attempt.host, server.guard.attempt.port) == (GOOD, 443)
        assert one.gateway.records() == []


def test_refusal_is_raised(tmp_path: Path) -> None:
    with bench(tmp_path) as one:

        def ask() -> None:
            with pytest.raises(Refused) as refused:
                one.ask(443, "evil.test")
            assert refused.value.decision.code == Code.NOT_LISTED
            assert refused.value.attempt.host == "evil.test"

        one.gateway.call(ask)
        assert [record["code"] for record in one.gateway.records()] == ["not_listed"]


@pytest.mark.parametrize(
    "admission",
    [Admission(10, Allowance(5.0, 0.0)), Admission(0, Allowance(0.5, 0.0))],
    ids=["too many", "too fast"],
)
def test_limits_come_first(admission: Admission, tmp_path: Path) -> None:
    """At the first request of a connection; what it is refused for otherwise does not come up then."""
    with bench(tmp_path, limits=LIMITS, admission=admission) as one:

        def ask() -> None:
            with pytest.raises(Refused) as refused:
                one.ask(443, "evil.test")
            assert refused.value.decision.code == Code.LIMIT
            one.ask(443)

        one.gateway.call(ask)
        assert [record["code"] for record in one.gateway.records()] == ["limit"]


def test_a_further_host_counts_too(tmp_path: Path) -> None:
    """A client that keeps its connection and goes from host to host opens as many connections to servers."""
    with bench(tmp_path, limits=LIMITS, admission=Admission(0, Allowance(5.0, 0.0))) as one:
        one.further = Admission(0, Allowance(0.5, 0.0))

        def ask() -> None:
            one.ask(443)
            with pytest.raises(Refused) as refused:
                one.ask(443)
            assert refused.value.decision.code == Code.LIMIT

        one.gateway.call(ask)
        assert [record["code"] for record in one.gateway.records()] == ["limit"]


def test_limits_come_before_malformed(tmp_path: Path) -> None:
    with bench(tmp_path, limits=LIMITS, admission=Admission(10, Allowance(5.0, 0.0))) as one:

        def refuse() -> None:
            with pytest.raises(Refused) as refused:
                raise one.connection.refuse(Code.MALFORMED_HOST, "no host", HTTP, "a..b")
            assert refused.value.decision.code == Code.LIMIT

        one.gateway.call(refuse)


def test_refusing_what_was_read(tmp_path: Path) -> None:
    with bench(tmp_path) as one:
        refused = one.gateway.call(
            lambda: one.connection.refuse(Code.MALFORMED_REQUEST, "no request", SOCKS, "a..b", 431)
        )
        assert (refused.decision.code, refused.status) == (Code.MALFORMED_REQUEST, 431)
        record = one.gateway.records()[0]
        wanted = {"state": "refused", "transport": "socks", "host": "a..b", "port": None, "rule": "built-in"}
        assert {name: record[name] for name in wanted} == wanted


# --- Connecting and the end ---


def test_one_end(tmp_path: Path) -> None:
    """However often it is ended, and by whom: both sides closed, one record, one call."""
    with echo() as origin, bench(tmp_path, origin.port) as one:
        one.open(origin.port)
        one.gateway.advance(2.5)
        for cause in ("session_closed", "idle"):
            one.gateway.call(lambda cause=cause: one.connection.end(cause))  # type: ignore[misc]  # bound
        assert one.client.rest() == b""
        origin.wait_ended(1)
        assert one.ended == [one.connection]
        records = one.gateway.records()
        assert [record["state"] for record in records] == ["opened", "closed"]
        wanted = {"close": "session_closed", "duration_ms": 2500, "bytes_up": 0, "bytes_down": 0}
        assert {name: records[1][name] for name in wanted} == wanted


def test_end_before_anything_was_asked(tmp_path: Path) -> None:
    with bench(tmp_path) as one:
        one.gateway.call(lambda: one.connection.end("client_closed"))
        assert one.client.rest() == b""
        assert len(one.ended) == 1
        assert one.gateway.records() == []


def test_further_request_of_a_connection(tmp_path: Path) -> None:
    """It keeps id and address, and is judged anew: nothing is open to it before it was."""
    with echo() as origin, bench(tmp_path, origin.port) as one:
        one.open(origin.port)

        def ask_again() -> None:
            first = one.connection.server
            assert first is not None
            former = first.guard.attempt
            server = one.connection.ask_for(HTTP, GOOD, origin.port, reuse=True)
            assert server is first
            attempt = server.guard.attempt
            assert attempt is not former
            assert (attempt.connection, attempt.address) == (former.connection, "127.0.0.1")
            assert not server.guard.reached(Stage.RECORDED)
            assert not attempt.opened

        one.gateway.call(ask_again)


def test_next_host(tmp_path: Path) -> None:
    """The former connection is closed and recorded; the client's stays."""
    with echo() as origin, bench(tmp_path, origin.port) as one:
        one.open(origin.port)
        one.gateway.call(lambda: one.connection.disconnect("next_host"))
        one.gateway.call(lambda: one.connection.disconnect("again"))
        origin.wait_ended(1)
        assert [record.get("close") for record in one.gateway.records()] == [None, "next_host"]
        one.open(origin.port)
        assert origin.accepted == 2


# --- Deadlines ---


def test_handshake(tmp_path: Path) -> None:
    with bench(tmp_path, limits=LIMITS) as one:
        now = one.gateway.clock.now
        one.gateway.call(one.connection.limit_handshake)
        assert one.connection.client.deadline == now + 10
        one.gateway.call(lambda: one.connection.limit_handshake(idle=True))
        assert one.connection.client.deadline == now + 60


def test_sweeping_a_tunnel(tmp_path: Path) -> None:
    """Idle is counted from the last byte of either side."""
    with echo() as origin, bench(tmp_path, origin.port, limits=LIMITS) as one:
        connection, clock = one.connection, one.gateway.clock
        one.open(origin.port)
        done: list[str] = []

        async def relay() -> None:
            await connection.relay(b"first")
            done.append("done")

        runner = one.gateway.call(lambda: Runner(relay(), one.gateway.loop))
        one.gateway.call(runner.step)
        assert one.client.exactly(5) == b"first"
        one.gateway.call(lambda: connection.sweep(clock.now))
        one.gateway.call(lambda: connection.sweep(clock.now + 59))
        one.client.send(b"second")
        assert one.client.exactly(6) == b"second"
        one.gateway.call(lambda: connection.sweep(clock.now + 59))
        one.gateway.call(lambda: connection.sweep(clock.now + 118))
        assert one.ended == []
        one.gateway.call(lambda: connection.sweep(clock.now + 119))
        assert one.client.rest() == b""
        closed = one.gateway.records()[-1]
        assert (closed["close"], closed["bytes_up"], closed["bytes_down"]) == ("idle", 11, 11)


def test_silent_server_is_probed(tmp_path: Path) -> None:
    """After half a minute without a byte the kernel looks whether the server is still there."""
    with echo() as origin, bench(tmp_path, origin.port) as one:
        connection, now = one.connection, one.gateway.clock.now
        one.open(origin.port)

        async def relay() -> None:
            await connection.relay(b"first")

        runner = one.gateway.call(lambda: Runner(relay(), one.gateway.loop))
        one.gateway.call(runner.step)
        assert one.client.exactly(5) == b"first"
        assert connection.tunnel is not None
        server = connection.tunnel.server
        one.gateway.call(lambda: connection.sweep(now))
        one.gateway.call(lambda: connection.sweep(now + 29))
        assert server.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
        one.gateway.call(lambda: connection.sweep(now + 31))
        assert server.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0
        one.client.send(b"x")
        assert one.client.exactly(1) == b"x"


def test_transport_of_a_refusal_in_a_tunnel(tmp_path: Path) -> None:
    """What is found inside an open tunnel is the tunnel's refusal: it is recorded with its end, and once."""
    with echo() as origin, bench(tmp_path, origin.port) as one:
        one.open(origin.port)
        refused = one.gateway.call(
            lambda: one.connection.refuse(Code.MALFORMED_REQUEST, "no request", Transport.CONNECT, "x")
        )
        assert refused.attempt.host == GOOD
        assert [record["state"] for record in one.gateway.records()] == ["opened"]
        one.gateway.call(lambda: one.connection.end("refused"))
        closed = one.gateway.records()[-1]
        assert (closed["state"], closed["verdict"], closed["code"]) == ("closed", "deny", "malformed_request")
