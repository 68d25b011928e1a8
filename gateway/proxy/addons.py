"""The mitmproxy addon that enforces egress: every hook asks the door and moves the attempt one stage on, or refuses it.

An exception in a hook leaves the stage where it is, and that is a refusal.
"""

from collections.abc import Awaitable, Callable, Sequence

from mitmproxy import http
from mitmproxy.proxy.server_hooks import ServerConnectionHookData

from gateway.authorizer import Authorizer
from gateway.policy.addresses import Address
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import AddressRequest, AuthorityRequest, EgressRequest, NameRequest, TargetRequest
from gateway.policy.hosts import parse_literal
from gateway.proxy.dialling import Resolver, is_own_address
from gateway.proxy.guard import FirstBytes, Guard, GuardedServer, SocksConnect, Stage


class EgressPolicy:
    """Asks the door at each step. `own_listener` tells whether a port of this machine is one of the gateway's own."""

    def __init__(self, door: Authorizer, resolver: Resolver, own_listener: Callable[[int], bool]) -> None:
        self._door = door
        self._resolver = resolver
        self._own_listener = own_listener

    def http_connect(self, flow: http.HTTPFlow) -> None:
        """CONNECT: may this host be reached?"""
        self._ask(_server(flow).guard)

    def socks_connect(self, data: SocksConnect) -> None:
        """SOCKS5 CONNECT: the same question."""
        self._ask(data.server.guard)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """A plain request: the same question, and its Host field must name the same host. On a connection that is
        open already the request is recorded here, otherwise once it is connected."""
        guard = _server(flow).guard
        attempt = guard.attempt
        connected = guard.stage >= Stage.VETTED
        if not connected:
            self._ask(guard)
        if guard.refusal is None:
            request = AuthorityRequest(attempt.transport, attempt.host, attempt.port, guard.authority)
            self._settle(guard, guard.stage, self._door.authorize(attempt, request))
        if guard.refusal is None and attempt.host in attempt.session.egress.forges:
            target = TargetRequest(attempt.transport, attempt.host, attempt.port, flow.request.path)
            self._settle(guard, guard.stage, self._door.authorize(attempt, target))
        if connected and guard.refusal is None:
            self._settle(guard, Stage.RECORDED, self._door.begin(attempt))

    def server_connect(self, data: ServerConnectionHookData) -> Awaitable[None] | None:
        """Before dialling: finds the addresses and keeps those that may be dialled. Returns what is to be awaited
        when a name has to be looked up, which may raise UpstreamError."""
        guard = _guarded(data).guard
        host = guard.attempt.host
        literal = parse_literal(guard.attempt.session.egress.names.get(host, host))
        if literal is None:
            return self._look_up(guard)
        self._vet(guard, (literal,))
        return None

    def server_connected(self, data: ServerConnectionHookData) -> None:
        """Connected: recorded before the client is told. A plain request is recorded when its answer is through."""
        guard = _guarded(data).guard
        attempt = guard.attempt
        guard.raw = (attempt.host, attempt.port) in attempt.session.egress.raw
        record = self._door.begin if attempt.method else self._door.open
        self._settle(guard, Stage.RECORDED, record(attempt))

    def first_bytes(self, data: FirstBytes) -> None:
        """What the client sent first must name the host it asked for."""
        guard = data.server.guard
        attempt, hello = guard.attempt, data.hello
        if hello.names:
            attempt.sni = hello.names[0]
        request = NameRequest(
            attempt.transport, attempt.host, attempt.port, hello.kind, hello.names, hello.ech
        )
        self._settle(guard, Stage.NAMED, self._door.authorize(attempt, request))

    def server_connect_error(self, data: ServerConnectionHookData) -> None:
        """The dial failed: one record, with the upstream's code."""
        self.server_disconnected(data)

    def server_disconnected(self, data: ServerConnectionHookData) -> None:
        """The end of a connection, with its figures."""
        guard = _guarded(data).guard
        self._door.close(guard.attempt, guard.figures, guard.refusal or guard.failure)

    def _ask(self, guard: Guard) -> None:
        attempt = guard.attempt
        request = EgressRequest(attempt.transport, attempt.host, attempt.port)
        self._settle(guard, Stage.ALLOWED, self._door.authorize(attempt, request))

    async def _look_up(self, guard: Guard) -> None:
        attempt = guard.attempt
        self._vet(guard, await self._resolver.resolve(attempt.session.id, attempt.host))

    def _vet(self, guard: Guard, addresses: Sequence[Address]) -> None:
        requests = [self._address_request(guard, address) for address in addresses]
        decision, guard.addresses = self._door.authorize_addresses(guard.attempt, requests)
        self._settle(guard, Stage.VETTED, decision)

    def _address_request(self, guard: Guard, address: Address) -> AddressRequest:
        attempt = guard.attempt
        listed = (address, attempt.port) in attempt.session.egress.addresses
        own_listener = self._own_listener(attempt.port) and is_own_address(address)
        own_host = own_listener or (not listed and is_own_address(address))
        return AddressRequest(attempt.transport, attempt.host, attempt.port, address, own_listener, own_host)

    def _settle(self, guard: Guard, stage: Stage, decision: Decision) -> None:
        if decision.verdict is Verdict.ALLOW:
            guard.stage = stage
        else:
            guard.refusal = decision


def _server(flow: http.HTTPFlow) -> GuardedServer:
    assert isinstance(flow.server_conn, GuardedServer)
    return flow.server_conn


def _guarded(data: ServerConnectionHookData) -> GuardedServer:
    assert isinstance(data.server, GuardedServer)
    return data.server
