"""The door for pushes: the only caller of `decide_push` besides `check`, and the only writer of `push` records.

One record per push, written before its answer goes out. An exception while deciding is a denial; so is a push that
cannot be recorded, as far as that can still be prevented. It reads no bytes and speaks to no server.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from gateway.approvals import Approvals
from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.errors import AuditError
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code
from gateway.policy.push import PushRequest, UpdateKind, decide_push
from gateway.policy.remembering import covers
from gateway.policy.rules import OVERRIDABLE, Subject
from gateway.session import Session

INTERNAL: Final = Decision(
    Verdict.DENY, "built-in", "the gateway could not decide or record this, so it is refused", Code.INTERNAL
)
# Requests turned away before their refs are known that have records of their own, in a second of a session.
_TURNED_AWAY: Final = 50
_REMEMBERED: Final = "a person allowed this for the rest of the session"
_MANY: Final = "further requests of the same second were turned away, each for its own reason"

_log = logging.getLogger(__name__)


class PushCode(StrEnum):
    """Why a push went no further than it did, for machines; a policy's denial of single refs has none of these."""

    NONE = ""
    MALFORMED = "malformed_request"
    WRONG_SECRET = "wrong_secret"
    NOT_LINKED = "not_linked"
    NO_APP = "no_app"
    NETWORK_OFF = "network_off"
    UNSUPPORTED = "unsupported"
    UNAVAILABLE = "github_unavailable"
    OUTCOME_UNKNOWN = "outcome_unknown"
    CLIENT_GONE = "client_gone"
    CLOSED = "session_closed"
    TIMEOUT = "timeout"
    LIMIT = "limit"
    DENIED = "denied"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class RefOutcome:
    """One ref of a push: what was asked, what was decided, what became of it.

    `ref` may hold anything a client can write; `status` is "ok", or what the report said instead.
    """

    ref: str
    old: str
    new: str
    kind: UpdateKind
    verdict: Verdict
    rule: str
    reason: str
    status: str


@dataclass(frozen=True, slots=True)
class PushRecord:
    """What the log keeps of one push. `repository` is "owner/name" as far as it is known, `bytes` those of the body.

    `forwarded` is True once anything was sent to GitHub with a write token. `reason` is for the push as a whole.
    `deleted` are files that it took away and that the session may not write; `deleted_unknown`: there may be more.
    """

    repository: str
    refs: tuple[RefOutcome, ...] = ()
    bytes: int = 0
    duration_ms: int = 0
    approver: str = ""
    code: PushCode = PushCode.NONE
    reason: str = ""
    agent: str = ""
    forwarded: bool = False
    deleted: Sequence[str] = ()
    deleted_unknown: bool = False


@dataclass(slots=True)
class PushCounts:
    """What a session's closing line says. Changes."""

    forwarded: int = 0
    refused: int = 0


@dataclass(slots=True)
class _Turned:
    """Requests of one session that were turned away in one second. Changes: `more` are those without a record."""

    second: int
    session: Session
    count: int = 0
    more: int = 0


@dataclass(frozen=True, slots=True)
class PushQuestion:
    """What a person is asked about a push: one line, and exactly what it is."""

    summary: str
    details: Mapping[str, object]


@dataclass(slots=True)
class PushAuthorizer:
    """Decides, asks and records. Changes (counts); used from one event loop. `now` returns an aware time."""

    log: AuditLog
    approvals: Approvals
    now: Callable[[], datetime]
    _counts: dict[str, PushCounts] = field(default_factory=dict)
    _turned: dict[str, _Turned] = field(default_factory=dict)
    _lost: int = 0

    def judge(self, session: Session, requests: Sequence[PushRequest]) -> tuple[Decision, ...]:
        """A decision for each request, by the rules of this moment and what a person has allowed for the rest of the
        session. A denial that somebody there could override is a question. Never raises: what cannot be decided is
        denied."""
        try:
            subject = session.subject(self.now())
            return tuple(self._judge_one(session, subject, request) for request in requests)
        except Exception:
            _log.exception("a rule failed; the push is refused")
            return (INTERNAL,) * len(requests)

    def _judge_one(self, session: Session, subject: Subject, request: PushRequest) -> Decision:
        decision = decide_push(session.rules, subject, request)
        if decision.code == OVERRIDABLE and self.attended:
            return replace(decision, verdict=Verdict.ASK)
        if decision.verdict is Verdict.ASK:
            rule = covers(self.approvals.remembered(session.id), subject, request)
            if rule is not None:
                return Decision(Verdict.ALLOW, rule.place, _REMEMBERED)
        return decision

    @property
    def attended(self) -> bool:
        """Is there anybody to ask?"""
        return self.approvals.attended

    def record(self, session: Session, record: PushRecord) -> bool:
        """Writes the record of a push, before its answer goes out. False when it does not stand in the log: whatever
        is not done yet must not be done then. Says so loudly when that begins, and when it is over."""
        counts = self.counts(session.id)
        if record.forwarded:
            counts.forwarded += 1
        else:
            counts.refused += 1
        self.log.metrics.count_push("forwarded" if record.forwarded else "refused")
        if not record.refs and not record.forwarded and self._is_one_of_many(session):
            return True
        return self._write(session, _fields(record))

    def flush(self, session_id: str) -> None:
        """Writes what was counted and not recorded one by one."""
        turned = self._turned.pop(session_id, None)
        if turned is not None and turned.more:
            fields = _fields(PushRecord("", code=PushCode.LIMIT, reason=_MANY))
            self._write(turned.session, {**fields, "count": turned.more})

    def _is_one_of_many(self, session: Session) -> bool:
        """Whether a request that came to nothing is counted only: an agent that asks again and again must not fill the
        disk with it. The first ones of a second have their records, the rest of it one for all."""
        second = int(self.now().timestamp())
        turned = self._turned.get(session.id)
        if turned is None or turned.second != second:
            self.flush(session.id)
            turned = self._turned[session.id] = _Turned(second, session)
        turned.count += 1
        if turned.count <= _TURNED_AWAY:
            return False
        turned.more += 1
        return True

    def _write(self, session: Session, fields: Mapping[str, object]) -> bool:
        try:
            self.log.append(AuditEvent(EventKind.PUSH, fields, session))
        except AuditError as error:
            if not self._lost:
                _log.error("records of pushes are lost, and none is forwarded meanwhile: %s", error)
            self._lost += 1
            return False
        if self._lost:
            _log.error("the audit log takes records again; %d of pushes were lost", self._lost)
            self._lost = 0
        return True

    def counts(self, session_id: str) -> PushCounts:
        """What was forwarded and refused in a session so far; goes on counting until `forget`."""
        return self._counts.setdefault(session_id, PushCounts())

    def forget(self, session_id: str) -> None:
        """Drops a closed session's counts."""
        self.flush(session_id)
        self._counts.pop(session_id, None)


def _fields(record: PushRecord) -> dict[str, object]:
    fields: dict[str, object] = {
        "repository": record.repository,
        "refs": [
            {
                "ref": one.ref,
                "old": one.old,
                "new": one.new,
                "kind": one.kind.value,
                "verdict": one.verdict.value,
                "rule": one.rule,
                "reason": one.reason,
                "status": one.status,
            }
            for one in record.refs
        ],
        "bytes": record.bytes,
        "duration_ms": record.duration_ms,
        "approver": record.approver,
    }
    for name, value in (("code", record.code.value), ("reason", record.reason), ("client", record.agent)):
        if value:
            fields[name] = value
    if record.deleted:
        fields["deleted_protected"] = list(record.deleted)
    if record.deleted_unknown:
        fields["deleted_unknown"] = True
    return fields
