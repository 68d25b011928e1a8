"""Tunnels as byte pipes: everything arrives unchanged, ends are passed on, memory stays flat."""

import asyncio
import contextlib
import hashlib
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gateway.policy.egress import Transport
from gateway.proxy.peer import Peer
from gateway.proxy.reactor import GatewayLoop, running_reactor
from gateway.proxy.relay import Tunnel
from tests.fakes.asking import CONNECT, SOCKS, figures, tunnel
from tests.fakes.gateway import Gateway
from tests.fakes.origin import Origin, banner, echo, recorder
from tests.fakes.rules import GOOD, rules_for
from tests.fakes.wire import PATIENCE, Wire

both_tunnels = pytest.mark.parametrize("transport", [CONNECT, SOCKS], ids=str)

LARGE = 32 << 20


def raw(port: int, folder: Path) -> Gateway:
    """A gateway that lets anything be spoken to the good host at this port."""
    return Gateway(folder, rules_for(port, raw=[(GOOD, port)]))


def pieces(size: int) -> Iterator[bytes]:
    """That many bytes, no two pieces alike."""
    sent = 0
    while sent < size:
        piece = hashlib.sha256(sent.to_bytes(8)).digest() * 2048
        yield piece[: size - sent]
        sent += len(piece)


def digest_of(size: int) -> str:
    """The hash of all of them."""
    whole = hashlib.sha256()
    for piece in pieces(size):
        whole.update(piece)
    return whole.hexdigest()


def digest_until_end(wire: Wire, step: int = 65536) -> tuple[int, str]:
    """Length and hash of what comes; read in small steps where the reader is slow."""
    whole, size = hashlib.sha256(), 0
    while data := wire.some(step):
        whole.update(data)
        size += len(data)
    return size, whole.hexdigest()


# --- Through the running proxies ---


@both_tunnels
def test_both_ways_at_once(transport: Transport, tmp_path: Path) -> None:
    """Many small messages, each answered before the next."""
    with echo() as origin, raw(origin.port, tmp_path) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        for number in range(200):
            text = b"%d " % number * 40
            wire.send(text)
            assert wire.exactly(len(text)) == text
        wire.close()
        closed = gateway.await_record(state="closed")
        assert closed["bytes_up"] == closed["bytes_down"]


@both_tunnels
@pytest.mark.parametrize("step", [65536, 2048], ids=["fast reader", "slow reader"])
def test_large_download(step: int, transport: Transport, tmp_path: Path) -> None:
    """B-77: whole and unchanged, whatever the reader's pace."""

    def talk(wire: Wire) -> None:
        for piece in pieces(LARGE):
            wire.send(piece)

    with Origin(talk) as origin, raw(origin.port, tmp_path) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        assert digest_until_end(wire, step) == (LARGE, digest_of(LARGE))
        wire.close()
        closed = gateway.await_record(state="closed")
        assert (closed["bytes_up"], closed["bytes_down"]) == (0, LARGE)


@both_tunnels
@pytest.mark.parametrize("step", [65536, 2048], ids=["fast reader", "slow reader"])
def test_large_upload(step: int, transport: Transport, tmp_path: Path) -> None:
    """B-77. The answer comes after the client has said that it is done."""
    told: list[tuple[int, str]] = []

    def talk(wire: Wire) -> None:
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        told.append(digest_until_end(wire, step))
        wire.send(b"thanks")

    with Origin(talk) as origin, raw(origin.port, tmp_path) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        for piece in pieces(LARGE):
            wire.send(piece)
        wire.finish()
        assert wire.rest() == b"thanks"
        wire.close()
        assert told == [(LARGE, digest_of(LARGE))]
        closed = gateway.await_record(state="closed")
        assert (closed["bytes_up"], closed["bytes_down"], closed["close"]) == (LARGE, 6, "finished")


@both_tunnels
def test_large_both_ways_at_once(transport: Transport, tmp_path: Path) -> None:
    with echo() as origin, raw(origin.port, tmp_path) as gateway:
        wire = tunnel(gateway, transport, origin.port)

        def send() -> None:
            for piece in pieces(LARGE):
                wire.send(piece)
            wire.finish()

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        assert digest_until_end(wire) == (LARGE, digest_of(LARGE))
        sending.join()
        wire.close()


