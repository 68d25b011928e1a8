"""Finding a host's addresses and connecting to them."""

import asyncio
import contextlib
import os
import resource
import socket
import stat
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from ipaddress import ip_address
from typing import Any

import pytest

from gateway.policy.addresses import Address
from gateway.policy.egress import Code
from gateway.proxy.dialling import SystemResolver, UpstreamError, dial, interleave, is_own_address
from gateway.proxy.peer import Peer
from gateway.proxy.reactor import READABLE, running_reactor
from gateway.proxy.runner import Runner, run
from tests.fakes.clock import ClockedLoop, FakeClock
from tests.fakes.origin import closed_port, echo, full_backlog


def on_loop[T](scenario: Callable[[FakeClock], Coroutine[Any, Any, T]]) -> T:
    """Runs a scenario on a loop whose timers follow the clock."""
    clock = FakeClock()
    with asyncio.Runner(loop_factory=lambda: ClockedLoop(clock)) as runner:
        return runner.run(scenario(clock))


def addresses(*texts: str) -> tuple[Address, ...]:
    return tuple(map(ip_address, texts))


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("found", "order"),
    [
        ((), ()),
        (("1.1.1.1",), ("1.1.1.1",)),
        (("1.1.1.1", "2.2.2.2"), ("1.1.1.1", "2.2.2.2")),
        (("::1", "::2", "1.1.1.1", "2.2.2.2"), ("::1", "1.1.1.1", "::2", "2.2.2.2")),
        (("1.1.1.1", "::1", "::2", "::3"), ("1.1.1.1", "::1", "::2", "::3")),
        (("1.1.1.1", "2.2.2.2", "3.3.3.3", "::1"), ("1.1.1.1", "::1", "2.2.2.2", "3.3.3.3")),
    ],
)
def test_order_of_addresses(found: tuple[str, ...], order: tuple[str, ...]) -> None:
    """RFC 8305 section 4: families in turn, beginning with the first."""
    assert interleave(addresses(*found)) == addresses(*order)


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", True),
        ("198.51.100.7", False),
        ("2001:db8::7", False),
    ],
)
def test_addresses_of_this_machine(text: str, own: bool) -> None:
    assert is_own_address(ip_address(text)) is own


# --- Dialling ---


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_one_address(host: str) -> None:
    with echo(host) as origin:

        async def scenario(_: FakeClock) -> None:
            peer, address = await dial(addresses(host), origin.port, running_reactor())
            assert address == ip_address(host)
            assert peer.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            await peer.send(b"hello")
            assert await peer.receive() == b"hello"
            peer.close()

        on_loop(scenario)


def failure_of(found: tuple[Address, ...], port: int, later: float = 0.0) -> UpstreamError:
    """How dialling these addresses fails, `later` seconds after it began."""

    async def scenario(clock: FakeClock) -> UpstreamError:
        dialling = asyncio.ensure_future(dial(found, port, running_reactor()))
        await turns()
        if later:
            assert not dialling.done()
            clock.advance(later)
        with pytest.raises(UpstreamError) as failed:
            await dialling
        return failed.value

    return on_loop(scenario)


@pytest.mark.parametrize("found", [("127.0.0.1",), ("127.0.0.1", "127.0.0.2"), ("::1", "127.0.0.1")])
def test_refused(found: tuple[str, ...]) -> None:
    with closed_port() as port:
        assert failure_of(addresses(*found), port).code == Code.CONNECT_REFUSED


def test_unreachable() -> None:
    assert failure_of(addresses("127.255.255.255"), 8080).code == Code.UNREACHABLE


def test_no_address() -> None:
    assert failure_of((), 8080).code == Code.UNREACHABLE


@pytest.mark.parametrize(("count", "later"), [(1, 10.0), (2, 30.0)])
def test_no_answer(count: int, later: float) -> None:
    """10 seconds for one address, 30 for all."""
    with full_backlog("0.0.0.0") as port:
        found = addresses(*(f"127.0.0.{number}" for number in range(1, count + 1)))
        assert failure_of(found, port, later).code == Code.CONNECT_TIMEOUT


def test_next_address_is_tried_beside_the_first() -> None:
    """After a moment, and the winner's is the connection that stays."""
    with echo() as origin, full_backlog("127.0.0.2", origin.port):

        async def scenario(clock: FakeClock) -> None:
            found = addresses("127.0.0.2", "127.0.0.1")
            dialling = asyncio.ensure_future(dial(found, origin.port, running_reactor()))
            await turns()
            assert not dialling.done()
            clock.advance(0.3)
            peer, address = await dialling
            assert address == ip_address("127.0.0.1")
            await peer.send(b"hello")
            assert await peer.receive() == b"hello"
            peer.close()

        on_loop(scenario)


