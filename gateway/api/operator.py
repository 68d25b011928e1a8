"""The operator API, HTTP on a Unix socket: what waits for an approval, as it comes, and the answers to it.

    GET  /healthz, /sessions, /approvals
    GET  /metrics                   counters of this process, as Prometheus reads them
    GET  /approvals/watch           a line of JSON for each question that comes or ends, an empty one now and then
    POST /approvals/ID/approve      {"remember": false, "reason": ""}
    POST /approvals/ID/deny         {"message": ""}

Being connected to `watch` is being attached: there is somebody to ask. Who answers is told by the kernel, not by the
client: this user or root, nobody else.
"""

import asyncio
import json
import os
import pwd
import socket
import struct
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPServerRequest
from tornado.iostream import StreamClosedError
from tornado.netutil import add_accept_handler
from tornado.web import Application, HTTPError

from gateway import __version__
from gateway.api.agent import JsonHandler, Route
from gateway.approvals import Answer, Approvals, Question, Settling
from gateway.approver_command import as_json
from gateway.metrics import CONTENT_TYPE, Gauges, exposition
from gateway.session import Session

# Bytes of a request: an answer is a line or two.
_BODY_BYTES: Final = 16 * 1024
_HEAD_BYTES: Final = 16 * 1024
# Seconds for a request, and between two requests of one connection.
_IDLE: Final = 10
# Seconds between two signs of life to a watcher, and for it to take what it was sent.
_ALIVE: Final = 5.0
_TAKEN: Final = 30.0
# Events that wait for a watcher to read them, and their bytes where they are more than one; one that is further behind
# reads nothing. A question may be as large as a tool call, and an agent can ask and leave again as long as it likes.
_BEHIND: Final = 2000
_BEHIND_BYTES: Final = 64 << 20
# struct xucred of macOS: version, user, groups.
_XUCRED: Final = 76

STATUS: Final[Mapping[Settling, HTTPStatus]] = MappingProxyType(
    {
        Settling.DONE: HTTPStatus.OK,
        Settling.UNKNOWN: HTTPStatus.NOT_FOUND,
        Settling.ANSWERED: HTTPStatus.CONFLICT,
        Settling.OVER: HTTPStatus.CONFLICT,
        Settling.NEEDS_REASON: HTTPStatus.UNPROCESSABLE_ENTITY,
    }
)


@dataclass(frozen=True, slots=True)
class Desk:
    """What the API answers from. `clock` is that of `approvals`."""

    approvals: Approvals
    sessions: Iterable[Session]
    clock: Callable[[], float]


def operator_routes(desk: Desk) -> tuple[Route, ...]:
    """Every route, each with what it answers from."""
    values = {"desk": desk}
    return (
        (r"/healthz", _Health, values),
        (r"/sessions", _Sessions, values),
        (r"/metrics", _Metrics, values),
        (r"/approvals", _List, values),
        (r"/approvals/watch", _Watch, values),
        (r"/approvals/([0-9]{1,18})/(approve|deny)", _Answer, values),
    )


def serve_operator_api(listening: socket.socket, routes: Sequence[Route]) -> HTTPServer:
    """Serves on a listening Unix socket, from the running event loop on; stopping the server closes the socket."""
    application = _Application(
        [(pattern, handler, dict(values)) for pattern, handler, values in routes],
        default_handler_class=_NotFound,
        log_function=lambda _: None,
    )
    server = _OperatorServer(
        application,
        max_header_size=_HEAD_BYTES,
        max_body_size=_BODY_BYTES,
        idle_connection_timeout=_IDLE,
        body_timeout=_IDLE,
    )
    server.accept_on(listening)
    return server


async def close_operator_api(server: HTTPServer) -> None:
    """Stops listening and cuts what is open."""
    server.stop()
    await server.close_all_connections()


class _Application(Application):
    """Takes bodies for what they are, whatever type a client writes: nobody here sends forms."""

    def get_handler_delegate(self, request: HTTPServerRequest, *arguments: Any, **more: Any) -> Any:
        if "Content-Type" in request.headers:
            del request.headers["Content-Type"]
        return super().get_handler_delegate(request, *arguments, **more)


class _OperatorServer(HTTPServer):
    """Takes connections of this user and of root; others are closed without a word."""

    def initialize(self, *arguments: Any, **settings: Any) -> None:
        super().initialize(*arguments, **settings)
        self._remove: Callable[[], None] | None = None

    def accept_on(self, listening: socket.socket) -> None:
        """Accepts from now on; the socket is closed when the server stops."""

        def accept(connection: socket.socket, address: object) -> None:
            if peer_user(connection) in (os.geteuid(), 0):
                self._handle_connection(connection, address)
            else:
                connection.close()

        remove = add_accept_handler(listening, accept)

        def stop() -> None:
            remove()
            listening.close()

        self._remove = stop

    def stop(self) -> None:
        if self._remove is not None:
            self._remove()
            self._remove = None
        super().stop()


def peer_user(connection: socket.socket) -> int:
    """The user id of whoever is at the other end, as the kernel says; -1 where it does not."""
    try:
        if sys.platform == "darwin":
            data = connection.getsockopt(0, 1, _XUCRED)  # SOL_LOCAL, LOCAL_PEERCRED
            return int(struct.unpack_from("=II", data)[1])
        data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", data)[1])
    except (OSError, struct.error):
        return -1