@both_tunnels
def test_client_that_finishes_first(transport: Transport, tmp_path: Path) -> None:
    """B-79: half-close is passed on, and the answer still arrives."""

    def talk(wire: Wire) -> None:
        assert wire.rest() == b"question"
        wire.send(b"answer")

    with Origin(talk) as origin, raw(origin.port, tmp_path) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(b"question")
        wire.finish()
        assert wire.rest() == b"answer"
        wire.close()
        closed = gateway.await_record(state="closed")
        assert figures(closed) == {
            "verdict": "allow",
            "code": "",
            "bytes_up": 8,
            "bytes_down": 6,
            "close": "finished",
        }
        assert origin.faults == []


@both_tunnels
def test_server_that_finishes_first(transport: Transport, tmp_path: Path) -> None:
    """B-79 the other way round."""
    got: list[bytes] = []

    def talk(wire: Wire) -> None:
        wire.send(b"bye")
        wire.finish()
        got.append(wire.rest())

    with Origin(talk) as origin, raw(origin.port, tmp_path) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        assert wire.rest() == b"bye"
        wire.send(b"still here")
        wire.finish()
        origin.wait_ended(1)
        assert got == [b"still here"]
        wire.close()
        assert gateway.await_record(state="closed")["close"] == "finished"


@both_tunnels
def test_client_that_resets(transport: Transport, tmp_path: Path) -> None:
    """B-79: the server learns of it, and one record says whose doing it was."""
    with recorder() as origin, raw(origin.port, tmp_path) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(b"half a")
        origin.wait_accepted(1)
        gateway.until(lambda: origin.received == b"half a")
        wire.reset()
        origin.wait_ended(1)
        closed = gateway.await_record(state="closed")
        assert figures(closed) == {
            "verdict": "allow",
            "code": "",
            "bytes_up": 6,
            "bytes_down": 0,
            "close": "client_reset",
        }
        assert len(gateway.records()) == 2


@both_tunnels
def test_server_that_resets(transport: Transport, tmp_path: Path) -> None:
    """B-79."""

    def talk(wire: Wire) -> None:
        wire.exactly(5)
        wire.reset()

    with Origin(talk) as origin, raw(origin.port, tmp_path) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(b"hello")
        assert wire.rest() == b""
        wire.close()
        assert gateway.await_record(state="closed")["close"] == "server_reset"
        assert len(gateway.records()) == 2


@pytest.mark.parametrize("side", ["client", "server"])
def test_reset_in_the_middle_of_bulk(side: str, tmp_path: Path) -> None:
    """B-79: while the pipe is hot; whoever still sends is stopped."""
    other_stopped = threading.Event()

    def send_all(wire: Wire) -> None:
        try:
            for piece in pieces(4 * LARGE):
                wire.send(piece)
        except OSError:
            other_stopped.set()

    def talk(wire: Wire) -> None:
        if side == "client":
            send_all(wire)
        else:
            wire.exactly(4 << 20)
            wire.reset()

    with Origin(talk) as origin, raw(origin.port, tmp_path) as gateway:
        wire = tunnel(gateway, CONNECT, origin.port)
        if side == "client":
            wire.exactly(4 << 20)
            wire.reset()
        else:
            send_all(wire)
        origin.wait_ended(1)
        assert other_stopped.is_set()
        assert gateway.await_record(state="closed")["close"] == f"{side}_reset"
        wire.close()


@both_tunnels
def test_server_that_speaks_first(transport: Transport, tmp_path: Path) -> None:
    """B-62: raw entries wait for nobody."""
    with banner(b"SSH-2.0-OpenSSH_9.6\r\n") as origin, raw(origin.port, tmp_path) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        assert wire.until(b"\r\n") == b"SSH-2.0-OpenSSH_9.6\r\n"
        wire.send(b"SSH-2.0-me\r\n")
        assert wire.until(b"\r\n") == b"SSH-2.0-me\r\n"
        wire.close()


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    """B-79: no descriptor, no connection and no task after many ends of every kind."""
    with echo() as origin, raw(origin.port, tmp_path) as gateway:

        def cycle(number: int) -> None:
            wire = tunnel(gateway, CONNECT if number % 2 else SOCKS, origin.port)
            wire.send(b"x")
            assert wire.exactly(1) == b"x"
            match number % 3:
                case 0:
                    wire.reset()
                case 1:
                    wire.finish()
                    assert wire.rest() == b""
            wire.close()

        for number in range(12):
            cycle(number)
        gateway.settle()
        origin.wait_ended(12)
        before = gateway.call(lambda: len(asyncio.all_tasks()))
        descriptors = len(os.listdir("/dev/fd"))
        for number in range(300):
            cycle(number)
        gateway.settle()
        origin.wait_ended(312)
        assert len(os.listdir("/dev/fd")) == descriptors
        assert gateway.call(lambda: len(asyncio.all_tasks())) == before


