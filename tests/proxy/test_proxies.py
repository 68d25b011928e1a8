"""The proxies of a process: sessions come and go, and what is theirs goes with them."""

import asyncio
import os
import socket
from ipaddress import ip_address
from pathlib import Path

import pytest

from gateway.audit import AuditLog
from gateway.authorizer import Authorizer
from gateway.lifecycle import SessionRequest, new_secret, open_session
from gateway.policy.limits import Limits
from gateway.proxy.proxies import Proxies
from gateway.proxy.reactor import GatewayLoop
from gateway.session import SandboxStamp, Sessions
from tests.fakes.asking import CONNECT, HTTP, SOCKS, TRANSPORTS, ask, assert_serves, tunnel
from tests.fakes.clock import FakeClock
from tests.fakes.gateway import ROOMY, Gateway
from tests.fakes.hello import hello
from tests.fakes.origin import answering, echo, http_origin
from tests.fakes.rules import GOOD, naming, rules_for
from tests.fakes.wire import Wire


def test_one_pair_a_session(tmp_path: Path) -> None:
    with Gateway(tmp_path, rules_for()) as gateway:

        def again() -> None:
            with socket.socket() as one, socket.socket() as two, pytest.raises(ValueError, match="s1"):
                gateway.proxies.open(gateway.session, ROOMY, one, two)

        gateway.call(again)


def test_unknown_sessions(tmp_path: Path) -> None:
    with Gateway(tmp_path, rules_for()) as gateway:
        gateway.call(lambda: gateway.proxies.close("nobody"))
        assert gateway.call(lambda: gateway.proxies.live("nobody")) == 0


def test_same_id_again(tmp_path: Path) -> None:
    """A session that was closed can be opened anew, with other rules."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for()) as gateway:
        gateway.close(gateway.session)
        gateway.session, gateway.http, gateway.socks = gateway.open("s1", rules_for(origin.port))
        assert_serves(gateway, origin)


def test_live_connections(tmp_path: Path) -> None:
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        _, http, _ = gateway.open("s2", rules_for())
        wires = [tunnel(gateway, CONNECT, origin.port), tunnel(gateway, SOCKS, origin.port), Wire.to(http)]
        gateway.until(lambda: gateway.proxies.live("s2") == 1)
        assert gateway.call(lambda: gateway.proxies.live("s1")) == 2
        for wire in wires:
            wire.close()
        gateway.settle()
        gateway.until(lambda: gateway.proxies.live("s2") == 0)


def test_many_sessions(tmp_path: Path) -> None:
    """Opening and closing leaves nothing behind, with connections open or without."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        first = (gateway.http, gateway.socks)

        def cycle(number: int) -> None:
            session, gateway.http, gateway.socks = gateway.open(f"x{number}", rules_for(origin.port))
            told = ask(gateway, TRANSPORTS[number % 3], GOOD, origin.port)
            assert told.granted
            gateway.close(session)
            told.wire.rest()
            told.wire.close()

        for number in range(6):
            cycle(number)
        origin.wait_ended(6)
        descriptors = len(os.listdir("/dev/fd"))
        for number in range(60):
            cycle(number)
        origin.wait_ended(66)
        assert len(os.listdir("/dev/fd")) == descriptors
        gateway.http, gateway.socks = first
        assert_serves(gateway, origin)


def test_sweep_by_itself(tmp_path: Path) -> None:
    """The deadlines are looked at without anybody asking for it."""
    with Gateway(tmp_path, rules_for()) as gateway:
        wire = gateway.ask_http(b"GET ")
        gateway.until(lambda: gateway.proxies.live("s1") == 1)
        gateway.call(lambda: gateway.clock.advance(10.5))
        assert wire.message().status == 408
        wire.close()


def test_end_of_everything(tmp_path: Path) -> None:
    """Leaving the proxies ends every session's, tunnels and all."""
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        gateway.open("s2", rules_for(origin.port))
        wire = tunnel(gateway, CONNECT, origin.port, first=hello(GOOD))
        assert wire.exactly(len(hello(GOOD))) == hello(GOOD)
        silent = gateway.ask_socks(b"\x05")
        gateway.until(lambda: gateway.proxies.live("s1") == 2)
    assert wire.rest() == b""
    silent.rest()
    for end in (wire, silent):
        end.close()
    with pytest.raises(ConnectionRefusedError):
        Wire.to(gateway.http)
    log = next(tmp_path.glob("*.jsonl")).read_text("ascii")
    assert '"close":"session_closed"' in log


def test_own_resolver(tmp_path: Path) -> None:
    """With none given the system's is asked; a name of this machine is the only one that needs no network."""
    rules = rules_for()

    async def run() -> bytes:
        log = AuditLog(tmp_path)
        door = Authorizer(log, FakeClock())
        http, socks = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
        port = http.getsockname()[1]
        request = SessionRequest("s1", rules, SandboxStamp("none", "existing-only"), new_secret())
        async with Proxies(door) as proxies:
            proxies.open(open_session(request, Sessions(), log), Limits(), http, socks)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"CONNECT evil.test:443 HTTP/1.1\r\n\r\n")
            told = await reader.read()
            writer.close()
            return told

    with asyncio.Runner(loop_factory=GatewayLoop) as runner:
        told = runner.run(run())
    assert told.startswith(b"HTTP/1.1 403 Forbidden\r\n")


def test_loop_of_another_kind(tmp_path: Path) -> None:
    """The proxies say which loop they need, instead of hanging in one that they cannot use."""

    async def run() -> None:
        async with Proxies(Authorizer(AuditLog(tmp_path), FakeClock())):
            raise AssertionError("the proxies have started")

    with pytest.raises(RuntimeError, match="GatewayLoop"):
        asyncio.run(run())


def test_names_of_the_rules(tmp_path: Path) -> None:
    """`egress.hosts` answers instead of the resolver."""
    with http_origin(answering()) as origin:
        rules = naming(rules_for(origin.port), {GOOD: "127.0.0.1"})
        with Gateway(tmp_path, rules) as gateway:
            gateway.resolver.answer(GOOD, ("10.0.0.5",))
            for transport in (CONNECT, HTTP, SOCKS):
                told = ask(gateway, transport, GOOD, origin.port)
                assert told.granted
                told.wire.close()
            assert gateway.resolver.asked == []
            assert {record["address"] for record in gateway.records()} == {str(ip_address("127.0.0.1"))}
