"""Opens and closes sessions: compile, register, record; then forget and record, whatever else failed."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.audit import AuditEvent, AuditLog, EventKind, Reason
from gateway.policy.egress import EgressRules
from gateway.policy.rules import RuleSet
from gateway.session import Mode, SandboxStamp, Session, Sessions


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """What an operator asks for when opening a session; the rules are compiled already."""

    id: str
    egress: EgressRules
    sandbox: SandboxStamp
    secret: str = field(repr=False)
    workspace: str = "default"
    space: str = ""
    agent: str = ""
    mode: Mode = Mode.CHAT
    worktree: str = ""
    rules: RuleSet = field(default_factory=RuleSet)


def new_session_id() -> str:
    """An id nobody can guess, short enough to read aloud: 12 hex digits."""
    return secrets.token_hex(6)


def new_secret() -> str:
    """What a wrapped process shows to the gateway's own listener: 256 random bits."""
    return secrets.token_urlsafe(32)


def open_session(
    request: SessionRequest,
    sessions: Sessions,
    log: AuditLog,
    *,
    kept: Sequence[str] = (),
    dropped: Sequence[str] = (),
    chosen: Sequence[str] = (),
    self_test: str = "",
) -> Session:
    """Registers a session and records it. `kept`, `dropped` and `chosen` (what the user set) are names of variables in
    the environment, never values; `self_test` is what trying its wall came to, empty where nobody tries. ValueError
    when the id is live; AuditError when it cannot be recorded (then it is not open)."""
    session = Session(
        id=request.id,
        sandbox=request.sandbox,
        egress=request.egress,
        secret=request.secret,
        workspace=request.workspace,
        space=request.space,
        agent=request.agent,
        mode=request.mode,
        worktree=request.worktree,
        rules=request.rules,
    )
    sessions.add(session)
    fields = {
        "state": "opened",
        "mode": session.mode.value,
        "worktree": session.worktree,
        "network": session.egress.network,
        "environment_kept": sorted(kept),
        "environment_dropped": sorted(dropped),
        "environment_set": sorted(chosen),
        "self_test": self_test or None,
    }
    try:
        log.append(AuditEvent(EventKind.SESSION, fields, session))
    except BaseException:
        sessions.remove(session.id)
        raise
    return session


def record_violation(
    session: Session, log: AuditLog, *, action: str, target: str, rule: str, raw: str, count: int = 1
) -> None:
    """Records what the wrap refused, or found done against its rules: `raw` is the line that tells of it. AuditError
    when it cannot be recorded."""
    fields = {"action": action, "target": target, "rule": rule, "raw": raw, "count": count}
    log.append(AuditEvent(EventKind.VIOLATION, fields, session))


def close_session(
    session: Session, sessions: Sessions, log: AuditLog, *, exit_status: int | None = None
) -> None:
    """Forgets a session and records its end, also when that cannot be recorded (AuditError). One that is not live,
    perhaps because another was opened with its id since, is left alone."""
    if sessions.get(session.id) is not session:
        return
    sessions.remove(session.id)
    fields = {
        "state": "closed",
        "mode": session.mode.value,
        "worktree": session.worktree,
        "exit_status": exit_status,
    }
    try:
        log.append(AuditEvent(EventKind.SESSION, fields, session))
        log.checkpoint(Reason.SESSION, session)
    finally:
        log.forget(session.id)
