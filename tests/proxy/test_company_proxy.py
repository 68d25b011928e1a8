"""The way out through the proxy of a company network: asked for vetted addresses, and for nothing else."""

import asyncio
import base64
import contextlib
import os
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from gateway.policy.egress import Code, EgressRules, Transport
from gateway.proxy.company_proxy import dial_through, read_company_proxy
from gateway.proxy.dialling import UpstreamError
from gateway.proxy.peer import Peer
from gateway.proxy.reactor import GatewayLoop, running_reactor
from gateway.proxy.runner import run
from tests.fakes.asking import (
    CONNECT,
    HTTP,
    SOCKS,
    TRANSPORTS,
    answer,
    ask,
    assert_refused,
    assert_upstream_trouble,
    start,
    tunnel,
)
from tests.fakes.certificate import client_context, server_context
from tests.fakes.gateway import Gateway
from tests.fakes.origin import Origin, answering, closed_port, full_backlog, http_origin
from tests.fakes.resolver import StubResolver
from tests.fakes.rules import GOOD, rules_for
from tests.fakes.wire import PATIENCE, Message, Wire

every_transport = pytest.mark.parametrize("transport", TRANSPORTS, ids=str)


@pytest.mark.parametrize(
    ("url", "host", "port", "credentials"),
    [
        ("http://proxy.corp.test:8080", "proxy.corp.test", 8080, ""),
        ("http://proxy.corp.test", "proxy.corp.test", 3128, ""),
        ("http://user:pass@proxy.corp.test:8080", "proxy.corp.test", 8080, "user:pass"),
        ("http://us%40er:p%3Aw@10.0.0.1:1", "10.0.0.1", 1, "us@er:p:w"),
        ("http://user@proxy.corp.test:8080", "proxy.corp.test", 8080, "user:"),
        ("http://[fd00::1]:8080", "fd00::1", 8080, ""),
    ],
)
def test_reading_the_setting(url: str, host: str, port: int, credentials: str) -> None:
    proxy = read_company_proxy(url)
    assert (proxy.host, proxy.port) == (host, port)
    expected = "Basic " + base64.b64encode(credentials.encode()).decode() if credentials else ""
    assert proxy.authorization == expected
    assert "pass" not in repr(proxy)
    assert "Basic" not in repr(proxy)


def company_proxy(said: bytes = b"HTTP/1.1 200 OK\r\nVia: corp\r\n\r\n") -> Origin:
    """Answers CONNECT with this, and where that is a yes connects to the target and carries what comes."""

    def talk(wire: Wire) -> None:
        line, fields = wire.head()
        origin.requests.append(Message(line, fields, b""))
        wire.send(said)
        if b" 200 " not in said:
            wire.rest()
            return
        target, _, port = line.split(" ")[1].rpartition(":")
        with Wire.to(int(port), target.strip("[]")) as onward:
            back = threading.Thread(target=_pass_on, args=(onward, wire), daemon=True)
            back.start()
            _pass_on(wire, onward)
            back.join(PATIENCE)

    origin = Origin(talk)
    return origin


def _pass_on(source: Wire, destination: Wire) -> None:
    with contextlib.suppress(OSError):
        while data := source.some():
            destination.send(data)
        destination.finish()


@contextlib.contextmanager
def behind(proxy: str, rules: EgressRules, folder: Path) -> Iterator[Gateway]:
    """A gateway whose session goes out through this proxy."""
    with Gateway(folder, rules) as gateway:
        session, gateway.http, gateway.socks = gateway.open("s2", rules, upstream_proxy=proxy)
        gateway.session = session
        yield gateway


def url(origin: Origin, userinfo: str = "") -> str:
    return f"http://{userinfo}127.0.0.1:{origin.port}"


@every_transport
def test_way_out(transport: Transport, tmp_path: Path) -> None:
    """The proxy is asked for the vetted address, with its credentials, which stand in no record."""
    with (
        http_origin(answering()) as origin,
        company_proxy() as proxy,
        behind(url(proxy, "user:pa55w0rd-of-corp@"), rules_for(origin.port), tmp_path) as gateway,
    ):
        told = ask(gateway, transport, GOOD, origin.port)
        assert told.granted
        told.wire.close()
        gateway.settle()
        asked = proxy.requests[0]
        assert asked.line == f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1"
        assert asked.field("Host") == f"127.0.0.1:{origin.port}"
        assert asked.field("Proxy-Authorization") == "Basic dXNlcjpwYTU1dzByZC1vZi1jb3Jw"
        assert gateway.resolver.asked == [GOOD]
        opened = gateway.records()[0]
        assert (opened["host"], opened["address"]) == (GOOD, "127.0.0.1")
        log = gateway.raw_log()
        assert b"pa55w0rd" not in log
        assert b"dXNlcjpw" not in log


