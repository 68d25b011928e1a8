"""The policy addon by itself: each hook asks the door, and moves the attempt exactly one stage on or refuses it."""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from gateway.audit import AuditLog
from gateway.authorizer import Authorizer, Figures
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code, HelloKind, Transport
from gateway.proxy.addons import EgressPolicy
from gateway.proxy.client_hello import Hello
from gateway.proxy.dialling import UpstreamError
from gateway.proxy.embedding import client_of, connect_flow, egress_mode, guarded_server, request_flow
from gateway.proxy.guard import FirstBytes, Guard, GuardedServer, SocksConnect, Stage
from gateway.proxy.request_head import read_request
from gateway.session import SandboxStamp, Session
from tests.fakes.asking import PLAIN
from tests.fakes.clock import FakeClock
from tests.fakes.resolver import StubResolver
from tests.fakes.rules import GOOD, rules_for

CLIENT = client_of(egress_mode("s1"), ("127.0.0.1", 5000), ("127.0.0.1", 8080))
OWN_PORT = 9999


@dataclass(slots=True)
class Bench:
    """An addon with its door, and the log to look at."""

    policy: EgressPolicy
    door: Authorizer
    resolver: StubResolver
    session: Session

    def server(
        self, host: str = GOOD, port: int = 8443, transport: Transport = Transport.CONNECT
    ) -> GuardedServer:
        return guarded_server(self.door.attempt(self.session, transport, host, port))

    def records(self) -> list[Mapping[str, object]]:
        return [json.loads(line) for line in self.door.log.path.read_text("ascii").splitlines()]

    def states(self) -> list[str]:
        return [str(record["state"]) for record in self.records()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    door, resolver = Authorizer(AuditLog(tmp_path), FakeClock()), StubResolver()
    rules = rules_for(8443, OWN_PORT, raw=[("x.wild.test", 8443)])
    session = Session("s1", SandboxStamp("none", "existing-only"), rules, "secret")
    return Bench(EgressPolicy(door, resolver, lambda port: port == OWN_PORT), door, resolver, session)


def outcome(guard: Guard) -> tuple[Stage, str]:
    """The stage, and the code of the refusal."""
    return guard.stage, guard.refusal.code if guard.refusal else ""


# --- Asking ---

ASKS: list[tuple[str, Callable[[EgressPolicy, GuardedServer], None]]] = [
    ("http_connect", lambda policy, server: policy.http_connect(connect_flow(CLIENT, server))),
    ("socks_connect", lambda policy, server: policy.socks_connect(SocksConnect(CLIENT, server))),
]


@pytest.mark.parametrize(("hook", "ask"), ASKS, ids=[hook for hook, _ in ASKS])
@pytest.mark.parametrize(
    ("host", "port", "expected"),
    [
        (GOOD, 8443, (Stage.ALLOWED, "")),
        ("evil.test", 8443, (Stage.NEW, "not_listed")),
        ("bad.wild.test", 8443, (Stage.NEW, "denied")),
        (GOOD, 22, (Stage.NEW, "port")),
        ("10.0.0.1", 8443, (Stage.NEW, "ip_literal")),
    ],
)
def test_asking_for_a_tunnel(
    hook: str,
    ask: Callable[[EgressPolicy, GuardedServer], None],
    host: str,
    port: int,
    expected: tuple[Stage, str],
    bench: Bench,
) -> None:
    server = bench.server(host, port)
    ask(bench.policy, server)
    assert outcome(server.guard) == expected
    assert bench.states() == (["refused"] if expected[1] else [])
    assert bench.resolver.asked == []


def plain(bench: Bench, server: GuardedServer, authority: str) -> None:
    """Fires the hook of a plain request with this Host field."""
    head = read_request(f"GET http://{GOOD}:8443/ HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
    server.guard.authority = authority
    bench.policy.requestheaders(request_flow(CLIENT, server, head))


@pytest.mark.parametrize(
    ("host", "authority", "expected"),
    [
        (GOOD, f"{GOOD}:8443", (Stage.ALLOWED, "")),
        (GOOD, "evil.test", (Stage.ALLOWED, "authority_mismatch")),
        (GOOD, GOOD, (Stage.ALLOWED, "authority_mismatch")),
        ("evil.test", "evil.test:8443", (Stage.NEW, "not_listed")),
        ("evil.test", f"{GOOD}:8443", (Stage.NEW, "not_listed")),
    ],
)
def test_asking_with_a_plain_request(
    host: str, authority: str, expected: tuple[Stage, str], bench: Bench
) -> None:
    """The URL's host first, then that the Host field names the same: one refusal, one record."""
    server = bench.server(host, transport=Transport.HTTP)
    plain(bench, server, authority)
    assert outcome(server.guard) == expected
    assert bench.states() == (["refused"] if expected[1] else [])


@pytest.mark.parametrize(
    ("authority", "expected", "states"),
    [
        (f"{GOOD}:8443", (Stage.RECORDED, ""), PLAIN),
        ("evil.test", (Stage.VETTED, "authority_mismatch"), ["refused"]),
    ],
)
def test_plain_request_on_an_open_connection(
    authority: str, expected: tuple[Stage, str], states: list[str], bench: Bench
) -> None:
    """Before it is sent on the log is sure to take its record, which comes when it is over."""
    server = bench.server(transport=Transport.HTTP)
    server.guard.stage = Stage.VETTED
    plain(bench, server, authority)
    assert outcome(server.guard) == expected
    assert "closed" not in bench.states()
    bench.policy.server_disconnected(ServerConnectionHookData(server=server, client=CLIENT))
    assert bench.states() == states


def test_plain_request_that_the_log_does_not_take(bench: Bench) -> None:
    bench.door.log.close()
    server = bench.server(transport=Transport.HTTP)
    server.guard.stage = Stage.VETTED
    plain(bench, server, f"{GOOD}:8443")
    assert outcome(server.guard) == (Stage.VETTED, "internal")


# --- Vetting ---


def vet(bench: Bench, server: GuardedServer) -> None:
    """Fires the hook before dialling."""

    async def run() -> None:
        waiting = bench.policy.server_connect(ServerConnectionHookData(server=server, client=CLIENT))
        if waiting is not None:
            await waiting

    asyncio.run(run())


@pytest.mark.parametrize(
    ("found", "vetted", "code"),
    [
        (("127.0.0.1",), ("127.0.0.1",), ""),
        (("93.184.215.14",), ("93.184.215.14",), ""),
        (("10.0.0.1", "127.0.0.1", "93.184.215.14", "::1"), ("127.0.0.1", "93.184.215.14"), ""),
        (("10.0.0.1", "::1"), (), "resolved_address"),
        (("169.254.169.254",), (), "resolved_address"),
    ],
)
def test_addresses_of_a_name(
    found: tuple[str, ...], vetted: tuple[str, ...], code: str, bench: Bench
) -> None:
    """In their order, those that may be dialled; where there is none the first one is named."""
    bench.resolver.answer(GOOD, found)
    server = bench.server()
    server.guard.stage = Stage.ALLOWED
    vet(bench, server)
    assert tuple(map(str, server.guard.addresses)) == vetted
    assert outcome(server.guard) == ((Stage.ALLOWED, code) if code else (Stage.VETTED, ""))
    if code:
        assert bench.records()[0]["address"] == found[0]
    assert bench.resolver.asked == [GOOD]


def test_literal_is_not_looked_up(bench: Bench) -> None:
    server = bench.server("127.0.0.1")
    vet(bench, server)
    assert tuple(map(str, server.guard.addresses)) == ("127.0.0.1",)
    assert bench.resolver.asked == []


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "127.0.0.9"])
def test_own_listener(address: str, bench: Bench) -> None:
    """Even where the address is listed."""
    bench.resolver.answer(GOOD, (address,))
    server = bench.server(port=OWN_PORT)
    vet(bench, server)
    assert outcome(server.guard) == (Stage.NEW, "self_connection")


