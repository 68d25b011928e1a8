"""Questions that a person has to answer before something goes on: asked, settled or withdrawn, each recorded.

Nobody attached, nobody in time, nobody any more, a record that cannot be written: all of these are a no. Who answers
attaches here; this module does not know how they are reached, and decides nothing itself. What a session's questions
were answered with for good is kept here as rules, until the session ends.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from typing import Final, Protocol

from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.errors import AuditError
from gateway.metrics import Metrics
from gateway.policy.rules import Rule
from gateway.policy.wording import printable
from gateway.session import Session

NOBODY: Final = "a person must approve this, and no approver is attached"
LEFT: Final = "a person must approve this, and the approver left before there was an answer"
_NOT_RECORDED: Final = "a person must approve this, and the question could not be recorded"
_NO_REASON: Final = "this denial is overridden with a reason only, and none was given"
# Questions of one session that wait at once: nobody would answer more, and an agent may ask as long as it likes.
MAX_WAITING: Final = 32
_CROWDED: Final = f"a person must approve this, and {MAX_WAITING} questions wait for them already"
# Ended questions by which a late answer is told from one to a question that never was.
_ENDED: Final = 1024
# Rules of one session that are remembered: each is a person's answer.
_REMEMBERED: Final = 256
# Characters of a reason: it goes into a line of git's output and into a record.
MAX_REASON: Final = 500

_log = logging.getLogger(__name__)


class QuestionState(StrEnum):
    """What became of a question; the `state` of its records."""

    ASKED = "asked"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    UNATTENDED = "unattended"
    CROWDED = "crowded"


class Settling(StrEnum):
    """What became of an answer: it counts, or why it does not."""

    DONE = "done"
    UNKNOWN = "unknown"
    ANSWERED = "answered"  # somebody was faster
    OVER = "over"  # whoever asked has gone, or the time is up
    NEEDS_REASON = "needs_reason"  # a denial is overridden with one only; the question goes on waiting


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
    seconds of the clock of `Approvals`. `rules` are what a yes allows from then on where it is to be remembered (empty:
    it holds once). `override`: the rules deny it, and a yes needs a reason.
    """

    id: int
    session: Session
    action: str
    summary: str
    details: Mapping[str, object]
    asked_at: float
    deadline: float
    rules: tuple[Rule, ...] = ()
    override: bool = False
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
        self._ended: dict[int, Settling] = {}
        self._remembered: dict[str, tuple[Rule, ...]] = {}

    @property
    def attended(self) -> bool:
        """Is there anybody to answer?"""
        return bool(self._approvers)

    @property
    def metrics(self) -> Metrics:
        """The counters of the process whose log this is."""
        return self._log.metrics

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
                question.settle(Answer(False, LEFT))

    def question(
        self,
        session: Session,
        action: str,
        summary: str,
        details: Mapping[str, object],
        *,
        rules: Sequence[Rule] = (),
        override: bool = False,
    ) -> Question:
        """A question to `ask`."""
        now, number = self._clock(), next(self._serial)
        placed = tuple(replace(rule, place=f"approval:{number}") for rule in rules)
        deadline = now + self.timeout
        return Question(number, session, action, summary, details, now, deadline, placed, override)

    def answer(self, number: int, answer: Answer) -> Settling:
        """Answers the question with this number. Of several answers the first one counts."""
        question = self._waiting.get(number)
        if question is None:
            return self._ended.get(number, Settling.UNKNOWN)
        if question.override and answer.allowed and not answer.reason.strip():
            return Settling.NEEDS_REASON
        return Settling.DONE if question.settle(answer) else Settling.ANSWERED

    def remembered(self, session_id: str) -> tuple[Rule, ...]:
        """What a person has allowed for the rest of this session."""
        return self._remembered.get(session_id, ())

    def forget(self, session_id: str) -> None:
        """Drops what is remembered for a session that has ended."""
        self._remembered.pop(session_id, None)

    async def ask(self, question: Question) -> Answer:
        """The answer, recorded; a no at once where nobody is attached. Cancelling withdraws the question."""
        if not self._approvers:
            self._record(question, QuestionState.UNATTENDED)
            return Answer(False, NOBODY)
        if sum(one.session is question.session for one in self.waiting) >= MAX_WAITING:
            self._record(question, QuestionState.CROWDED)
            return Answer(False, _CROWDED)
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
            self._end(question)
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
        answer = replace(answer, reason=printable(answer.reason)[:MAX_REASON])
        if question.override and answer.allowed and not answer.reason.strip():
            answer = replace(answer, allowed=False, reason=_NO_REASON)
        remember = answer.remember and answer.allowed and bool(question.rules)
        answer = replace(answer, remember=remember)
        state = QuestionState.APPROVED if answer.allowed else QuestionState.DENIED
        if not self._record(question, state, answer) and answer.allowed:
            return Answer(False, _NOT_RECORDED)
        if remember:
            session = question.session.id
            self._remembered[session] = (*self.remembered(session), *question.rules)[-_REMEMBERED:]
        return answer

    def _end(self, question: Question) -> None:
        """Notes how it ended, for those who answer later."""
        is_over = question.withdrawn
        self._ended[question.id] = Settling.OVER if is_over else Settling.ANSWERED
        if len(self._ended) > _ENDED:
            del self._ended[next(iter(self._ended))]

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
            "override": question.override,
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