def test_next_address_is_tried_at_once_where_the_first_fails() -> None:
    with echo() as origin:

        async def scenario(_: FakeClock) -> None:
            found = addresses("::1", "127.0.0.3", "127.0.0.2", "127.0.0.1")
            peer, address = await dial(found, origin.port, running_reactor())
            assert address == ip_address("127.0.0.1")
            peer.close()

        on_loop(scenario)


def test_not_more_than_eight_addresses() -> None:
    with echo() as origin:
        found = addresses(*(f"127.0.1.{number}" for number in range(1, 9)), "127.0.0.1")
        assert failure_of(found, origin.port).code == Code.CONNECT_REFUSED
        assert origin.accepted == 0


def test_dial_that_is_given_up() -> None:
    """Nothing is left of it."""
    with full_backlog("0.0.0.0") as port:

        async def scenario(_: FakeClock) -> None:
            for found in (addresses("127.0.0.1"), addresses("127.0.0.1", "127.0.0.2")):
                dialling = asyncio.ensure_future(dial(found, port, running_reactor()))
                await turns()
                dialling.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await dialling
            assert asyncio.all_tasks() == {asyncio.current_task()}

        on_loop(scenario)


# --- Looking up ---


def with_resolver(scenario: Callable[[SystemResolver, FakeClock], Awaitable[None]]) -> None:
    async def run(clock: FakeClock) -> None:
        resolver = SystemResolver(clock)
        try:
            await scenario(resolver, clock)
        finally:
            resolver.close()

    on_loop(run)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> "NameService":
    """The system's name service, which tests may not reach: a table stands in for it."""
    service = NameService()
    monkeypatch.setattr(socket, "getaddrinfo", service.getaddrinfo)
    return service


class NameService:
    """Answers like getaddrinfo, from any thread. `gate` holds every answer back while it is clear."""

    def __init__(self) -> None:
        self.table: dict[str, list[str]] = {}
        self.asked: list[str] = []
        self.busy = 0
        self.busiest = 0
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()

    def getaddrinfo(self, host: str, port: None, **_: object) -> list[tuple[object, ...]]:
        with self._lock:
            self.asked.append(host)
            self.busy += 1
            self.busiest = max(self.busiest, self.busy)
        self.gate.wait(20)
        with self._lock:
            self.busy -= 1
        if host not in self.table:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(0, 0, 0, "", (text, 0)) for text in self.table[host]]


def test_addresses_of_a_name(answers: NameService) -> None:
    """In the system's order, each once; addresses that name an interface are none."""
    answers.table["a.test"] = ["::1", "127.0.0.1", "::1", "fe80::1%lo", "10.0.0.1"]

    async def scenario(resolver: SystemResolver, _: FakeClock) -> None:
        assert await resolver.resolve("s1", "a.test") == addresses("::1", "127.0.0.1", "10.0.0.1")

    with_resolver(scenario)


def test_answers_are_kept_for_a_while(answers: NameService) -> None:
    answers.table["a.test"] = ["127.0.0.1"]

    async def scenario(resolver: SystemResolver, clock: FakeClock) -> None:
        await resolver.resolve("s1", "a.test")
        answers.table["a.test"] = ["127.0.0.2"]
        clock.advance(29)
        assert await resolver.resolve("s2", "a.test") == addresses("127.0.0.1")
        clock.advance(2)
        assert await resolver.resolve("s2", "a.test") == addresses("127.0.0.2")
        assert answers.asked == ["a.test", "a.test"]

    with_resolver(scenario)


@pytest.mark.parametrize("table", [{}, {"a.test": ["fe80::1%lo"]}, {"a.test": []}])
def test_name_without_an_address(table: dict[str, list[str]], answers: NameService) -> None:
    """A failure is not kept."""
    answers.table.update(table)

    async def scenario(resolver: SystemResolver, _: FakeClock) -> None:
        for _number in range(2):
            with pytest.raises(UpstreamError) as failed:
                await resolver.resolve("s1", "a.test")
            assert failed.value.code == Code.DNS_FAILED
        answers.table["a.test"] = ["127.0.0.1"]
        assert await resolver.resolve("s1", "a.test") == addresses("127.0.0.1")

    with_resolver(scenario)


def test_name_service_that_does_not_answer(answers: NameService) -> None:
    answers.gate.clear()

    async def scenario(resolver: SystemResolver, clock: FakeClock) -> None:
        asking = asyncio.ensure_future(resolver.resolve("s1", "a.test"))
        while not answers.asked:
            await asyncio.sleep(0)
        clock.advance(10.1)
        with pytest.raises(UpstreamError) as failed:
            await asking
        assert failed.value.code == Code.DNS_FAILED
        answers.gate.set()

    with_resolver(scenario)