# --- By itself ---


def far_ends() -> tuple[socket.socket, socket.socket, socket.socket, socket.socket]:
    """Client, the gateway's two ends, server: none of them waits."""
    client, near = socket.socketpair()
    far, server = socket.socketpair()
    for end in (client, near, far, server):
        end.setblocking(False)
    return client, near, far, server


Scenario = Callable[[Tunnel, socket.socket, socket.socket, list[Tunnel]], Awaitable[None]]


def run_alone(scenario: Scenario) -> None:
    """Runs a scenario with a tunnel between two socket pairs, all on one loop, so that it sees every turn."""

    async def run() -> None:
        client, near, far, server = far_ends()
        closed: list[Tunnel] = []
        reactor = running_reactor()
        tunnel = Tunnel(
            reactor, Peer(near, reactor), Peer(far, reactor), closed.append, sent_up=3, sent_down=4
        )
        tunnel.start()
        try:
            await scenario(tunnel, client, server, closed)
        finally:
            tunnel.close("test")
            client.close()
            server.close()

    with asyncio.Runner(loop_factory=GatewayLoop) as runner:
        runner.run(run())


async def turns(count: int = 5) -> None:
    """Lets the loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


async def fill(end: socket.socket) -> int:
    """Sends until nobody takes more, however often the loop turns; how much that was."""
    sent, quiet = 0, 0
    while quiet < 50:
        try:
            sent += end.send(bytes(65536))
            quiet = 0
        except BlockingIOError:
            quiet += 1
            await asyncio.sleep(0)
    return sent


async def drain(end: socket.socket) -> int:
    """Reads until nothing more comes, however often the loop turns; how much that was."""
    got, quiet = 0, 0
    while quiet < 50:
        try:
            data = end.recv(1 << 20)
        except BlockingIOError:
            quiet += 1
            await asyncio.sleep(0)
            continue
        if not data:
            break
        got += len(data)
        quiet = 0
    return got


@pytest.mark.parametrize("hot", [False, True], ids=["copying", "splicing"])
@pytest.mark.parametrize("upwards", [True, False], ids=["up", "down"])
def test_slow_reader_holds_the_sender_back(upwards: bool, hot: bool) -> None:
    """What a reader does not take stays with the sender: little is kept here, and nothing is lost."""

    async def scenario(
        tunnel: Tunnel, client: socket.socket, server: socket.socket, closed: list[Tunnel]
    ) -> None:
        source, sink = (client, server) if upwards else (server, client)
        warm = 0
        while hot and warm < 2 << 20:
            warm += source.send(bytes(65536))
            await turns(2)
            await drain(sink)
        stuck = await fill(source)
        assert stuck < 8 << 20
        assert await drain(sink) == stuck
        again = await fill(source)
        assert await drain(sink) == again
        count = (tunnel.bytes_up - 3) if upwards else (tunnel.bytes_down - 4)
        assert count == warm + stuck + again
        # The other direction was open all the time.
        sink.send(b"back")
        await turns()
        assert source.recv(100) == b"back"
        assert not closed

    run_alone(scenario)


def test_bytes_from_before_are_counted() -> None:
    async def scenario(
        tunnel: Tunnel, client: socket.socket, server: socket.socket, closed: list[Tunnel]
    ) -> None:
        client.send(b"12345")
        server.send(b"1234567")
        await turns()
        assert (tunnel.bytes_up, tunnel.bytes_down) == (3 + 5, 4 + 7)

    run_alone(scenario)


def test_end_after_both_have_finished() -> None:
    async def scenario(
        tunnel: Tunnel, client: socket.socket, server: socket.socket, closed: list[Tunnel]
    ) -> None:
        client.shutdown(socket.SHUT_WR)
        await turns()
        assert server.recv(10) == b""
        assert not closed
        server.send(b"late")
        await turns()
        assert client.recv(10) == b"late"
        server.shutdown(socket.SHUT_WR)
        await turns()
        assert client.recv(10) == b""
        assert closed == [tunnel]
        assert tunnel.cause == "finished"

    run_alone(scenario)


def test_end_behind_bytes_that_wait() -> None:
    """The sender has finished while its reader is slow: the end comes last."""

    async def scenario(
        tunnel: Tunnel, client: socket.socket, server: socket.socket, closed: list[Tunnel]
    ) -> None:
        sent = await fill(client)
        client.shutdown(socket.SHUT_WR)
        await turns()
        assert await drain(server) == sent
        assert server.recv(10) == b""
        assert not closed

    run_alone(scenario)


def test_closing_twice() -> None:
    """`on_close` is called once, with the first cause."""

    async def scenario(
        tunnel: Tunnel, client: socket.socket, server: socket.socket, closed: list[Tunnel]
    ) -> None:
        tunnel.close("idle")
        tunnel.close("session_closed")
        assert closed == [tunnel]
        assert tunnel.cause == "idle"
        assert client.recv(10) == b""
        assert server.recv(10) == b""

    run_alone(scenario)


def test_closing_with_bytes_under_way() -> None:
    """A pipe that still holds something is not used again."""

    async def scenario(
        tunnel: Tunnel, client: socket.socket, server: socket.socket, closed: list[Tunnel]
    ) -> None:
        warm = 0
        while warm < 2 << 20:
            warm += client.send(bytes(65536))
            await turns(2)
            await drain(server)
        await fill(client)
        tunnel.close("idle")
        assert closed == [tunnel]

    run_alone(scenario)

    async def afterwards(
        tunnel: Tunnel, client: socket.socket, server: socket.socket, closed: list[Tunnel]
    ) -> None:
        sent = 0
        while sent < 2 << 20:
            sent += client.send(b"\x01" * 65536)
            await turns(2)
            data = server.recv(1 << 20)
            assert data == b"\x01" * len(data)

    run_alone(afterwards)


# --- By itself, over TCP: what is told once must not be missed ---


@dataclass
class Ends:
    """Both far ends of a tunnel to be, and what becomes of it."""

    client: socket.socket
    server: socket.socket
    client_peer: Peer
    server_peer: Peer
    closed: list[Tunnel] = field(default_factory=list)

    def tunnel(self, *, sent_up: int = 0, sent_down: int = 0) -> Tunnel:
        """The tunnel, which has not been started."""
        return Tunnel(
            running_reactor(),
            self.client_peer,
            self.server_peer,
            self.closed.append,
            sent_up=sent_up,
            sent_down=sent_down,
        )


def over_tcp(
    scenario: Callable[[Ends], Awaitable[None]],
    before: Callable[[socket.socket, socket.socket], None] = lambda client, server: None,
) -> None:
    """Runs a scenario with both far ends; `before` is what they do before anybody watches the near ones."""

    async def run() -> None:
        (client, near), (server, far) = tcp_pair(), tcp_pair()
        before(client, server)
        reactor = running_reactor()
        ends = Ends(client, server, Peer(near, reactor), Peer(far, reactor))
        try:
            await scenario(ends)
        finally:
            for end in (client, server, near, far):
                reactor.forget(end.fileno())
                end.close()

    with asyncio.Runner(loop_factory=GatewayLoop) as runner:
        runner.run(run())


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets that do not wait."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        far = socket.create_connection(listening.getsockname())
        near, _ = listening.accept()
    far.setblocking(False)
    near.setblocking(False)
    return far, near


async def until(condition: Callable[[], bool]) -> None:
    """Lets the loop turn until it is so."""
    given_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < given_up, "it did not come about"
        await asyncio.sleep(0)


async def collect(end: socket.socket, step: int = 65536) -> bytes:
    """Everything until the end."""
    data = bytearray()
    given_up = time.monotonic() + 5 * PATIENCE
    while True:
        try:
            piece = end.recv(step)
        except BlockingIOError:
            assert time.monotonic() < given_up, f"no end after {len(data)} bytes"
            await asyncio.sleep(0)
            continue
        if not piece:
            return bytes(data)
        data += piece


async def feed(end: socket.socket, data: bytes) -> None:
    """Sends everything, and the end."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[end.send(rest) :]
        except BlockingIOError:
            await asyncio.sleep(0)
    end.shutdown(socket.SHUT_WR)


