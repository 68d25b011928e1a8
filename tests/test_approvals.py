"""Questions: settled once, by somebody who is there, in time, on the record; everything else is a no."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from gateway.approvals import LEFT, MAX_REASON, MAX_WAITING, NOBODY, Answer, Approvals, Question, Settling
from gateway.audit import AuditLog
from gateway.policy.actions import Action
from gateway.policy.decision import Verdict
from gateway.policy.push import Refs
from gateway.policy.refs import parse_ref_pattern
from gateway.policy.rules import Rule
from gateway.session import SandboxStamp, Session
from tests.fakes.clock import ClockedLoop, FakeClock
from tests.fakes.rules import rules_for

SESSION = Session("s1", SandboxStamp("none", "existing-only"), rules_for(), "secret")
YES = Answer(True, "fine", "zoe", remember=True)
NO = Answer(False, "not today", "zoe")
RULE = Rule(Action.PUSH, Verdict.ALLOW, "approval", constraints=(Refs((parse_ref_pattern("feature/**"),)),))


class Person:
    """An approver that notes what it is asked. `broken` raises instead."""

    def __init__(self, *, broken: bool = False) -> None:
        self.asked_about: list[Question] = []
        self.closed_about: list[Question] = []
        self._broken = broken

    def asked(self, question: Question) -> None:
        if self._broken:
            raise RuntimeError("no screen")
        self.asked_about.append(question)

    def closed(self, question: Question) -> None:
        self.closed_about.append(question)


class Desk:
    """Approvals with a clock of their own and a log that can be read."""

    def __init__(self, folder: Path, timeout: float = 300) -> None:
        self.clock = FakeClock()
        self.log = AuditLog(folder)
        self.approvals = Approvals(self.log, self.clock, timeout)

    def question(self) -> Question:
        details = {"refs": ["refs/heads/x"]}
        return self.approvals.question(SESSION, "push", "push to acme/widget", details, rules=(RULE,))

    def records(self) -> list[Mapping[str, object]]:
        lines = self.log.path.read_text().splitlines()
        return [record for record in map(json.loads, lines) if record["event"] == "approval"]

    def states(self) -> list[object]:
        return [record["state"] for record in self.records()]


def run(folder: Path, test: Callable[[Desk], Awaitable[None]]) -> None:
    """Runs a test on a loop whose time follows the desk's clock."""
    desk = Desk(folder)
    loop = ClockedLoop(desk.clock)
    try:
        loop.run_until_complete(test(desk))
    finally:
        loop.close()
        desk.log.close()


