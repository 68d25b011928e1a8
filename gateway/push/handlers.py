"""The HTTP side of the push gateway: tornado's handler for everything below `/git/`.

Checks the session's secret and the address, hands the body over piece by piece, and writes what it is told. It reads
no command and decides nothing.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Protocol, cast

from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPMessageDelegate
from tornado.iostream import IOStream, StreamClosedError
from tornado.web import RequestHandler, stream_request_body

from gateway.policy.repositories import RepositoryName
from gateway.push.chunked_body import read_chunked
from gateway.push.inbound import ClientGone, ClientStalled, Inbound
from gateway.push.target import Refusal, Service, Target, parse_target

SECRET_HEADER: Final = "X-Agent-Gateway-Session"
PLAIN: Final = "text/plain; charset=utf-8"
LFS_TYPE: Final = "application/vnd.git-lfs+json"

# Bytes of a body. GitHub takes 2 GiB; an Enterprise Server may be set to take more, and says so itself.
_BODY_BYTES: Final = 64 << 30
# Seconds for a whole body: `inbound.IDLE` ends one that does not move, this one that never ends.
_BODY_SECONDS: Final = 24 * 3600.0
# Seconds for a client to take what it is told.
_TAKING: Final = 60.0

_NO_LFS: Final = "Git LFS uploads are not supported: what a push brings must be in git itself"


class BrokenAnswer(Exception):
    """An answer that was begun cannot be completed: the connection is cut, so that nobody takes it for whole."""


@dataclass(frozen=True, slots=True)
class Announced:
    """What a request says of its body: "" and None where it says nothing."""

    content_type: str
    encoding: str
    length: int | None


class Served(Protocol):
    """What stands behind the handler: one session's push gateway."""

    @property
    def hosts(self) -> frozenset[str]:
        """The spellings of the forge in an address."""

    @property
    def label(self) -> str:
        """The words before "policy:"."""

    def admits(self, secrets: list[str]) -> bool:
        """Is it the session's own secret, once? If not, that is recorded."""

    def note_refusal(self, name: RepositoryName | None, target: str, refusal: Refusal) -> None:
        """Records a request that is none of a push's."""

    def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Runs a request's work, until the session is closed at the latest."""

    async def advertise(self, name: RepositoryName, reply: "PushHandler") -> None:
        """Answers `info/refs`. BrokenAnswer."""

    async def receive(
        self, name: RepositoryName, inbound: Inbound, reply: "PushHandler", announced: Announced
    ) -> None:
        """Answers `git-receive-pack`."""