def arrived(end: socket.socket, size: int) -> bool:
    """That many bytes lie in this socket, unread."""
    try:
        return len(end.recv(size + 1, socket.MSG_PEEK)) >= size
    except BlockingIOError:
        return False


both_ways = pytest.mark.parametrize("upwards", [True, False], ids=["up", "down"])
AHEAD = b"ahead of the tunnel " * 50


def assert_over(ends: Ends, tunnel: Tunnel, up: int, down: int, cause: str = "finished") -> None:
    assert ends.closed == [tunnel]
    assert (tunnel.bytes_up, tunnel.bytes_down, tunnel.cause) == (up, down, cause)


@both_ways
@pytest.mark.parametrize("moment", ["before the peer", "not told yet", "told", "read in part"])
def test_bytes_and_end_before_the_start(moment: str, upwards: bool) -> None:
    """They are passed on, though nobody is told of them again."""

    def before(client: socket.socket, server: socket.socket) -> None:
        if moment == "before the peer":
            source = client if upwards else server
            source.send(AHEAD)
            source.shutdown(socket.SHUT_WR)

    async def scenario(ends: Ends) -> None:
        source, sink = (ends.client, ends.server) if upwards else (ends.server, ends.client)
        peer = ends.client_peer if upwards else ends.server_peer
        read = b""
        if moment == "read in part":
            source.send(b"read before")
            read = await peer.receive()
        if moment != "before the peer":
            source.send(AHEAD)
            source.shutdown(socket.SHUT_WR)
        if moment == "told":
            await until(lambda: peer.ending)
        tunnel = ends.tunnel(sent_up=len(read) if upwards else 0, sent_down=0 if upwards else len(read))
        tunnel.start()
        assert await collect(sink) == AHEAD
        assert not ends.closed
        sink.send(b"answer")
        sink.shutdown(socket.SHUT_WR)
        assert await collect(source) == b"answer"
        sizes = (len(read) + len(AHEAD), 6)
        assert_over(ends, tunnel, *(sizes if upwards else reversed(sizes)))

    over_tcp(scenario, before)


