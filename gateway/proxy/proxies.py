"""The proxies of all sessions of this process: one mitmproxy Master, one door, one sweep of the deadlines."""

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Self

from gateway.authorizer import Authorizer
from gateway.policy.limits import Limits
from gateway.proxy.addons import EgressPolicy
from gateway.proxy.bounds import SWEEP
from gateway.proxy.company_proxy import read_company_proxy
from gateway.proxy.connection import Gate
from gateway.proxy.dialling import Resolver, SystemResolver
from gateway.proxy.embedding import Hooks
from gateway.proxy.listener import SessionProxies
from gateway.proxy.reactor import running_reactor
from gateway.proxy.shares import Shares
from gateway.proxy.workers import Pair, Workers, processes_for
from gateway.session import Session


class Proxies:
    """Opens and closes sessions' proxies. Changes; used from one event loop, inside `async with`.

    `clock` returns seconds of a monotonic clock; `resolver` defaults to the system's. `cores` are those that a
    session's processes may use: with one there is this process alone.
    """

    def __init__(
        self,
        door: Authorizer,
        *,
        resolver: Resolver | None = None,
        clock: Callable[[], float] = time.monotonic,
        cores: int = 1,
    ) -> None:
        self._door = door
        self._cores = cores
        self._workers: dict[str, Workers] = {}
        self._stopping: set[asyncio.Task[None]] = set()
        self._clock = clock
        self._own_resolver = SystemResolver() if resolver is None else None
        self._resolver: Resolver = resolver or self._own_resolver  # type: ignore[assignment]  # one of the two is set
        self._pairs: dict[str, SessionProxies] = {}
        self._own_ports: dict[str, frozenset[int]] = {}
        self._sweeper: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self.policy = EgressPolicy(self._door, self._resolver, self._is_own_listener)
        self.hooks = Hooks([self.policy])
        self._gate = Gate(self._door, self.hooks, self._resolver, self._clock, running_reactor())
        await self.hooks.running()
        self._sweeper = loop.call_later(SWEEP, self._sweep_again)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        for session_id in tuple(self._pairs):
            self.close(session_id)
        await asyncio.gather(*self._stopping)
        await asyncio.sleep(0)  # what was ended gets its turn to clean up
        if self._own_resolver is not None:
            self._own_resolver.close()
        await self.hooks.done()

    def open(
        self,
        session: Session,
        limits: Limits,
        http: socket.socket,
        socks: socket.socket,
        *,
        own_ports: frozenset[int] = frozenset(),
        upstream_proxy: str | None = None,
        shares: Shares | None = None,
    ) -> None:
        """Serves a session on two listening sockets, which it takes over. `own_ports` are those of its listeners that
        stand in this process's own network, so that no session can be led to them. `upstream_proxy` is the
        validated config value of that name. `shares`: this process serves the session beside others."""
        if session.id in self._pairs:
            raise ValueError(f"session {session.id!r} has its proxies already")
        company_proxy = read_company_proxy(upstream_proxy) if upstream_proxy else None
        processes = processes_for(limits, self._cores)
        if processes > 1 and shares is None:
            pair = Pair(session, limits, http, socks, own_ports, upstream_proxy)
            self._workers[session.id] = workers = Workers(self._door, pair, processes)
            shares = workers.shares
        self._pairs[session.id] = SessionProxies(
            self._gate, session, limits, http, socks, company_proxy, shares
        )
        self._own_ports[session.id] = own_ports

    def close(self, session_id: str, cause: str = "session_closed") -> None:
        """Ends a session's proxies and everything that runs through them. Unknown ids are ignored."""
        pair = self._pairs.pop(session_id, None)
        self._own_ports.pop(session_id, None)
        if pair is not None:
            pair.close(cause)
            self._door.flush(session_id)
        workers = self._workers.pop(session_id, None)
        if workers is not None:
            task = asyncio.get_running_loop().create_task(workers.stop())
            self._stopping.add(task)
            task.add_done_callback(self._stopping.discard)
        if self._own_resolver is not None:
            self._own_resolver.forget(session_id)

    def live(self, session_id: str) -> int:
        """Open connections of a session."""
        pair = self._pairs.get(session_id)
        return pair.live if pair else 0

    def sweep(self) -> None:
        """Expires what has taken too long, in every session, and writes what was counted."""
        now = self._clock()
        for pair in tuple(self._pairs.values()):
            pair.sweep(now)
        self._door.flush()

    def _sweep_again(self) -> None:
        # Armed first: one sweep that fails must not be the last.
        self._sweeper = asyncio.get_running_loop().call_later(SWEEP, self._sweep_again)
        self.sweep()

    def _is_own_listener(self, port: int) -> bool:
        return any(port in ports for ports in self._own_ports.values())
