"""Readiness of descriptors and the event loop on it: every change is told, and asyncio works as ever."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tornado import httpserver, netutil, web

from gateway.proxy.reactor import ENDING, READABLE, WRITABLE, GatewayLoop, Reactor, running_reactor


def alone(scenario: Callable[[Reactor], Awaitable[None]]) -> None:
    """Runs a scenario on a loop of its own, whose turns are the scenario's to give."""

    async def start() -> None:
        await scenario(running_reactor())

    with asyncio.Runner(loop_factory=GatewayLoop) as runner:
        runner.run(start())


@contextmanager
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, two = socket.socketpair()
    with one, two:
        one.setblocking(False)
        two.setblocking(False)
        yield one, two


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_changes_are_told() -> None:
    """The state at the beginning, then each change."""

    async def scenario(reactor: Reactor) -> None:
        with pair() as (near, far):
            told: list[int] = []
            reactor.watch(near.fileno(), told.append)
            await turns()
            assert told == [WRITABLE]
            far.send(b"x")
            await turns()
            assert told[-1] & READABLE
            assert not told[-1] & ENDING
            told.clear()
            await turns()
            assert told == []
            far.send(b"y")
            await turns()
            assert told and told[-1] & READABLE
            far.close()
            await turns()
            assert told[-1] & READABLE
            assert told[-1] & ENDING
            reactor.forget(near.fileno())

    alone(scenario)


def test_writable_again() -> None:
    async def scenario(reactor: Reactor) -> None:
        with pair() as (near, far):
            told: list[int] = []
            reactor.watch(near.fileno(), told.append)
            await turns()
            with pytest.raises(BlockingIOError):
                while True:
                    near.send(bytes(65536))
            told.clear()
            await turns()
            assert not any(events & WRITABLE for events in told)
            with pytest.raises(BlockingIOError):
                while True:
                    far.recv(1 << 20)
            await turns()
            assert any(events & WRITABLE for events in told)
            reactor.forget(near.fileno())

    alone(scenario)


def test_reset_is_an_end() -> None:
    async def scenario(reactor: Reactor) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            far = socket.create_connection(listening.getsockname())
            near, _ = listening.accept()
            near.setblocking(False)
            with near:
                told: list[int] = []
                reactor.watch(near.fileno(), told.append)
                far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
                far.close()
                await turns()
                assert any(events & ENDING and events & READABLE for events in told)
                with pytest.raises(ConnectionResetError):
                    near.recv(1)
                reactor.forget(near.fileno())

    alone(scenario)


def test_listener_is_told_until_it_is_empty() -> None:
    async def scenario(reactor: Reactor) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)
            clients = [socket.create_connection(listening.getsockname()) for _ in range(3)]
            accepted: list[socket.socket] = []
            reactor.watch_listener(listening.fileno(), lambda _: accepted.append(listening.accept()[0]))
            await turns(6)
            assert len(accepted) == 3
            reactor.unwatch(listening.fileno())
            clients.append(socket.create_connection(listening.getsockname()))
            await turns(6)
            assert len(accepted) == 3
            for end in clients + accepted:
                end.close()

    alone(scenario)


def test_another_handler() -> None:
    async def scenario(reactor: Reactor) -> None:
        with pair() as (near, far):
            first: list[int] = []
            second: list[int] = []
            reactor.watch(near.fileno(), first.append)
            await turns()
            reactor.replace(near.fileno(), second.append)
            far.send(b"x")
            await turns()
            assert (first, second) == ([WRITABLE], [READABLE | WRITABLE])
            reactor.forget(near.fileno())

    alone(scenario)


def test_handler_that_fails(caplog: pytest.LogCaptureFixture) -> None:
    """Is logged, and the others are served all the same."""

    def fail(_: int) -> None:
        raise RuntimeError("broken on purpose")

    async def scenario(reactor: Reactor) -> None:
        with pair() as (one, two):
            told: list[int] = []
            reactor.watch(one.fileno(), fail)
            reactor.watch(two.fileno(), told.append)
            await turns()
            assert told == [WRITABLE]
            reactor.forget(one.fileno())
            reactor.forget(two.fileno())

    alone(scenario)
    assert "broken on purpose" in caplog.text


