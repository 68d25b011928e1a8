"""Tool calls on the agent listener: `POST /agent/tool-call` for any agent, `POST /agent/pre-tool-use` for Claude Code's
hook, and `GET /agent/tools`, the tools of the session's mode.

Reads what was sent and writes what the door decided; decides nothing. Whatever cannot be read is denied and recorded.
"""

import asyncio
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, cast

from tornado.http1connection import HTTP1Connection
from tornado.web import stream_request_body

from gateway.action_authorizer import INTERNAL, ActionAuthorizer
from gateway.api.agent import JsonHandler, Route
from gateway.api.git_credential import SECRET_HEADER
from gateway.policy.decision import Decision
from gateway.policy.grounds import Grounds
from gateway.policy.tool_call import EVENT, CallError, ToolCall, read_claude_call, read_plain_call
from gateway.policy.tools import disallowed_tools, offered_tools
from gateway.session import Session

# How the hook is told; its body is then for its stdout.
DECISION_HEADER: Final = "X-Agent-Gateway-Decision"
# Bytes of one call: models write some hundred kilobytes at once at most.
BODY_BYTES: Final = 4 << 20
# Bytes of a call that is too large which are read and dropped, so that its sender hears the answer.
_DRAINED: Final = 64 << 20
# Bytes of calls that are held at once, all together.
_HELD: Final = 32 << 20

_FORBIDDEN: Final = (
    "this is not the session's secret: leave AGENT_GATEWAY_SECRET as `agent-gateway run` set it"
)
_TOO_LARGE: Final = f"the tool call is larger than {BODY_BYTES >> 20} MiB"
_CROWDED: Final = "too many large tool calls at once: try again"


@dataclass(slots=True)
class ToolGate:
    """What the routes answer from: one session, the door, and where its paths lie. Changes: `held` are bytes of calls
    that are being read or decided."""

    session: Session
    door: ActionAuthorizer
    grounds: Grounds
    held: int = 0

    def admits(self, secrets: list[str]) -> bool:
        """Whether it is the session's own secret, once."""
        own = self.session.secret.encode()
        shown = secrets[0].encode("utf-8", "replace") if len(secrets) == 1 else b""
        return hmac.compare_digest(shown, own)


def tool_call_routes(gate: ToolGate) -> tuple[Route, ...]:
    """The routes for `serve_agent_api`."""
    values = {"gate": gate}
    return (
        (r"/agent/tool-call", _PlainHandler, values),
        (r"/agent/pre-tool-use", _HookHandler, values),
        (r"/agent/tools", _ToolsHandler, values),
    )


class _ToolsHandler(JsonHandler):
    """`{"mode", "tools", "disallowed"}`; 403 without the session's secret."""

    def initialize(self, gate: ToolGate) -> None:
        self._gate = gate

    def get(self) -> None:
        if not self._gate.admits(self.request.headers.get_list(SECRET_HEADER)):
            self.send_error(403)
            return
        mode = self._gate.session.mode
        answer = {"mode": mode.value, "tools": offered_tools(mode), "disallowed": disallowed_tools(mode)}
        self.finish(json.dumps(answer) + "\n")


@stream_request_body
class _CallHandler(JsonHandler):
    """One call: its body piece by piece, then the door's decision. Its members say how calls look and what is
    answered."""

    read: Callable[[object], ToolCall]

    def initialize(self, gate: ToolGate) -> None:
        self._gate = gate
        self._body = bytearray()
        self._fault: tuple[int, str] | None = None
        self._deciding: asyncio.Task[Decision] | None = None

    def prepare(self) -> None:
        cast(HTTP1Connection, self.request.connection).set_max_body_size(_DRAINED)
        if not self._gate.admits(self.request.headers.get_list(SECRET_HEADER)):
            self._fault = (403, _FORBIDDEN)

    def data_received(self, chunk: bytes) -> None:
        if self._fault is not None:
            return
        if len(self._body) + len(chunk) > BODY_BYTES:
            self._fault = (413, _TOO_LARGE)
        elif self._gate.held + len(chunk) > _HELD:
            self._fault = (503, _CROWDED)
        else:
            self._gate.held += len(chunk)
            self._body += chunk
            return
        self._let_go()

    async def post(self) -> None:
        if self._fault is None:
            try:
                call = self.read(read_json(bytes(self._body)))
            except CallError as error:
                self._fault = (400, f"this is no tool call: {error}")
        if self._fault is not None:
            status, reason = self._fault
            code = HTTPStatus(status).phrase.lower().replace(" ", "_")
            decision = self._gate.door.refuse(self._gate.session, reason, code)
            self.set_status(status)
            self.refuse(decision)
            return
        deciding = self._gate.door.authorize(self._gate.session, call, self._gate.grounds)
        self._deciding = asyncio.ensure_future(deciding)
        try:
            decision = await self._deciding
        except asyncio.CancelledError:
            if self._deciding.cancelled():  # whoever asked has gone
                return
            raise
        self.answer(decision)

    def answer(self, decision: Decision) -> None:
        """Writes a decision."""
        raise NotImplementedError

    def refuse(self, decision: Decision) -> None:
        """Writes that there is none."""
        raise NotImplementedError

    def write_error(self, status_code: int, **_: object) -> None:
        self.refuse(INTERNAL)

    def on_connection_close(self) -> None:
        if self._deciding is not None:
            self._deciding.cancel()
        self._let_go()

    def on_finish(self) -> None:
        self._let_go()

    def _let_go(self) -> None:
        self._gate.held -= len(self._body)
        self._body = bytearray()


class _PlainHandler(_CallHandler):
    """`{"tool", "effects", "target", "command"}` in, `{"decision", "reason", "rule"}` out, also for what is refused."""

    read = staticmethod(read_plain_call)

    def answer(self, decision: Decision) -> None:
        said = "allow" if decision.allowed else "deny"
        answer = {"decision": said, "reason": decision.reason, "rule": decision.rule}
        self.finish(json.dumps(answer) + "\n")

    def refuse(self, decision: Decision) -> None:
        answer = {"decision": "deny", "reason": decision.reason, "rule": decision.rule}
        self.finish(json.dumps(answer) + "\n")


class _HookHandler(_CallHandler):
    """Claude Code's hook input in, what the hook writes to stdout out: nothing for an allow. See `sandbox/hook.py`."""

    read = staticmethod(read_claude_call)

    def answer(self, decision: Decision) -> None:
        self.set_header(DECISION_HEADER, "allow" if decision.allowed else "deny")
        if decision.allowed:
            self.finish()
            return
        said = {
            "hookEventName": EVENT,
            "permissionDecision": "deny",
            "permissionDecisionReason": f"agent-gateway: {decision.reason} (rule: {decision.rule})",
        }
        self.finish(json.dumps({"hookSpecificOutput": said}) + "\n")

    def refuse(self, decision: Decision) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{decision.reason}, so the call is blocked\n")


def read_json(body: bytes) -> object:
    """The one value of a body. CallError for what is no JSON, or could be read in two ways."""
    try:
        return json.loads(body.decode(), object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, CallError) else "it is not valid JSON"
        raise CallError(reason) from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Readers do not agree which of two fields with one name counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise CallError("it has two fields with one name")
    return found


def _no_number(text: str) -> None:
    raise CallError(f"{text} is no JSON")