@both_ways
def test_end_right_behind_the_start(upwards: bool) -> None:
    """With nothing before it, and apart from the bytes."""

    async def scenario(ends: Ends) -> None:
        source, sink = (ends.client, ends.server) if upwards else (ends.server, ends.client)
        tunnel = ends.tunnel()
        tunnel.start()
        source.shutdown(socket.SHUT_WR)
        assert await collect(sink) == b""
        sink.send(b"one")
        await until(lambda: arrived(source, 3))
        sink.shutdown(socket.SHUT_WR)
        assert await collect(source) == b"one"
        assert_over(ends, tunnel, *((0, 3) if upwards else (3, 0)))

    over_tcp(scenario)


@both_ways
@pytest.mark.parametrize("size", [300_000, 6 << 20], ids=["copying", "splicing"])
def test_end_while_the_destination_is_slow(size: int, upwards: bool) -> None:
    """Bytes and end are there, and told, while nothing can be passed on; later nobody tells of them again."""
    data = b"".join(pieces(size))

    async def scenario(ends: Ends) -> None:
        source, sink = (ends.client, ends.server) if upwards else (ends.server, ends.client)
        tunnel = ends.tunnel()
        tunnel.start()
        feeding = asyncio.ensure_future(feed(source, data))
        await fill_quietly(tunnel)
        got = bytearray()
        while len(got) < size:
            # A little at a time, and the loop turns until nothing moves any more.
            try:
                got += sink.recv(size // 7)
            except BlockingIOError:
                pass
            await fill_quietly(tunnel)
        assert got == data
        assert await collect(sink) == b""
        await feeding
        sink.shutdown(socket.SHUT_WR)
        assert await collect(source) == b""
        assert_over(ends, tunnel, *((size, 0) if upwards else (0, size)))

    over_tcp(scenario)


async def fill_quietly(tunnel: Tunnel) -> None:
    """Lets the loop turn until the tunnel moves nothing for a while."""
    quiet, before = 0, -1
    while quiet < 20:
        now = tunnel.bytes_up + tunnel.bytes_down
        quiet = quiet + 1 if now == before else 0
        before = now
        await asyncio.sleep(0)


@pytest.mark.parametrize("step", [1000, 65536, 1 << 20])
@pytest.mark.parametrize("size", [0, 1, 256 * 1024, (1 << 20) - 1, (1 << 20) + 1, 5 << 20])
def test_both_directions_with_ends_at_different_times(size: int, step: int) -> None:
    """Whatever the sizes, below and above what makes a direction hot: both ways whole, and counted."""
    up, down = b"".join(pieces(size)), b"".join(pieces(size // 3))[::-1]

    async def scenario(ends: Ends) -> None:
        tunnel = ends.tunnel(sent_up=1, sent_down=2)
        tunnel.start()
        feeding = [
            asyncio.ensure_future(feed(ends.client, up)),
            asyncio.ensure_future(feed(ends.server, down)),
        ]
        got = await asyncio.gather(collect(ends.server, step), collect(ends.client, 2 * step))
        await asyncio.gather(*feeding)
        assert [hashlib.sha256(data).digest() for data in got] == [
            hashlib.sha256(data).digest() for data in (up, down)
        ]
        assert_over(ends, tunnel, 1 + len(up), 2 + len(down))

    over_tcp(scenario)


@pytest.mark.parametrize("hot", [False, True], ids=["copying", "splicing"])
@pytest.mark.parametrize("held", [False, True], ids=["idle", "held back"])
@pytest.mark.parametrize("side", ["client", "server"])
def test_reset(side: str, held: bool, hot: bool) -> None:
    """Ends the tunnel at once, also where its bytes wait for the other one; the other end hears of it."""

    async def scenario(ends: Ends) -> None:
        tunnel = ends.tunnel()
        tunnel.start()
        broken, other = (ends.client, ends.server) if side == "client" else (ends.server, ends.client)
        warm = 0
        while hot and warm < 2 << 20:
            warm += broken.send(bytes(65536))
            await until(lambda: arrived(other, 1))
            await drain(other)
        if held:
            await fill(other)
        Wire(broken).reset()
        await until(lambda: bool(ends.closed))
        assert tunnel.cause == f"{side}_reset"
        with contextlib.suppress(ConnectionResetError):
            await collect(other)
        tunnel.close("idle")
        assert len(ends.closed) == 1

    over_tcp(scenario)


@both_ways
@pytest.mark.parametrize("hot", [False, True], ids=["copying", "splicing"])
def test_last_words_of_an_end_that_takes_no_more(hot: bool, upwards: bool) -> None:
    """A server that answers in the middle of an upload and hangs up: the answer arrives, although the upload is what
    finds out first."""
    answer = b"HTTP/1.1 413 Content Too Large\r\n\r\n" + bytes(100_000)

    async def scenario(ends: Ends) -> None:
        sender, tired = (ends.client, ends.server) if upwards else (ends.server, ends.client)
        tunnel = ends.tunnel()
        tunnel.start()
        sent = 0
        while hot and sent < 2 << 20:
            sent += sender.send(bytes(65536))
            await until(lambda: arrived(tired, 1))
            await drain(tired)
        sender.send(b"more")
        await until(lambda: arrived(tired, 4))
        # All in one turn of the loop, so that the gateway hears of the sender's bytes first.
        sender.send(b"and more")
        assert tired.send(answer) == len(answer)
        tired.close()  # with bytes it has not read, which makes it a reset
        got = bytearray()
        with contextlib.suppress(ConnectionResetError):
            await until(lambda: bool(ends.closed))
            while piece := sender.recv(65536):
                got += piece
        assert bytes(got) == answer
        assert tunnel.cause == ("server_reset" if upwards else "client_reset")
        assert (tunnel.bytes_down if upwards else tunnel.bytes_up) == len(answer)

    over_tcp(scenario)


@both_ways
def test_end_for_an_end_that_was_reset(upwards: bool) -> None:
    """One says that it is done in the moment in which the other is gone: a reset, whoever is heard first."""

    async def scenario(ends: Ends) -> None:
        sender, gone = (ends.client, ends.server) if upwards else (ends.server, ends.client)
        tunnel = ends.tunnel()
        tunnel.start()
        await turns()
        sender.send(b"last")
        sender.shutdown(socket.SHUT_WR)
        Wire(gone).reset()
        await until(lambda: bool(ends.closed))
        assert tunnel.cause == ("server_reset" if upwards else "client_reset")

    over_tcp(scenario)


@both_ways
def test_both_ends_gone_at_once(upwards: bool) -> None:
    """The first that is found out counts, and there is one end of it."""

    async def scenario(ends: Ends) -> None:
        tunnel = ends.tunnel()
        tunnel.start()
        await fill(ends.client)
        await fill(ends.server)
        for end in (ends.client, ends.server) if upwards else (ends.server, ends.client):
            Wire(end).reset()
        await until(lambda: bool(ends.closed))
        assert tunnel.cause in {"client_reset", "server_reset"}
        await turns()
        assert len(ends.closed) == 1

    over_tcp(scenario)


def test_busy_direction_lets_others_have_their_turn() -> None:
    """A sender that always has more, and a reader that always takes it: small messages pass in between."""

    async def scenario(ends: Ends) -> None:
        tunnel = ends.tunnel()
        tunnel.start()
        moved = 0

        def refill(events: int) -> None:
            with contextlib.suppress(BlockingIOError):
                while True:
                    ends.client.send(bytes(1 << 20))

        def empty(events: int) -> None:
            nonlocal moved
            with contextlib.suppress(BlockingIOError):
                while True:
                    moved += len(ends.server.recv(1 << 20))

        reactor = running_reactor()
        reactor.watch(ends.client.fileno(), refill)
        reactor.watch(ends.server.fileno(), empty)
        await until(lambda: moved > 8 << 20)
        for _ in range(20):
            ends.server.send(b"ping")
            await until(lambda: arrived(ends.client, 4))
            assert ends.client.recv(100) == b"ping"
        reactor.forget(ends.client.fileno())
        reactor.forget(ends.server.fileno())
        tunnel.close("idle")

    over_tcp(scenario)


def test_pipes_are_given_back() -> None:
    """However hot tunnels end: full, empty, half closed; after that no more descriptors than a few pooled pipes."""

    def cycle(ending: str) -> None:
        async def scenario(ends: Ends) -> None:
            tunnel = ends.tunnel()
            tunnel.start()
            for source, sink in ((ends.client, ends.server), (ends.server, ends.client)):
                warm = 0
                while warm < 2 << 20:
                    warm += source.send(bytes(65536))
                    await until(lambda sink=sink: arrived(sink, 1))  # type: ignore[misc]  # bound now
                    await drain(sink)
            match ending:
                case "full":
                    await fill(ends.client)
                    await fill(ends.server)
                case "half closed":
                    ends.client.shutdown(socket.SHUT_WR)
                    assert await collect(ends.server) == b""
                case "reset":
                    await fill(ends.client)
                    Wire(ends.server).reset()
                    await until(lambda: bool(ends.closed))
            tunnel.close("idle")

        over_tcp(scenario)

    for ending in ("empty", "full", "half closed", "reset"):
        cycle(ending)
    before = len(os.listdir("/dev/fd"))
    for _ in range(3):
        for ending in ("empty", "full", "half closed", "reset"):
            cycle(ending)
    assert len(os.listdir("/dev/fd")) <= before


@both_ways
def test_urgent_byte(upwards: bool) -> None:
    """A read stops short at it, which must not pass for the end of what there is. The byte itself is not passed on: no
    program that a tunnel is for asks for it."""

    async def scenario(ends: Ends) -> None:
        source, sink = (ends.client, ends.server) if upwards else (ends.server, ends.client)
        ends.tunnel().start()
        await turns()
        source.send(b"before")
        source.send(b"!", socket.MSG_OOB)
        source.send(b"after")
        await until(lambda: arrived(sink, 11))
        assert sink.recv(100) == b"beforeafter"

    over_tcp(scenario)