def test_handler_that_forgets_another() -> None:
    """Of two that have changed at once, the first closes the second: that one is not called any more."""

    async def scenario(reactor: Reactor) -> None:
        with pair() as (one, one_far), pair() as (two, two_far):
            told: list[str] = []

            def close(name: str, other: socket.socket) -> None:
                told.append(name)
                reactor.forget(other.fileno())
                other.close()

            reactor.watch(one.fileno(), lambda _: close("one", two))
            reactor.watch(two.fileno(), lambda _: close("two", one))
            one_far.send(b"x")
            two_far.send(b"x")
            await turns()
            assert len(told) == 1

    alone(scenario)


def test_descriptor_that_is_used_again() -> None:
    """A closed descriptor's number comes back with another socket, whose handler alone is called."""

    async def scenario(reactor: Reactor) -> None:
        told: list[str] = []
        for name in ("first", "second"):
            with pair() as (near, far):
                reactor.watch(near.fileno(), lambda _, name=name: told.append(name))  # type: ignore[misc]  # bound
                far.send(b"x")
                await turns()
                reactor.forget(near.fileno())
        assert set(told) == {"first", "second"}
        assert told == sorted(told)

    alone(scenario)


def test_what_asyncio_does_itself() -> None:
    """Timers in order, threads, pipes, streams: while nothing else happens, and while a handler is busy."""

    async def scenario(reactor: Reactor) -> None:
        loop = asyncio.get_running_loop()
        seen: list[str] = []
        last = loop.create_future()
        loop.call_later(0.002, seen.append, "later")
        loop.call_later(0.003, last.set_result, None)
        loop.call_later(0.001, seen.append, "sooner")
        loop.call_soon(seen.append, "soon")
        await last
        assert seen == ["soon", "sooner", "later"]
        assert await asyncio.to_thread(lambda: 7) == 7
        served = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()
            served.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        stream_reader, stream_writer = await asyncio.open_connection(host, port)
        stream_writer.write(b"hello\n")
        assert await stream_reader.read() == b"hello\n"
        stream_writer.close()
        await served.wait()
        server.close()
        read_end, write_end = os.pipe()
        readable = asyncio.Event()
        loop.add_reader(read_end, readable.set)
        os.write(write_end, b"x")
        await readable.wait()
        loop.remove_reader(read_end)
        os.close(read_end)
        os.close(write_end)

    alone(scenario)


def test_handler_that_schedules() -> None:
    """What a handler hands to asyncio happens at once, not when the loop's wait is over."""

    async def scenario(reactor: Reactor) -> None:
        loop = asyncio.get_running_loop()
        with pair() as (near, far):
            done: dict[str, asyncio.Future[None]] = {name: loop.create_future() for name in ("soon", "later")}

            def handle(events: int) -> None:
                if events & READABLE and near.recv(10):
                    loop.call_soon(done["soon"].set_result, None)
                    loop.call_later(0.001, done["later"].set_result, None)

            reactor.watch(near.fileno(), handle)
            threading.Thread(target=far.send, args=(b"x",)).start()
            async with asyncio.timeout(20):
                await done["soon"]
                await done["later"]
            reactor.forget(near.fileno())

    alone(scenario)


def test_call_from_a_thread_wakes_the_loop() -> None:
    async def scenario(reactor: Reactor) -> None:
        loop = asyncio.get_running_loop()
        woken = loop.create_future()
        threading.Thread(target=lambda: loop.call_soon_threadsafe(woken.set_result, None)).start()
        async with asyncio.timeout(20):
            await woken

    alone(scenario)