def test_one_session_does_not_take_every_turn(answers: NameService) -> None:
    """Eight look-ups of a session at a time; another session is served meanwhile."""
    answers.gate.clear()
    names = [f"x{number}.test" for number in range(30)]
    answers.table.update({name: ["127.0.0.1"] for name in [*names, "other.test"]})

    async def scenario(resolver: SystemResolver, _: FakeClock) -> None:
        asking = [asyncio.ensure_future(resolver.resolve("s1", name)) for name in names]
        while len(answers.asked) < 8:
            await asyncio.sleep(0)
        other = asyncio.ensure_future(resolver.resolve("s2", "other.test"))
        while "other.test" not in answers.asked:
            await asyncio.sleep(0)
        assert answers.busy == 9
        answers.gate.set()
        await asyncio.gather(*asking, other)
        assert answers.busiest <= 9
        resolver.forget("s1")
        resolver.forget("s1")

    with_resolver(scenario)


def test_memory_of_answers_is_bounded(answers: NameService) -> None:
    answers.table.update({f"x{number}.test": ["127.0.0.1"] for number in range(2100)})

    async def scenario(resolver: SystemResolver, _: FakeClock) -> None:
        for number in range(2100):
            await resolver.resolve("s1", f"x{number}.test")
        before = len(answers.asked)
        await resolver.resolve("s1", "x2099.test")
        assert len(answers.asked) == before
        await resolver.resolve("s1", "x0.test")
        assert len(answers.asked) == before + 1

    with_resolver(scenario)


def test_refusal_says_more_than_a_missing_way_out() -> None:
    """Where one family is refused and the other has no route, the refusal is told."""
    with closed_port() as port:
        for found in (("127.0.0.1", "127.255.255.255"), ("127.255.255.255", "127.0.0.1")):
            assert failure_of(addresses(*found), port).code == Code.CONNECT_REFUSED


def test_event_of_another_socket_with_the_same_number() -> None:
    """A handler closes a socket of which the kernel has news, and dials; the news is not about the new connection,
    which gets that number."""
    with full_backlog() as port:

        async def scenario(clock: FakeClock) -> None:
            reactor, loop = running_reactor(), asyncio.get_running_loop()
            (one, one_far), (two, two_far) = socket.socketpair(), socket.socketpair()
            outcome: list[object] = []
            runners: list[Runner] = []

            async def work() -> None:
                try:
                    outcome.append(await dial(addresses("127.0.0.1"), port, reactor))
                except UpstreamError as error:
                    outcome.append(error.code)

            def handle(events: int) -> None:
                if events & READABLE and not runners:
                    number = two.fileno()
                    reactor.forget(number)
                    two.close()
                    runners.append(run(work(), loop))
                    assert stat.S_ISSOCK(os.fstat(number).st_mode)

            reactor.watch(one.fileno(), handle)
            reactor.watch(two.fileno(), lambda _: None)
            await turns()
            one_far.send(b"x")
            two_far.send(b"x")
            await turns()
            assert (len(runners), outcome) == (1, [])
            clock.advance(10)
            await runners[0].join()
            assert outcome == [Code.CONNECT_TIMEOUT]
            reactor.forget(one.fileno())
            for end in (one, one_far, two_far):
                end.close()

        on_loop(scenario)


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.mark.parametrize("found", [("127.0.0.1",), ("127.0.0.1", "127.0.0.2")])
@pytest.mark.parametrize("later", range(8))
def test_dial_that_is_given_up_at_any_time(later: int, found: tuple[str, ...]) -> None:
    """Also in the moment in which the connection is there: nothing stays open, and nothing is complained about."""
    complaints: list[object] = []
    with echo("0.0.0.0") as origin:

        async def scenario(_: FakeClock) -> None:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: complaints.append(context))
            await turns()
            before = dialled_to(origin.port)
            peers: list[Peer] = []

            async def work() -> None:
                peer, _ = await dial(addresses(*found), origin.port, running_reactor())
                peers.append(peer)

            runner = run(work(), loop)
            await turns(later)
            runner.cancel()
            await turns(10)
            for peer in peers:
                peer.close()
            assert runner.done
            assert dialled_to(origin.port) == before

        on_loop(scenario)
    assert complaints == []


def dialled_to(port: int) -> int:
    """Sockets of this process that were dialled to a port; the origin's own, accepted ones do not count."""
    return sum(_is_dialled_to(descriptor, port) for descriptor in os.listdir("/proc/self/fd"))


