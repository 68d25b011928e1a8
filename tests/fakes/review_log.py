"""A log with something in it to review, written by what writes logs, at moments that a test chooses."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.authorizer import Attempt, Authorizer, Figures
from gateway.lifecycle import SessionRequest, close_session, open_session
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code, Transport
from gateway.review.files import audit_files
from gateway.session import SandboxStamp, Session, Sessions
from tests.fakes.rules import rules_for

# 2026-01-01T00:00:00Z, in seconds.
START = 1_767_225_600
NOT_LISTED = Decision(Verdict.DENY, "default", "not listed", Code.NOT_LISTED)


@dataclass
class Writer:
    """One process that writes. `at` is the second, since `START`, of the next record."""

    directory: Path
    at: float = 0
    max_bytes: int = 256 << 20
    sessions: Sessions = field(default_factory=Sessions)

    def __post_init__(self) -> None:
        self.log = AuditLog(self.directory, max_bytes=self.max_bytes, clock=self._clock)
        self.door = Authorizer(self.log, lambda: self.at)

    def _clock(self) -> int:
        return int((START + self.at) * 1_000_000) * 1000

    def open(self, name: str = "s1", agent: str = "claude") -> Session:
        request = SessionRequest(
            name, rules_for(), SandboxStamp("native", "create-time"), "secret", agent=agent, worktree="/src/w"
        )
        return open_session(request, self.sessions, self.log)

    def close(self, session: Session, status: int = 0) -> None:
        close_session(session, self.sessions, self.log, exit_status=status)

    def attempt(
        self, session: Session, host: str, port: int = 443, transport: Transport = Transport.CONNECT
    ) -> Attempt:
        attempt = self.door.attempt(session, transport, host, port)
        return replace(attempt, rule="baseline.txt:1")

    def tunnel(
        self, session: Session, host: str, up: int = 100, down: int = 2000, *, ends: bool = True
    ) -> None:
        """A connection that was allowed, from its beginning to its end."""
        attempt = self.attempt(session, host)
        assert self.door.open(attempt).allowed
        if ends:
            self.door.close(attempt, Figures(up, down, 30, "finished"))

    def request(self, session: Session, host: str, status: int = 200, path: str = "/x") -> None:
        """A plain request."""
        attempt = self.attempt(session, host, 80, Transport.HTTP)
        attempt = replace(attempt, method="GET", path=path)
        self.door.begin(attempt)
        self.door.close(attempt, Figures(10, 20, 3, "finished", status))

    def refuse(
        self, session: Session, host: str, decision: Decision = NOT_LISTED, port: int = 443, address: str = ""
    ) -> None:
        attempt = replace(self.attempt(session, host, port), rule="", address=address)
        self.door.refuse(attempt, decision)

    def fail(self, session: Session, host: str, code: str = Code.DNS_FAILED) -> None:
        """A dial that came to nothing."""
        attempt = self.attempt(session, host)
        self.door.close(attempt, Figures(), Decision(Verdict.ALLOW, "", "", code))

    def cut(self, session: Session, host: str) -> None:
        """A tunnel that was refused after it was opened."""
        attempt = self.attempt(session, host)
        self.door.open(attempt)
        denial = Decision(Verdict.DENY, "built-in", "another name", Code.SNI_MISMATCH)
        self.door.close(attempt, Figures(5, 0, 1, "refused"), denial)

    def note(self, kind: EventKind, session: Session | None = None, /, **fields: Any) -> None:
        """Any record."""
        self.log.append(AuditEvent(kind, fields, session))


def push_fields(verdict: str = "allow", status: str = "ok", code: str = "", **more: Any) -> dict[str, Any]:
    """A push of one ref."""
    ref = {
        "ref": "refs/heads/main",
        "old": "0" * 40,
        "new": "1" * 40,
        "kind": "create",
        "verdict": verdict,
        "rule": "config.yaml:3",
        "reason": "because",
        "status": status,
    }
    fields = {"repository": "acme/w", "refs": [ref], "bytes": 10, "duration_ms": 5, "approver": ""}
    return {**fields, **({"code": code} if code else {}), **more}


def token_fields(state: str, kind: str = "read") -> dict[str, Any]:
    return {
        "state": state,
        "kind": kind,
        "repositories": ["acme/w"],
        "permissions": {"contents": "read"},
        "expires": "2026-01-01T01:00:00Z",
    }


def files(directory: Path) -> Any:
    """The files of a log."""
    return audit_files(directory)
