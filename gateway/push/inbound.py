"""The body of a push on its way in: bytes as they were sent, handed over piece by piece with one bounded place between.

The server puts, the receiver takes; while nobody takes, nothing is read from the client. It decodes and judges nothing.
"""

import asyncio
from typing import Final

# Bytes that wait to be taken: enough for the next write to GitHub, small enough to be nothing in memory.
SLOT: Final = 256 * 1024
# Seconds without a byte after which a client has stalled. Git computes deltas before it sends, so its pauses are short.
IDLE: Final = 180.0


class ClientGone(Exception):
    """The client left before its push was over: nothing more of it may happen."""


class ClientStalled(Exception):
    """The client has sent nothing for too long."""


class Inbound:
    """One body. Changes; `put`, `end` and `cut` are the server's side, the rest the receiver's; one loop for both."""

    def __init__(self, *, idle: float = IDLE) -> None:
        self.received = 0
        self.gone = False
        self._idle = idle
        self._pieces: list[bytes] = []
        self._held = 0
        self._ended = False
        self._dropping = False
        self._room: asyncio.Future[None] | None = None
        self._news: asyncio.Future[None] | None = None
        self._departed = asyncio.Event()

    # --- The server's side ---

    def put(self, data: bytes) -> "asyncio.Future[None] | None":
        """Takes a piece; what it returns is to be awaited before the next one."""
        self.received += len(data)
        if self._dropping or self.gone:
            return None
        self._pieces.append(data)
        self._held += len(data)
        _wake(self._news)
        if self._held < SLOT:
            return None
        self._room = asyncio.get_running_loop().create_future()
        return self._room

    def end(self) -> None:
        """The body came to its end."""
        self._ended = True
        _wake(self._news)

    def cut(self) -> None:
        """The connection is closed."""
        self.gone = True
        self._pieces.clear()
        self._departed.set()
        _wake(self._news)
        _wake(self._room)

    # --- The receiver's side ---

    @property
    def whole(self) -> bool:
        """Did the body come to its end, whether it was taken or not?"""
        return self._ended

    async def read(self) -> bytes:
        """All that waits; at least a byte, or nothing at the body's end. ClientGone, ClientStalled."""
        while not self._pieces and not self._ended and not self.gone:
            self._news = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(self._idle):
                    await self._news
            except TimeoutError:
                raise ClientStalled from None
        if self.gone:
            raise ClientGone
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._held = 0
        _wake(self._room)
        return data

    async def drain(self) -> None:
        """Reads to the end and keeps nothing. ClientGone, ClientStalled."""
        while await self.read():
            pass

    def drop(self) -> None:
        """Nobody reads any more: what still comes is thrown away, so that the server can read to the end."""
        self._dropping = True
        self._pieces.clear()
        self._held = 0
        _wake(self._room)

    async def departure(self) -> None:
        """Returns when the client has gone; only noticed while the body is being read, or after its end."""
        await self._departed.wait()

    def check(self) -> None:
        """Raises ClientGone if the client has gone."""
        if self.gone:
            raise ClientGone


def _wake(waiting: "asyncio.Future[None] | None") -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)