def _is_dialled_to(descriptor: str, port: int) -> bool:
    try:
        if not os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:"):
            return False
        with socket.socket(fileno=os.dup(int(descriptor))) as one:
            return one.family in (socket.AF_INET, socket.AF_INET6) and one.getpeername()[1] == port
    except OSError:
        return False  # not connected, or closed meanwhile


def test_losers_of_the_race_are_closed() -> None:
    with echo() as origin, full_backlog("127.0.0.2", origin.port), full_backlog("127.0.0.3", origin.port):

        async def scenario(clock: FakeClock) -> None:
            await turns()
            before = open_descriptors()
            found = addresses("127.0.0.2", "127.0.0.3", "127.0.0.1")
            dialling = asyncio.ensure_future(dial(found, origin.port, running_reactor()))
            await turns()
            clock.advance(0.3)
            await turns()
            assert open_descriptors() == before + 2
            clock.advance(0.3)
            peer, address = await dialling
            assert address == ip_address("127.0.0.1")
            peer.close()
            origin.wait_ended(1)
            assert open_descriptors() == before
            assert asyncio.all_tasks() == {asyncio.current_task()}

        on_loop(scenario)


def test_no_descriptor_left() -> None:
    """Trouble like any other, for one address and for several; and no address is taken for a foreign one."""

    async def scenario(_: FakeClock) -> None:
        await turns()
        for found in (("127.0.0.1",), ("127.0.0.1", "127.0.0.2")):
            with no_more_descriptors(), pytest.raises(UpstreamError) as failed:
                await dial(addresses(*found), 8080, running_reactor())
            assert failed.value.code == Code.UNREACHABLE
        with no_more_descriptors(), pytest.raises(UpstreamError):
            is_own_address(ip_address("127.77.77.77"))

    on_loop(scenario)


@contextlib.contextmanager
def no_more_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as held:
        lowest = held.enter_context(socket.socket()).fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + 1, hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        yield


def test_threads_that_hang_count(answers: NameService) -> None:
    """Whoever asks for names that nobody answers gets eight threads, not eight more every ten seconds."""
    answers.gate.clear()
    names = [f"x{number}.test" for number in range(24)]

    async def scenario(resolver: SystemResolver, clock: FakeClock) -> None:
        for start in (0, 8, 16):
            asking = [
                asyncio.ensure_future(resolver.resolve("s1", name)) for name in names[start : start + 8]
            ]
            while len(answers.asked) < 8:
                await asyncio.sleep(0)
            await turns()
            clock.advance(10.1)
            for failed in await asyncio.gather(*asking, return_exceptions=True):
                assert isinstance(failed, UpstreamError)
                assert failed.code == Code.DNS_FAILED
        assert (len(answers.asked), answers.busiest) == (8, 8)
        # Once the threads are free, there are turns again.
        answers.gate.set()
        answers.table["a.test"] = ["127.0.0.1"]
        assert await resolver.resolve("s1", "a.test") == addresses("127.0.0.1")

    with_resolver(scenario)


def test_lookup_that_is_given_up(answers: NameService) -> None:
    """Its turn comes back with its thread; one that has not begun is not begun."""
    answers.gate.clear()
    answers.table["a.test"] = ["127.0.0.1"]

    async def scenario(resolver: SystemResolver, _: FakeClock) -> None:
        asking = [asyncio.ensure_future(resolver.resolve("s1", f"x{number}.test")) for number in range(9)]
        while len(answers.asked) < 8:
            await asyncio.sleep(0)
        for task in asking:
            task.cancel()
        assert all(
            isinstance(end, asyncio.CancelledError)
            for end in await asyncio.gather(*asking, return_exceptions=True)
        )
        answers.gate.set()
        assert await resolver.resolve("s1", "a.test") == addresses("127.0.0.1")
        assert "x8.test" not in answers.asked

    with_resolver(scenario)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_address_instead_of_a_name(host: str) -> None:
    """The system's own name service reads it without asking anybody."""

    async def scenario(resolver: SystemResolver, _: FakeClock) -> None:
        assert await resolver.resolve("s1", host) == addresses(host)

    with_resolver(scenario)


def test_resolver_that_is_closed_with_lookups_under_way(answers: NameService) -> None:
    """Nobody waits for them, and their threads do not stumble over the loop's end."""
    answers.gate.clear()

    async def scenario(resolver: SystemResolver, _: FakeClock) -> None:
        asking = asyncio.ensure_future(resolver.resolve("s1", "a.test"))
        while not answers.asked:
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])

    with_resolver(scenario)
    answers.gate.set()
