"""The door for actions: judges a tool call, settles what a person must approve, and records it before it says yes.

The only caller of `judge_call` besides `check`, and the only writer of `action` records. An exception while deciding is
a denial; so is what cannot be recorded. It reads no bytes and speaks to nobody.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from gateway.approvals import Answer, Approvals
from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.errors import AuditError
from gateway.policy.actions import Action
from gateway.policy.calls import judge_call
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code
from gateway.policy.grounds import Grounds
from gateway.policy.judgement import Judgement, Verdicts
from gateway.policy.masking import mask
from gateway.policy.remembering import covers, remembered_action
from gateway.policy.rules import OVERRIDABLE, Rule
from gateway.policy.tool_call import ToolCall
from gateway.policy.tools import find_tool
from gateway.policy.wording import printable
from gateway.session import Session

BUILT_IN: Final = "built-in"
INTERNAL: Final = Decision(
    Verdict.DENY,
    BUILT_IN,
    "the gateway could not decide or record this, so it is refused",
    Code.INTERNAL,
)
# Calls of one session in a second that are judged: no model makes as many, and each has a record.
CALLS_PER_SECOND: Final = 50
# Characters of the line a person reads first, and of a reason.
_SUMMARY: Final = 300
_REASON: Final = 500
# Characters of a text in a record, before it is masked and cut again there.
_RECORDED: Final = 8192
# Parts of a call that a question names one by one.
_PARTS: Final = 100
_MANY: Final = Decision(
    Verdict.DENY,
    BUILT_IN,
    f"more than {CALLS_PER_SECOND} tool calls in one second: wait, then try again",
    Code.LIMIT,
)
_GONE: Final = Answer(False, "whoever asked has gone")

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Window:
    """The calls of one session in one second. Changes: `more` are those that were turned away without a record."""

    second: int
    session: Session
    calls: int = 0
    more: int = 0


@dataclass(slots=True)
class _Shared:
    """A call that is being decided, for everybody who makes it at this moment. Changes."""

    task: asyncio.Task[Decision]
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class _Judged:
    """What the rules come to: a decision, unless there are parts that a person is to be asked about."""

    decision: Decision
    asked: tuple[Judgement, ...] = ()
    verdicts: Verdicts | None = None


@dataclass(slots=True)
class ActionAuthorizer:
    """Decides, asks and records. Changes (counts, what waits); used from one event loop. `now` gives an aware time."""

    log: AuditLog
    approvals: Approvals
    now: Callable[[], datetime]
    _windows: dict[str, _Window] = field(default_factory=dict)
    _shared: dict[tuple[str, ToolCall], _Shared] = field(default_factory=dict)
    _lost: int = 0

    async def authorize(self, session: Session, call: ToolCall, grounds: Grounds) -> Decision:
        """An allow or a denial, which stands in the log by then. Cancelling withdraws the question.

        The same call made twice at once, under one id and to the letter, is asked about once: an agent runs a hook
        twice that stands in two of its settings.
        """
        if self._is_one_too_many(session):
            return _MANY
        if not call.id:
            return await self._authorize(session, call, grounds)
        key = (session.id, call)
        shared = self._shared.get(key)
        if shared is None:
            task = asyncio.create_task(self._authorize(session, call, grounds))
            shared = self._shared[key] = _Shared(task)
        shared.waiting += 1
        try:
            return await asyncio.shield(shared.task)
        finally:
            shared.waiting -= 1
            if not shared.waiting or shared.task.done():
                if self._shared.get(key) is shared:
                    del self._shared[key]
                shared.task.cancel()  # nothing, where it is done

    def refuse(self, session: Session, reason: str, code: str) -> Decision:
        """Denies and records what could not be read as a call."""
        if self._is_one_too_many(session):
            return _MANY
        decision = Decision(Verdict.DENY, BUILT_IN, reason, code)
        return decision if self._write(session, _fields(ToolCall(""), (), decision, "")) else INTERNAL

    def forget(self, session_id: str) -> None:
        """Writes what was counted and not recorded one by one, and drops a closed session's counts."""
        window = self._windows.pop(session_id, None)
        if window is not None:
            self._flush(window)

    # --- Deciding ---------------------------------------------------------------------------------

    async def _authorize(self, session: Session, call: ToolCall, grounds: Grounds) -> Decision:
        """One call, by itself."""
        judged = self._judge(session, call, grounds)
        effects = _effects(call, judged.verdicts)
        decision, approver = judged.decision, ""
        if judged.asked:
            try:
                answer = await self._ask(session, call, judged.asked, effects)
            except asyncio.CancelledError:
                self._write(session, _fields(call, effects, _settled(judged.asked, _GONE), ""))
                raise
            decision, approver = _settled(judged.asked, answer), answer.approver
        return decision if self._write(session, _fields(call, effects, decision, approver)) else INTERNAL

    def _judge(self, session: Session, call: ToolCall, grounds: Grounds) -> _Judged:
        """What the rules of this moment say. Never raises: what cannot be decided is denied."""
        try:
            subject = session.subject(self.now())
            verdicts = judge_call(session.rules, subject, call, grounds, network=session.egress.network)
            asked = self._open_parts(session, verdicts)
            worst = verdicts.worst
            if worst.verdict is not Verdict.ASK or asked:
                return _Judged(_decision_of(worst), asked, verdicts)
            place = self._remembered(session, verdicts.asked[0])
            remembered = Decision(Verdict.ALLOW, place, "a person allowed this for the rest of the session")
            return _Judged(remembered, (), verdicts)
        except Exception:
            _log.exception("a tool call could not be judged; it is refused")
            return _Judged(INTERNAL)

    def _open_parts(self, session: Session, verdicts: Verdicts) -> tuple[Judgement, ...]:
        """The parts that a person is to be asked about; none where a part is denied for good, or nobody is there who
        could override one."""
        denied = [part for part in verdicts.parts if part.verdict is Verdict.DENY]
        if any(part.code != OVERRIDABLE for part in denied) or (denied and not self.approvals.attended):
            return ()
        asked = [part for part in verdicts.asked if not self._remembered(session, part)]
        return (*denied, *asked)

    def _remembered(self, session: Session, part: Judgement) -> str:
        """The place of the rule by which a yes of before covers all of a part that would be asked about; else empty."""
        if not part.requests:
            return ""
        rules, subject = self.approvals.remembered(session.id), session.subject(self.now())
        found = [covers(rules, subject, request) for request in part.requests]
        return found[0].place if found[0] is not None and None not in found else ""

    # --- Asking -----------------------------------------------------------------------------------

    async def _ask(
        self, session: Session, call: ToolCall, asked: tuple[Judgement, ...], effects: tuple[Action, ...]
    ) -> Answer:
        """A person's answer about the whole call: one question, however many of its parts need one."""
        overrides = any(part.verdict is Verdict.DENY for part in asked)
        actions = [request.action for part in asked for request in part.requests]
        # Every command is one that is run: what else it does is what is asked about.
        others = [action for action in actions if action is not Action.SPAWN_PROCESS]
        action = next((action.value for action in (*others, *actions)), "tool_call")
        return await self.approvals.ask(
            self.approvals.question(
                session,
                action,
                _summary(call, asked),
                _details(call, asked, effects, overrides),
                rules=_rules(asked),
                override=overrides,
            )
        )

    # --- Recording --------------------------------------------------------------------------------

    def _is_one_too_many(self, session: Session) -> bool:
        """Whether a call is turned away unjudged: an agent that calls again and again must not fill the disk with
        that."""
        second = int(self.now().timestamp())
        window = self._windows.get(session.id)
        if window is None or window.second != second:
            if window is not None:
                self._flush(window)
            window = self._windows[session.id] = _Window(second, session)
        window.calls += 1
        if window.calls <= CALLS_PER_SECOND:
            return False
        window.more += 1
        return True

    def _flush(self, window: _Window) -> None:
        if window.more:
            fields = _fields(ToolCall(""), (), _MANY, "")
            self._write(window.session, {**fields, "count": window.more})

    def _write(self, session: Session, fields: Mapping[str, object]) -> bool:
        """Whether it stands in the log. Says so loudly when that begins to fail, and when it is over."""
        try:
            self.log.append(AuditEvent(EventKind.ACTION, fields, session))
        except AuditError as error:
            if not self._lost:
                _log.error("records of tool calls are lost, and none is allowed meanwhile: %s", error)
            self._lost += 1
            return False
        if self._lost:
            _log.error("the audit log takes records again; %d of tool calls were lost", self._lost)
            self._lost = 0
        return True