def test_handlers_that_never_rest_do_not_starve_timers() -> None:
    """Two sockets that always have something for each other: the loop's own timers are due all the same."""

    async def scenario(reactor: Reactor) -> None:
        loop = asyncio.get_running_loop()
        with pair() as (one, two):

            def bounce(end: socket.socket) -> Callable[[int], None]:
                def handle(events: int) -> None:
                    if events & READABLE:
                        with_data = end.recv(10)
                        if with_data:
                            end.send(with_data)

                return handle

            reactor.watch(one.fileno(), bounce(one))
            reactor.watch(two.fileno(), bounce(two))
            one.send(b"x")
            due = loop.create_future()
            loop.call_later(0.01, due.set_result, None)
            async with asyncio.timeout(20):
                await due
            reactor.forget(one.fileno())
            reactor.forget(two.fileno())

    alone(scenario)


def test_loop_of_another_kind() -> None:
    async def ask() -> None:
        running_reactor()

    with pytest.raises(RuntimeError, match="GatewayLoop"):
        asyncio.run(ask())


def test_nothing_is_left_open() -> None:
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        with asyncio.Runner(loop_factory=GatewayLoop) as runner:
            runner.run(asyncio.sleep(0))
    assert len(os.listdir("/dev/fd")) == before


def test_number_that_is_used_again_in_the_same_breath() -> None:
    """Of two that have changed at once the first closes the second, and opens another socket, which gets its number:
    what is told of the closed one is a wrong hint to the new one, which still hears of everything that is its own."""

    async def scenario(reactor: Reactor) -> None:
        with pair() as (one, one_far), pair() as (two, two_far):
            fresh: list[socket.socket] = []
            told: list[int] = []

            def handle(events: int) -> None:
                if not events & READABLE or fresh:
                    return
                number = two.fileno()
                reactor.forget(number)
                two.close()
                fresh.extend(socket.socketpair())
                assert number in {end.fileno() for end in fresh}
                fresh.sort(key=lambda end: end.fileno() != number)
                reactor.watch(number, told.append)

            reactor.watch(one.fileno(), handle)
            reactor.watch(two.fileno(), lambda _: None)
            await turns()
            one_far.send(b"x")
            two_far.send(b"x")
            await turns()
            assert told[-1] == WRITABLE
            told.clear()
            fresh[1].send(b"x")
            await turns()
            assert told == [READABLE | WRITABLE]
            reactor.forget(one.fileno())
            for end in fresh:
                reactor.forget(end.fileno())
                end.close()

    alone(scenario)


def test_more_descriptors_than_are_taken_at_once() -> None:
    async def scenario(reactor: Reactor) -> None:
        with ExitStack() as held:
            pairs = [held.enter_context(pair()) for _ in range(300)]
            told: list[int] = []

            def reading(end: socket.socket) -> Callable[[int], None]:
                def handle(events: int) -> None:
                    if events & READABLE:
                        told.append(end.fileno())

                return handle

            for near, _ in pairs:
                reactor.watch(near.fileno(), reading(near))
            await turns()
            for _, far in pairs:
                far.send(b"x")
            await turns(10)
            assert sorted(told) == sorted(near.fileno() for near, _ in pairs)
            for near, _ in pairs:
                reactor.forget(near.fileno())

    alone(scenario)


def test_descriptor_that_is_let_go() -> None:
    """It stays open, and may be watched again."""

    async def scenario(reactor: Reactor) -> None:
        with pair() as (near, far):
            told: list[int] = []
            reactor.watch(near.fileno(), told.append)
            reactor.unwatch(near.fileno())
            reactor.unwatch(near.fileno())
            far.send(b"x")
            await turns()
            assert told == []
            reactor.watch(near.fileno(), told.append)
            await turns()
            assert told == [READABLE | WRITABLE]
            reactor.forget(near.fileno())

    alone(scenario)


