"""Finds a host's addresses and connects to them. What may be dialled is decided before, by the door; nothing is looked
up again between the check and the connection."""

import asyncio
import contextlib
import errno
import ipaddress
import os
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Final, Protocol

from gateway.policy.addresses import Address
from gateway.policy.egress import Code
from gateway.policy.hosts import literal_text
from gateway.proxy.bounds import (
    DIAL_ADDRESSES,
    DIAL_ALL,
    DIAL_ONE,
    DIAL_STAGGER,
    LOOKUP_KEPT,
    LOOKUPS,
    LOOKUPS_KEPT,
    LOOKUPS_PER_SESSION,
    RESOLVE,
)
from gateway.proxy.peer import DeadlineError, Peer
from gateway.proxy.reactor import Reactor

_UNREACHABLE: Final = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EACCES, errno.EPERM}
)
# Linux makes a socket that does not block at once; elsewhere that is a second system call.
_BORN_NON_BLOCKING: Final = hasattr(socket, "SOCK_NONBLOCK")
_STREAM: Final = socket.SOCK_STREAM | getattr(socket, "SOCK_NONBLOCK", 0)


class UpstreamError(Exception):
    """The target cannot be reached; `code` is one of the upstream codes."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Resolver(Protocol):
    """Answers names with addresses. UpstreamError(dns_failed) when it cannot."""

    async def resolve(self, session_id: str, host: str) -> tuple[Address, ...]: ...


class SystemResolver:
    """getaddrinfo in threads of its own, a few per session at a time, with a short memory. Changes; one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._threads = ThreadPoolExecutor(LOOKUPS, thread_name_prefix="resolver")
        self._kept: dict[str, tuple[float, tuple[Address, ...]]] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}

    async def resolve(self, session_id: str, host: str) -> tuple[Address, ...]:
        """The addresses of `host`, in the system's order of preference (RFC 6724)."""
        kept = self._kept.get(host)
        if kept and kept[0] > self._clock():
            return kept[1]
        return await asyncio.ensure_future(self._ask(session_id, host))

    async def _ask(self, session_id: str, host: str) -> tuple[Address, ...]:
        turn = self._turns.setdefault(session_id, asyncio.Semaphore(LOOKUPS_PER_SESSION))
        try:
            async with asyncio.timeout(RESOLVE):
                await turn.acquire()
                addresses = await self._in_thread(host, turn.release)
        except TimeoutError as error:
            raise UpstreamError(Code.DNS_FAILED, f"no name server answered for {host} in time") from error
        except OSError as error:
            raise UpstreamError(
                Code.DNS_FAILED, f"{host} has no address: {error.strerror or error}"
            ) from error
        if len(self._kept) >= LOOKUPS_KEPT:
            self._kept.clear()
        self._kept[host] = (self._clock() + LOOKUP_KEPT, addresses)
        return addresses

    def _in_thread(self, host: str, ended: Callable[[], None]) -> "asyncio.Future[tuple[Address, ...]]":
        """A lookup under way. `ended` is called once its thread is free again, which is later than the end of a
        lookup that is given up: who asks for names that nobody answers must not get one thread after the other."""
        loop = asyncio.get_running_loop()

        def tell(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(ended)

        lookup = self._threads.submit(_look_up, host)
        lookup.add_done_callback(tell)
        return asyncio.wrap_future(lookup)

    def forget(self, session_id: str) -> None:
        """Drops what belongs to a closed session."""
        self._turns.pop(session_id, None)

    def close(self) -> None:
        """Ends the threads; lookups under way are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str) -> tuple[Address, ...]:
    answers = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    found: dict[Address, None] = {}
    for _, _, _, _, where in answers:
        # A scoped address names an interface of this machine: never a public host.
        if "%" not in str(where[0]):
            found[ipaddress.ip_address(where[0])] = None
    if not found:
        raise OSError(errno.EADDRNOTAVAIL, "no usable address")
    return tuple(found)


def is_own_address(address: Address) -> bool:
    """Is this an address of this machine? Asked of the kernel anew every second. UpstreamError when it cannot say."""
    return _is_bindable(address, int(time.monotonic()))


@lru_cache(maxsize=256)
def _is_bindable(address: Address, _second: int) -> bool:
    """The kernel lets a socket bind to the machine's own addresses only."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        probe = socket.socket(family, socket.SOCK_DGRAM)
    except OSError as error:
        if error.errno == errno.EAFNOSUPPORT:
            return False
        raise _translated(error) from error
    with contextlib.closing(probe):
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def interleave(addresses: Sequence[Address]) -> tuple[Address, ...]:
    """The order of RFC 8305 section 4: families in turn, beginning with the first address's."""
    if not addresses:
        return ()
    first = [address for address in addresses if address.version == addresses[0].version]
    other = [address for address in addresses if address.version != addresses[0].version]
    ordered: list[Address] = []
    for index in range(max(len(first), len(other))):
        ordered += first[index : index + 1] + other[index : index + 1]
    return tuple(ordered)


async def dial(addresses: Sequence[Address], port: int, reactor: Reactor) -> tuple[Peer, Address]:
    """A connection to the first of these addresses that answers. UpstreamError."""
    if len(addresses) == 1:
        return await _dial_one(addresses[0], port, reactor), addresses[0]
    return await in_task(_dial_all(addresses, port, reactor))


async def in_task(dialling: Coroutine[Any, Any, tuple[Peer, Address]]) -> tuple[Peer, Address]:
    """Dials in a task of its own, as asyncio's timeouts need it. A connection that is there in the very moment when
    it is given up is closed."""
    task = asyncio.ensure_future(dialling)
    try:
        return await task
    except asyncio.CancelledError:
        task.add_done_callback(_discard)
        raise


def _discard(task: "asyncio.Future[tuple[Peer, Address]]") -> None:
    if not task.cancelled() and task.exception() is None:
        task.result()[0].close()


async def _dial_all(addresses: Sequence[Address], port: int, reactor: Reactor) -> tuple[Peer, Address]:
    try:
        async with asyncio.timeout(DIAL_ALL):
            return await _race(interleave(addresses)[:DIAL_ADDRESSES], port, reactor)
    except TimeoutError as error:
        raise UpstreamError(Code.CONNECT_TIMEOUT, "the host did not answer in time") from error


async def _race(addresses: Sequence[Address], port: int, reactor: Reactor) -> tuple[Peer, Address]:
    """Starts one attempt after the other and takes the first that succeeds (RFC 8305 section 5)."""
    waiting = list(addresses)
    running: dict[asyncio.Task[Peer], Address] = {}
    failure = UpstreamError(Code.UNREACHABLE, "no address of the host can be reached")
    try:
        while waiting or running:
            if waiting:
                address = waiting.pop(0)
                running[asyncio.ensure_future(_dial_one(address, port, reactor))] = address
            stagger = DIAL_STAGGER if waiting else None
            done, _ = await asyncio.wait(running, timeout=stagger, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                address = running.pop(task)
                try:
                    return task.result(), address
                except UpstreamError as error:
                    # A family that this machine has no way out for says less than what an address answered.
                    failure = error if failure.code is Code.UNREACHABLE else failure
        raise failure
    finally:
        await _abandon(running)


async def _abandon(running: dict["asyncio.Task[Peer]", Address]) -> None:
    """Ends attempts that lost the race, and closes a connection that one of them won meanwhile."""
    for task in running:
        task.cancel()
    for result in await asyncio.gather(*running, return_exceptions=True):
        if isinstance(result, Peer):
            result.close()


async def _dial_one(address: Address, port: int, reactor: Reactor) -> Peer:
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        connection = socket.socket(family, _STREAM, socket.IPPROTO_TCP)
    except OSError as error:  # no descriptor left, or no IPv6 here
        raise _translated(error) from error
    peer: Peer | None = None
    try:
        if not _BORN_NON_BLOCKING:
            connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        status = connection.connect_ex((literal_text(address), port))
        if status not in (0, errno.EINPROGRESS):
            raise OSError(status, os.strerror(status))
        peer = Peer(connection, reactor, readable=False)
        # A connection inside the machine is there at once; that saves a turn of the event loop.
        if status and not _is_connected(connection):
            await _connected(peer, reactor)
    except DeadlineError as error:
        _close(peer, connection)
        raise UpstreamError(Code.CONNECT_TIMEOUT, "the host did not answer in time") from error
    except OSError as error:
        _close(peer, connection)
        raise _translated(error) from error
    except BaseException:
        _close(peer, connection)
        raise
    return peer


def _is_connected(connection: socket.socket) -> bool:
    try:
        connection.getpeername()
    except OSError:
        return False
    return True


async def _connected(peer: Peer, reactor: Reactor) -> None:
    """Waits until the kernel knows. OSError, DeadlineError."""
    timer = reactor.loop.call_later(DIAL_ONE, peer.expire)
    try:
        while True:
            await peer.writable()
            if _is_connected(peer.socket):
                return
            # Failed; or the event was still about a closed socket of the same number.
            status = peer.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if status:
                raise OSError(status, os.strerror(status))
    finally:
        timer.cancel()


def _close(peer: Peer | None, connection: socket.socket) -> None:
    if peer is not None:
        peer.close()
    else:
        connection.close()


def _translated(error: OSError) -> UpstreamError:
    if error.errno == errno.ECONNREFUSED:
        return UpstreamError(Code.CONNECT_REFUSED, "the host refused the connection")
    if error.errno == errno.ETIMEDOUT:
        return UpstreamError(Code.CONNECT_TIMEOUT, "the host did not answer in time")
    if error.errno in _UNREACHABLE:
        return UpstreamError(Code.UNREACHABLE, "the host cannot be reached from here")
    return UpstreamError(Code.UNREACHABLE, f"the host cannot be reached: {error.strerror or error}")
