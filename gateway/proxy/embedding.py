"""mitmproxy, embedded: one Master per process with our addons, and hooks fired by our own front end.

mitmproxy's own dispatcher logs an addon's exception and goes on; here an exception reaches the caller, who refuses.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from mitmproxy import addonmanager, http, options
from mitmproxy.connection import Client, ConnectionState
from mitmproxy.master import Master
from mitmproxy.proxy import mode_specs

from gateway.authorizer import Attempt
from gateway.proxy.guard import Guard, GuardedServer
from gateway.proxy.request_head import RequestHead

_Hook = Callable[[Any], Awaitable[None] | None]


class EgressMode(mode_specs.ProxyMode):  # type: ignore[no-untyped-call]  # mitmproxy's own hook is untyped
    """The mode every client connection carries; its data is the session id."""

    description = "per-session egress proxy"
    transport_protocol = mode_specs.TCP

    def __post_init__(self) -> None:
        """Nothing to check: modes are made here, never parsed from text."""


def egress_mode(session_id: str) -> EgressMode:
    """The mode of one session's connections."""
    return EgressMode(
        full_spec="egress", data=session_id, custom_listen_host="127.0.0.1", custom_listen_port=None
    )


class Hooks:
    """Fires hooks at the addons of one Master. Changes when addons come and go."""

    def __init__(self, addons: Sequence[object]) -> None:
        # Master installs a log handler of its own on the root logger, for mitmproxy's user interfaces; we have none.
        self._master = Master(options.Options(), asyncio.get_running_loop(), with_termlog=False)
        self._master._legacy_log_events.uninstall()
        self._master.addons.add(*addons)  # type: ignore[no-untyped-call]  # mitmproxy's is untyped
        self._table: dict[str, list[_Hook]] = {}

    def remove(self, addon: object) -> None:
        """Takes an addon out."""
        self._master.addons.remove(addon)  # type: ignore[no-untyped-call]  # mitmproxy's is untyped
        self._table.clear()

    async def running(self) -> None:
        """Tells the addons that the proxy runs."""
        await self._master.running()

    async def done(self) -> None:
        """Tells the addons that it ends."""
        await self._master.done()

    def fire(self, name: str, data: object) -> Awaitable[None] | None:
        """Calls the addons' `name` hooks in order. Returns what is left to await, if one of them waits."""
        hooks = self._table.get(name)
        if hooks is None:
            hooks = self._table[name] = self._find(name)
        for index, hook in enumerate(hooks):
            waiting = hook(data)
            if waiting is not None:
                return self._rest(waiting, hooks[index + 1 :], data)
        return None

    async def _rest(self, waiting: Awaitable[None], hooks: list[_Hook], data: object) -> None:
        await waiting
        for hook in hooks:
            more = hook(data)
            if more is not None:
                await more

    def _find(self, name: str) -> list[_Hook]:
        chain = addonmanager.traverse(self._master.addons.chain)  # type: ignore[no-untyped-call]  # untyped
        found = (getattr(addon, name, None) for addon in chain)
        return [hook for hook in found if callable(hook)]


_numbers: Final = itertools.count(1)
_CLIENT: Final = Client(peername=("", 0), sockname=("", 0), state=ConnectionState.OPEN)
_SERVER: Final = GuardedServer(address=None)
_FLOW: Final = http.HTTPFlow(_CLIENT, _SERVER, True)
_REQUEST_DATA: Final = http.RequestData(
    host="",
    port=0,
    method=b"",
    scheme=b"",
    authority=b"",
    path=b"",
    http_version=b"HTTP/1.1",
    headers=http.Headers(),
    content=None,
    trailers=None,
    timestamp_start=0.0,
    timestamp_end=None,
)


def client_of(mode: EgressMode, peername: tuple[str, int], sockname: tuple[str, int]) -> Client:
    """mitmproxy's view of a client that has connected."""
    return _copy(
        _CLIENT, id=f"client-{next(_numbers)}", peername=peername, sockname=sockname, proxy_mode=mode
    )


def guarded_server(attempt: Attempt) -> GuardedServer:
    """A server connection that is not open yet, at stage NEW. Its id is the connection's in the log."""
    guard = Guard(attempt)
    return _copy(_SERVER, id=attempt.connection, address=(attempt.host, attempt.port), guard=guard)


def mark_open(server: GuardedServer, peername: tuple[str, int]) -> None:
    """Connected. Past mitmproxy's `__setattr__`, which guards fields that are not these."""
    server.__dict__.update(state=ConnectionState.OPEN, peername=peername)


def mark_closed(server: GuardedServer) -> None:
    """The end of it."""
    server.__dict__["state"] = ConnectionState.CLOSED


def connect_flow(client: Client, server: GuardedServer) -> http.HTTPFlow:
    """The flow of a CONNECT request."""
    attempt = server.guard.attempt
    request = _copy(
        _REQUEST_DATA,
        host=attempt.host,
        port=attempt.port,
        method=b"CONNECT",
        authority=f"{attempt.host}:{attempt.port}".encode(),
        headers=_headers(()),
    )
    return _flow(client, server, request)


def request_flow(client: Client, server: GuardedServer, head: RequestHead) -> http.HTTPFlow:
    """The flow of a plain request whose body has not been read."""
    request = _copy(
        _REQUEST_DATA,
        host=server.guard.attempt.host,
        port=server.guard.attempt.port,
        method=head.method,
        scheme=b"http",
        path=head.target,
        http_version=b"HTTP/1.1" if head.version else b"HTTP/1.0",
        headers=_headers(head.fields),
    )
    return _flow(client, server, request)


def _flow(client: Client, server: GuardedServer, data: http.RequestData) -> http.HTTPFlow:
    request = object.__new__(http.Request)
    request.data = data
    return _copy(
        _FLOW,
        id=server.guard.attempt.connection,
        client_conn=client,
        server_conn=server,
        request=request,
        metadata={},
        live=True,
    )


def _headers(fields: tuple[tuple[bytes, bytes], ...]) -> http.Headers:
    headers = object.__new__(http.Headers)
    headers.fields = fields
    return headers


def _copy[T](finished: T, **changed: object) -> T:
    """A shallow copy of a finished object with some attributes changed. mitmproxy's constructors check each field and
    make random ids, which costs more than everything else on the way of a request."""
    made = object.__new__(type(finished))
    made.__dict__.update(finished.__dict__, **changed)
    return made
