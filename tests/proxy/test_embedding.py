"""mitmproxy, embedded: hooks in order, exceptions to the caller, addons that go, objects made without constructors."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from mitmproxy import http
from mitmproxy.connection import Client, ConnectionState, Server

from gateway.audit import AuditLog
from gateway.authorizer import Attempt, Authorizer
from gateway.policy.egress import Transport
from gateway.proxy.embedding import Hooks, client_of, connect_flow, egress_mode, guarded_server, request_flow
from gateway.proxy.guard import GuardedServer, Stage
from gateway.proxy.request_head import read_request
from gateway.session import SandboxStamp, Session
from tests.fakes.clock import FakeClock
from tests.fakes.rules import GOOD, rules_for


class Noting:
    """An addon that notes what it hears."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self._notes = notes

    def running(self) -> None:
        self._notes.append(f"{self.name} running")

    def done(self) -> None:
        self._notes.append(f"{self.name} done")

    def http_connect(self, data: object) -> None:
        self._notes.append(f"{self.name} {data}")

    async def server_connect(self, data: object) -> None:
        await asyncio.sleep(0)
        self._notes.append(f"{self.name} waited for {data}")


class Failing:
    def http_connect(self, data: object) -> None:
        raise RuntimeError("broken on purpose")

    async def server_connect(self, data: object) -> None:
        raise RuntimeError("broken on purpose")


