"""Whatever breaks inside the gateway is a refusal: the log, the policy addon, a hook, a rule."""

import asyncio
import contextlib
import resource
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.authorizer import Counts
from gateway.policy.egress import EgressRules, Transport
from gateway.policy.hosts import HostMatcher, HostPattern
from gateway.proxy import plain
from gateway.proxy.framing import ChunkReader
from tests.fakes import hello
from tests.fakes.asking import (
    CONNECT,
    HTTP,
    SOCKS,
    SOCKS_FAILURE,
    SOCKS_NOT_ALLOWED,
    TRANSPORTS,
    Answer,
    answer,
    ask,
    assert_cut,
    assert_one_denial,
    assert_refused,
    assert_serves,
    assert_untouched,
    get_head,
    tunnel,
)
from tests.fakes.gateway import Gateway
from tests.fakes.origin import Origin, answering, http_origin, recorder
from tests.fakes.rules import GOOD, rules_for
from tests.fakes.wire import PATIENCE, Wire

# Elsewhere no room can be kept on the disk, and a request is recorded before it is forwarded as well.
KEEPS = sys.platform == "linux"
# Bytes that are kept for the record of one request.
ROOM_FOR_ONE = 16 << 10

every_transport = pytest.mark.parametrize("transport", TRANSPORTS, ids=str)
both_tunnels = pytest.mark.parametrize("transport", [CONNECT, SOCKS], ids=str)


def assert_internal(told: Answer) -> None:
    """Refused because of the gateway, and the client can read it."""
    if told.transport is SOCKS:
        assert told.status in {SOCKS_FAILURE, SOCKS_NOT_ALLOWED}
    else:
        assert told.message is not None
        assert told.status == 500
        assert told.message.field("X-Agent-Gateway") == "deny; code=internal"
        assert told.message.json()["code"] == "internal"
    assert told.wire.rest() == b""
    told.wire.close()


# --- The log ---


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@every_transport
def test_log_that_was_removed(transport: Transport, tmp_path: Path) -> None:
    """B-83: nobody would ever read what is written there now, so nothing is allowed, and the operator is told."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        gateway.call(gateway.log.path.unlink)
        for _ in range(2):
            assert_internal(ask(gateway, transport, GOOD, origin.port))
        assert origin.received == b""
        told = ask(gateway, transport, "evil.test", origin.port)
        assert not told.granted
        told.wire.close()
        assert gateway.resolver.asked == [GOOD, GOOD]
        assert any("removed" in error for error in gateway.take_errors())


@every_transport
@pytest.mark.parametrize("room", [0, 10])
def test_disk_that_is_full(room: int, transport: Transport, tmp_path: Path) -> None:
    """B-83: also where half a record fits. As soon as there is room again, the chain goes on unbroken."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        before = gateway.raw_log()
        with file_size_limit(len(before) + room):
            assert_internal(ask(gateway, transport, GOOD, origin.port))
            gateway.settle()
            assert gateway.raw_log() == before
        assert origin.received == b""
        assert_serves(gateway, origin)
        assert gateway.records()[0]["state"] == "opened"
        assert len(gateway.take_errors()) == 2


@every_transport
def test_log_that_is_closed(transport: Transport, tmp_path: Path) -> None:
    """B-83."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        gateway.call(gateway.log.close)
        assert_internal(ask(gateway, transport, GOOD, origin.port))
        assert origin.received == b""
        assert gateway.take_errors()


def test_log_that_breaks_between_two_requests(tmp_path: Path) -> None:
    """The connection is there already; its next request is refused all the same."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(get_head(GOOD, origin.port, "/1"))
        assert wire.message().status == 200
        gateway.call(gateway.log.path.unlink)
        wire.send(get_head(GOOD, origin.port, "/2"))
        assert_internal(answer(wire, HTTP))
        origin.wait_ended(1)
        assert [request.target for request in origin.requests] == ["/1"]
        gateway.take_errors()


