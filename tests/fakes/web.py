"""A web server on loopback for real clients: HTTP/1.1 with keep-alive, streamed bodies both ways, TLS if wanted."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Protocol, Self

CHUNK = 1 << 16
# Seconds between two looks at whether the server is to end.
POLL = 0.02


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked for. `body` gives the request's body piece by piece, once."""

    method: str
    path: str
    query: str
    fields: Message
    body: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    """What it gets: a body as a whole, or in pieces that are sent one by one (chunked, unless `length` is known)."""

    body: bytes | Iterable[bytes] = b""
    status: int = 200
    fields: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None


Route = Callable[[Request], Answer]


class Web:
    """Serves `routes`, which are found by the first part of the path. Use with `with`.

    `requests` are the methods and paths as they came, `connections` counts what was accepted, `faults` holds what went
    wrong while serving, a client's refusal of the certificate for one.
    """

    def __init__(
        self, routes: Mapping[str, Route], *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> None:
        self.requests: list[tuple[str, str]] = []
        self.faults: list[BaseException] = []
        self.connections = 0
        self._server = _Server(self, routes, host, tls)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, web: Web, routes: Mapping[str, Route], host: str, tls: ssl.SSLContext | None) -> None:
        self.web = web
        self.routes = routes
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._tls = tls
        super().__init__((host, 0), _Handler)

    def server_bind(self) -> None:
        """Without HTTPServer's own look-up of this machine's name."""
        socket.socket.bind(self.socket, self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = "origin.test", self.server_address[1]

    def get_request(self) -> tuple[socket.socket, object]:
        """The next connection; its handshake is done by the thread that serves it."""
        accepted, client = self.socket.accept()
        self.web.connections += 1
        if self._tls is not None:
            accepted = self._tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        return accepted, client

    def handle_error(self, request: object, client_address: object) -> None:
        """Noted by the handler."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def handle(self) -> None:
        """Serves one connection to its end."""
        try:
            super().handle()
        except (OSError, EOFError) as error:
            self.server.web.faults.append(error)
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """The requests are in `Web.requests`."""

    def answer(self) -> None:
        """Serves one request."""
        path, _, query = self.path.partition("?")
        self.server.web.requests.append((self.command, path))
        route = self.server.routes.get(path.split("/")[1])
        body = self._body()
        answer = Answer(b"no such page\n", 404)
        if route is not None:
            answer = route(Request(self.command, path, query, self.headers, body))
        for _ in body:  # what the route did not read
            pass
        self._send(answer)

    do_GET = do_HEAD = do_PUT = do_POST = answer

    def _body(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            while size := int(self.rfile.readline().split(b";")[0], 16):
                yield _exactly(self.rfile, size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
            return
        left = int(self.headers.get("Content-Length", "0"))
        while left:
            piece = _exactly(self.rfile, min(left, CHUNK))
            left -= len(piece)
            yield piece

    def _send(self, answer: Answer) -> None:
        whole = isinstance(answer.body, bytes)
        length = len(answer.body) if isinstance(answer.body, bytes) else answer.length
        self.send_response(answer.status)
        for name, value in answer.fields.items():
            self.send_header(name, value)
        if length is None:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command == "HEAD":
            return
        pieces = (answer.body,) if isinstance(answer.body, bytes) else answer.body
        for piece in pieces:
            if length is None and not whole:
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            else:
                self.wfile.write(piece)
        if length is None:
            self.wfile.write(b"0\r\n\r\n")


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def _exactly(stream: _Readable, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError(f"the client sent {len(data)} of {size} bytes")
    return data