def test_public_address_at_the_port_of_an_own_listener(bench: Bench) -> None:
    """Another machine's port of that number is nobody's listener here."""
    bench.resolver.answer(GOOD, ("93.184.215.14",))
    server = bench.server(port=OWN_PORT)
    vet(bench, server)
    assert outcome(server.guard) == (Stage.VETTED, "")


def test_name_that_is_not_found(bench: Bench) -> None:
    bench.resolver.answer(GOOD, ())
    server = bench.server()
    with pytest.raises(UpstreamError):
        vet(bench, server)
    assert server.guard.stage is Stage.NEW


# --- Connected ---


@pytest.mark.parametrize(("host", "raw"), [(GOOD, False), ("x.wild.test", True)])
def test_connected(host: str, raw: bool, bench: Bench) -> None:
    server = bench.server(host)
    bench.policy.server_connected(ServerConnectionHookData(server=server, client=CLIENT))
    assert outcome(server.guard) == (Stage.RECORDED, "")
    assert server.guard.raw is raw
    assert bench.states() == ["opened"]


def test_connected_for_a_plain_request(bench: Bench) -> None:
    server = bench.server(transport=Transport.HTTP)
    server.guard.attempt.method, server.guard.attempt.path = "GET", "/"
    data = ServerConnectionHookData(server=server, client=CLIENT)
    bench.policy.server_connected(data)
    assert outcome(server.guard) == (Stage.RECORDED, "")
    assert "closed" not in bench.states()
    bench.policy.server_disconnected(data)
    assert bench.states() == PLAIN


