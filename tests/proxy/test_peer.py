"""One end of a connection: reading and sending without blocking, deadlines, ends, and bytes that come too early."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway.proxy.peer import NEVER, READ_SIZE, DeadlineError, Peer
from gateway.proxy.reactor import ENDING, READABLE, WRITABLE, GatewayLoop, running_reactor
from gateway.proxy.runner import run
from tests.fakes.asking import get_head
from tests.fakes.gateway import Gateway
from tests.fakes.origin import Origin
from tests.fakes.rules import GOOD, rules_for
from tests.fakes.wire import Wire

Scenario = Callable[[Peer, socket.socket], Awaitable[None]]


def alone(scenario: Scenario, *, tcp: bool = False) -> None:
    """Runs a scenario with a peer and the far end of its connection, on a loop whose turns are the scenario's."""

    async def start() -> None:
        near, far = _tcp_pair() if tcp else socket.socketpair()
        near.setblocking(False)
        far.setblocking(False)
        peer = Peer(near, running_reactor())
        try:
            await scenario(peer, far)
        finally:
            peer.close()
            far.close()

    with asyncio.Runner(loop_factory=GatewayLoop) as runner:
        runner.run(start())


def _tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        far = socket.create_connection(listening.getsockname())
        return listening.accept()[0], far


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_receiving() -> None:
    """What is there at once, what comes later, and the end; counted."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        far.send(b"one")
        assert await peer.receive() == b"one"
        waiting = asyncio.ensure_future(peer.receive())
        await turns()
        assert not waiting.done()
        far.send(b"two")
        assert await waiting == b"two"
        far.send(b"three")
        far.shutdown(socket.SHUT_WR)
        assert await peer.receive() == b"three"
        assert await peer.receive() == b""
        assert await peer.receive() == b""
        assert peer.bytes_in == 11

    alone(scenario)


def test_receiving_in_bounded_pieces() -> None:
    async def scenario(peer: Peer, far: socket.socket) -> None:
        sent, got = 0, 0
        while sent < 8 * READ_SIZE:
            try:
                sent += far.send(bytes(READ_SIZE))
            except BlockingIOError:
                data = await peer.receive()
                assert 0 < len(data) <= READ_SIZE
                got += len(data)
        far.close()
        while data := await peer.receive():
            assert len(data) <= READ_SIZE
            got += len(data)
        assert got == sent == peer.bytes_in

    alone(scenario)


def test_what_nobody_asks_for_stays_outside() -> None:
    """A sender is held back by the kernel: nothing is read before it is wanted."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        sent, quiet = 0, 0
        while quiet < 20:
            try:
                sent += far.send(bytes(65536))
                quiet = 0
            except BlockingIOError:
                quiet += 1
                await asyncio.sleep(0)
        assert sent < 4 << 20
        assert peer.bytes_in == 0
        got = 0
        while got < sent:
            got += len(await peer.receive())

    alone(scenario)


def test_sending_to_a_slow_reader() -> None:
    async def scenario(peer: Peer, far: socket.socket) -> None:
        data = bytes(range(256)) * 16384
        sending = asyncio.ensure_future(peer.send(data))
        await turns()
        assert not sending.done()
        got = bytearray()
        while len(got) < len(data):
            try:
                got += far.recv(65536)
            except BlockingIOError:
                await asyncio.sleep(0)
        await sending
        assert bytes(got) == data
        assert peer.bytes_out == len(data)

    alone(scenario)


def test_both_at_once() -> None:
    """One coroutine reads while another sends."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        sending = asyncio.ensure_future(peer.send(bytes(4 << 20)))
        reading = asyncio.ensure_future(peer.receive())
        await turns()
        assert (sending.done(), reading.done()) == (False, False)
        far.send(b"hello")
        assert await reading == b"hello"
        assert not sending.done()
        got = 0
        while got < 4 << 20:
            try:
                got += len(far.recv(1 << 20))
            except BlockingIOError:
                await asyncio.sleep(0)
        await sending

    alone(scenario)


def test_expiring() -> None:
    """Whatever is waited for fails, once; afterwards the peer can be used again."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        peer.deadline = 5.0
        sending = asyncio.ensure_future(peer.send(bytes(4 << 20)))
        reading = asyncio.ensure_future(peer.receive())
        await turns()
        peer.expire()
        assert peer.deadline == NEVER
        for waiting in (sending, reading):
            with pytest.raises(DeadlineError):
                await waiting
        far.send(b"late")
        assert await peer.receive() == b"late"
        peer.expire()

    alone(scenario)


def test_closing_while_somebody_waits() -> None:
    async def scenario(peer: Peer, far: socket.socket) -> None:
        sending = asyncio.ensure_future(peer.send(bytes(4 << 20)))
        reading = asyncio.ensure_future(peer.receive())
        await turns()
        peer.close()
        peer.close()
        for waiting in (sending, reading):
            with pytest.raises(ConnectionAbortedError):
                await waiting
        with pytest.raises(OSError):
            await peer.receive()
        with pytest.raises(OSError):
            await peer.send(b"x")

    alone(scenario)


