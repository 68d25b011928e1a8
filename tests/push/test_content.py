"""What follows the commands: decoded, held, passed on, thrown away, each time once and in order."""

import asyncio
import gzip
import os
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

import pytest

from gateway.policy.push import UpdateKind
from gateway.push.commands import Command, CommandError
from gateway.push.content import Content
from gateway.push.inbound import SLOT, ClientGone, Inbound
from gateway.push.kinds import KindFinder
from gateway.push.spool import SpoolError
from gateway.push.verdicts import UNPROVEN, RefVerdict
from tests.fakes.proofs import ALLOW, NEW, OLD, PROVING, Forge

PATIENCE = 30


class Client:
    """Sends a body in pieces, as the server would hand it over, and then ends it or leaves."""

    def __init__(self, data: bytes, *, size: int = 1000, leaves: bool = False) -> None:
        self.inbound = Inbound()
        self._data, self._size, self._leaves = data, size, leaves
        self._task = asyncio.ensure_future(self._send())

    async def _send(self) -> None:
        for at in range(0, len(self._data), self._size):
            room = self.inbound.put(self._data[at : at + self._size])
            await (room or asyncio.sleep(0))
        if self._leaves:
            self.inbound.cut()
        else:
            self.inbound.end()

    async def over(self) -> None:
        await self._task


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            await test()

    asyncio.run(main())


async def collected(content: Content) -> bytes:
    async with aclosing(content.pass_on()) as pieces:
        return b"".join([piece async for piece in pieces])


@pytest.mark.parametrize("encoding", ["", "identity", "gzip", "x-gzip", "GZIP"])
def test_reading(encoding: str) -> None:
    data = os.urandom(10_000)

    async def test() -> None:
        sent = data if encoding in {"", "identity"} else gzip.compress(data)
        content = Content(Client(sent).inbound, encoding)
        assert b"".join([piece async for piece in content.pass_on()]) == data
        assert await content.read() == b""
        assert content.ended

    run(test)


def test_a_coding_that_is_not_known() -> None:
    with pytest.raises(CommandError) as caught:
        Content(Inbound(), "br")
    assert caught.value.status == 415


def test_a_coding_that_breaks() -> None:
    async def test() -> None:
        content = Content(Client(b"no gzip at all").inbound, "gzip")
        with pytest.raises(CommandError):
            await content.read()
        await content.discard()

    run(test)


def test_what_is_given_back_is_read_again() -> None:
    async def test() -> None:
        content = Content(Client(b"commands and pack").inbound, "", 17)
        data = await content.read()
        content.give_back(data[9:])
        assert content.remaining == 8
        assert await collected(content) == b"and pack"

    run(test)


@pytest.mark.parametrize("enough", [0, 3000, 10_000_000])
def test_held_then_passed_on(enough: int, tmp_path: Path) -> None:
    """However much is held, all of it goes on, once."""
    data = os.urandom(2_000_000)

    async def test() -> None:
        client = Client(data, size=50_000)
        content = Content(client.inbound, "", len(data))
        await content.hold(tmp_path, lambda: client.inbound.received > enough)
        assert content.remaining == len(data)
        assert await collected(content) == data
        content.close()
        content.close()

    run(test)


def test_holding_goes_on_where_it_stopped(tmp_path: Path) -> None:
    async def test() -> None:
        client = Client(b"one two three", size=4)
        content = Content(client.inbound)
        stops = iter([False, True])
        await content.hold(tmp_path, lambda: next(stops))
        await content.hold(tmp_path, lambda: False)
        assert content.ended
        assert await collected(content) == b"one two three"

    run(test)


def test_a_client_that_breaks_off_leaves_nothing_whole() -> None:
    """The last piece is kept back until the end is known: GitHub could take the rest of a pack for all of it."""
    data = os.urandom(100_000)

    async def test() -> None:
        content = Content(Client(data, leaves=True).inbound)
        seen = b""
        with pytest.raises(ClientGone):
            async for piece in content.pass_on():
                seen += piece
        assert len(seen) < len(data)

    run(test)


def test_a_client_that_leaves_while_the_spool_is_passed_on(tmp_path: Path) -> None:
    data = os.urandom(4 * SLOT)

    async def test() -> None:
        client = Client(data)
        content = Content(client.inbound)
        await content.hold(tmp_path, lambda: False)
        seen = b""
        with pytest.raises(ClientGone):
            async for piece in content.pass_on():
                seen += piece
                client.inbound.cut()
        assert len(seen) < len(data)

    run(test)


def test_too_much_to_hold(tmp_path: Path) -> None:
    async def test() -> None:
        content = Content(Client(b"x").inbound)
        with pytest.raises(SpoolError):
            await content.hold(tmp_path / "missing", lambda: False)
        await content.discard()

    run(test)


@pytest.mark.parametrize("way", ["hold", "pass on", "drain"])
def test_the_scanner_sees_all_of_it(way: str, tmp_path: Path) -> None:
    ref = RefVerdict(Command(OLD, NEW, "refs/heads/x"), dict.fromkeys(UNPROVEN, ALLOW))

    async def test() -> None:
        content = Content(Client(PROVING, size=100).inbound)
        content.finder = KindFinder("sha1", [ref], Forge())
        if way == "hold":
            await content.hold(tmp_path, lambda: False)
            content.close()
        elif way == "pass on":
            assert await collected(content) == PROVING
        else:
            await content.drain()
        assert ref.kind is UpdateKind.FAST_FORWARD

    run(test)


def test_the_length_is_unknown_for_chunks_and_for_gzip() -> None:
    async def test() -> None:
        assert Content(Inbound()).remaining is None
        assert Content(Inbound(), "gzip", 10).remaining is None

    run(test)
