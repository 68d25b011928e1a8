"""Questions that a person has to answer before something goes on: asked, settled or withdrawn, each recorded.

Nobody attached, nobody in time, nobody any more, a record that cannot be written: all of these are a no. Who answers
attaches here; this module does not know how they are reached, and decides nothing itself.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Final, Protocol

from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.errors import AuditError
from gateway.session import Session

NOBODY: Final = "a person must approve this, and no approver is attached"
_NOT_RECORDED: Final = "a person must approve this, and the question could not be recorded"

_log = logging.getLogger(__name__)


class QuestionState(StrEnum):
    """What became of a question; the `state` of its records."""

    ASKED = "asked"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    UNATTENDED = "unattended"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back. `reason` is one line for whoever waits; `remember` asks for a rule no wider than the question."""

    allowed: bool
    reason: str
    approver: str = ""
    remember: bool = False


@dataclass(slots=True, eq=False)
class Question:
    """One thing that is asked once, by one request: its answer holds for nothing else. Changes; used from one loop.

    `summary` is one printable line, `details` JSON values that say exactly what is asked; `asked_at` and `deadline` are
    seconds of the clock of `Approvals`.
    """

    id: int
    session: Session
    action: str
    summary: str
    details: Mapping[str, object]
    asked_at: float
    deadline: float
    withdrawn: bool = False
    _answer: "asyncio.Future[Answer] | None" = field(default=None, repr=False)

    def age(self, now: float) -> float:
        """Seconds since it was asked."""
        return now - self.asked_at

    def settle(self, answer: Answer) -> bool:
        """Gives the answer. False when it is too late: settled, expired, withdrawn, or not asked yet."""
        if self.withdrawn or self._answer is None or self._answer.done():
            return False
        self._answer.set_result(answer)
        return True


class Approver(Protocol):
    """Who can answer. Both are called on the loop and must not wait; one that raises counts as detached."""

    def asked(self, question: Question) -> None:
        """A question waits for `settle`."""

    def closed(self, question: Question) -> None:
        """It waits no longer, however it ended."""


class Approvals:
    """The questions that wait. Changes; used from one event loop. `timeout` and `clock` are in seconds."""

    def __init__(self, log: AuditLog, clock: Callable[[], float], timeout: float = 300) -> None:
        self.timeout = timeout
        self._log = log
        self._clock = clock
        self._serial = count(1)
        self._waiting: dict[int, Question] = {}
        self._approvers: list[Approver] = []

    @property
    def attended(self) -> bool:
        """Is there anybody to answer?"""
        return bool(self._approvers)

    @property
    def waiting(self) -> tuple[Question, ...]:
        """What waits now, oldest first."""
        return tuple(self._waiting.values())

    def attach(self, approver: Approver) -> None:
        """From now on this one is asked, also what waits already."""
        self._approvers.append(approver)
        for question in self.waiting:
            self._tell(approver, question)

    def detach(self, approver: Approver) -> None:
        """No longer. With the last one gone, everything that waits is denied."""
        if approver in self._approvers:
            self._approvers.remove(approver)
        if not self._approvers:
            for question in self.waiting:
                question.settle(Answer(False, NOBODY))

    def question(
        self, session: Session, action: str, summary: str, details: Mapping[str, object]
    ) -> Question:
        """A question to `ask`."""
        now = self._clock()
        return Question(next(self._serial), session, action, summary, details, now, now + self.timeout)

    async def ask(self, question: Question) -> Answer:
        """The answer, recorded; a no at once where nobody is attached. Cancelling withdraws the question."""
        if not self._approvers:
            self._record(question, QuestionState.UNATTENDED)
            return Answer(False, NOBODY)
        if not self._record(question, QuestionState.ASKED):
            return Answer(False, _NOT_RECORDED)
        question._answer = asyncio.get_running_loop().create_future()
        self._waiting[question.id] = question
        try:
            for approver in tuple(self._approvers):
                self._tell(approver, question)
            return await self._settled(question, question._answer)
        except asyncio.CancelledError:
            question.withdrawn = True
            self._record(question, QuestionState.WITHDRAWN)
            raise
        finally:
            del self._waiting[question.id]
            for approver in tuple(self._approvers):
                self._close(approver, question)

    async def _settled(self, question: Question, answered: "asyncio.Future[Answer]") -> Answer:
        try:
            async with asyncio.timeout(self.timeout):
                answer = await answered
        except TimeoutError:
            question.withdrawn = True
            answer = Answer(
                False, f"a person must approve this, and nobody did within {self.timeout:g} seconds"
            )
            self._record(question, QuestionState.EXPIRED)
            return answer
        state = QuestionState.APPROVED if answer.allowed else QuestionState.DENIED
        if not self._record(question, state, answer) and answer.allowed:
            return Answer(False, _NOT_RECORDED)
        return answer

    def _record(self, question: Question, state: QuestionState, answer: Answer | None = None) -> bool:
        """Whether it stands in the log."""
        fields = {
            "id": question.id,
            "state": state.value,
            "approver": answer.approver if answer else "",
            "remember": answer.remember if answer else False,
            "action": question.action,
            "summary": question.summary,
            "reason": answer.reason if answer else "",
        }
        try:
            self._log.append(AuditEvent(EventKind.APPROVAL, fields, question.session))
        except AuditError as error:
            _log.error("a question is not recorded, so it is a no: %s", error)
            return False
        return True

    def _tell(self, approver: Approver, question: Question) -> None:
        try:
            approver.asked(question)
        except Exception:
            _log.exception("an approver failed and is detached")
            self.detach(approver)

    def _close(self, approver: Approver, question: Question) -> None:
        try:
            approver.closed(question)
        except Exception:
            _log.exception("an approver failed and is detached")
            self.detach(approver)
