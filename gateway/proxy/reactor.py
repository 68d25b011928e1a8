"""Readiness of sockets, reported once per change, to one handler per descriptor; and the event loop built on it.

asyncio's own `add_reader` costs two system calls and a dozen Python calls each time a socket is looked at, and every
turn of its loop as much again; a tunnel needs eight of each. Here a descriptor is registered once (edge-triggered
epoll, or kqueue with EV_CLEAR), and handlers run inside the loop's own wait for events. Whoever is told "readable" must
read until there is no more, or remember it.
"""

import asyncio
import logging
import select
import selectors
import sys
import time
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any, Final, TypeVarTuple

READABLE: Final = 1
WRITABLE: Final = 2
# The other end has finished or failed, or has marked a byte as urgent, at which a read stops short: reading goes on
# until it finds the end, or nothing.
ENDING: Final = 4

Handler = Callable[[int], None]
Events = list[tuple[int, int]]
_Ts = TypeVarTuple("_Ts")

# Events taken from the kernel at once.
_BATCH: Final = 256
# Seconds of one wait at most, when nothing is due: the loop looks after itself now and then.
_LONGEST_WAIT: Final = 60.0

_log = logging.getLogger(__name__)


class Reactor(selectors.BaseSelector):
    """The selector of a `GatewayLoop`, which also serves the handlers. Changes; used from its loop's thread.

    Closing a descriptor ends its registration; `forget` must come before.
    """

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop
        # Set when asyncio has something to do: then `select` returns to it.
        self.nudged = False
        self._handlers: dict[int, Handler] = {}
        self._set = _KernelSet()
        self._take = self._set.take
        # What asyncio watches for itself: its own wake-up pipe, and whatever uses add_reader.
        self._others = selectors.DefaultSelector()
        self._others_descriptor = self._others.fileno()
        self._set.add_level(self._others_descriptor)

    def watch(self, descriptor: int, handler: Handler) -> None:
        """Calls `handler` with READABLE, WRITABLE, ENDING (or'ed) at each change, the state now included."""
        self._set.add(descriptor)
        self._handlers[descriptor] = handler

    def watch_listener(self, descriptor: int, handler: Handler) -> None:
        """Calls `handler` as long as there is something to accept, not only at changes. Where several processes watch
        the same listener, one of them is woken for each connection."""
        self._set.add_shared(descriptor)
        self._handlers[descriptor] = handler

    def unwatch(self, descriptor: int) -> None:
        """Ends the watching of a descriptor that stays open."""
        if self._handlers.pop(descriptor, None) is not None:
            self._set.remove(descriptor)

    def replace(self, descriptor: int, handler: Handler) -> None:
        """Another handler for a watched descriptor; what the former one knew it must be told."""
        self._handlers[descriptor] = handler

    def forget(self, descriptor: int) -> None:
        """The descriptor is about to be closed."""
        self._handlers.pop(descriptor, None)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Waits as asyncio asks, and serves handlers meanwhile; returns what is asyncio's."""
        wait = _LONGEST_WAIT if timeout is None else max(timeout, 0.0)
        end = time.monotonic() + wait
        handlers = self._handlers
        self.nudged = False
        while True:
            others = False
            for descriptor, events in self._take(wait):
                handler = handlers.get(descriptor)
                if handler is not None:
                    try:
                        handler(events)
                    except Exception:
                        # A handler answers for its own connection; the others must be served all the same.
                        _log.exception("a connection's handler failed")
                elif descriptor == self._others_descriptor:
                    others = True
            if others:
                return self._others.select(0)
            wait = end - time.monotonic()
            if self.nudged or wait <= 0:
                return []

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """asyncio's: see `selectors.BaseSelector`."""
        return self._others.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """asyncio's: see `selectors.BaseSelector`."""
        return self._others.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """asyncio's: see `selectors.BaseSelector`."""
        return self._others.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """asyncio's: see `selectors.BaseSelector`."""
        return self._others.get_map()

    def close(self) -> None:
        """Ends all watching."""
        self._handlers.clear()
        self._others.close()
        self._set.close()


