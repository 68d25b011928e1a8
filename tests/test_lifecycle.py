"""Opening registers and records, or does neither; closing forgets whatever else fails."""

import json
import re
from pathlib import Path

import pytest

from gateway.audit import AuditLog
from gateway.errors import AuditError
from gateway.lifecycle import (
    SessionRequest,
    close_session,
    new_secret,
    new_session_id,
    open_session,
    record_violation,
)
from gateway.policy.actions import Action
from gateway.policy.decision import Verdict
from gateway.policy.rules import Rule, RuleSet
from gateway.session import Mode, SandboxStamp, Sessions
from tests.fakes.rules import offline, rules_for

Record = dict[str, object]
STAMP = SandboxStamp("native", "create-time")
TOKEN = "ghp_" + "x" * 36


def request(session_id: str = "s1", **more: object) -> SessionRequest:
    return SessionRequest(session_id, rules_for(), STAMP, new_secret(), **more)  # type: ignore[arg-type]  # as the fields ask for


def records(log: AuditLog) -> list[Record]:
    return [json.loads(line) for line in log.path.read_bytes().splitlines()]


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


def test_opening_records_the_session(tmp_path: Path, sessions: Sessions) -> None:
    log = AuditLog(tmp_path)
    asked = request(workspace="w", space="sp", agent="a", mode=Mode.REVIEW, worktree="/home/dev/x")
    session = open_session(
        asked, sessions, log, kept=("PATH", "HOME"), dropped=["SECRET", "LD_PRELOAD"], chosen=("EDITOR",)
    )
    assert sessions.get("s1") is session
    assert (session.id, session.workspace, session.space, session.agent) == ("s1", "w", "sp", "a")
    assert (session.mode, session.worktree, session.sandbox) == (Mode.REVIEW, "/home/dev/x", STAMP)
    (record,) = records(log)
    assert {name: record[name] for name in list(record)[4:]} == {
        "session": "s1",
        "workspace": "w",
        "space": "sp",
        "agent": "a",
        "sandbox": {"backend": "native", "file_rules": "create-time"},
        "event": "session",
        "state": "opened",
        "mode": "review",
        "worktree": "/home/dev/x",
        "network": True,
        "environment_kept": ["HOME", "PATH"],
        "environment_dropped": ["LD_PRELOAD", "SECRET"],
        "environment_set": ["EDITOR"],
        "self_test": None,
    }
    log.close()


def test_rules_reach_the_session(tmp_path: Path, sessions: Sessions) -> None:
    log = AuditLog(tmp_path)
    rules = RuleSet(rules=(Rule(Action.PUSH, Verdict.DENY, "config.yaml:7"),))
    assert open_session(request(rules=rules), sessions, log).rules is rules
    assert open_session(request("s2"), sessions, log).rules == RuleSet()
    log.close()


def test_network_off_is_recorded(tmp_path: Path, sessions: Sessions) -> None:
    log = AuditLog(tmp_path)
    open_session(SessionRequest("s1", offline(rules_for()), STAMP, new_secret()), sessions, log)
    assert records(log)[0]["network"] is False
    log.close()


def test_secrets_never(tmp_path: Path, sessions: Sessions) -> None:
    log = AuditLog(tmp_path)
    session = open_session(request(agent=TOKEN), sessions, log, kept=[f"A_{TOKEN}"], dropped=[TOKEN])
    close_session(session, sessions, log)
    data = log.path.read_text("ascii")
    assert TOKEN not in data
    assert session.secret not in data
    assert session.secret not in repr(session)
    log.close()


def test_secrets_differ(tmp_path: Path, sessions: Sessions) -> None:
    log = AuditLog(tmp_path)
    opened = [open_session(request(str(number)), sessions, log) for number in range(20)]
    assert len({session.secret for session in opened}) == 20
    assert min(len(session.secret) for session in opened) >= 43  # 256 bits
    log.close()