def test_aborting_leaves_the_socket_open() -> None:
    async def scenario(peer: Peer, far: socket.socket) -> None:
        reading = asyncio.ensure_future(peer.receive())
        await turns()
        peer.abort()
        with pytest.raises(ConnectionAbortedError):
            await reading
        with pytest.raises(BlockingIOError):
            far.recv(1)

    alone(scenario)


def test_far_end_that_resets() -> None:
    async def scenario(peer: Peer, far: socket.socket) -> None:
        reading = asyncio.ensure_future(peer.receive())
        await turns()
        Wire(far).reset()
        with pytest.raises(ConnectionResetError):
            await reading

    alone(scenario, tcp=True)


def test_reset_while_nobody_reads() -> None:
    """Is told to who wants to know; whatever is tried afterwards fails."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        told: list[str] = []
        peer.on_reset = lambda: told.append("reset")
        await turns()
        assert told == []
        Wire(far).reset()
        await turns()
        assert told == ["reset"]
        with pytest.raises(ConnectionResetError):
            await peer.receive()
        with pytest.raises(ConnectionResetError):
            await peer.send(b"x")

    alone(scenario, tcp=True)


def test_end_is_no_reset() -> None:
    """The far end that sends no more may still read."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        told: list[str] = []
        peer.on_reset = lambda: told.append("reset")
        far.shutdown(socket.SHUT_WR)
        await turns()
        assert told == []
        assert peer.ending
        await peer.send(b"answer")
        assert far.recv(10) == b"answer"

    alone(scenario, tcp=True)


def test_sending_to_nobody() -> None:
    async def scenario(peer: Peer, far: socket.socket) -> None:
        far.close()
        with pytest.raises(OSError):
            for _ in range(3):
                await peer.send(bytes(65536))

    alone(scenario)


@pytest.mark.parametrize(
    ("before", "stale"),
    [
        (lambda far: None, False),
        (lambda far: far.send(b"x"), True),
        (lambda far: far.shutdown(socket.SHUT_WR), True),
        (lambda far: far.close(), True),
        (lambda far: Wire(far).reset(), True),
    ],
    ids=["quiet", "bytes", "end", "closed", "reset"],
)
def test_staleness(before: Callable[[socket.socket], object], stale: bool) -> None:
    """Nobody has asked the far end for anything, so whatever it says makes the connection unfit for a request."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        far.send(b"answer")
        assert await peer.receive() == b"answer"
        before(far)
        await turns()
        assert peer.stale is stale
        if far.fileno() >= 0 and not stale:
            far.send(b"answer")
            assert await peer.receive() == b"answer"

    alone(scenario, tcp=True)


def test_staleness_takes_nothing_away() -> None:
    async def scenario(peer: Peer, far: socket.socket) -> None:
        far.send(b"x")
        await turns()
        assert peer.stale
        assert await peer.receive() == b"x"
        assert not peer.stale

    alone(scenario)


def test_bytes_that_came_early() -> None:
    """They come first, and are counted when they are read."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        far.send(b"late")
        peer.keep(b"early ")
        peer.keep(b"very ")
        assert peer.stale
        assert peer.bytes_in == 0
        assert await peer.receive() == b"very early "
        assert await peer.receive() == b"late"
        assert peer.bytes_in == 15
        assert peer.take_early() == b""
        peer.keep(b"more")
        assert peer.take_early() == b"more"
        assert peer.bytes_in == 19

    alone(scenario)


def test_finishing() -> None:
    async def scenario(peer: Peer, far: socket.socket) -> None:
        peer.finish_sending()
        assert far.recv(1) == b""
        far.send(b"answer")
        assert await peer.receive() == b"answer"
        far.close()
        peer.finish_sending()

    alone(scenario)


def test_giving_the_socket_away() -> None:
    """It stays open, and closing the peer does not touch it."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        taken = peer.detach()
        peer.close()
        far.send(b"x")
        assert taken.recv(1) == b"x"
        running_reactor().forget(taken.fileno())
        taken.close()

    alone(scenario)


def test_last_words_of_an_end_that_takes_no_more() -> None:
    """Sending fails because the far end has hung up; what it said before that can be read all the same."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        await peer.send(b"unread")
        assert not peer.takes_nothing
        far.send(b"answer")
        far.close()  # with bytes it has not read, which makes it a reset
        with pytest.raises(OSError):
            for _ in range(3):
                await peer.send(b"more")
        assert peer.takes_nothing
        assert await peer.receive() == b"answer"
        with contextlib.suppress(ConnectionResetError):
            assert await peer.receive() == b""

    alone(scenario, tcp=True)