@both_tunnels
def test_log_that_breaks_before_a_request_in_a_tunnel(transport: Transport, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        gateway.call(gateway.log.path.unlink)
        wire.send(f"GET / HTTP/1.1\r\nHost: {GOOD}:{origin.port}\r\n\r\n".encode())
        assert_internal(answer(wire, HTTP))
        origin.wait_ended(1)
        assert origin.requests == []
        gateway.take_errors()


# --- The policy addon ---


def without_policy(gateway: Gateway) -> None:
    """Takes the policy addon out of the running proxies."""
    gateway.call(lambda: gateway.proxies.hooks.remove(gateway.proxies.policy))


@every_transport
def test_no_policy_addon(transport: Transport, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        without_policy(gateway)
        told = ask(gateway, transport, GOOD, origin.port)
        assert_refused(gateway, told, "internal", host=GOOD, port=origin.port)
        assert_untouched(gateway, origin)


@both_tunnels
@pytest.mark.parametrize(
    "first", [hello.hello(GOOD), b"\0", b"GET / HTTP/1.1\r\nHost: PORT\r\n\r\n"], ids=["TLS", "other", "HTTP"]
)
def test_no_policy_addon_once_a_tunnel_is_granted(first: bytes, transport: Transport, tmp_path: Path) -> None:
    """It was there when the tunnel was asked for, and is gone when its first bytes come."""
    with recorder() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        without_policy(gateway)
        wire.send(first.replace(b"PORT", f"{GOOD}:{origin.port}".encode()))
        wire.rest()
        wire.close()
        gateway.settle()
        origin.wait_ended(1)
        assert origin.received == b""


def test_no_policy_addon_between_two_requests(tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(get_head(GOOD, origin.port, "/1"))
        assert wire.message().status == 200
        without_policy(gateway)
        wire.send(get_head(GOOD, origin.port, "/2"))
        assert_internal(answer(wire, HTTP))
        origin.wait_ended(1)
        assert [request.target for request in origin.requests] == ["/1"]


# --- A hook ---


def _raises(_: object) -> None:
    raise RuntimeError("broken on purpose")


async def _raises_later(_: object) -> None:
    await asyncio.sleep(0)
    raise RuntimeError("broken on purpose")


def _does_nothing(_: object) -> None:
    pass


async def _waits(_: object) -> None:
    await asyncio.sleep(0)


# Hook, the transports that fire it before anything is granted, what stands in its place.
HOOKS = [
    (hook, transport, broken)
    for hook, transports in (
        ("http_connect", (CONNECT,)),
        ("socks_connect", (SOCKS,)),
        ("requestheaders", (HTTP,)),
        ("server_connect", TRANSPORTS),
        ("server_connected", TRANSPORTS),
    )
    for transport in transports
    for broken in (_raises, _raises_later, _does_nothing, _waits)
]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize(
    ("hook", "transport", "broken"),
    HOOKS,
    ids=[f"{hook}-{way}-{broken.__name__}" for hook, way, broken in HOOKS],
)
def test_hook(hook: str, transport: Transport, broken: Callable[[object], object], tmp_path: Path) -> None:
    """A hook that fails, or does not do what it is for, has allowed nothing."""
    with recorder() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        gateway.call(lambda: setattr(gateway.proxies.policy, hook, broken))
        told = ask(gateway, transport, GOOD, origin.port)
        assert_internal(told)
        gateway.settle()
        denied = assert_one_denial(gateway, "internal")
        assert (denied["transport"], denied["host"], denied["port"]) == (transport.value, GOOD, origin.port)
        assert origin.received == b""
        if hook != "server_connected":
            assert origin.accepted == 0
        gateway.take_errors()


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@both_tunnels
@pytest.mark.parametrize("broken", [_raises, _does_nothing, _waits])
def test_hook_of_the_first_bytes(
    broken: Callable[[object], object], transport: Transport, tmp_path: Path
) -> None:
    with recorder() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        gateway.call(lambda: setattr(gateway.proxies.policy, "first_bytes", broken))
        wire = tunnel(gateway, transport, origin.port)
        wire.send(hello.hello(GOOD))
        assert wire.rest() == b""
        wire.close()
        assert_cut(gateway, transport, origin.port, "internal")
        origin.wait_ended(1)
        assert origin.received == b""
        gateway.take_errors()


def test_hook_of_the_end(tmp_path: Path) -> None:
    """Nothing can be refused any more; the connection ends all the same, and the operator is told."""
    with recorder() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        gateway.call(lambda: setattr(gateway.proxies.policy, "server_disconnected", _raises))
        wire = tunnel(gateway, CONNECT, origin.port)
        wire.close()
        gateway.settle()
        origin.wait_ended(1)
        assert any("broken on purpose" in error for error in gateway.take_errors())


# --- A request on its way ---


class Slow:
    """A server that answers when it is told to."""

    def __init__(self, said: bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") -> None:
        self.asked: list[str] = []
        self.told = threading.Event()
        self.origin = Origin(self._talk)
        self._said = said

    def _talk(self, wire: Wire) -> None:
        while True:
            self.asked.append(wire.message().target)
            assert self.told.wait(PATIENCE)
            wire.send(self._said)


@contextlib.contextmanager
def on_its_way(
    folder: Path, path: str = "/first", slow: Slow | None = None, *fields: str
) -> Iterator[tuple[Gateway, Slow, Wire]]:
    """A request that has reached its server, which has not answered."""
    slow = slow or Slow()
    with slow.origin as origin, Gateway(folder, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(get_head(GOOD, origin.port, path, *fields))
        gateway.until(lambda: slow.asked == [path])
        try:
            yield gateway, slow, wire
        finally:
            slow.told.set()
            wire.close()
        gateway.settle()


def ends(gateway: Gateway) -> list[tuple[object, ...]]:
    """What the log says of everything that is over."""
    return [
        (record["state"], record.get("path"), record["verdict"], record["code"])
        for record in gateway.records()
        if record["state"] != "opened"
    ]


def test_log_that_breaks_while_a_request_takes_long(tmp_path: Path) -> None:
    """It cannot be recorded while it runs, so it is cut; where its record should be is said."""
    with on_its_way(tmp_path) as (gateway, slow, wire):
        gateway.call(gateway.log.close)
        gateway.advance(0.5)
        assert gateway.proxies.live("s1") == 1
        gateway.advance(0.6)
        if KEEPS:
            assert wire.rest() == b""
            slow.told.set()
            slow.origin.wait_ended(1)
            assert gateway.call(lambda: gateway.door.counts("s1")) == Counts(allowed=0, denied=1)
            assert [error for error in gateway.take_errors() if '"path":"/first"' in error]
    assert slow.asked == ["/first"]


def test_log_that_breaks_before_a_protocol_is_switched(tmp_path: Path) -> None:
    """The client is never told that it was."""
    slow = Slow(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhi")
    with on_its_way(tmp_path, "/", slow, "Connection: upgrade", "Upgrade: websocket") as (gateway, _, wire):
        if not KEEPS:
            return
        gateway.call(gateway.log.close)
        slow.told.set()
        assert wire.rest() == b""
        slow.origin.wait_ended(1)
        gateway.settle()
        assert gateway.take_errors()


def test_disk_that_fills_while_a_request_runs(tmp_path: Path) -> None:
    """Its record has its room; whoever comes now is refused, and nothing of it reaches a server."""
    with on_its_way(tmp_path) as (gateway, slow, wire):
        with file_size_limit(len(gateway.raw_log()) + (ROOM_FOR_ONE + 100 if KEEPS else 1000)):
            for transport in TRANSPORTS if KEEPS else ():
                assert_internal(ask(gateway, transport, GOOD, slow.origin.port))
            slow.told.set()
            assert wire.message().status == 200
        assert slow.asked == ["/first"]
        assert ends(gateway) == [("closed", "/first", "allow", "")]
        assert gateway.take_errors() or not KEEPS


@pytest.mark.parametrize("cut", [False, True], ids=["answered", "cut"])
@pytest.mark.parametrize("broken", ["removed", "_raises", "_does_nothing"])
def test_policy_addon_that_is_gone_before_the_end(broken: str, cut: bool, tmp_path: Path) -> None:
    """A request that was forwarded is recorded, also where no hook sees to it."""
    with on_its_way(tmp_path) as (gateway, slow, wire):
        if broken == "removed":
            without_policy(gateway)
        else:
            hook = {"_raises": _raises, "_does_nothing": _does_nothing}[broken]
            gateway.call(lambda: setattr(gateway.proxies.policy, "server_disconnected", hook))
        if cut:
            wire.reset()
            gateway.settle()
        else:
            slow.told.set()
            assert wire.message().status == 200
        assert [one[:3] for one in ends(gateway)] == (
            [("closed", "/first", "allow")] if KEEPS or not cut else []
        )
        slow.told.set()
        wire.close()
        gateway.settle()
        gateway.take_errors()


def test_gateway_that_fails_before_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_its_way(tmp_path) as (gateway, slow, wire):
        monkeypatch.setattr(plain, "read_response_head", lambda *_: _raises(None))
        slow.told.set()
        assert_internal(answer(wire, HTTP))
        gateway.settle()
        assert ends(gateway) == [("closed", "/first", "deny", "internal")]
        gateway.take_errors()


def test_gateway_that_fails_in_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf")
    with on_its_way(tmp_path, slow=slow) as (gateway, slow, wire):
        slow.told.set()
        wire.until(b"half")
        monkeypatch.setattr(ChunkReader, "feed", lambda *_: _raises(None))
        slow.origin.wires[0].send(b"\r\n0\r\n\r\n")
        assert wire.rest() == b""
        gateway.settle()
        assert ends(gateway) == [("closed", "/first", "deny", "internal")]
        gateway.take_errors()


def test_gateway_that_fails_between_two_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is over stays what it was; what comes next was never read."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(get_head(GOOD, origin.port, "/1"))
        assert wire.message().status == 200
        monkeypatch.setattr(plain, "read_request", lambda *_, **__: _raises(None))
        wire.send(get_head(GOOD, origin.port, "/2"))
        wire.rest()
        wire.close()
        gateway.settle()
        assert ends(gateway) == [("closed", "/1", "allow", ""), ("refused", None, "deny", "internal")]
        assert [request.target for request in origin.requests] == ["/1"]
        gateway.take_errors()


@pytest.mark.parametrize("hook", ["server_connected", "requestheaders"])
def test_hook_that_fails_after_it_has_allowed(hook: str, tmp_path: Path) -> None:
    """A first request, and one on a kept connection: nothing is forwarded, and nothing is owed."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        allow = getattr(gateway.proxies.policy, hook)

        def fail(data: Any) -> None:
            allow(data)
            if hook == "server_connected" or data.request.path == "/2":
                raise RuntimeError("broken on purpose")

        gateway.call(lambda: setattr(gateway.proxies.policy, hook, fail))
        wire = gateway.ask_http(b"")
        if hook == "requestheaders":
            wire.send(get_head(GOOD, origin.port, "/1"))
            assert wire.message().status == 200
        wire.send(get_head(GOOD, origin.port, "/2"))
        wire.rest()
        wire.close()
        gateway.settle()
        assert ends(gateway)[-1][1:] == ("/2", "deny", "internal")
        assert [request.target for request in origin.requests] == (["/1"] if hook == "requestheaders" else [])
        gateway.take_errors()


# --- A rule ---


class BrokenMatcher(HostMatcher):
    """A list that fails when it is asked."""

    def match(self, host: str) -> HostPattern | None:
        raise RuntimeError("broken on purpose")


BROKEN = BrokenMatcher()
GOOD_RULES = rules_for()


@every_transport
@pytest.mark.parametrize(
    "rules",
    [
        replace(GOOD_RULES, allow=BROKEN),
        replace(GOOD_RULES, fixed_deny=BROKEN),
        replace(GOOD_RULES, operator_deny=BROKEN),
    ],
    ids=["allow", "fixed deny", "operator deny"],
)
def test_rule(rules: EgressRules, transport: Transport, tmp_path: Path) -> None:
    with Gateway(tmp_path, rules) as gateway:
        told = ask(gateway, transport, GOOD, 443)
        assert_refused(gateway, told, "internal", host=GOOD, port=443)
        assert_untouched(gateway)
        assert any("broken on purpose" in error for error in gateway.take_errors())


@every_transport
def test_resolver(transport: Transport, tmp_path: Path) -> None:
    """One that fails in a way nobody foresaw."""
    with Gateway(tmp_path, rules_for()) as gateway:
        gateway.resolver.break_down(RuntimeError("broken on purpose"))
        assert_internal(ask(gateway, transport, GOOD, 443))
        gateway.settle()
        denied = assert_one_denial(gateway, "internal")
        assert (denied["transport"], denied["host"], denied["port"]) == (transport.value, GOOD, 443)
        gateway.take_errors()


@every_transport
def test_other_sessions_go_on(transport: Transport, tmp_path: Path) -> None:
    """What breaks in one session's rules is nobody else's trouble."""
    with http_origin(answering()) as origin:
        rules = replace(rules_for(origin.port), allow=BrokenMatcher())
        with Gateway(tmp_path, rules) as gateway:
            assert_internal(ask(gateway, transport, GOOD, origin.port))
            _, gateway.http, gateway.socks = gateway.open("s2", rules_for(origin.port))
            assert_serves(gateway, origin)
            gateway.take_errors()
