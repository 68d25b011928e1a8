"""The door for pushes: every verdict is the rules', every fault a denial, every push one record."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.approvals import Approvals
from gateway.audit import AuditLog
from gateway.policy.actions import Action
from gateway.policy.decision import Verdict
from gateway.policy.modes import Mode
from gateway.policy.push import PushRequest, UpdateKind
from gateway.policy.repositories import parse_repository
from gateway.policy.rules import Request, Rule, RuleSet
from gateway.push_authorizer import INTERNAL, PushAuthorizer, PushCode, PushRecord, RefOutcome
from gateway.session import SandboxStamp, Session
from tests.fakes.push_gateway import RULES
from tests.fakes.rules import rules_for

NOW = datetime(2026, 7, 1, tzinfo=UTC)
WIDGET = parse_repository("acme/widget")
OLD, NEW = "1" * 40, "2" * 40


def session(rules: RuleSet = RULES, mode: Mode = Mode.CHAT) -> Session:
    return Session("s1", SandboxStamp("none", "existing-only"), rules_for(), "secret", rules=rules, mode=mode)


@dataclass
class Doors:
    """A door whose clock can be set, and its log."""

    door: PushAuthorizer
    log: AuditLog
    now: list[datetime]

    def records(self) -> list[Mapping[str, object]]:
        return [json.loads(line) for line in self.log.path.read_bytes().splitlines()]


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    log, now = AuditLog(tmp_path), [NOW]
    yield Doors(PushAuthorizer(log, Approvals(log, lambda: 0.0), lambda: now[0]), log, now)
    log.close()


@pytest.mark.parametrize(
    ("ref", "kind", "mode", "verdict", "rule"),
    [
        ("refs/heads/agent/one", UpdateKind.CREATE, Mode.CHAT, Verdict.ALLOW, "config.yaml:4"),
        ("refs/heads/main", UpdateKind.CREATE, Mode.CHAT, Verdict.DENY, "config.yaml:3"),
        ("refs/heads/other", UpdateKind.CREATE, Mode.CHAT, Verdict.ASK, "default"),
        ("refs/heads/steady", UpdateKind.FAST_FORWARD, Mode.CHAT, Verdict.ALLOW, "config.yaml:5"),
        ("refs/heads/steady", UpdateKind.FORCE, Mode.CHAT, Verdict.DENY, "config.yaml:6"),
        ("refs/heads/agent/one", UpdateKind.CREATE, Mode.PLAN, Verdict.DENY, "preset:plan"),
    ],
)
def test_the_rules_decide(
    doors: Doors, ref: str, kind: UpdateKind, mode: Mode, verdict: Verdict, rule: str
) -> None:
    [decision] = doors.door.judge(session(mode=mode), [PushRequest(WIDGET, ref, kind)])
    assert (decision.verdict, decision.rule) == (verdict, rule)


def test_a_rule_that_has_expired_meanwhile(doors: Doors) -> None:
    """The rules are asked as of the moment, so asking again may have another answer."""
    rules = RuleSet(
        rules=(Rule(Action.PUSH, Verdict.ALLOW, "config.yaml:1", expires=NOW + timedelta(hours=1)),)
    )
    request = PushRequest(WIDGET, "refs/heads/x", UpdateKind.CREATE)
    assert doors.door.judge(session(rules), [request])[0].verdict is Verdict.ALLOW
    doors.now[0] += timedelta(hours=1)
    assert doors.door.judge(session(rules), [request])[0].verdict is Verdict.ASK


class _Broken:
    """A constraint with a fault in it."""

    marks = None
    fact = ""

    def fit(self, request: Request, *, wide: bool) -> int | None:
        raise ZeroDivisionError


def test_a_fault_is_a_denial(doors: Doors, caplog: pytest.LogCaptureFixture) -> None:
    rules = RuleSet(rules=(Rule(Action.PUSH, Verdict.ALLOW, "config.yaml:1", constraints=(_Broken(),)),))
    requests = [PushRequest(WIDGET, f"refs/heads/{name}", UpdateKind.CREATE) for name in "ab"]
    assert doors.door.judge(session(rules), requests) == (INTERNAL, INTERNAL)
    assert "a rule failed" in caplog.text


OUTCOME = RefOutcome(
    "refs/heads/m\x1b[31main\n", OLD, NEW, UpdateKind.FORCE, Verdict.DENY, "config.yaml:3", "no", "refused"
)


def test_a_record(doors: Doors) -> None:
    record = PushRecord("acme/widget", (OUTCOME,), 10, 20, "zoe", PushCode.DENIED, "why", "git/2.55.0")
    assert doors.door.record(session(), record)
    [found] = doors.records()
    assert {name: found[name] for name in list(found)[9:]} == {
        "event": "push", "repository": "acme/widget",
        "refs": [
            {
                "ref": "refs/heads/m\x1b[31main\n", "old": OLD, "new": NEW, "kind": "force", "verdict": "deny",
                "rule": "config.yaml:3", "reason": "no", "status": "refused",
            }
        ],
        "bytes": 10, "duration_ms": 20, "approver": "zoe", "code": "denied", "reason": "why", "client": "git/2.55.0",
    }  # fmt: skip
    line = doors.log.path.read_bytes()
    assert b"\x1b" not in line and rb"\u001b[31main\n" in line


def test_a_record_of_deletions(doors: Doors) -> None:
    doors.door.record(
        session(), PushRecord("acme/widget", (OUTCOME,), deleted=(".env",), deleted_unknown=True)
    )
    [found] = doors.records()
    assert (found["deleted_protected"], found["deleted_unknown"]) == ([".env"], True)


def test_counts(doors: Doors) -> None:
    for forwarded in (True, False, False):
        doors.door.record(session(), PushRecord("acme/widget", forwarded=forwarded))
    counts = doors.door.counts("s1")
    assert (counts.forwarded, counts.refused) == (1, 2)
    assert dict(doors.door.log.metrics.pushes) == {"forwarded": 1, "refused": 2}
    doors.door.forget("s1")
    assert doors.door.counts("s1").refused == 0


def test_a_log_that_says_no(doors: Doors, caplog: pytest.LogCaptureFixture) -> None:
    doors.log.close()
    assert not doors.door.record(session(), PushRecord("acme/widget"))
    assert not doors.door.record(session(), PushRecord("acme/widget"))
    assert caplog.text.count("records of pushes are lost") == 1


def test_a_log_that_has_recovered(doors: Doors, caplog: pytest.LogCaptureFixture) -> None:
    bad = PushRecord("acme/widget", approver=b"no JSON")  # type: ignore[arg-type]  # what breaks one record
    assert not doors.door.record(session(), bad)
    assert doors.door.record(session(), PushRecord("acme/widget"))
    assert "1 of pushes were lost" in caplog.text


def turn_away(doors: Doors, times: int) -> None:
    for _ in range(times):
        assert doors.door.record(session(), PushRecord("acme/widget", code=PushCode.NOT_LINKED, reason="no"))


def test_many_requests_that_came_to_nothing_are_counted(doors: Doors) -> None:
    """An agent that asks in a loop does not fill the disk; nothing is lost of how often it did."""
    turn_away(doors, 60)
    assert len(doors.records()) == 50
    doors.now[0] += timedelta(seconds=1)
    turn_away(doors, 1)
    counted, next_one = doors.records()[50:]
    assert (counted["code"], counted["count"], counted["session"]) == ("limit", 10, "s1")
    assert next_one["code"] == "not_linked"
    assert "count" not in next_one
    assert doors.door.counts("s1").refused == 61


def test_what_was_counted_is_written_at_the_end(doors: Doors) -> None:
    turn_away(doors, 53)
    doors.door.flush("s1")
    doors.door.flush("s1")
    assert [record.get("count") for record in doors.records()[49:]] == [None, 3]


def test_pushes_whose_refs_are_known_have_each_a_record(doors: Doors) -> None:
    outcome = RefOutcome("refs/heads/main", OLD, NEW, UpdateKind.FORCE, Verdict.DENY, "r", "no", "no")
    for _ in range(120):
        assert doors.door.record(session(), PushRecord("acme/widget", (outcome,)))
    assert len(doors.records()) == 120


def test_other_sessions_are_counted_by_themselves(doors: Doors) -> None:
    turn_away(doors, 60)
    other = Session("s2", SandboxStamp("none", "existing-only"), rules_for(), "secret2", rules=RULES)
    assert doors.door.record(other, PushRecord("", code=PushCode.WRONG_SECRET))
    assert doors.records()[-1]["session"] == "s2"