def test_tls_through_it(tmp_path: Path) -> None:
    with (
        http_origin(answering(b"secret"), tls=server_context()) as origin,
        company_proxy() as proxy,
        behind(url(proxy), rules_for(origin.port), tmp_path) as gateway,
    ):
        wire = tunnel(gateway, CONNECT, origin.port)
        wire.start_tls(client_context(), GOOD)
        wire.send(f"GET / HTTP/1.1\r\nHost: {GOOD}\r\n\r\n".encode())
        assert wire.message().body == b"secret"
        wire.close()


def test_target_on_ipv6(tmp_path: Path) -> None:
    with (
        http_origin(answering(), host="::1") as origin,
        company_proxy() as proxy,
        behind(url(proxy), rules_for(origin.port, hosts=("::1",)), tmp_path) as gateway,
    ):
        gateway.resolver.answer(GOOD, ("::1",))
        told = ask(gateway, HTTP, GOOD, origin.port)
        assert told.granted
        told.wire.close()
        assert proxy.requests[0].line == f"CONNECT [::1]:{origin.port} HTTP/1.1"
        assert proxy.requests[0].field("Proxy-Authorization") is None


def test_proxy_with_a_name(tmp_path: Path) -> None:
    """It is the operator's, so it may stand anywhere."""
    with (
        http_origin(answering()) as origin,
        company_proxy() as proxy,
        behind(f"http://proxy.corp.test:{proxy.port}", rules_for(origin.port), tmp_path) as gateway,
    ):
        assert ask(gateway, HTTP, GOOD, origin.port).granted
        assert gateway.resolver.asked == [GOOD, "proxy.corp.test"]


@every_transport
@pytest.mark.parametrize("host", ["evil.test", "bad.wild.test", "127.0.0.1"])
def test_refused_host(host: str, transport: Transport, tmp_path: Path) -> None:
    """The proxy hears nothing of it."""
    with company_proxy() as proxy, behind(url(proxy), rules_for(), tmp_path) as gateway:
        told = ask(gateway, transport, host, 443)
        assert_refused(gateway, told, "not_listed", "denied", "ip_literal")
        assert proxy.accepted == 0


@every_transport
def test_refused_address(transport: Transport, tmp_path: Path) -> None:
    """The address is vetted here, whoever dials it."""
    with company_proxy() as proxy, behind(url(proxy), rules_for(), tmp_path) as gateway:
        gateway.resolver.answer(GOOD, ("10.0.0.5",))
        told = ask(gateway, transport, GOOD, 443)
        assert_refused(gateway, told, "resolved_address", address="10.0.0.5")
        assert proxy.accepted == 0


@every_transport
@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 403 Forbidden\r\n\r\nno",
        b"HTTP/1.0 502 Bad Gateway\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 403 X\r\nX: " + b"a" * 70_000,
    ],
    ids=["407", "403", "502", "no status", "no HTTP", "endless"],
)
def test_proxy_that_says_no(said: bytes, transport: Transport, tmp_path: Path) -> None:
    """Trouble upstream, never a refusal of the sandbox."""
    with company_proxy(said) as proxy, behind(url(proxy), rules_for(8080), tmp_path) as gateway:
        told = ask(gateway, transport, GOOD, 8080)
        if told.message is not None:
            assert "company proxy" in str(told.message.json()["message"])
        assert_upstream_trouble(gateway, told, "unreachable", host=GOOD, port=8080)
        proxy.wait_ended(1)


def _hang_up(wire: Wire) -> None:
    wire.head()


def _listen(wire: Wire) -> None:
    wire.rest()


def _reset(wire: Wire) -> None:
    wire.head()
    wire.reset()


@every_transport
@pytest.mark.parametrize("talk", [_hang_up, _reset])
def test_proxy_that_hangs_up(talk: Callable[[Wire], None], transport: Transport, tmp_path: Path) -> None:
    with Origin(talk) as proxy, behind(url(proxy), rules_for(8080), tmp_path) as gateway:
        assert_upstream_trouble(gateway, ask(gateway, transport, GOOD, 8080), "unreachable")


