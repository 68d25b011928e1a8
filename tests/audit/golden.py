"""Makes the golden lines anew: `python -m tests.audit.golden > tests/data/audit/lines.jsonl`.

One record at least of every kind, made by what makes them in a run.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from gateway.action_authorizer import ActionAuthorizer
from gateway.approvals import Answer, Approvals, Question
from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.audit.signing import KEY_NAME
from gateway.authorizer import Authorizer, Figures
from gateway.credentials.github_app import GitHubApp
from gateway.credentials.ledger import Ledger, State
from gateway.credentials.token import Repository, Token, TokenKind
from gateway.lifecycle import SessionRequest, close_session, open_session, record_violation
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code, Transport
from gateway.policy.grounds import Grounds
from gateway.policy.push import UpdateKind
from gateway.policy.repositories import RepositoryName
from gateway.policy.tool_call import ToolCall
from gateway.push_authorizer import PushAuthorizer, PushRecord, RefOutcome
from gateway.session import SandboxStamp, Session, Sessions
from tests.fakes.rules import rules_for

MOMENT = 1_767_323_045_000_006_789
# What a hostile server or agent may put into a field: a forged line, a terminal's commands, text that runs backwards.
HOSTILE = 'x\n{"v":1,"event":"session"}\r\x1b[2J\x1b]0;t\x07\u202e\u2066\u2028\x7f\x9b\ud800"\\'
# The key of these lines: made of a seed that everybody may know.
SEED = bytes(range(32))
OID = ("0" * 40, "c7e4f538b70a735fcb9d6b4e3159a17303b0c28f")


@contextmanager
def fixed_chance() -> Iterator[None]:
    """The same ids every time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("secrets.token_hex", lambda size: "0123456789abcdef"[: 2 * size])
        patch.setattr("os.getpid", lambda: 4711)
        yield


def make_lines(place: Path) -> bytes:
    """A log with a record of every kind; its key and register are in `place` as well."""
    write_key(place)
    with fixed_chance():
        log = AuditLog(place / "audit", state=place, clock=lambda: MOMENT)
        log.append(
            AuditEvent(
                EventKind.CONFIG,
                {"state": "loaded", "source": "/etc/config.yaml", "old": None, "new": "a" * 64},
            )
        )
        sessions = Sessions()
        request = SessionRequest(
            "s1",
            rules_for(),
            SandboxStamp("native", "create-time"),
            "geheim",
            agent="claude",
            worktree="/src/widget",
        )
        names = {"kept": ["PATH", "LANG"], "dropped": ["SSH_AUTH_SOCK"], "chosen": ["CI"]}
        session = open_session(request, sessions, log, **names, self_test="holds")
        _connections(session, log)
        _pushes(session, log)
        _tokens(session, log)
        asyncio.run(_calls(session, log))
        record_violation(
            session,
            log,
            action="file-write-create",
            target="/src/widget/.git/hooks/x",
            rule="hooks",
            raw=HOSTILE,
        )
        close_session(session, sessions, log, exit_status=0)
        log.close()
    return log.path.read_bytes()


def write_key(place: Path) -> None:
    """The key that everybody may know."""
    key = Ed25519PrivateKey.from_private_bytes(SEED)
    place.mkdir(exist_ok=True)
    path = place / KEY_NAME
    path.touch(0o600)
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _connections(session: Session, log: AuditLog) -> None:
    door = Authorizer(log, lambda: 0.0)
    tunnel = door.attempt(session, Transport.CONNECT, "a.test", 443)
    tunnel.rule, tunnel.address, tunnel.sni = "baseline.txt:1", "192.0.2.7", "a.test"
    door.open(tunnel)
    door.close(tunnel, Figures(1234, 56789, 250, "finished"))
    refused = door.attempt(session, Transport.SOCKS, "b.test", 443)
    door.refuse(refused, Decision(Verdict.DENY, "default", "not listed", Code.NOT_LISTED))
    hostile = door.attempt(session, Transport.HTTP, HOSTILE, -1)
    hostile.method, hostile.path = "GET", f"/{HOSTILE}?token=hunter2"
    door.refuse(hostile, Decision(Verdict.DENY, "built-in", "no host", Code.MALFORMED_REQUEST))


def _pushes(session: Session, log: AuditLog) -> None:
    door = PushAuthorizer(log, Approvals(log, lambda: 0.0), lambda: datetime(2026, 1, 2, tzinfo=UTC))
    reason = "Push to remote is denied for main by config.yaml:10"
    outcome = RefOutcome(
        "refs/heads/main", *OID, UpdateKind.CREATE, Verdict.DENY, "config.yaml:10", reason, "refused"
    )
    door.record(session, PushRecord("acme/widget", (outcome,), bytes=368, duration_ms=12))


def _tokens(session: Session, log: AuditLog) -> None:
    """As GitHub's answers make them."""
    repository = Repository(1, RepositoryName("acme", "widget"), 2)
    moment = datetime(2026, 1, 2, 4, 4, 5, tzinfo=UTC)
    token = Token(TokenKind.READ, (repository,), {"contents": "read"}, moment, "ghs_never_in_a_log")
    nobody = cast(GitHubApp, None)  # nobody is asked
    ledger = Ledger(nobody, session, log, clock=lambda: moment, sleep=asyncio.sleep)
    ledger._record(State.MINTED, token)
    ledger._record(State.REVOKE_FAILED, token, HOSTILE)


async def _calls(session: Session, log: AuditLog) -> None:
    """A call full of secrets, and one that somebody with a hostile name allows."""
    approvals = Approvals(log, lambda: 0.0)
    approvals.attach(Approver())
    door = ActionAuthorizer(log, approvals, lambda: datetime(2026, 1, 2, tzinfo=UTC))
    grounds = Grounds(worktree="/src/widget", cwd="/src/widget", writable=("/src/widget",))
    secret = "curl -H 'Authorization: Bearer hunter2hunter2hunter2' https://u:hunter2@a.test/?k=hunter2"
    for command in (secret, "npm install left-pad"):
        await door.authorize(session, ToolCall("Bash", command=command, id=command[:4]), grounds)


class Approver:
    """Says yes at once."""

    def asked(self, question: Question) -> None:
        asyncio.get_running_loop().call_soon(question.settle, Answer(True, HOSTILE, HOSTILE))

    def closed(self, question: Question) -> None:
        """Has nothing to clear away."""


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.buffer.write(make_lines(Path(folder)))