class _OperatorHandler(JsonHandler):
    """What every route has."""

    def initialize(self, desk: Desk) -> None:
        self._desk = desk

    def say(self, status: HTTPStatus, answer: Mapping[str, object]) -> None:
        """Answers with JSON."""
        self.set_status(status)
        self.finish(json.dumps(answer) + "\n")

    def question(self, question: Question) -> dict[str, object]:
        """A question as it is told."""
        return as_json(question, self._desk.clock())

    @property
    def user(self) -> str:
        """Who is there: a name, where the system knows one."""
        stream = getattr(self.request.connection, "stream", None)
        number = peer_user(stream.socket) if stream is not None and stream.socket is not None else -1
        try:
            return pwd.getpwuid(number).pw_name
        except (KeyError, OverflowError):
            return f"uid {number}"


class _NotFound(JsonHandler):
    def prepare(self) -> None:
        self.send_error(404)


class _Health(_OperatorHandler):
    def get(self) -> None:
        self.finish(b'{"status":"ok"}')


class _Sessions(_OperatorHandler):
    def get(self) -> None:
        self.say(HTTPStatus.OK, {"sessions": [_session_json(session) for session in self._desk.sessions]})


class _Metrics(_OperatorHandler):
    """For Prometheus."""

    def get(self) -> None:
        approvals = self._desk.approvals
        gauges = Gauges(len(tuple(self._desk.sessions)), len(approvals.waiting), approvals.attended)
        self.set_header("Content-Type", CONTENT_TYPE)
        self.finish(exposition(approvals.metrics.total, gauges, __version__))


class _List(_OperatorHandler):
    def get(self) -> None:
        waiting = self._desk.approvals.waiting
        self.say(HTTPStatus.OK, {"approvals": [self.question(question) for question in waiting]})


class _Answer(_OperatorHandler):
    """400 for what is no answer; otherwise what became of it."""

    def post(self, number: str, word: str) -> None:
        user = self.user
        if word == "approve":
            fields = self._fields({"remember": bool, "reason": str})
            reason = str(fields.get("reason", "")).strip()
            answer = Answer(True, reason, user, remember=fields.get("remember") is True)
        else:
            message = str(self._fields({"message": str}).get("message", "")).strip()
            answer = Answer(False, message or f"{user} said no", user)
        waiting = {question.id: question for question in self._desk.approvals.waiting}
        question = waiting.get(int(number))
        became = self._desk.approvals.answer(int(number), answer)
        remembered = bool(answer.remember and question is not None and question.rules)
        said: dict[str, object] = {"id": int(number), "state": became.value}
        self.say(STATUS[became], {**said, "remembered": remembered} if became is Settling.DONE else said)

    def _fields(self, known: Mapping[str, type]) -> Mapping[str, object]:
        """The body: nothing, or an object of these keys and types."""
        try:
            found = json.loads(self.request.body or b"{}")
        except (ValueError, RecursionError):
            raise HTTPError(400) from None
        if not isinstance(found, dict) or any(
            key not in known or not isinstance(value, known[key]) for key, value in found.items()
        ):
            raise HTTPError(400)
        return found


class _Watch(_OperatorHandler):
    """Attached for as long as it is open and reads."""

    def initialize(self, desk: Desk) -> None:
        super().initialize(desk)
        self._events: asyncio.Queue[bytes] = asyncio.Queue(_BEHIND)
        self._behind = 0
        self._task: asyncio.Task[None] | None = None

    def asked(self, question: Question) -> None:
        """A question waits. One too many raises, which detaches."""
        self._put({"event": "asked", **self.question(question)})

    def closed(self, question: Question) -> None:
        """It waits no longer."""
        self._put({"event": "closed", "id": question.id, "session": question.session.id})

    def _put(self, event: Mapping[str, object]) -> None:
        line = json.dumps(event).encode() + b"\n"
        try:
            if self._behind and self._behind + len(line) > _BEHIND_BYTES:
                raise asyncio.QueueFull
            self._events.put_nowait(line)
        except asyncio.QueueFull:
            if self._task is not None:
                self._task.cancel()
            raise
        self._behind += len(line)

    async def get(self) -> None:
        self.set_header("Content-Type", "application/x-ndjson")
        self._task = asyncio.current_task()
        self._desk.approvals.attach(self)
        try:
            await self._send(b"\n")
            while True:
                try:
                    line = await asyncio.wait_for(self._events.get(), _ALIVE)
                    self._behind -= len(line)
                except TimeoutError:
                    line = b"\n"
                await self._send(line)
        except (StreamClosedError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            self._desk.approvals.detach(self)
        stream = getattr(self.request.connection, "stream", None)
        if stream is not None:
            stream.close()

    async def _send(self, line: bytes) -> None:
        self.write(line)
        async with asyncio.timeout(_TAKEN):
            await self.flush()

    def on_connection_close(self) -> None:
        """The watcher has gone: at once, not at the next sign of life."""
        if self._task is not None:
            self._task.cancel()


def _session_json(session: Session) -> dict[str, object]:
    return {
        "id": session.id,
        "workspace": session.workspace,
        "agent": session.agent,
        "space": session.space,
        "mode": session.mode.value,
        "worktree": session.worktree,
        "backend": session.sandbox.backend,
        "network": session.egress.network,
    }