@every_transport
def test_proxy_that_does_not_answer(transport: Transport, tmp_path: Path) -> None:
    """At its deadline."""
    with Origin(_listen) as proxy, behind(url(proxy), rules_for(8080), tmp_path) as gateway:
        wire = start(gateway, transport, GOOD, 8080)
        proxy.wait_accepted(1)
        gateway.until(lambda: proxy.received.endswith(b"\r\n\r\n"))
        gateway.advance(10.1)
        assert_upstream_trouble(gateway, answer(wire, transport), "connect_timeout")
        proxy.wait_ended(1)


@every_transport
def test_proxy_that_cannot_be_reached(transport: Transport, tmp_path: Path) -> None:
    with closed_port() as port, behind(f"http://127.0.0.1:{port}", rules_for(8080), tmp_path) as gateway:
        told = ask(gateway, transport, GOOD, 8080)
        assert not told.granted
        told.wire.close()
        assert [record["state"] for record in gateway.records()] == ["closed"]
        assert gateway.records()[0]["verdict"] == "allow"
    with (
        full_backlog() as port,
        behind(f"http://127.0.0.1:{port}", rules_for(8080), tmp_path / "2") as gateway,
    ):
        wire = start(gateway, transport, GOOD, 8080)
        gateway.until(lambda: gateway.resolver.asked == [GOOD])
        gateway.advance(11)
        assert_upstream_trouble(gateway, answer(wire, transport), "connect_timeout")


def test_proxy_without_an_address(tmp_path: Path) -> None:
    with behind("http://proxy.corp.test:1", rules_for(8080), tmp_path) as gateway:
        gateway.resolver.answer("proxy.corp.test", ())
        assert_upstream_trouble(gateway, ask(gateway, HTTP, GOOD, 8080), "dns_failed")


@pytest.mark.parametrize("transport", [CONNECT, SOCKS], ids=str)
def test_server_that_speaks_first(transport: Transport, tmp_path: Path) -> None:
    """What comes in one packet with the proxy's yes is the server's, and counted as such."""
    said = b"HTTP/1.1 200 OK\r\n\r\nSSH-2.0-x\r\n"

    def talk(wire: Wire) -> None:
        wire.head()
        wire.send(said)
        wire.send(wire.some())

    with Origin(talk) as proxy, behind(url(proxy), rules_for(8080, raw=[(GOOD, 8080)]), tmp_path) as gateway:
        wire = tunnel(gateway, transport, 8080)
        assert wire.until(b"\r\n") == b"SSH-2.0-x\r\n"
        wire.send(b"hello")
        assert wire.exactly(5) == b"hello"
        wire.close()
        closed = gateway.await_record(state="closed")
        assert (closed["bytes_up"], closed["bytes_down"]) == (5, 11 + 5)


# --- Dialling by itself ---

SECRET = "pa55w0rd"
ENCODED = base64.b64encode(f"user:{SECRET}".encode()).decode()

# What, the answer's head without its empty line, what is said of it (empty: it is a yes).
ANSWERS = [
    ("yes", b"HTTP/1.1 200 Connection established", ""),
    ("yes from HTTP/1.0", b"HTTP/1.0 200 OK\r\nProxy-Agent: corp", ""),
    ("yes without a phrase", b"HTTP/1.1 200", ""),
    ("yes with an empty phrase", b"HTTP/1.1 200 \r\nVia: corp", ""),
    ("another yes", b"HTTP/1.1 204 No Content", ""),
    ("credentials wanted", b"HTTP/1.1 407 Proxy Authentication Required", "(407)"),
    ("a redirection", b"HTTP/1.1 302 Found\r\nLocation: http://login.corp.test/", "(302)"),
    ("not yet", b"HTTP/1.1 100 Continue", "(100)"),
    ("trouble with our words in it", b"HTTP/1.1 502 Basic " + ENCODED.encode(), "(502)"),
    ("a status cut short", b"HTTP/1.1 2", "as a proxy does"),
    ("a status too long", b"HTTP/1.1 2000 OK", "as a proxy does"),
    ("no number", b"HTTP/1.1 2xx OK", "as a proxy does"),
    ("a control character", b"HTTP/1.1 2\x1b[ OK", "as a proxy does"),
    ("no space", b"HTTP/1.1200 OK", "as a proxy does"),
    ("a line end for a space", b"HTTP/1.1\r\n200 OK", "as a proxy does"),
    ("HTTP/2", b"HTTP/2 200 OK", "as a proxy does"),
    ("another protocol", b"SSH-2.0-OpenSSH", "as a proxy does"),
    ("nothing", b"", "as a proxy does"),
    ("zero", b"HTTP/1.1 000 OK", "as a proxy does"),
]