@stream_request_body
class PushHandler(RequestHandler):
    """One request. Changes; it is the `Reply` of whoever works on it."""

    def initialize(self, served: Served) -> None:
        """tornado's constructor."""
        self._served = served
        self._inbound = Inbound()
        self._task: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()
        self.begun = False

    def set_default_headers(self) -> None:
        """tornado's."""
        self.set_header("Server", "agent-gateway")
        self.set_header("Content-Type", PLAIN)
        self.set_header("Cache-Control", "no-store")

    def write_error(self, status_code: int, **_: object) -> None:
        """tornado's: for methods it does not know."""
        self._served.note_refusal(None, self.request.uri or "", Refusal(status_code, "no such method"))
        self.finish(f"{HTTPStatus(status_code).phrase}\n")

    # --- tornado's side ---------------------------------------------------------------------------

    def prepare(self) -> None:
        """Begins to work while the body comes in."""
        connection = cast(HTTP1Connection, self.request.connection)
        if not self._served.admits(self.request.headers.get_list(SECRET_HEADER)):
            self._end(403, f"{self._served.label} policy: the secret of this session is missing or wrong")
            return
        connection.set_max_body_size(_BODY_BYTES)
        connection.set_body_timeout(_BODY_SECONDS)
        # For this request. A tornado without such a method reads bodies in its own way, which takes longer.
        connection._read_chunked_body = _chunks_of(connection.stream)  # type: ignore[assignment,method-assign]  # meant
        # While a piece of the body waits for its place nothing is read, and tornado would not notice the connection's
        # end, not even one of its own making; once the body is over it listens itself.
        connection.stream.set_close_callback(self._inbound.cut)
        self._task = self._served.start(self._work())
        # Nobody reads the body then, and tornado would wait for its end, also when it is to stop.
        self._task.add_done_callback(lambda _, inbound=self._inbound: inbound.drop())  # type: ignore[misc]  # default

    def data_received(self, chunk: bytes) -> "asyncio.Future[None] | None":
        """A piece of the body; the next one is not read before this one has its place."""
        return self._inbound.put(chunk)

    async def _respond(self, *_: str) -> None:
        """The body is over; the answer is, when the work is."""
        self._inbound.end()
        if self._task is None:
            return
        await asyncio.wait((self._task,))
        if self._task.cancelled() or self._task.exception() is not None:
            self._cut()

    get = head = post = put = delete = patch = options = _respond

    def on_finish(self) -> None:
        """The answer is given; what still comes of the body is nobody's."""
        super().on_finish()
        self._inbound.drop()

    def on_connection_close(self) -> None:
        """The client has gone."""
        super().on_connection_close()
        self._inbound.cut()

    # --- The side of whoever works on it ----------------------------------------------------------

    def begin(self, content_type: str) -> None:
        """The answer will be a 200 of this type."""
        self.set_header("Content-Type", content_type)

    async def send(self, data: bytes) -> None:
        """More of the answer, once the client has taken what was sent before. ClientGone."""
        async with self._writing:
            self._inbound.check()
            self.begun = True
            self.write(data)
            try:
                async with asyncio.timeout(_TAKING):
                    await self.flush()
            except (StreamClosedError, TimeoutError):
                self._cut()
                raise ClientGone from None

    async def say(self, status: int, text: str, content_type: str = PLAIN) -> None:
        """A text as the whole answer. ClientGone, also where another answer was begun: the connection is cut then."""
        async with self._writing:
            self._inbound.check()
            if self.begun:
                self._cut()
                raise ClientGone
            self.set_header("Content-Type", content_type)
            self._end(status, text)

    # --- The work ---------------------------------------------------------------------------------

    async def _work(self) -> None:
        request = self.request
        target = parse_target(request.uri or "", request.method or "", self._served.hosts)
        try:
            if isinstance(target, Refusal):
                self._served.note_refusal(None, request.uri or "", target)
                await self._inbound.drain()
                if target.allow:
                    self.set_header("Allow", target.allow)
                await self.say(target.status, f"{self._served.label} policy: {target.text}")
            elif target.service is Service.LFS:
                await self._refuse_lfs(target)
            elif target.service is Service.ADVERTISE:
                await self._served.advertise(target.repository, self)
            else:
                await self._served.receive(target.repository, self._inbound, self, self._announced())
        except (ClientGone, ClientStalled):
            self._cut()

    async def _refuse_lfs(self, target: Target) -> None:
        """Git LFS reads JSON. Source: git-lfs, docs/api/batch.md, "Response Errors"."""
        self._served.note_refusal(target.repository, self.request.uri or "", Refusal(403, _NO_LFS))
        await self._inbound.drain()
        text = json.dumps({"message": f"{self._served.label} policy: {_NO_LFS}"})
        await self.say(403, text, LFS_TYPE)

    def _announced(self) -> Announced:
        headers = self.request.headers
        length = headers.get("Content-Length")
        return Announced(
            headers.get("Content-Type", ""),
            headers.get("Content-Encoding", ""),
            None if length is None else int(length),
        )

    def _end(self, status: int, text: str) -> None:
        self.set_status(status)
        self.finish(text + "\n")

    def _cut(self) -> None:
        """Closes the connection, whatever is still to be said."""
        cast(HTTP1Connection, self.request.connection).close()


def _chunks_of(stream: IOStream) -> Callable[[HTTPMessageDelegate], Coroutine[Any, Any, None]]:
    """Reads a chunked body from the stream. Holds no handler, which holds the connection."""
    return lambda delegate: read_chunked(stream, _BODY_BYTES, delegate.data_received)