class GatewayLoop(asyncio.SelectorEventLoop):
    """An asyncio event loop whose wait for events serves a `Reactor`."""

    def __init__(self) -> None:
        self.reactor = Reactor()
        super().__init__(self.reactor)
        self.reactor.loop = self

    def call_soon(
        self, callback: Callable[[*_Ts], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As in asyncio; ends the wait for events."""
        self.reactor.nudged = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """As in asyncio; ends the wait for events, which may be too long now."""
        self.reactor.nudged = True
        return super().call_at(when, callback, *args, context=context)


def running_reactor() -> Reactor:
    """The reactor of the running loop. RuntimeError when the loop is not a `GatewayLoop`."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, GatewayLoop):
        raise RuntimeError("the proxies run in a GatewayLoop only: asyncio.Runner(loop_factory=GatewayLoop)")
    return loop.reactor


if sys.platform == "linux":
    _READ: Final = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
    _WRITE: Final = select.EPOLLOUT | select.EPOLLHUP | select.EPOLLERR
    _END: Final = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR | select.EPOLLPRI
    _INTEREST: Final = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLPRI | select.EPOLLET
    # What an epoll mask means to a handler; a byte long, but for RDHUP.
    _MEANING: Final = {
        mask: (READABLE if mask & _READ else 0)
        | (WRITABLE if mask & _WRITE else 0)
        | (ENDING if mask & _END else 0)
        for bits in range(64)
        for mask in [
            (select.EPOLLIN if bits & 1 else 0)
            | (select.EPOLLOUT if bits & 2 else 0)
            | (select.EPOLLERR if bits & 4 else 0)
            | (select.EPOLLHUP if bits & 8 else 0)
            | (select.EPOLLRDHUP if bits & 16 else 0)
            | (select.EPOLLPRI if bits & 32 else 0)
        ]
    }

    class _KernelSet:
        def __init__(self) -> None:
            self._epoll = select.epoll()

        def close(self) -> None:
            self._epoll.close()

        def add(self, descriptor: int) -> None:
            self._epoll.register(descriptor, _INTEREST)

        def add_level(self, descriptor: int) -> None:
            self._epoll.register(descriptor, select.EPOLLIN)

        def add_shared(self, descriptor: int) -> None:
            self._epoll.register(descriptor, select.EPOLLIN | select.EPOLLEXCLUSIVE)

        def remove(self, descriptor: int) -> None:
            self._epoll.unregister(descriptor)

        def take(self, wait: float) -> Events:
            return [(descriptor, _MEANING[mask]) for descriptor, mask in self._epoll.poll(wait, _BATCH)]

else:

    class _KernelSet:
        def __init__(self) -> None:
            self._kqueue = select.kqueue()

        def close(self) -> None:
            self._kqueue.close()

        def add(self, descriptor: int) -> None:
            self._change(descriptor, select.KQ_EV_ADD | select.KQ_EV_CLEAR, select.KQ_FILTER_READ)
            self._change(descriptor, select.KQ_EV_ADD | select.KQ_EV_CLEAR, select.KQ_FILTER_WRITE)

        def add_level(self, descriptor: int) -> None:
            self._change(descriptor, select.KQ_EV_ADD, select.KQ_FILTER_READ)

        def add_shared(self, descriptor: int) -> None:
            self.add_level(descriptor)

        def remove(self, descriptor: int) -> None:
            self._change(descriptor, select.KQ_EV_DELETE, select.KQ_FILTER_READ)

        def take(self, wait: float) -> Events:
            return [
                (
                    event.ident,
                    (READABLE if event.filter == select.KQ_FILTER_READ else WRITABLE)
                    | (READABLE | WRITABLE | ENDING if event.flags & select.KQ_EV_EOF else 0),
                )
                for event in self._kqueue.control(None, _BATCH, wait)
            ]

        def _change(self, descriptor: int, flags: int, kind: int) -> None:
            self._kqueue.control([select.kevent(descriptor, kind, flags)], 0)