def dialling(
    talk: Callable[[Wire], None], act: Callable[[Coroutine[Any, Any, Peer]], Awaitable[None]]
) -> None:
    """Dials through a proxy that talks like this."""

    async def run() -> None:
        proxy = read_company_proxy(url(origin, f"user:{SECRET}@"))
        reactor = running_reactor()
        await act(dial_through(proxy, StubResolver(), "s1", ip_address("192.0.2.7"), 443, reactor))

    with Origin(talk) as origin, asyncio.Runner(loop_factory=GatewayLoop) as runner:
        runner.run(run())


@pytest.mark.parametrize("in_pieces", [False, True], ids=["at once", "byte by byte"])
@pytest.mark.parametrize(("what", "said", "reason"), ANSWERS, ids=[row[0] for row in ANSWERS])
def test_answer(what: str, said: bytes, reason: str, in_pieces: bool) -> None:
    """What it says is repeated nowhere, but for a status of three digits; what comes behind a yes is the server's."""

    def talk(wire: Wire) -> None:
        wire.head()
        answer = said + b"\r\n\r\nfrom the server"
        for piece in (bytes([byte]) for byte in answer) if in_pieces else (answer,):
            wire.send(piece)
        assert wire.rest() == (b"" if reason else b"to the server")

    async def act(dialled: Coroutine[Any, Any, Peer]) -> None:
        if reason:
            with pytest.raises(UpstreamError) as failed:
                await dialled
            assert failed.value.code == Code.UNREACHABLE
            assert failed.value.reason.startswith("the company proxy ")
            assert failed.value.reason.endswith(reason)
            assert_no_secret(failed.value)
            return
        peer = await dialled
        assert (peer.bytes_in, peer.bytes_out) == (0, 0)
        got = b""
        while len(got) < len(b"from the server"):
            got += await peer.receive()
        assert got == b"from the server"
        await peer.send(b"to the server")
        assert (peer.bytes_in, peer.bytes_out) == (len(got), 13)
        peer.close()

    dialling(talk, act)


def assert_no_secret(error: BaseException | None) -> None:
    """Neither in the error nor in what it came from."""
    while error is not None:
        text = "".join(traceback.format_exception(error))
        assert SECRET not in text
        assert ENCODED not in text
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\n\r"], ids=["nothing", "a part", "almost"]
)
@pytest.mark.parametrize("end", [Wire.close, Wire.reset], ids=["close", "reset"])
def test_proxy_that_goes_before_its_answer_is_whole(end: Callable[[Wire], None], said: bytes) -> None:
    def talk(wire: Wire) -> None:
        wire.head()
        wire.send(said)
        end(wire)

    async def act(dialled: Coroutine[Any, Any, Peer]) -> None:
        with pytest.raises(UpstreamError) as failed:
            await dialled
        assert failed.value.code == Code.UNREACHABLE
        assert_no_secret(failed.value)

    dialling(talk, act)


def test_answer_without_end() -> None:
    """Bounded; then the proxy is hung up on."""

    def talk(wire: Wire) -> None:
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\n")
        with contextlib.suppress(OSError):
            while True:
                wire.send(b"X: 1\r\n" * 1000)

    async def act(dialled: Coroutine[Any, Any, Peer]) -> None:
        with pytest.raises(UpstreamError) as failed:
            await dialled
        assert failed.value.code == Code.UNREACHABLE

    dialling(talk, act)


@pytest.mark.parametrize("later", range(12))
def test_dialling_that_is_given_up(later: int) -> None:
    """At any time: the proxy is hung up on, and nothing stays open."""

    def talk(wire: Wire) -> None:
        wire.head()
        wire.send(b"HTTP/1.1 200 OK\r\n\r\n")
        wire.rest()

    async def act(dialled: Coroutine[Any, Any, Peer]) -> None:
        async def work() -> None:
            peers.append(await dialled)

        runner = run(work(), asyncio.get_running_loop())
        for _ in range(later):
            await asyncio.sleep(0)
        runner.cancel()
        assert runner.done
        for _ in range(10):
            await asyncio.sleep(0)
        for peer in peers:
            peer.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    peers: list[Peer] = []
    before = len(os.listdir("/dev/fd"))
    dialling(talk, act)
    assert len(os.listdir("/dev/fd")) == before