def test_what_cannot_be_watched(tmp_path: Path) -> None:
    """A file is always ready, so the kernel does not watch it; nor does anybody here afterwards."""

    async def scenario(reactor: Reactor) -> None:
        with (tmp_path / "x").open("wb") as file:
            for watch in (reactor.watch, reactor.watch_listener):
                with pytest.raises(PermissionError):
                    watch(file.fileno(), lambda _: None)
                reactor.unwatch(file.fileno())

    alone(scenario)


def test_handler_that_is_busy_with_others() -> None:
    """What a handler does to others counts at once: watching, replacing, forgetting."""

    async def scenario(reactor: Reactor) -> None:
        with pair() as (one, one_far), pair() as (two, two_far):
            told: list[str] = []

            def first(events: int) -> None:
                if events & READABLE:
                    told.append("first")
                    reactor.replace(two.fileno(), lambda _: told.append("replaced"))

            reactor.watch(one.fileno(), first)
            reactor.watch(two.fileno(), lambda _: told.append("former"))
            await turns()
            told.clear()
            one_far.send(b"x")
            two_far.send(b"x")
            await turns()
            assert told == ["first", "replaced"]
            reactor.forget(one.fileno())
            reactor.forget(two.fileno())

    alone(scenario)


def test_programs_and_signals() -> None:
    """Children are started, read and waited for, and signals arrive, while sockets are watched."""

    async def scenario(reactor: Reactor) -> None:
        loop = asyncio.get_running_loop()
        with pair() as (near, far):
            told: list[int] = []
            reactor.watch(near.fileno(), told.append)
            program = "import sys; sys.stdout.write(sys.stdin.readline()); sys.exit(3)"
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            output, _ = await child.communicate(b"hello\n")
            assert (output, child.returncode) == (b"hello\n", 3)
            signalled = asyncio.Event()
            loop.add_signal_handler(signal.SIGUSR1, signalled.set)
            threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1)).start()
            await signalled.wait()
            loop.remove_signal_handler(signal.SIGUSR1)
            far.send(b"x")
            await turns()
            assert told[-1] & READABLE
            reactor.forget(near.fileno())

    alone(scenario)


def test_tornado_on_the_same_loop() -> None:
    """The agent's own listener is one of its servers."""

    class Greeting(web.RequestHandler):
        async def post(self) -> None:
            await asyncio.sleep(0)
            self.write(self.request.body.upper())

    async def scenario(reactor: Reactor) -> None:
        server = httpserver.HTTPServer(web.Application([("/", Greeting)]))
        listening = netutil.bind_sockets(0, "127.0.0.1")
        server.add_sockets(listening)
        with pair() as (near, _):
            reactor.watch(near.fileno(), lambda events: None)
            for number in range(3):
                stream_reader, stream_writer = await asyncio.open_connection(*listening[0].getsockname())
                request = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello{number}"
                stream_writer.write(request.encode())
                assert (await stream_reader.read()).endswith(f"HELLO{number}".encode())
                stream_writer.close()
                await stream_writer.wait_closed()
            reactor.forget(near.fileno())
        server.stop()
        await server.close_all_connections()

    alone(scenario)


def test_loop_that_looks_for_mistakes() -> None:
    """asyncio's debug mode, in which call_soon checks its thread."""

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        loop.call_later(0, loop.call_soon, done.set_result, 7)
        assert await done == 7
        with pytest.raises(RuntimeError, match="thread"):
            await asyncio.to_thread(lambda: loop.call_soon(done.cancel))

    with asyncio.Runner(debug=True, loop_factory=GatewayLoop) as runner:
        runner.run(scenario())


def test_loop_that_ends_while_sockets_are_watched() -> None:
    """Nobody is told any more, and the sockets stay with their owners."""
    with pair() as (near, far):
        told: list[int] = []

        async def scenario() -> None:
            running_reactor().watch(near.fileno(), told.append)
            await turns()

        with asyncio.Runner(loop_factory=GatewayLoop) as runner:
            runner.run(scenario())
        far.send(b"x")
        assert near.recv(10) == b"x"
        assert told == [WRITABLE]
