"""The agent listener: the third listener inside a sandbox, reached by the wrapped process alone.

It answers `/healthz`, which says nothing about the sandbox; everything else is not found.
"""

import json
import logging
import socket
from http import HTTPStatus
from typing import Any, Final

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.iostream import IOStream
from tornado.web import Application, RequestHandler

# Bounds on what a wrapped process may send; nothing that is served has a body yet.
_HEAD_BYTES: Final = 64 * 1024
_BODY_BYTES: Final = 64 * 1024
# Seconds for a request, and between two requests of one connection.
_IDLE: Final = 10
# Connections open at once: a tool call takes one for a moment. More would take the descriptors of the proxies.
_CONNECTIONS: Final = 128


class _JsonHandler(RequestHandler):
    """Answers JSON, errors too, and never names the server's software."""

    def set_default_headers(self) -> None:
        self.set_header("Server", "agent-gateway")
        self.set_header("Content-Type", "application/json")
        self.set_header("Cache-Control", "no-store")

    def write_error(self, status_code: int, **_: object) -> None:
        self.finish(json.dumps({"error": HTTPStatus(status_code).phrase}) + "\n")


class _Health(_JsonHandler):
    def get(self) -> None:
        self.finish(b'{"status":"ok"}')


class _NotFound(_JsonHandler):
    def prepare(self) -> None:
        self.send_error(404)


class _Application(Application):
    """Takes bodies for what they are: bytes. A form is nothing that is served, and would be parsed before a handler."""

    def get_handler_delegate(self, request: HTTPServerRequest, *arguments: Any, **more: Any) -> Any:
        request.headers.pop("Content-Type", None)
        return super().get_handler_delegate(request, *arguments, **more)


class _BoundedServer(HTTPServer):
    """Takes no more connections than the bound: one more is closed at once."""

    def initialize(self, *arguments: Any, **settings: Any) -> None:
        super().initialize(*arguments, **settings)
        self._open = 0

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        if self._open >= _CONNECTIONS:
            stream.close()
            return
        self._open += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        self._open -= 1
        super().on_close(server_conn)


def serve_agent_api(listening: socket.socket) -> HTTPServer:
    """Serves on a listening socket, from the running event loop on. `close_agent_api` ends it; the socket stays its
    owner's, who may close it at any time."""
    _hush()
    application = _Application(
        [(r"/healthz", _Health)], default_handler_class=_NotFound, log_function=lambda _: None
    )
    server = _BoundedServer(
        application,
        max_header_size=_HEAD_BYTES,
        max_body_size=_BODY_BYTES,
        idle_connection_timeout=_IDLE,
        body_timeout=_IDLE,
    )
    own = listening.dup()
    own.setblocking(False)
    server.add_socket(own)
    return server


def _hush() -> None:
    """Takes tornado's loggers away: what they have to say of a request is the wrapped process's text, without limit."""
    for name in ("tornado.access", "tornado.application", "tornado.general"):
        logging.getLogger(name).disabled = True


async def close_agent_api(server: HTTPServer) -> None:
    """Stops listening and cuts what is open."""
    server.stop()
    await server.close_all_connections()