def test_opening_twice_changes_nothing(tmp_path: Path, sessions: Sessions) -> None:
    log = AuditLog(tmp_path)
    session = open_session(request(), sessions, log)
    with pytest.raises(ValueError, match="already open"):
        open_session(request(agent="other"), sessions, log)
    assert list(sessions) == [session]
    assert len(records(log)) == 1
    close_session(session, sessions, log)
    assert [record["agent"] for record in records(log)] == [None, None]
    log.close()


def test_what_cannot_be_recorded_is_not_open(tmp_path: Path, sessions: Sessions) -> None:
    log = AuditLog(tmp_path)
    log.path.unlink()
    with pytest.raises(AuditError):
        open_session(request(), sessions, log)
    assert len(sessions) == 0
    assert sessions.get("s1") is None
    log.close()
    with pytest.raises(AuditError):
        open_session(request(), sessions, log)
    assert len(sessions) == 0


def test_a_failed_opening_leaves_no_trace_in_the_next(tmp_path: Path, sessions: Sessions) -> None:
    folder = tmp_path / "audit"
    log = AuditLog(folder, max_bytes=1)
    close_session(open_session(request("first"), sessions, log), sessions, log)
    folder.rename(tmp_path / "away")
    with pytest.raises(AuditError):
        open_session(request(agent="before"), sessions, log)
    (tmp_path / "away").rename(folder)
    open_session(request(agent="after"), sessions, log)
    assert [record["agent"] for record in records(log)] == ["after"]
    log.close()


@pytest.mark.parametrize("status", [None, 0, 1, 125, 137])
def test_closing_records_the_exit_status(tmp_path: Path, sessions: Sessions, status: int | None) -> None:
    log = AuditLog(tmp_path)
    session = open_session(request(worktree="/home/dev/x"), sessions, log)
    close_session(session, sessions, log, exit_status=status)
    record = records(log)[1]
    found = [record[name] for name in ("session", "event", "state", "mode", "worktree", "exit_status")]
    assert found == ["s1", "session", "closed", "chat", "/home/dev/x", status]
    assert len(sessions) == 0
    log.close()


def test_a_closed_session_can_be_opened_anew(tmp_path: Path, sessions: Sessions) -> None:
    log = AuditLog(tmp_path)
    close_session(open_session(request(agent="one"), sessions, log), sessions, log)
    again = open_session(request(agent="two"), sessions, log)
    assert list(sessions) == [again]
    assert [(r["state"], r["agent"]) for r in records(log)] == [
        ("opened", "one"),
        ("closed", "one"),
        ("opened", "two"),
    ]
    log.close()


def test_closing_an_old_session_leaves_the_new_one_of_its_id_alone(
    tmp_path: Path, sessions: Sessions
) -> None:
    log = AuditLog(tmp_path)
    old = open_session(request(), sessions, log)
    close_session(old, sessions, log)
    new = open_session(request(), sessions, log)
    close_session(old, sessions, log)
    assert sessions.get("s1") is new
    assert len(records(log)) == 3
    log.close()


def test_a_log_that_says_no_does_not_keep_a_session_open(tmp_path: Path, sessions: Sessions) -> None:
    log = AuditLog(tmp_path)
    session = open_session(request(), sessions, log)
    log.close()
    with pytest.raises(AuditError):
        close_session(session, sessions, log)
    assert len(sessions) == 0


def test_session_ids() -> None:
    ids = {new_session_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"[0-9a-f]{12}", one) for one in ids)


def test_violation_is_recorded_with_its_session(tmp_path: Path, sessions: Sessions) -> None:
    log = AuditLog(tmp_path)
    session = open_session(request(), sessions, log)
    record_violation(
        session, log, action="network-outbound", target="/run/x.sock", rule="sockets", raw="connect", count=7
    )
    record = records(log)[-1]
    assert (record["event"], record["session"]) == ("violation", session.id)
    fields = {name: record[name] for name in ("action", "target", "rule", "raw", "count")}
    assert fields == {
        "action": "network-outbound", "target": "/run/x.sock", "rule": "sockets", "raw": "connect", "count": 7,
    }  # fmt: skip