def with_hooks(scenario: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await scenario()

    asyncio.run(run())


def test_hooks_in_order() -> None:
    async def scenario() -> None:
        notes: list[str] = []
        hooks = Hooks([Noting("one", notes), Noting("two", notes)])
        assert hooks.fire("http_connect", "x") is None
        assert notes == ["one x", "two x"]
        notes.clear()
        waiting = hooks.fire("server_connect", "y")
        assert waiting is not None
        await waiting
        assert notes == ["one waited for y", "two waited for y"]
        await hooks.done()

    with_hooks(scenario)


def test_hook_that_nobody_has() -> None:
    async def scenario() -> None:
        assert Hooks([]).fire("http_connect", "x") is None
        assert Hooks([object()]).fire("no_such_hook", "x") is None

    with_hooks(scenario)


def test_exception_reaches_the_caller() -> None:
    """mitmproxy's own dispatcher would log it and go on."""

    async def scenario() -> None:
        notes: list[str] = []
        hooks = Hooks([Failing(), Noting("after", notes)])
        with pytest.raises(RuntimeError, match="on purpose"):
            hooks.fire("http_connect", "x")
        waiting = hooks.fire("server_connect", "y")
        assert waiting is not None
        with pytest.raises(RuntimeError, match="on purpose"):
            await waiting
        assert notes == []

    with_hooks(scenario)


def test_addon_that_goes() -> None:
    """It is not asked any more, from now on."""

    async def scenario() -> None:
        notes: list[str] = []
        first, second = Noting("one", notes), Noting("two", notes)
        hooks = Hooks([first, second])
        hooks.fire("http_connect", "x")
        hooks.remove(first)
        notes.clear()
        hooks.fire("http_connect", "y")
        assert notes == ["two y"]

    with_hooks(scenario)


def test_beginning_and_end() -> None:
    async def scenario() -> None:
        notes: list[str] = []
        hooks = Hooks([Noting("one", notes)])
        await hooks.running()
        await hooks.done()
        assert notes == ["one running", "one done"]

    with_hooks(scenario)


def test_no_log_handler_is_left_on_the_root() -> None:
    """mitmproxy's Master puts one there, for its user interfaces."""

    async def scenario() -> None:
        before = list(logging.getLogger().handlers)
        hooks = Hooks([])
        assert logging.getLogger().handlers == before
        await hooks.done()
        assert logging.getLogger().handlers == before

    with_hooks(scenario)


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    session = Session("s1", SandboxStamp("none", "existing-only"), rules_for(), "secret")
    return Authorizer(AuditLog(tmp_path), FakeClock()).attempt(session, Transport.CONNECT, GOOD, 443)


def test_mode_carries_the_session() -> None:
    mode = egress_mode("s1")
    assert mode.data == "s1"
    assert mode.transport_protocol == "tcp"


def test_client() -> None:
    """Like one that mitmproxy made: the same attributes, and nothing shared."""
    mode = egress_mode("s1")
    client = client_of(mode, ("127.0.0.1", 5000), ("127.0.0.1", 8080))
    assert isinstance(client, Client)
    assert (client.peername, client.sockname) == (("127.0.0.1", 5000), ("127.0.0.1", 8080))
    assert client.proxy_mode is mode
    assert client.state is ConnectionState.OPEN
    made = Client(peername=("", 0), sockname=("", 0))
    assert vars(client).keys() == vars(made).keys()
    other = client_of(mode, ("127.0.0.1", 5001), ("127.0.0.1", 8080))
    assert client.id != other.id
    assert client.peername == ("127.0.0.1", 5000)
    assert other.peername == ("127.0.0.1", 5001)


def test_server(attempt: Attempt) -> None:
    """Its guard is its own, and at the first stage."""
    server, other = guarded_server(attempt), guarded_server(attempt)
    assert isinstance(server, GuardedServer)
    assert server.address == (GOOD, 443)
    assert server.id == attempt.connection
    assert server.state is ConnectionState.CLOSED
    assert (server.guard.attempt, server.guard.stage) == (attempt, Stage.NEW)
    assert server.guard is not other.guard
    assert vars(server).keys() == {*vars(Server(address=None)), "guard"}


def test_flow_of_a_connect(attempt: Attempt) -> None:
    client, server = client_of(egress_mode("s1"), ("", 0), ("", 0)), guarded_server(attempt)
    flow = connect_flow(client, server)
    assert isinstance(flow, http.HTTPFlow)
    assert (flow.client_conn, flow.server_conn) == (client, server)
    request = flow.request
    assert (request.method, request.host, request.port) == ("CONNECT", GOOD, 443)
    assert request.authority == f"{GOOD}:443"
    assert len(request.headers) == 0
    assert flow.response is None
    assert flow.live


def test_flow_of_a_request(attempt: Attempt) -> None:
    """As addons see any flow of mitmproxy's."""
    head = read_request(
        f"POST http://{GOOD}:443/a?b HTTP/1.0\r\nHost: {GOOD}\r\nX: 1\r\nx: 2\r\n\r\n".encode()
    )
    client, server = client_of(egress_mode("s1"), ("", 0), ("", 0)), guarded_server(attempt)
    flow = request_flow(client, server, head)
    request = flow.request
    assert (request.method, request.scheme, request.host, request.port) == ("POST", "http", GOOD, 443)
    assert (request.path, request.http_version) == ("/a?b", "HTTP/1.0")
    assert request.headers.fields == ((b"Host", GOOD.encode()), (b"X", b"1"), (b"x", b"2"))
    assert request.host_header == GOOD
    assert request.url == f"http://{GOOD}:443/a?b"
    flow.metadata["x"] = 1
    assert request_flow(client, server, head).metadata == {}


def test_flows_share_nothing(attempt: Attempt) -> None:
    client, server = client_of(egress_mode("s1"), ("", 0), ("", 0)), guarded_server(attempt)
    first, second = connect_flow(client, server), connect_flow(client, server)
    first.request.method = "GET"
    first.request.headers["X"] = "1"
    first.request.host = "other.test"
    first.metadata["x"] = 1
    first.comment = "mine"
    for flow in (second, connect_flow(client, server)):
        assert (flow.request.method, flow.request.host) == ("CONNECT", GOOD)
        assert len(flow.request.headers) == 0
        assert (flow.metadata, flow.comment) == ({}, "")


def test_flow_is_as_mitmproxy_made_it(attempt: Attempt) -> None:
    """An addon may use whatever a flow has: nothing is missing that a constructor would have set."""
    client, server = client_of(egress_mode("s1"), ("", 0), ("", 0)), guarded_server(attempt)
    made = http.HTTPFlow(Client(peername=("", 0), sockname=("", 0)), Server(address=None), True)
    made.request = http.Request.make("GET", f"http://{GOOD}:443/")
    head = read_request(f"GET http://{GOOD}:443/ HTTP/1.1\r\nHost: {GOOD}\r\n\r\n".encode())
    for flow in (connect_flow(client, server), request_flow(client, server, head)):
        assert vars(flow).keys() == vars(made).keys()
        assert vars(flow.request.data).keys() == vars(made.request.data).keys()
        assert vars(flow.request.headers).keys() == vars(made.request.headers).keys()
        assert flow.request.timestamp_end is None


def test_hooks_that_wait_and_hooks_that_do_not() -> None:
    """In the addons' order, whatever kind they are."""

    class Quick:
        def __init__(self, name: str, notes: list[str]) -> None:
            self.name = name
            self._notes = notes

        def server_connect(self, data: object) -> None:
            self._notes.append(f"{self.name} {data}")

    async def scenario() -> None:
        notes: list[str] = []
        hooks = Hooks(
            [Quick("one", notes), Noting("two", notes), Quick("three", notes), Noting("four", notes)]
        )
        waiting = hooks.fire("server_connect", "y")
        assert notes == ["one y"]
        assert waiting is not None
        await waiting
        assert notes == ["one y", "two waited for y", "three y", "four waited for y"]
        await hooks.done()

    with_hooks(scenario)
