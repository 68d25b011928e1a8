"""The door for actions: every verdict is the rules' or a person's, every fault a denial, every call one record."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gateway.action_authorizer import CALLS_PER_SECOND, INTERNAL, ActionAuthorizer
from gateway.approvals import MAX_WAITING, NOBODY, Answer, Approvals, Question
from gateway.audit import AuditLog
from gateway.policy.actions import Action
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code
from gateway.policy.grounds import Grounds
from gateway.policy.modes import Mode
from gateway.policy.rules import Enforcement, Rule, RuleSet
from gateway.policy.tool_call import ToolCall
from gateway.session import SandboxStamp, Session
from tests.fakes.rules import rules_for

NOW = datetime(2026, 7, 1, tzinfo=UTC)
PATIENCE = 30
GROUNDS = Grounds(worktree="/w", cwd="/w", writable=("/w",))
WRITE = ToolCall("Write", targets=("/w/a",), id="1")
ASKED = ToolCall("mcp__github__create_issue", targets=("title",), id="2")
SOFT = Rule(Action.WRITE_TRACKER, Verdict.DENY, "config.yaml:3", enforcement=Enforcement.SOFT, note="no")


def session(*rules: Rule, mode: Mode = Mode.CHAT, number: int = 1) -> Session:
    stamp = SandboxStamp("none", "existing-only")
    return Session(f"s{number}", stamp, rules_for(), "secret", mode=mode, rules=RuleSet(rules=rules))


@dataclass
class Person:
    """An approver. `answers` are given at once, one for each question; without one it waits."""

    answers: list[Answer] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    closed_about: list[Question] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    def asked(self, question: Question) -> None:
        self.questions.append(question)
        self.came.set()
        if self.answers:
            asyncio.get_running_loop().call_soon(question.settle, self.answers.pop(0))

    def closed(self, question: Question) -> None:
        self.closed_about.append(question)
        self.left.set()


@dataclass
class Doors:
    """A door whose clock can be set, and its log."""

    door: ActionAuthorizer
    log: AuditLog
    now: list[datetime]

    def records(self, event: str = "action") -> list[Mapping[str, object]]:
        found = [json.loads(line) for line in self.log.path.read_bytes().splitlines()]
        return [record for record in found if record["event"] == event]

    def ask(self, who: Session, *calls: ToolCall, person: Person | None = None) -> list[Decision]:
        """The decisions on calls made one after the other."""

        async def main() -> list[Decision]:
            if person is not None:
                self.door.approvals.attach(person)
            return [await self.door.authorize(who, call, GROUNDS) for call in calls]

        return within(main)


def within[T](main: Callable[[], Awaitable[T]]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE):
            return await main()

    return asyncio.run(bounded())


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    log, now = AuditLog(tmp_path), [NOW]
    yield Doors(ActionAuthorizer(log, Approvals(log, lambda: 0.0), lambda: now[0]), log, now)
    log.close()


# --- Without a person -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "mode", "verdict", "rule", "effects"),
    [
        (WRITE, Mode.CHAT, "allow", "default", []),
        (WRITE, Mode.PLAN, "deny", "preset:plan", []),
        (ASKED, Mode.CHAT, "deny", "default", ["write_tracker"]),
        (ASKED, Mode.REVIEW, "deny", "preset:review", ["write_tracker"]),
        (ToolCall("new"), Mode.CHAT, "deny", "unclear", []),
        (ToolCall("x", (Action.COMMIT,)), Mode.CHAT, "allow", "default", ["commit"]),
    ],
)
def test_every_decision_is_recorded(
    doors: Doors, call: ToolCall, mode: Mode, verdict: str, rule: str, effects: list[str]
) -> None:
    (decision,) = doors.ask(session(mode=mode), call)
    (record,) = doors.records()
    assert (decision.verdict.value, decision.rule) == (verdict, rule)
    assert (record["verdict"], record["rule"], record["effects"]) == (verdict, rule, effects)
    assert (record["tool"], record["session"], record["approver"]) == (call.tool, "s1", "")
    assert record["reason"] == decision.reason


def test_a_command_is_recorded_and_masked(doors: Doors) -> None:
    token = "ghp_" + "a" * 36
    doors.ask(
        session(), ToolCall("x", command=f"curl -H 'Authorization: Bearer {token}' https://a.test/?q=1")
    )
    (record,) = doors.records()
    assert "curl" in str(record["command"])
    assert token not in doors.log.path.read_text()
    assert "q=1" not in doors.log.path.read_text()


def test_nobody_is_there(doors: Doors) -> None:
    (decision,) = doors.ask(session(), ASKED)
    assert decision.verdict is Verdict.DENY
    assert decision.reason.startswith(NOBODY)
    assert [record["state"] for record in doors.records("approval")] == ["unattended"]


def test_a_failing_rule_is_a_denial(doors: Doors) -> None:
    class Broken:
        marks = None
        fact = ""

        def fit(self, request: object, *, wide: bool) -> int | None:
            raise RuntimeError("broken")

    rule = Rule(Action.WRITE_TRACKER, Verdict.ALLOW, "config.yaml:1", constraints=(Broken(),))
    assert doors.ask(session(rule), ASKED) == [INTERNAL]
    (record,) = doors.records()
    assert (record["verdict"], record["code"]) == ("deny", "internal")


def test_what_cannot_be_recorded_is_denied(doors: Doors) -> None:
    doors.log.close()
    assert doors.ask(session(), WRITE) == [INTERNAL]


def test_what_is_no_call_is_recorded_too(doors: Doors) -> None:
    decision = doors.door.refuse(session(), "this is no tool call", "bad_request")
    assert decision.verdict is Verdict.DENY
    (record,) = doors.records()
    assert (record["tool"], record["verdict"], record["code"]) == ("", "deny", "bad_request")


def test_a_flood_is_counted(doors: Doors) -> None:
    calls = [WRITE] * (CALLS_PER_SECOND + 7)
    decisions = doors.ask(session(), *calls)
    assert [one.allowed for one in decisions] == [True] * CALLS_PER_SECOND + [False] * 7
    assert decisions[-1].code == Code.LIMIT
    assert len(doors.records()) == CALLS_PER_SECOND
    assert doors.ask(session(number=2), WRITE)[0].allowed
    doors.now[0] += timedelta(seconds=1)
    assert doors.ask(session(), WRITE)[0].allowed
    *_, counted, _ = doors.records()
    assert (counted["count"], counted["code"], counted["session"]) == (7, "limit", "s1")
    doors.ask(session(), *calls)
    doors.door.forget("s1")
    assert doors.records()[-1]["count"] == 8


# --- With a person --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "allowed", "reason"),
    [
        (Answer(True, "", "zoe"), True, "a person approved it"),
        (Answer(True, "go on", "zoe"), True, "go on"),
        (Answer(False, "not today", "zoe"), False, "not today ("),
    ],
)
def test_an_answer(doors: Doors, answer: Answer, allowed: bool, reason: str) -> None:
    person = Person([answer])
    (decision,) = doors.ask(session(), ASKED, person=person)
    assert decision.allowed is allowed
    assert decision.reason.startswith(reason)
    (record,) = doors.records()
    assert (record["approver"], record["verdict"]) == ("zoe", "allow" if allowed else "deny")
    (question,) = person.questions
    assert question.action == "write_tracker"
    assert question.summary == "mcp__github__create_issue: mcp__github__create_issue title"
    assert question.details["effects"] == ["write_tracker"]
    assert "override" not in question.details


def test_one_question_for_the_whole_call(doors: Doors) -> None:
    call = ToolCall("apply_patch", targets=("/etc/a", "/etc/b", "/w/c"), id="3")
    person = Person([Answer(True, "", "zoe")])
    assert doors.ask(session(), call, person=person)[0].allowed
    (question,) = person.questions
    parts = question.details["parts"]
    assert isinstance(parts, list)
    assert [part["text"] for part in parts] == ["apply_patch /etc/a", "apply_patch /etc/b"]
    assert question.details["target"] == ["/etc/a", "/etc/b", "/w/c"]


def test_an_answer_holds_for_one_call(doors: Doors) -> None:
    person = Person([Answer(True, "", "zoe"), Answer(False, "no", "zoe")])
    assert [one.allowed for one in doors.ask(session(), ASKED, ASKED, person=person)] == [True, False]
    assert len(person.questions) == 2


def test_nobody_is_asked_about_what_is_denied_anyway(doors: Doors) -> None:
    call = ToolCall("apply_patch", targets=("/etc/a",))
    denied = Rule(Action.COMMIT, Verdict.DENY, "config.yaml:9")
    both = ToolCall(call.tool, (Action.COMMIT,), targets=call.targets)
    person = Person([Answer(True, "", "zoe")] * 3)
    assert doors.ask(session(denied), both, person=person)[0].rule == "config.yaml:9"
    assert person.questions == []


def test_the_same_call_twice_at_once_is_asked_once(doors: Doors) -> None:
    async def main() -> tuple[Person, list[Decision]]:
        person = Person()
        doors.door.approvals.attach(person)
        who = session()
        other = ToolCall(ASKED.tool, targets=("another",), id=ASKED.id)
        making = [doors.door.authorize(who, call, GROUNDS) for call in (ASKED, ASKED, other)]
        tasks = [asyncio.create_task(one) for one in making]
        while len(person.questions) < 2:
            person.came.clear()
            await person.came.wait()
        for question in person.questions:
            question.settle(Answer(question is person.questions[0], "", "zoe"))
        return person, [await task for task in tasks]

    person, decisions = within(main)
    assert [one.allowed for one in decisions] == [True, True, False]
    assert len(person.questions) == 2
    assert len(doors.records()) == 2


@pytest.mark.parametrize("leaving", [1, 2])
def test_a_question_is_withdrawn_when_everybody_has_gone(doors: Doors, leaving: int) -> None:
    async def main() -> Person:
        person = Person()
        doors.door.approvals.attach(person)
        tasks = [asyncio.create_task(doors.door.authorize(session(), ASKED, GROUNDS)) for _ in range(2)]
        await person.came.wait()
        for task in tasks[:leaving]:
            task.cancel()
        await asyncio.wait(tasks[:leaving])
        if leaving == 1:
            assert person.questions[0].settle(Answer(True, "", "zoe"))
            assert (await tasks[1]).allowed
        else:
            await person.left.wait()
            assert not person.questions[0].settle(Answer(True, "", "zoe"))
        return person

    person = within(main)
    assert len(person.closed_about) == 1
    (record,) = doors.records()
    assert record["verdict"] == ("allow" if leaving == 1 else "deny")
    states = [record["state"] for record in doors.records("approval")]
    assert states == ["asked", "approved" if leaving == 1 else "withdrawn"]


def test_no_more_questions_than_a_person_would_answer(doors: Doors) -> None:
    async def main() -> None:
        person, who = Person(), session()
        doors.door.approvals.attach(person)
        calls = [ToolCall(ASKED.tool, targets=(str(number),)) for number in range(MAX_WAITING + 1)]
        tasks = [asyncio.create_task(doors.door.authorize(who, call, GROUNDS)) for call in calls]
        decision = await tasks[-1]
        assert not decision.allowed
        assert "wait for them already" in decision.reason
        assert len(person.questions) == MAX_WAITING
        for question in person.questions:
            question.settle(Answer(True, "", "zoe"))
        assert [(await task).allowed for task in tasks[:-1]] == [True] * MAX_WAITING
        person.answers = [Answer(True, "", "zoe")]
        assert (await doors.door.authorize(who, calls[0], GROUNDS)).allowed

    within(main)


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        (ASKED, True),
        (ToolCall("apply_patch", targets=("/etc/a", "/etc/b")), True),
        (ToolCall("new"), False),
        (ToolCall("x", (Action.OPEN_PULL_REQUEST,), unclear=("fly",), targets=("y",)), False),
        (ToolCall("mcp__github__push_files"), False),
    ],
)
def test_a_yes_that_is_remembered(doors: Doors, call: ToolCall, kept: bool) -> None:
    """It holds for the same once more, and for nothing that a person could not have known."""
    yes = Answer(True, "", "zoe", remember=True)
    person = Person([yes, yes])
    who = session()
    first, second = doors.ask(who, call, call, person=person)
    assert (first.allowed, second.allowed) == (True, True)
    assert len(person.questions) == (1 if kept else 2)
    assert (second.rule == "approval:1") is kept
    assert doors.records()[-1]["approver"] == ("" if kept else "zoe")
    other = ToolCall(call.tool, call.effects, call.unclear, ("/etc/another",))
    person.answers = [Answer(False, "no", "zoe")]
    assert not doors.ask(who, other, person=None)[0].allowed


# --- Soft denials ---------------------------------------------------------------------------------


def test_a_soft_denial_without_anybody_is_the_denial_it_was(doors: Doors) -> None:
    (decision,) = doors.ask(session(SOFT), ASKED)
    assert (decision.verdict, decision.rule) == (Verdict.DENY, "config.yaml:3")
    assert doors.records("approval") == []


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [
        (Answer(True, "release night", "zoe"), True),
        (Answer(True, "", "zoe"), False),
        (Answer(True, "  ", "zoe"), False),
        (Answer(False, "no", "zoe"), False),
    ],
)
def test_a_soft_denial_is_overridden_with_a_reason(doors: Doors, answer: Answer, allowed: bool) -> None:
    person = Person([answer])
    (decision,) = doors.ask(session(SOFT), ASKED, person=person)
    assert (decision.allowed, decision.rule) == (allowed, "config.yaml:3")
    assert person.questions[0].details["override"] is True
    (record,) = doors.records()
    assert record["verdict"] == ("allow" if allowed else "deny")
    if allowed:
        assert (record["reason"], record["approver"]) == ("release night", "zoe")


def test_a_hard_denial_beside_a_soft_one_is_final(doors: Doors) -> None:
    hard = Rule(Action.COMMIT, Verdict.DENY, "config.yaml:9")
    person = Person([Answer(True, "please", "zoe")])
    call = ToolCall(ASKED.tool, (Action.COMMIT,), targets=("t",))
    (decision,) = doors.ask(session(SOFT, hard), call, person=person)
    assert decision.verdict is Verdict.DENY
    assert person.questions == []