def test_nobody_attached_is_a_no_at_once(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        assert await desk.approvals.ask(desk.question()) == Answer(False, NOBODY)
        assert not desk.approvals.attended
        assert desk.states() == ["unattended"]

    run(tmp_path, test)


@pytest.mark.parametrize(("answer", "state"), [(YES, "approved"), (NO, "denied")])
def test_an_answer(answer: Answer, state: str, tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        person = Person()
        desk.approvals.attach(person)
        question = desk.question()
        asking = asyncio.ensure_future(desk.approvals.ask(question))
        await asyncio.sleep(0)
        assert person.asked_about == [question] == list(desk.approvals.waiting)
        desk.clock.advance(7)
        assert question.age(desk.clock()) == 7
        assert question.settle(answer)
        assert not question.settle(YES), "an answer is given once"
        assert await asking == answer
        assert not question.settle(YES), "nor afterwards"
        assert person.closed_about == [question]
        assert desk.approvals.waiting == ()
        assert desk.states() == ["asked", state]
        last = desk.records()[-1]
        assert (last["id"], last["approver"], last["remember"], last["session"]) == (
            question.id, "zoe", answer.remember, "s1",
        )  # fmt: skip

    run(tmp_path, test)


def test_a_question_not_asked_cannot_be_settled(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        assert not desk.question().settle(YES)

    run(tmp_path, test)


def test_ids_are_never_used_twice(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        assert len({desk.question().id for _ in range(5)}) == 5

    run(tmp_path, test)


def test_too_late_is_a_no(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        desk.approvals.attach(Person())
        question = desk.question()
        asking = asyncio.ensure_future(desk.approvals.ask(question))
        await asyncio.sleep(0)
        desk.clock.advance(301)
        answer = await asking
        assert not answer.allowed
        assert "nobody did within 300 seconds" in answer.reason
        assert question.withdrawn
        assert not question.settle(YES)
        assert desk.states() == ["asked", "expired"]

    run(tmp_path, test)


def test_whoever_asked_left(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        person = Person()
        desk.approvals.attach(person)
        question = desk.question()
        asking = asyncio.ensure_future(desk.approvals.ask(question))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert question.withdrawn
        assert not question.settle(YES)
        assert person.closed_about == [question]
        assert desk.approvals.waiting == ()
        assert desk.states() == ["asked", "withdrawn"]

    run(tmp_path, test)


def test_the_last_approver_left(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        first, second = Person(), Person()
        desk.approvals.attach(first)
        desk.approvals.attach(second)
        asking = asyncio.ensure_future(desk.approvals.ask(desk.question()))
        await asyncio.sleep(0)
        desk.approvals.detach(first)
        await asyncio.sleep(0)
        assert not asking.done(), "there is still somebody"
        desk.approvals.detach(second)
        desk.approvals.detach(second)
        assert await asking == Answer(False, LEFT)
        assert desk.states() == ["asked", "denied"]

    run(tmp_path, test)


def test_one_who_comes_later_is_asked_what_waits(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        desk.approvals.attach(Person())
        question = desk.question()
        asking = asyncio.ensure_future(desk.approvals.ask(question))
        await asyncio.sleep(0)
        later = Person()
        desk.approvals.attach(later)
        assert later.asked_about == [question]
        question.settle(YES)
        assert await asking == YES

    run(tmp_path, test)


def test_a_broken_approver_is_no_approver(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test(desk: Desk) -> None:
        desk.approvals.attach(Person(broken=True))
        assert await desk.approvals.ask(desk.question()) == Answer(False, LEFT)
        assert not desk.approvals.attended

    run(tmp_path, test)
    assert "an approver failed and is detached" in caplog.text


def test_what_cannot_be_recorded_is_a_no(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        person = Person()
        desk.approvals.attach(person)
        question = desk.question()
        asking = asyncio.ensure_future(desk.approvals.ask(question))
        await asyncio.sleep(0)
        desk.log.close()
        question.settle(YES)
        assert not (await asking).allowed, "the yes could not be written down"
        assert not (await desk.approvals.ask(desk.question())).allowed
        assert len(person.asked_about) == 1, "nor was anybody asked what is not on record"

    run(tmp_path, test)


# --- Answers by number ----------------------------------------------------------------------------


async def asked(desk: Desk, *, override: bool = False) -> tuple[Question, "asyncio.Task[Answer]"]:
    """A question that waits, with somebody there."""
    question = desk.approvals.question(
        SESSION, "push", "push to acme/widget", {}, rules=(RULE,), override=override
    )
    task = asyncio.create_task(desk.approvals.ask(question))
    await asyncio.sleep(0)
    return question, task


def test_of_two_answers_the_first_one_counts(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        desk.approvals.attach(Person())
        question, task = await asked(desk)
        assert desk.approvals.answer(question.id, NO) is Settling.DONE
        assert desk.approvals.answer(question.id, YES) is Settling.ANSWERED
        assert not (await task).allowed
        assert desk.approvals.answer(question.id, YES) is Settling.ANSWERED

    run(tmp_path, test)


def test_an_answer_to_nothing(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        assert desk.approvals.answer(7, YES) is Settling.UNKNOWN
        desk.approvals.attach(Person())
        question, task = await asked(desk)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert desk.approvals.answer(question.id, YES) is Settling.OVER

    run(tmp_path, test)


def test_ended_questions_are_not_kept_for_ever(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        desk.approvals.attach(Person())
        first, task = await asked(desk)
        desk.approvals.answer(first.id, NO)
        await task
        for _ in range(1024):
            question, task = await asked(desk)
            desk.approvals.answer(question.id, NO)
            await task
        assert desk.approvals.answer(first.id, NO) is Settling.UNKNOWN
        assert desk.approvals.answer(question.id, NO) is Settling.ANSWERED

    run(tmp_path, test)


@pytest.mark.parametrize("reason", ["", "  "])
def test_an_override_needs_a_reason(tmp_path: Path, reason: str) -> None:
    async def test(desk: Desk) -> None:
        desk.approvals.attach(Person())
        question, task = await asked(desk, override=True)
        assert desk.approvals.answer(question.id, Answer(True, reason)) is Settling.NEEDS_REASON
        assert not task.done()
        assert desk.approvals.answer(question.id, Answer(True, "agreed in the meeting")) is Settling.DONE
        assert (await task).allowed
        assert desk.records()[-1]["override"] is True

    run(tmp_path, test)


def test_who_settles_an_override_without_a_reason_has_said_no(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        desk.approvals.attach(Person())
        question, task = await asked(desk, override=True)
        question.settle(Answer(True, ""))
        answer = await task
        assert (answer.allowed, answer.reason) == (
            False,
            "this denial is overridden with a reason only, and none was given",
        )
        assert desk.states()[-1] == "denied"

    run(tmp_path, test)


# --- Remembered -----------------------------------------------------------------------------------


def test_a_yes_is_remembered_for_its_session(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        desk.approvals.attach(Person())
        question, task = await asked(desk)
        desk.approvals.answer(question.id, YES)
        assert (await task).remember
        (rule,) = desk.approvals.remembered("s1")
        assert (rule.place, rule.constraints) == (f"approval:{question.id}", RULE.constraints)
        assert desk.approvals.remembered("s2") == ()
        assert desk.records()[-1]["remember"] is True
        desk.approvals.forget("s1")
        assert desk.approvals.remembered("s1") == ()

    run(tmp_path, test)


@pytest.mark.parametrize("answer", [Answer(False, "no", remember=True), Answer(True, "yes")])
def test_nothing_else_is(tmp_path: Path, answer: Answer) -> None:
    async def test(desk: Desk) -> None:
        desk.approvals.attach(Person())
        question, task = await asked(desk)
        desk.approvals.answer(question.id, answer)
        assert not (await task).remember
        assert desk.approvals.remembered("s1") == ()

    run(tmp_path, test)


def test_what_is_not_recorded_is_not_remembered(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        desk.approvals.attach(Person())
        question, task = await asked(desk)
        desk.log.close()
        desk.approvals.answer(question.id, YES)
        assert not (await task).allowed
        assert desk.approvals.remembered("s1") == ()

    run(tmp_path, test)


# --- Bounds ---------------------------------------------------------------------------------------


def test_more_questions_than_anybody_answers_are_a_no(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        desk.approvals.attach(Person())
        tasks = [(await asked(desk))[1] for _ in range(MAX_WAITING)]
        answer = await desk.approvals.ask(desk.question())
        assert not answer.allowed
        assert "32 questions wait" in answer.reason
        assert desk.states()[-1] == "crowded"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    run(tmp_path, test)


def test_a_reason_is_one_line_of_bounded_length(tmp_path: Path) -> None:
    async def test(desk: Desk) -> None:
        desk.approvals.attach(Person())
        question, task = await asked(desk)
        desk.approvals.answer(question.id, Answer(False, "a\nb\x1b[2J" + "x" * 1000))
        reason = (await task).reason
        assert reason.startswith("a\\nb\\x1b[2J")
        assert len(reason) == MAX_REASON

    run(tmp_path, test)
