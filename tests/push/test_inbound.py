"""The body's one place between server and receiver: bounded, and nobody waits for ever."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from gateway.push.inbound import SLOT, ClientGone, ClientStalled, Inbound

PATIENCE = 30


def run[T](work: Coroutine[Any, Any, T]) -> T:
    async def main() -> T:
        async with asyncio.timeout(PATIENCE):
            return await work

    return asyncio.run(main())


def test_pieces_come_out_in_order() -> None:
    async def test() -> None:
        inbound = Inbound()
        assert inbound.put(b"one ") is None
        assert inbound.put(b"two") is None
        assert await inbound.read() == b"one two"
        inbound.end()
        assert inbound.whole
        assert await inbound.read() == b""
        assert await inbound.read() == b""
        assert inbound.received == 7

    run(test())


def test_a_full_place_makes_the_server_wait() -> None:
    async def test() -> None:
        inbound = Inbound()
        room = inbound.put(bytes(SLOT))
        assert room is not None and not room.done()
        assert len(await inbound.read()) == SLOT
        await room

    run(test())


def test_a_reader_waits_for_news() -> None:
    async def test() -> None:
        inbound = Inbound()
        reading = asyncio.ensure_future(inbound.read())
        await asyncio.sleep(0)
        assert not reading.done()
        inbound.put(b"x")
        assert await reading == b"x"

    run(test())


def test_a_client_that_leaves() -> None:
    """Whoever waits hears of it: the reader, the server, and whoever waits for just that."""

    async def test() -> None:
        inbound = Inbound()
        room = inbound.put(bytes(SLOT))
        departing = asyncio.ensure_future(inbound.departure())
        inbound.check()
        await asyncio.sleep(0)
        inbound.cut()
        assert room is not None
        await room
        await departing
        with pytest.raises(ClientGone):
            await inbound.read()
        with pytest.raises(ClientGone):
            inbound.check()
        assert inbound.put(b"late") is None

    run(test())


def test_a_client_that_leaves_while_it_is_waited_for() -> None:
    async def test() -> None:
        inbound = Inbound()
        reading = asyncio.ensure_future(inbound.read())
        await asyncio.sleep(0)
        inbound.cut()
        with pytest.raises(ClientGone):
            await reading

    run(test())


def test_a_client_that_sends_nothing() -> None:
    async def test() -> None:
        with pytest.raises(ClientStalled):
            await Inbound(idle=0.01).read()

    run(test())


def test_what_is_dropped_takes_no_room() -> None:
    async def test() -> None:
        inbound = Inbound()
        room = inbound.put(bytes(SLOT))
        inbound.drop()
        assert room is not None
        await room
        assert inbound.put(bytes(SLOT)) is None
        assert inbound.received == 2 * SLOT

    run(test())


def test_draining() -> None:
    async def test() -> None:
        inbound = Inbound()
        draining = asyncio.ensure_future(inbound.drain())
        for _ in range(5):
            room = inbound.put(bytes(SLOT))
            if room is not None:
                await room
        inbound.end()
        await draining

    run(test())