def test_last_words_while_sending_waits() -> None:
    async def scenario(peer: Peer, far: socket.socket) -> None:
        sending = asyncio.ensure_future(peer.send(bytes(16 << 20)))
        await turns()
        assert not sending.done()
        far.send(b"answer")
        far.close()
        with pytest.raises(OSError):
            await sending
        assert peer.takes_nothing
        assert await peer.receive() == b"answer"

    alone(scenario, tcp=True)


def test_answer_through_the_proxy_in_the_middle_of_a_request(tmp_path: Path) -> None:
    """A server that has seen enough, answers and hangs up: its client gets the answer, not ours."""
    answer = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"

    def talk(wire: Wire) -> None:
        wire.head()
        wire.exactly(10)
        wire.send(answer)

    with Origin(talk) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(get_head(GOOD, origin.port, "/", "Content-Length: 16777216"))
        with contextlib.suppress(OSError):
            for _ in range(256):
                wire.send(bytes(65536))
        assert wire.message().status == 413
        wire.close()
        closed = gateway.await_record(state="closed")
        assert (closed["status"], closed["verdict"], closed["bytes_down"]) == (413, "allow", len(answer))


@pytest.mark.parametrize("size", [1, READ_SIZE - 1, READ_SIZE, READ_SIZE + 1])
@pytest.mark.parametrize("told", [False, True], ids=["not told", "told"])
def test_end_behind_the_last_byte(told: bool, size: int) -> None:
    """Is found however much was read before it, and whether or not the kernel has told of it."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        assert far.send(bytes(size)) == size
        far.shutdown(socket.SHUT_WR)
        if told:
            while not peer.ending:
                await asyncio.sleep(0)
        got = 0
        while data := await peer.receive():
            got += len(data)
        assert got == size == peer.bytes_in

    alone(scenario, tcp=True)


def test_coroutine_goes_on_inside_the_event() -> None:
    """A runner's coroutine reads, answers and waits again within the handler, without a turn of the loop."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        async def echo() -> None:
            while data := await peer.receive():
                await peer.send(data)

        runner = run(echo(), asyncio.get_running_loop())
        await turns()
        for _ in range(3):
            far.send(b"x")
            running_reactor().select(0)
            assert far.recv(10) == b"x"
        far.shutdown(socket.SHUT_WR)
        running_reactor().select(0)
        assert runner.done

    alone(scenario)


def test_closing_by_the_one_that_was_resumed() -> None:
    """While its own event is being told."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        async def read() -> None:
            assert await peer.receive() == b"x"
            peer.close()

        async def write() -> None:
            with pytest.raises(ConnectionAbortedError):
                await peer.send(bytes(4 << 20))
            ended.append("writer")

        ended: list[str] = []
        loop = asyncio.get_running_loop()
        reading, writing = run(read(), loop), run(write(), loop)
        far.send(b"x")
        await turns()
        assert (reading.done, writing.done, ended) == (True, True, ["writer"])

    alone(scenario)


def test_aborting_by_the_one_that_waits_next() -> None:
    """Fails what is asked for afterwards too, and never the coroutine in its own step."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        failures: list[str] = []

        async def work() -> None:
            peer.abort()
            for attempt in (peer.receive, peer.writable):
                try:
                    await attempt()
                except ConnectionAbortedError as error:
                    failures.append(str(error))

        assert run(work(), asyncio.get_running_loop()).done
        assert failures == ["given up"] * 2

    alone(scenario)


def test_expiring_what_was_cancelled() -> None:
    """A read that was given up is not failed any more, nor resumed by bytes; the next one gets them."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        got: list[bytes] = []

        async def read() -> None:
            got.append(await peer.receive())

        first = run(read(), loop)
        await turns()
        first.cancel()
        peer.expire()
        second = run(read(), loop)
        far.send(b"x")
        await turns()
        assert (got, second.done) == ([b"x"], True)

    alone(scenario)


def test_readiness_that_was_about_another_socket() -> None:
    """Events are hints: after a wrong one nothing is lost and nobody is let through."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        reading = asyncio.ensure_future(peer.receive())
        await turns()
        peer._changed(READABLE | WRITABLE | ENDING)
        await turns()
        assert not reading.done()
        far.send(b"x")
        assert await reading == b"x"
        far.send(b"y")
        assert await peer.receive() == b"y"

    alone(scenario)


def test_urgent_byte() -> None:
    """A read stops short at it; what stands behind it is read all the same, without anything new to tell of it."""

    async def scenario(peer: Peer, far: socket.socket) -> None:
        far.send(b"before")
        far.send(b"!", socket.MSG_OOB)
        far.send(b"after")
        got = b""
        while len(got) < 11:
            got += await peer.receive()
        assert got == b"beforeafter"

    alone(scenario, tcp=True)
