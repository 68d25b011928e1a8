"""One client connection on its way through the gateway: its two ends, its guard, and its one end for both."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from gateway.authorizer import INTERNAL, Attempt, Authorizer, Figures
from gateway.policy.addresses import Address
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code, Transport
from gateway.policy.hosts import literal_text
from gateway.policy.limits import Allowance, Limits
from gateway.proxy.bounds import HANDSHAKE, LINGER, LONG_REQUEST
from gateway.proxy.company_proxy import CompanyProxy, dial_through
from gateway.proxy.dialling import Resolver, UpstreamError, dial
from gateway.proxy.embedding import (
    EgressMode,
    Hooks,
    client_of,
    guarded_server,
    mark_closed,
    mark_open,
)
from gateway.proxy.guard import GuardedServer, Stage
from gateway.proxy.peer import NEVER, DeadlineError, Peer
from gateway.proxy.reactor import Reactor
from gateway.proxy.relay import Tunnel
from gateway.proxy.runner import Runner
from gateway.session import Session

# Bytes of a refused client that are read and thrown away, so that it reads its answer before its connection is reset.
_LINGER_BYTES = 1 << 20

# Seconds of silence after which the kernel is asked to see whether the server is still there: a host that vanished
# without a word is noticed, however long the tunnel may stay idle.
_SILENCE = 30.0

_log = logging.getLogger(__name__)


class Refused(Exception):
    """The door said no; the front answers in its protocol. `status` overrides the HTTP status of the code."""

    def __init__(self, decision: Decision, attempt: Attempt, status: int = 0) -> None:
        super().__init__(decision.reason)
        self.decision = decision
        self.attempt = attempt
        self.status = status


@dataclass(frozen=True, slots=True)
class Gate:
    """What every connection of the process shares. `clock` returns seconds of a monotonic clock."""

    door: Authorizer
    hooks: Hooks
    resolver: Resolver
    clock: Callable[[], float]
    reactor: Reactor


@dataclass(frozen=True, slots=True)
class Admission:
    """How busy the session was when the connection came."""

    live: int
    allowance: Allowance


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose connection it is."""

    session: Session
    limits: Limits
    mode: EgressMode
    sockname: tuple[str, int]
    # Counts one more connection, for a client that goes on to a further host over the same one.
    admit: Callable[[], Admission]
    # Counts one more request on a kept connection; seconds to wait before it is read.
    pace: Callable[[], float]
    company_proxy: CompanyProxy | None = None


