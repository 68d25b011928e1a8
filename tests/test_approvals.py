"""Questions: settled once, by somebody who is there, in time, on the record; everything else is a no."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from gateway.approvals import NOBODY, Answer, Approvals, Question
from gateway.audit import AuditLog
from gateway.session import SandboxStamp, Session
from tests.fakes.clock import ClockedLoop, FakeClock
from tests.fakes.rules import rules_for

SESSION = Session("s1", SandboxStamp("none", "existing-only"), rules_for(), "secret")
YES = Answer(True, "fine", "zoe", remember=True)
NO = Answer(False, "not today", "zoe")


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
        return self.approvals.question(SESSION, "push", "push to acme/widget", {"refs": ["refs/heads/x"]})

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
        assert await asking == Answer(False, NOBODY)
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
        assert await desk.approvals.ask(desk.question()) == Answer(False, NOBODY)
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
