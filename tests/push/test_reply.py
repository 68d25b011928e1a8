"""Signs of life and text for a waiting client: only where it understands them."""

import asyncio

import pytest

from gateway.push.capabilities import Capabilities, Report
from gateway.push.inbound import ClientGone
from gateway.push.reply import Talk
from gateway.push.report import KEEP_ALIVE


class Wire:
    """A reply that notes what was sent; `gone` after so many."""

    def __init__(self, lasts: int = 1000) -> None:
        self.sent: list[bytes] = []
        self._lasts = lasts

    async def send(self, data: bytes) -> None:
        if len(self.sent) >= self._lasts:
            raise ClientGone
        self.sent.append(data)

    async def say(self, status: int, text: str) -> None:
        raise AssertionError("nobody asked for that")


async def turns() -> None:
    """Enough turns of the loop for anything that was to happen."""
    for _ in range(20):
        await asyncio.sleep(0)


def talk(wire: Wire, *, sideband: bool = True, report: Report = Report.V2) -> Talk:
    async def turn(seconds: float) -> None:
        await asyncio.sleep(0)

    return Talk(wire, Capabilities(report, sideband, False, False, "sha1"), "Control Center", turn)


def test_text() -> None:
    wire = Wire()
    asyncio.run(talk(wire).say("waiting\x1b[2J"))
    assert wire.sent == [b"0024\x02Control Center: waiting\\x1b[2J\n"]


@pytest.mark.parametrize(("sideband", "report"), [(False, Report.V2), (True, Report.NONE)])
def test_who_cannot_be_talked_to(sideband: bool, report: Report) -> None:
    """Without a report the answer may have to be a status yet, so nothing may be sent before it."""

    async def test() -> None:
        wire = Wire()
        quiet = talk(wire, sideband=sideband, report=report)
        assert not quiet.possible
        await quiet.say("hello")
        async with quiet.kept_alive():
            await turns()
        assert wire.sent == []

    asyncio.run(test())


def test_signs_of_life() -> None:
    async def test() -> None:
        wire = Wire()
        async with talk(wire).kept_alive():
            while len(wire.sent) < 3:
                await asyncio.sleep(0)
        count = len(wire.sent)
        await turns()
        assert wire.sent == [KEEP_ALIVE] * count

    asyncio.run(test())


def test_a_client_that_has_gone_is_no_fault_here() -> None:
    async def test() -> None:
        wire = Wire(lasts=1)
        lively = talk(wire)
        await lively.say("one")
        await lively.say("two")
        assert not lively.possible
        async with lively.kept_alive():
            pass
        assert len(wire.sent) == 1

    asyncio.run(test())


def test_nothing_to_say() -> None:
    wire = Wire()
    asyncio.run(talk(wire).show(""))
    assert wire.sent == []
