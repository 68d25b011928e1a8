"""A session's pair of proxies: accepts on the two listening sockets it is given, and ends everything at once."""

import asyncio
import contextlib
import logging
import socket
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

from gateway.policy.egress import Transport
from gateway.policy.limits import Allowance, Limits, full_pace, pace, refill, spend
from gateway.proxy.bounds import OVER_LIMIT
from gateway.proxy.company_proxy import CompanyProxy
from gateway.proxy.connection import Admission, Connection, Gate, Origin
from gateway.proxy.embedding import egress_mode
from gateway.proxy.http_front import serve_http
from gateway.proxy.peer import DeadlineError, Peer
from gateway.proxy.refusal import SOCKS_NOT_ALLOWED, http_refusal, socks_reply
from gateway.proxy.runner import Runner
from gateway.proxy.shares import Shares
from gateway.proxy.socks_front import GREETED, serve_socks
from gateway.session import Session

_Serve = Callable[[Connection], Coroutine[Any, Any, None]]

# An accepted socket has the listener's TCP options on Linux, which saves a system call for each.
_INHERITS_OPTIONS: Final = sys.platform == "linux"
# Seconds without accepting when the process has run out of file descriptors.
_PAUSE: Final = 0.5

# What stands for the address of either end of a Unix socket.
NO_ADDRESS: Final = ("", 0)

_log = logging.getLogger(__name__)


class SessionProxies:
    """The HTTP and the SOCKS5 proxy of one session. Changes; used from one event loop.

    `http` and `socks` are listening sockets, which are the session's own: whoever reaches them is the session.
    """

    def __init__(
        self,
        gate: Gate,
        session: Session,
        limits: Limits,
        http: socket.socket,
        socks: socket.socket,
        company_proxy: CompanyProxy | None = None,
        shares: Shares | None = None,
    ) -> None:
        self.session = session
        self.gate = gate
        self.limits = limits
        self.mode = egress_mode(session.id)
        self.company_proxy = company_proxy
        self._shares = shares
        self._live: set[Connection] = set()
        self._allowance = Allowance(float(limits.burst), gate.clock())
        self._requests = full_pace(limits, gate.clock())
        self._listeners = (
            _Listener(self, http, serve_http, Transport.HTTP),
            _Listener(self, socks, serve_socks, Transport.SOCKS),
        )
        for listener in self._listeners:
            listener.start()

    @property
    def live(self) -> int:
        """Connections that are open now."""
        return len(self._live)

    def sweep(self, now: float) -> None:
        """Expires what has taken too long."""
        for connection in tuple(self._live):
            connection.sweep(now)

    def close(self, cause: str = "session_closed") -> None:
        """Stops accepting and cuts everything that runs through the pair."""
        for listener in self._listeners:
            listener.stop()
        for connection in tuple(self._live):
            if connection.runner is not None:
                connection.runner.cancel()
            connection.end(cause)

    def count_further(self) -> Admission:
        """How busy the session is when one of its clients goes on to a further host, which is counted."""
        return self._count(len(self._live) - 1)

    def pace(self) -> float:
        """Counts one more request on a kept connection; seconds to wait before it is read."""
        if self._shares is not None:
            self._shares.add_request()
            self._requests = spend(self._requests, self._shares.requests_elsewhere())
        self._requests, delay = pace(self.limits, self._requests, self.gate.clock())
        return delay

    def _count(self, others: int) -> Admission:
        self._allowance = refill(self.limits, self._allowance, self.gate.clock())
        if self._shares is not None:
            self._allowance = spend(self._allowance, self._shares.new_elsewhere())
            others += self._shares.live_elsewhere()
        admission = Admission(others, self._allowance)
        if self._allowance.tokens >= 1.0:
            self._allowance = spend(self._allowance, 1)
            if self._shares is not None:
                self._shares.add_new()
        return admission

    def _changed(self) -> None:
        if self._shares is not None:
            self._shares.set_live(len(self._live))

    def _ended(self, connection: Connection) -> None:
        self._live.discard(connection)
        self._changed()

    def admit(self, accepted: socket.socket, peername: tuple[str, int], listener: "_Listener") -> None:
        """Takes one accepted connection in; one far over the session's limit is closed at once."""
        admission = self._count(len(self._live))
        if admission.live >= self.limits.tunnels + OVER_LIMIT:
            attempt = self.gate.door.attempt(self.session, listener.transport, "", -1)
            self.gate.door.authorize_connection(attempt, self.limits, admission.live, admission.allowance)
            accepted.close()
            return
        peer = Peer(accepted, self.gate.reactor)
        connection = Connection(self.gate, listener.origin, admission, peer, peername, self._ended)
        self._live.add(connection)
        self._changed()
        connection.runner = Runner(_serve(connection, listener), self.gate.reactor.loop)
        connection.runner.step()