def _rules(asked: tuple[Judgement, ...]) -> tuple[Rule, ...]:
    """What a yes allows that is to be remembered; nothing where a part cannot be, or is denied and overridden once."""
    if any(part.verdict is Verdict.DENY or not part.requests for part in asked):
        return ()
    found = [remembered_action(request) for part in asked for request in part.requests]
    return () if None in found else tuple(rule for rule in found if rule is not None)


def _decision_of(part: Judgement) -> Decision:
    return Decision(part.verdict, part.rule, _cut(part.reason), part.code)


def _settled(asked: tuple[Judgement, ...], answer: Answer) -> Decision:
    """What an answer makes of the parts that were asked about."""
    first = asked[0]
    if answer.allowed:
        return Decision(Verdict.ALLOW, first.rule, _cut(answer.reason or "a person approved it"))
    said = f"{answer.reason} ({first.reason})" if answer.reason else first.reason
    return Decision(Verdict.DENY, first.rule, _cut(printable(said)), first.code)


def _effects(call: ToolCall, verdicts: Verdicts | None) -> tuple[Action, ...]:
    """What is known of the call's effects: what was held against rules, its tool's row, and what it declares."""
    tool = find_tool(call.tool)
    found = (*(verdicts.effects if verdicts else ()), *(tool.effects if tool else ()), *call.effects)
    return tuple(dict.fromkeys(found))


