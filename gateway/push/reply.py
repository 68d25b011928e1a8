"""What a client is told while its push is under way, and how its answer begins. The bytes are made by `report`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

from gateway.push.capabilities import Capabilities, Report
from gateway.push.inbound import ClientGone
from gateway.push.report import KEEP_ALIVE, progress

RESULT_TYPE: Final = "application/x-git-receive-pack-result"
# Seconds between two signs of life: proxies and impatient clients give up after thirty and more.
_ALIVE: Final = 10.0


class Reply(Protocol):
    """The answer to one request."""

    async def send(self, data: bytes) -> None:
        """More of a 200 of receive-pack's type, which begins with the first call. ClientGone."""

    async def say(self, status: int, text: str) -> None:
        """A line of plain text instead, as the whole answer; nothing was sent before. ClientGone."""


class Talk:
    """Text for the client's eyes on the side-band, where it has one and will be sent a report. One loop.

    A client that has gone is no fault here: whether that matters, others decide.
    """

    def __init__(
        self,
        reply: Reply,
        capabilities: Capabilities,
        label: str,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.possible = capabilities.sideband and capabilities.report is not Report.NONE
        self.label = label
        self.quiet = capabilities.quiet
        self._reply = reply
        self._sleep = sleep

    async def show(self, text: str) -> None:
        """Text as it is, perhaps of many lines."""
        if self.possible and (data := progress(text)):
            await self._send(data)

    async def say(self, line: str) -> None:
        """A line of our own."""
        await self.show(f"{self.label}: {line}")

    @asynccontextmanager
    async def kept_alive(self) -> AsyncIterator[None]:
        """Signs of life meanwhile."""
        task = asyncio.create_task(self._beat()) if self.possible else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()
                await asyncio.wait((task,))

    async def _beat(self) -> None:
        while True:
            await self._sleep(_ALIVE)
            await self._send(KEEP_ALIVE)

    async def _send(self, data: bytes) -> None:
        try:
            await self._reply.send(data)
        except ClientGone:
            self.possible = False
