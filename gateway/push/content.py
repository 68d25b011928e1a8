"""What follows the commands of a push: decoded, looked at by the scanner alongside, held in a spool where it must wait.

One piece is in memory at a time. It decides nothing: the receiver says when to hold, pass on, or throw away.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path

from gateway.push.gzip_body import BodyDecoder
from gateway.push.inbound import Inbound
from gateway.push.kinds import KindFinder
from gateway.push.spool import Spool


class Content:
    """The decoded body of one push. Changes; one reader at a time.

    `encoding` and `length` are the body's as they were announced, "" and None where they were not. CommandError 415
    for a coding that is not known; `read` raises ClientGone, ClientStalled, and CommandError where the coding breaks.
    """

    def __init__(self, inbound: Inbound, encoding: str = "", length: int | None = None) -> None:
        self._inbound = inbound
        self._decoder = BodyDecoder(encoding)
        self._inflates = encoding.strip().lower() not in {"", "identity"}
        self._length = length
        self._taken = 0
        self._pieces: Iterator[bytes] = iter(())
        self._returned = b""
        self._spool: Spool | None = None
        self.finder: KindFinder | None = None
        self.ended = False

    @property
    def remaining(self) -> int | None:
        """Bytes that `pass_on` will give, as far as the body's announced length tells."""
        if self._length is None or self._inflates:
            return None
        return self._length - self._taken + len(self._returned) + (self._spool.size if self._spool else 0)

    def check(self) -> None:
        """ClientGone if the client has gone."""
        self._inbound.check()

    async def read(self) -> bytes:
        """The next piece; nothing at the end."""
        if self._returned:
            data, self._returned = self._returned, b""
            return data
        while not self.ended:
            for piece in self._pieces:
                self._taken += len(piece)
                if self._inflates:
                    await asyncio.sleep(0)  # inflating takes the loop's time, and may go on for long
                return piece
            data = await self._inbound.read()
            if not data:
                self._decoder.finish()
                self.ended = True
            self._pieces = self._decoder.feed(data)
        return b""

    def give_back(self, data: bytes) -> None:
        """What was read too far is read again."""
        self._returned = data

    async def hold(self, folder: Path | None, enough: Callable[[], bool]) -> None:
        """Reads on into a spool until `enough`, or the end. Besides as `read`: SpoolError."""
        if self._spool is None:
            self._spool = await asyncio.to_thread(Spool, folder)
        spool = self._spool
        while not enough() and (data := await self.read()):
            looking = asyncio.ensure_future(self._look(data))
            try:
                await asyncio.to_thread(spool.write, data)
            finally:
                await looking  # the scanner takes one piece at a time

    async def pass_on(self) -> AsyncGenerator[bytes]:
        """What was held, then the rest as it comes. ClientGone also between two pieces that were held.

        The last piece is not given away before the end is known: what a client breaks off is never whole at GitHub.
        """
        last = b""
        async with aclosing(self._all()) as pieces:
            async for data in pieces:
                if last:
                    yield last
                last = data
        self._inbound.check()
        if last:
            yield last

    async def drain(self) -> None:
        """Reads to the end and keeps nothing, but lets the scanner look."""
        self.close()
        while data := await self.read():
            await self._look(data)

    async def discard(self) -> None:
        """The same without looking or decoding."""
        self.close()
        self._pieces, self._returned = iter(()), b""
        await self._inbound.drain()
        self.ended = True

    def close(self) -> None:
        """Gives the spool's room back. Idempotent."""
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    async def _all(self) -> AsyncGenerator[bytes]:
        spool = self._spool
        if spool is not None:
            await asyncio.to_thread(spool.rewind)
            while data := await asyncio.to_thread(spool.read):
                self._inbound.check()
                yield data
        while data := await self.read():
            looking = asyncio.ensure_future(self._look(data))
            try:
                yield data
            finally:
                await looking

    async def _look(self, data: bytes) -> None:
        if self.finder is not None:
            await self.finder.feed(data)
