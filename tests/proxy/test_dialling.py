"""Finding a host's addresses and connecting to them."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from ipaddress import ip_address
from typing import Any

import pytest

from gateway.policy.addresses import Address
from gateway.policy.egress import Code
from gateway.proxy.dialling import SystemResolver, UpstreamError, dial, interleave, is_own_address
from gateway.proxy.reactor import running_reactor
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