def _summary(call: ToolCall, asked: tuple[Judgement, ...]) -> str:
    text = call.command or asked[0].text or call.target
    return _cut(printable(mask(f"{call.tool}: {text[:_RECORDED]}")), _SUMMARY)


def _details(
    call: ToolCall, asked: tuple[Judgement, ...], effects: tuple[Action, ...], overrides: bool
) -> dict[str, object]:
    """Exactly what is asked, for a person: nothing of it is hidden from them."""
    details: dict[str, object] = {
        "tool": call.tool,
        "target": [*call.targets, *call.deleted],
        "command": call.command,
        "directory": call.cwd,
        "effects": [action.value for action in effects],
        "parts": [
            {
                "text": part.text,
                "effects": [request.action.value for request in part.requests],
                "rule": part.rule,
                "reason": part.reason,
            }
            for part in asked[:_PARTS]
        ],
        "others": max(0, len(asked) - _PARTS),
    }
    return {**details, "override": True} if overrides else details


def _fields(
    call: ToolCall, effects: tuple[Action, ...], decision: Decision, approver: str
) -> dict[str, object]:
    """The record. The log masks every text."""
    fields: dict[str, object] = {
        "tool": call.tool,
        "command": call.command[:_RECORDED],
        "effects": [action.value for action in effects],
        "verdict": decision.verdict.value,
        "rule": decision.rule,
        "reason": decision.reason,
        "approver": approver,
    }
    for name, value in (("target", call.target), ("code", decision.code)):
        if value:
            fields[name] = str(value)[:_RECORDED]
    return fields


def _cut(text: str, length: int = _REASON) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."
