"""A non-blocking socket with awaitable reads and writes and one deadline. It knows nothing of what it carries."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable
from typing import Final

from gateway.proxy.reactor import ENDING, READABLE, WRITABLE, Reactor
from gateway.proxy.runner import Wait

# Bytes of one read: a whole head, or one TLS record and more.
READ_SIZE: Final = 64 * 1024

# Reads without waiting before others have their turn: a peer that sends without end must not hold up the loop.
_READS_AT_ONCE: Final = 4

NEVER: Final = float("inf")


class DeadlineError(Exception):
    """The peer did not do in time what was waited for."""


class Peer:
    """One end of a connection. Changes; one coroutine at a time reads and one writes.

    `readable` is a guess (false: certainly nothing to read), `ending` whether the kernel said that the other end has
    finished or failed, or that a short read may have more behind it. `deadline` is in seconds of the listener's clock;
    whoever sweeps calls `expire` when it has passed. `bytes_in` and `bytes_out` count what was read from and sent to
    this peer. `takes_nothing`: sending has failed; what the other end said before can be read, up to its end.
    """

    __slots__ = (
        "_at_once",
        "_early",
        "_failure",
        "_reactor",
        "_reader",
        "_writer",
        "bytes_in",
        "bytes_out",
        "deadline",
        "ending",
        "fd",
        "on_reset",
        "readable",
        "socket",
        "takes_nothing",
    )

    def __init__(self, connected: socket.socket, reactor: Reactor, *, readable: bool = True) -> None:
        self.socket = connected
        self.fd = connected.fileno()
        self.deadline = NEVER
        self.bytes_in = 0
        self.bytes_out = 0
        self.readable = readable
        self._reactor = reactor
        self._early = b""
        self._at_once = 0
        self.ending = False
        self.takes_nothing = False
        self._failure: Exception | None = None
        self._reader: Wait | None = None
        self._writer: Wait | None = None
        self.on_reset: Callable[[], None] | None = None
        reactor.watch(self.fd, self._changed)

    @property
    def stale(self) -> bool:
        """True when something came that nobody waits for: the other end has closed, or says what it was not asked."""
        if self._failure is not None or self._early:
            return True
        if not self.readable:
            return False
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True
        return True

    async def receive(self) -> bytes:
        """The next bytes, at most `READ_SIZE`; empty when the peer has finished sending. OSError, DeadlineError."""
        if self._early:
            data, self._early = self._early, b""
            self.bytes_in += len(data)
            return data
        while True:
            if self._failure is not None:
                raise self._failure
            if self.readable:
                try:
                    data = self.socket.recv(READ_SIZE)
                except (BlockingIOError, InterruptedError):
                    self.readable = False
                else:
                    # A short read has taken everything, unless the end is behind it.
                    self.readable = len(data) == READ_SIZE or self.ending
                    self.bytes_in += len(data)
                    self._at_once += 1
                    if self._at_once > _READS_AT_ONCE:
                        self._at_once = 0
                        await asyncio.sleep(0)
                    return data
            self._at_once = 0
            self._reader = Wait()
            await self._reader

    async def send(self, data: bytes) -> None:
        """Sends everything, waiting while the peer is slow. OSError, DeadlineError."""
        if self._failure is not None:
            raise self._failure
        sent = self._send_some(data)
        if sent < len(data):
            await self._send_rest(memoryview(data)[sent:])
        self.bytes_out += len(data)

    async def _send_rest(self, rest: memoryview) -> None:
        while rest:
            await self.writable()
            rest = rest[self._send_some(rest) :]

    def _send_some(self, data: bytes | memoryview) -> int:
        try:
            return self.socket.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self.takes_nothing = True
            raise

    async def writable(self) -> None:
        """Waits for the next time the socket takes bytes; for one that connects, until it has or has failed."""
        if self._failure is not None:
            raise self._failure
        self._writer = Wait()
        await self._writer

    def finish_sending(self) -> None:
        """Tells the peer that nothing more will come; what it still sends can be read."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def expire(self) -> None:
        """Fails the read and the send that are waited for, because the deadline has passed."""
        self.deadline = NEVER
        for waiting in (self._reader, self._writer):
            if waiting is not None:
                waiting.fail(DeadlineError())

    def keep(self, data: bytes) -> None:
        """Puts bytes that came too early in front of what is read next."""
        self._early = data + self._early

    def take_early(self) -> bytes:
        """What `keep` was given and nobody has read."""
        data, self._early = self._early, b""
        self.bytes_in += len(data)
        return data

    def abort(self) -> None:
        """Makes whoever waits for this peer go on with an error, without closing the socket yet."""
        self._failure = self._failure or ConnectionAbortedError("given up")
        for waiting in (self._reader, self._writer):
            if waiting is not None:
                # Not now: whoever waits might end the very coroutine that calls this.
                self._reactor.loop.call_soon(waiting.fail, self._failure)

    def detach(self) -> socket.socket:
        """Gives the socket away, still watched; nothing may be asked of the peer any more."""
        self.fd = -1
        return self.socket

    def close(self) -> None:
        """Closes the socket; whoever waits for it goes on with an error. Idempotent."""
        if self.fd < 0:
            return
        self._reactor.forget(self.fd)
        self.fd = -1
        self.socket.close()
        self.abort()

    def _changed(self, events: int) -> None:
        if events & ENDING:
            self.ending = True
            if self.on_reset is not None and self._was_reset():
                self.on_reset()
        if events & READABLE:
            self.readable = True
            reader = self._reader
            if reader is not None:
                self._reader = None
                reader.resume()
        if events & WRITABLE:
            writer = self._writer
            if writer is not None:
                self._writer = None
                writer.resume()

    def _was_reset(self) -> bool:
        """Whether the kernel holds an error for us, which it then holds no longer."""
        status = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            self._failure = self._failure or OSError(status, os.strerror(status))
        return status != 0