def test_connected_but_not_recorded(bench: Bench) -> None:
    bench.door.log.close()
    for method in ("", "GET"):
        server = bench.server()
        server.guard.attempt.method = method
        bench.policy.server_connected(ServerConnectionHookData(server=server, client=CLIENT))
        assert outcome(server.guard) == (Stage.NEW, "internal")


@pytest.mark.parametrize(
    ("hello", "expected", "sni"),
    [
        (Hello(HelloKind.TLS, (GOOD,)), (Stage.NAMED, ""), GOOD),
        (Hello(HelloKind.TLS, ("evil.test",)), (Stage.RECORDED, "sni_mismatch"), "evil.test"),
        (Hello(HelloKind.TLS), (Stage.RECORDED, "sni_missing"), None),
        (Hello(HelloKind.TLS, (GOOD,), ech=True), (Stage.NAMED, ""), GOOD),
        (Hello(HelloKind.NOT_TLS), (Stage.RECORDED, "not_tls"), None),
        (Hello(HelloKind.SILENT), (Stage.RECORDED, "timeout"), None),
        (Hello(HelloKind.INCOMPLETE), (Stage.RECORDED, "timeout"), None),
        (Hello(HelloKind.MALFORMED), (Stage.RECORDED, "malformed_request"), None),
    ],
)
def test_first_bytes(hello: Hello, expected: tuple[Stage, str], sni: str | None, bench: Bench) -> None:
    server = bench.server()
    bench.policy.server_connected(ServerConnectionHookData(server=server, client=CLIENT))
    bench.policy.first_bytes(FirstBytes(CLIENT, server, hello))
    assert outcome(server.guard) == expected
    # The tunnel is open: its refusal is recorded when it is closed.
    assert bench.states() == ["opened"]
    bench.policy.server_disconnected(ServerConnectionHookData(server=server, client=CLIENT))
    closed = bench.records()[-1]
    assert (closed["state"], closed["code"], closed.get("sni")) == ("closed", expected[1], sni)


# --- The end ---


def test_end_with_figures(bench: Bench) -> None:
    server = bench.server()
    data = ServerConnectionHookData(server=server, client=CLIENT)
    bench.policy.server_connected(data)
    server.guard.figures = Figures(1, 2, 3, "finished", 200)
    bench.policy.server_disconnected(data)
    closed = bench.records()[-1]
    wanted = {
        "state": "closed",
        "verdict": "allow",
        "bytes_up": 1,
        "bytes_down": 2,
        "duration_ms": 3,
        "status": 200,
    }
    assert {name: closed[name] for name in wanted} == wanted


def test_end_of_a_failed_dial(bench: Bench) -> None:
    server = bench.server()
    server.guard.failure = Decision(Verdict.ALLOW, "allow.txt:1", "refused", Code.CONNECT_REFUSED)
    bench.policy.server_connect_error(ServerConnectionHookData(server=server, client=CLIENT))
    assert bench.states() == ["closed"]
    assert (bench.records()[0]["verdict"], bench.records()[0]["code"]) == ("allow", "connect_refused")