class _Listener:
    """One listening socket and the front behind it."""

    def __init__(
        self, pair: SessionProxies, listening: socket.socket, serve: _Serve, transport: Transport
    ) -> None:
        self.serve = serve
        self.transport = transport
        # A Unix socket (`bridge: socat`) has no address to speak of, and no options of TCP.
        self._is_tcp = listening.family != socket.AF_UNIX
        self.sockname: tuple[str, int] = listening.getsockname()[:2] if self._is_tcp else NO_ADDRESS
        self._pair = pair
        self._socket = listening
        self._reactor = pair.gate.reactor
        self.origin = Origin(
            pair.session,
            pair.limits,
            pair.mode,
            self.sockname,
            pair.count_further,
            pair.pace,
            pair.company_proxy,
        )
        self._resume: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._socket.setblocking(False)
        if _INHERITS_OPTIONS and self._is_tcp:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reactor.watch_listener(self._socket.fileno(), self._accept)

    def stop(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
        if self._socket.fileno() >= 0:
            self._reactor.unwatch(self._socket.fileno())
            self._socket.close()

    def _accept(self, _: int) -> None:
        """One connection a time: while there are more, the reactor says so again."""
        try:
            accepted, peername = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            _log.error("cannot accept connections: %s", error.strerror or error)
            self._reactor.unwatch(self._socket.fileno())
            self._resume = self._reactor.loop.call_later(_PAUSE, self.start)
            return
        accepted.setblocking(False)
        if not _INHERITS_OPTIONS and self._is_tcp:
            with contextlib.suppress(OSError):
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pair.admit(accepted, peername[:2] if self._is_tcp else NO_ADDRESS, self)


async def _serve(connection: Connection, listener: _Listener) -> None:
    """The top of a connection's task: whatever fails ends this connection and nothing else."""
    cause = "client_closed"
    try:
        await listener.serve(connection)
    except (OSError, DeadlineError) as error:
        cause = "timeout" if isinstance(error, DeadlineError) else "reset"
    except asyncio.CancelledError:
        cause = "session_closed"
        raise
    except Exception:
        _log.exception("a connection failed inside the gateway and is refused")
        cause = "internal"
        await _answer_internal(connection, listener)
    finally:
        connection.runner = None
        if connection.tunnel is None:
            connection.end(cause)


async def _answer_internal(connection: Connection, listener: _Listener) -> None:
    """Records the refusal, and tells the client where it waits for an answer."""
    refused = connection.refuse_broken(listener.transport)
    client = connection.client
    if listener.transport is Transport.SOCKS:
        answer = socks_reply(SOCKS_NOT_ALLOWED) if client.bytes_out == GREETED else b""
    else:
        between_answers = client.bytes_out == 0 or not refused.attempt.opened
        answer = http_refusal(refused.attempt, refused.decision) if between_answers else b""
    if answer:
        with contextlib.suppress(OSError, DeadlineError):
            await client.send(answer)
            await connection.linger()