class Connection:
    """Changes; owned by its task until a tunnel runs, then by the tunnel's callbacks."""

    __slots__ = (
        "_began",
        "_changed",
        "_count",
        "_on_end",
        "_outer",
        "_probed",
        "_sent_before",
        "_started",
        "admission",
        "asked",
        "client",
        "ended",
        "gate",
        "mitm_client",
        "origin",
        "runner",
        "server",
        "status",
        "tunnel",
        "upstream",
    )

    def __init__(
        self,
        gate: Gate,
        origin: Origin,
        admission: Admission,
        client: Peer,
        peername: tuple[str, int],
        on_end: Callable[["Connection"], None],
    ) -> None:
        self.gate = gate
        self.origin = origin
        self.admission: Admission | None = admission
        self.asked: Attempt | None = None
        self.client = client
        self.mitm_client = client_of(origin.mode, peername, origin.sockname)
        self.upstream: Peer | None = None
        self.server: GuardedServer | None = None
        self.tunnel: Tunnel | None = None
        self.runner: Runner | None = None
        self.ended = False
        self.status = 0
        self._on_end = on_end
        self._started = self._began = gate.clock()
        self._outer: Attempt | None = None
        self._changed = self._started
        self._count = 0
        self._probed = False
        self._sent_before = (0, 0)

    def limit_handshake(self, *, idle: bool = False) -> None:
        """From now the client has `HANDSHAKE` seconds for what it is to send, or between requests the idle time."""
        self.client.deadline = self.gate.clock() + (self.origin.limits.idle if idle else HANDSHAKE)

    def ask_for(self, transport: Transport, host: str, port: int, *, reuse: bool = False) -> GuardedServer:
        """A guarded server for what the client asks for. Refused when the session is over its limits.

        `reuse`: a further request over the connection that is open; it keeps that one's id and stages.
        """
        if reuse and self.server is not None:
            guard, former = self.server.guard, self.server.guard.attempt
            if not former.method:
                self._outer = former
            attempt = self.gate.door.attempt(self.origin.session, transport, host, port, former.connection)
            attempt.address, attempt.rule = former.address, former.rule
            # Inside a tunnel a refusal is the tunnel's: its one record is the `closed` one.
            attempt.opened = transport is not Transport.HTTP
            # Connected, but this request has yet to be judged and recorded.
            guard.attempt, guard.stage = attempt, Stage.VETTED
            self.asked, self._started = attempt, self.gate.clock()
            return self.server
        self.asked = attempt = self.gate.door.attempt(self.origin.session, transport, host, port)
        self._admit(attempt, self.admission or self.origin.admit())
        self._started = self._began = self.gate.clock()
        self.status = 0
        return guarded_server(attempt)

    def end_request(self) -> None:
        """Records a request whose answer is through, and starts the figures anew."""
        if self.asked is not None:
            self.gate.door.close(self.asked, self._figures("finished"))
        if self.upstream is not None:
            self._sent_before = (self.upstream.bytes_out, self.upstream.bytes_in)
        self.status = 0

    def _admit(self, attempt: Attempt, admission: Admission) -> None:
        self.admission = None
        decision = self.gate.door.authorize_connection(
            attempt, self.origin.limits, admission.live, admission.allowance
        )
        if not decision.allowed:
            raise Refused(decision, attempt)

    def refuse(self, code: Code, reason: str, transport: Transport, host: str, status: int = 0) -> Refused:
        """Records a denial found while reading or waiting, and returns what is to be raised. In a tunnel it is the
        tunnel's, and its one record is the `closed` one."""
        decision = Decision(Verdict.DENY, "built-in", reason, code)
        if self.server is not None and transport is not Transport.HTTP:
            self.server.guard.refusal = decision
            return Refused(decision, self.server.guard.attempt, status)
        attempt = self.gate.door.attempt(self.origin.session, transport, host, -1)
        if self.admission is not None:
            self._admit(attempt, self.admission)
        return Refused(self.gate.door.refuse(attempt, decision), attempt, status)

    def refuse_broken(self, transport: Transport) -> Refused:
        """Records that the gateway itself failed, as the refusal of what was asked for last unless that is over, and
        returns it."""
        attempt = self.asked
        if attempt is None or attempt.closed:
            try:
                return self.refuse(Code.INTERNAL, INTERNAL.reason, transport, "")
            except Refused as over_limit:
                return over_limit
        if attempt.opened and self.server is not None:
            self.server.guard.refusal = INTERNAL
        elif not attempt.refused:
            self.gate.door.refuse(attempt, INTERNAL)
        return Refused(INTERNAL, attempt)

    def fire(self, hook: str, data: object, server: GuardedServer, stage: Stage) -> None:
        """Fires a hook that does not wait, and checks that it brought the attempt to `stage`. Refused."""
        waiting = self.gate.hooks.fire(hook, data)
        if waiting is not None:
            raise TypeError(f"an addon waits in the hook {hook}, which may not wait")
        guard = server.guard
        if guard.refusal is not None or guard.stage < stage:
            self.check(server, stage)

    def check(self, server: GuardedServer, stage: Stage) -> None:
        """Refused unless the attempt has come to `stage`."""
        guard = server.guard
        if guard.reached(stage):
            return
        if guard.refusal is None:
            # No hook said no, and none said yes: the policy addon is not there.
            guard.refusal = self.gate.door.refuse(guard.attempt, INTERNAL)
        raise Refused(guard.why_not(), guard.attempt)

    async def connect(self, server: GuardedServer) -> None:
        """Vets the addresses, dials, records. Refused, UpstreamError."""
        guard = server.guard
        data = ServerConnectionHookData(server=server, client=self.mitm_client)
        self.client.deadline = NEVER
        try:
            waiting = self.gate.hooks.fire("server_connect", data)
            if waiting is not None:
                await waiting
            self.check(server, Stage.VETTED)
            self.upstream, address = await self._dial(guard.addresses, guard.attempt.port)
        except UpstreamError as failure:
            guard.failure = Decision(Verdict.ALLOW, guard.attempt.rule, failure.reason, failure.code)
            if guard.addresses:
                guard.attempt.address = literal_text(guard.addresses[0])
            guard.figures = self._figures(failure.code.value)
            self.gate.hooks.fire("server_connect_error", data)
            raise
        guard.attempt.address = text = literal_text(address)
        mark_open(server, (text, guard.attempt.port))
        try:
            self.fire("server_connected", data, server, Stage.RECORDED)
        finally:
            # What stands in the log as opened gets its end there, also when a later hook says no.
            if guard.attempt.opened:
                self.server = server

    async def _dial(self, addresses: tuple[Address, ...], port: int) -> tuple[Peer, Address]:
        proxy, gate = self.origin.company_proxy, self.gate
        if proxy is None:
            return await dial(addresses, port, gate.reactor)
        session_id = self.origin.session.id
        dialling = dial_through(proxy, gate.resolver, session_id, addresses[0], port, gate.reactor)
        return await dialling, addresses[0]

    async def relay(self, first: bytes) -> None:
        """Sends `first` to the server and hands both sockets to a tunnel, which ends the connection."""
        upstream = self.upstream
        assert upstream is not None
        self.client.deadline = NEVER
        if first:
            await upstream.send(first)
        if early := upstream.take_early():
            await self.client.send(early)
        up, down = upstream.bytes_out, upstream.bytes_in
        self.tunnel = Tunnel(
            self.gate.reactor, self.client, upstream, self._tunnel_closed, sent_up=up, sent_down=down
        )
        self._changed = self.gate.clock()
        self.tunnel.start()

    def _tunnel_closed(self, tunnel: Tunnel) -> None:
        self.end(tunnel.cause)

    def sweep(self, now: float) -> None:
        """Expires what has taken too long, and what has not moved a byte for the idle time. A request that takes
        long is recorded before its end as well."""
        asked = self.asked
        if asked is not None and asked.owed and now - self._started >= LONG_REQUEST and not self.record_now():
            return
        count = self._bytes()
        if count != self._count:
            self._count, self._changed = count, now
        idle = now - self._changed >= self.origin.limits.idle
        if self.tunnel is not None:
            if idle:
                self.tunnel.close("idle")
            elif now - self._changed >= _SILENCE and not self._probed:
                self._probed = True
                self.tunnel.probe()
            return
        for peer in (self.client, self.upstream):
            if peer is not None and (idle or now >= peer.deadline):
                peer.expire()

    def record_now(self) -> bool:
        """Records a request whose record is owed before its end; where that fails the connection is cut."""
        if self.asked is None or not self.asked.owed:
            return True
        decision = self.gate.door.open(self.asked)
        if decision.allowed:
            return True
        if self.server is not None:
            self.server.guard.refusal = decision
        runner = self.runner
        self.end(Code.INTERNAL.value)
        if runner is not None:
            runner.cancel()
        return False

    def _bytes(self) -> int:
        if self.tunnel is not None:
            return self.tunnel.bytes_up + self.tunnel.bytes_down
        moved = self.client.bytes_in + self.client.bytes_out
        return (
            moved + self.upstream.bytes_in + self.upstream.bytes_out if self.upstream is not None else moved
        )

    def disconnect(self, cause: str) -> None:
        """Closes the connection to the server and records its end. Idempotent."""
        server, self.server = self.server, None
        if server is not None:
            mark_closed(server)
            guard, outer, self._outer = server.guard, self._outer, None
            if guard.attempt.closed and outer is not None:
                # All requests of the tunnel are recorded: what ends now is the tunnel.
                guard.attempt, self._sent_before, self._started = outer, (0, 0), self._began
            guard.figures = self._figures(cause)
            data = ServerConnectionHookData(server=server, client=self.mitm_client)
            try:
                self.gate.hooks.fire("server_disconnected", data)
            except Exception:
                _log.exception("the end of a connection could not be recorded")
            if guard.attempt.owed:
                # Forwarded, and no hook has recorded it: the policy addon is not there, or has failed.
                self.gate.door.close(guard.attempt, guard.figures, guard.refusal or guard.failure)
        if self.upstream is not None:
            self.upstream.close()
            self.upstream = None
        self._sent_before = (0, 0)

    def end(self, cause: str) -> None:
        """Closes both ends and records the end. Idempotent."""
        if self.ended:
            return
        self.ended = True
        if self.tunnel is not None:
            self.tunnel.close(cause)
        self.disconnect(cause)
        self.client.close()
        self._on_end(self)

    async def linger(self) -> None:
        """Lets a refused client read its answer: waits a moment for it to hang up."""
        self.client.finish_sending()
        self.client.deadline = self.gate.clock() + LINGER
        read = self.client.bytes_in
        try:
            while self.client.bytes_in - read < _LINGER_BYTES:
                if not await self.client.receive():
                    return
        except (OSError, DeadlineError):
            return

    def _figures(self, cause: str) -> Figures:
        up = down = 0
        if self.tunnel is not None:
            up, down = self.tunnel.bytes_up, self.tunnel.bytes_down
        elif self.upstream is not None:
            up, down = self.upstream.bytes_out, self.upstream.bytes_in
        up, down = up - self._sent_before[0], down - self._sent_before[1]
        duration = int((self.gate.clock() - self._started) * 1000)
        return Figures(up, down, duration, cause, self.status)
