"""The agent listener: the third listener inside a sandbox, reached by the wrapped process alone.

It answers `/healthz`, which says nothing about the sandbox, and the routes that the composition root adds; everything
else is not found. What a head must look like stands in `head.py`, and holds for every route.
"""

import json
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPInputError, HTTPServerRequest
from tornado.iostream import IOStream
from tornado.netutil import add_accept_handler
from tornado.web import Application, RequestHandler

from gateway.api.head import find_fault, own_hosts

# Bounds on what a wrapped process may send; a route with larger bodies raises them for itself.
_HEAD_BYTES: Final = 64 * 1024
_BODY_BYTES: Final = 64 * 1024
# Bytes read at once: a push of hundreds of megabytes comes through here.
_READ_BYTES: Final = 256 * 1024
# Seconds for a request, and between two requests of one connection.
_IDLE: Final = 10
# Connections open at once: a tool call takes one for a moment. More would take the descriptors of the proxies.
_CONNECTIONS: Final = 128
# Bodies that tornado reads for a handler that never asked: nobody here sends forms.
_FORMS: Final = ("application/x-www-form-urlencoded", "multipart/form-data")

# Pattern of the path, handler, and what its `initialize` takes.
Route = tuple[str, type[RequestHandler], Mapping[str, Any]]
# Told of a head that was refused: its first line as sent, and what is wrong with it.
Malformed = Callable[[str, str], None]


class JsonHandler(RequestHandler):
    """Answers JSON, errors too, and never names the server's software."""

    def set_default_headers(self) -> None:
        self.set_header("Server", "agent-gateway")
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")

    def write_error(self, status_code: int, **_: object) -> None:
        self.finish(json.dumps({"error": HTTPStatus(status_code).phrase}) + "\n")


class _Health(JsonHandler):
    def get(self) -> None:
        self.finish(b'{"status":"ok"}')


class _NotFound(JsonHandler):
    def prepare(self) -> None:
        self.send_error(404)


class _Application(Application):
    """Takes bodies for what they are: bytes. A form is nothing that is served, and would be parsed before a handler."""

    def get_handler_delegate(self, request: HTTPServerRequest, *arguments: Any, **more: Any) -> Any:
        if request.headers.get("Content-Type", "").lower().startswith(_FORMS):
            del request.headers["Content-Type"]
        return super().get_handler_delegate(request, *arguments, **more)


class _StrictStream(IOStream):
    """A connection whose heads are looked at as the bytes they are, before they are parsed leniently."""

    def __init__(
        self, connection: socket.socket, hosts: frozenset[bytes], malformed: Malformed, **settings: Any
    ) -> None:
        super().__init__(connection, **settings)
        self._hosts = hosts
        self._malformed = malformed

    def read_until_regex(self, regex: bytes, max_bytes: int | None = None) -> Awaitable[bytes]:
        """Reads a head (nothing else is read by pattern) and refuses what `find_fault` finds in it."""
        return self._checked(super().read_until_regex(regex, max_bytes))

    async def _checked(self, reading: Awaitable[bytes]) -> bytes:
        head = await reading
        if fault := find_fault(head, self._hosts):
            self._malformed(head.partition(b"\n")[0].decode("latin-1"), fault)
            raise HTTPInputError(fault)
        return head


class _AgentServer(HTTPServer):
    """Takes no more connections than the bound, one more is closed at once; and reads all of them strictly."""

    def initialize(self, *arguments: Any, **settings: Any) -> None:
        super().initialize(*arguments, **settings)
        self._open = 0
        self._stop_accepting: Callable[[], None] | None = None

    def accept_on(self, listening: socket.socket, hosts: frozenset[bytes], malformed: Malformed) -> None:
        """Accepts from now on; the socket is closed when the server stops."""

        def accept(connection: socket.socket, address: Any) -> None:
            if self._open >= _CONNECTIONS:
                connection.close()
                return
            self._open += 1
            stream = _StrictStream(connection, hosts, malformed, read_chunk_size=_READ_BYTES)
            self.handle_stream(stream, address)

        remove = add_accept_handler(listening, accept)

        def stop() -> None:
            remove()
            listening.close()

        self._stop_accepting = stop

    def stop(self) -> None:
        if self._stop_accepting is not None:
            self._stop_accepting()
            self._stop_accepting = None
        super().stop()

    def on_close(self, server_conn: object) -> None:
        self._open -= 1
        super().on_close(server_conn)


def serve_agent_api(
    listening: socket.socket,
    routes: Sequence[Route] = (),
    *,
    port: int | None = None,
    malformed: Malformed | None = None,
) -> HTTPServer:
    """Serves on a listening socket, from the running event loop on. `close_agent_api` ends it; the socket stays its
    owner's, who may close it at any time.

    `routes` come before everything that is served here. `port` is the listener's as clients see it, where that is not
    the socket's own. `malformed` is told of every head that is refused.
    """
    _hush()
    application = _Application(
        [*((pattern, handler, dict(values)) for pattern, handler, values in routes), (r"/healthz", _Health)],
        default_handler_class=_NotFound,
        log_function=lambda _: None,
    )
    server = _AgentServer(
        application,
        chunk_size=_READ_BYTES,
        max_header_size=_HEAD_BYTES,
        max_body_size=_BODY_BYTES,
        idle_connection_timeout=_IDLE,
        body_timeout=_IDLE,
    )
    own = listening.dup()
    own.setblocking(False)
    hosts = own_hosts(port or listening.getsockname()[1])
    server.accept_on(own, hosts, malformed or (lambda first_line, fault: None))
    return server


def _hush() -> None:
    """Takes tornado's loggers away: what they have to say of a request is the wrapped process's text, without limit."""
    for name in ("tornado.access", "tornado.application", "tornado.general"):
        logging.getLogger(name).disabled = True


async def close_agent_api(server: HTTPServer) -> None:
    """Stops listening and cuts what is open."""
    server.stop()
    await server.close_all_connections()
