"""`approvals.command`: a program of the operator's that answers questions. It runs on the host, never in a wrap.

    the question as JSON on its standard input  ->  exit status 0: yes, 1: no; the first line it prints is the reason

Whatever else it does (another status, a crash, nothing within the time, it cannot be started) is a no that says so.
"""

import asyncio
import json
import logging
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from gateway.approvals import Answer, Approvals, Question
from gateway.policy.wording import printable

APPROVER: Final = "approvals.command"
# Programs at once; further questions wait for one of them to end, as they would for a person.
_AT_ONCE: Final = 4
# Bytes of its output that are read: a reason is a line.
_OUTPUT: Final = 4096
_YES, _NO = 0, 1
_BROKEN: Final = "a person must approve this, and the program that answers for them"

_log = logging.getLogger(__name__)


class ApproverCommand:
    """An approver that starts the program for each question. Changes; used from one event loop.

    `argv` is started without a shell; `clock` gives seconds as that of `approvals` does. `close` ends what runs.
    """

    def __init__(self, argv: Sequence[str], approvals: Approvals, clock: Callable[[], float]) -> None:
        self._argv = tuple(argv)
        self._approvals = approvals
        self._clock = clock
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def asked(self, question: Question) -> None:
        """Starts the program."""
        self._tasks[question.id] = asyncio.create_task(self._answer(question))

    def closed(self, question: Question) -> None:
        """The answer is not needed any more, or was this one."""
        task = self._tasks.pop(question.id, None)
        if task is not None:
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
            task.cancel()

    async def close(self) -> None:
        """Ends every program that still runs. The approver must be detached by then."""
        running = tuple(self._tasks.values())
        self._tasks.clear()
        for task in running:
            task.cancel()  # once: a second time would end it in the middle of its own ending
        await asyncio.gather(*running, *self._ending, return_exceptions=True)

    async def _answer(self, question: Question) -> None:
        async with self._free:
            answer = await self._asked_of_program(question)
        # Out of the table first: settling ends the question, which would cancel this very task.
        self._tasks.pop(question.id, None)
        self._approvals.answer(question.id, answer)

    async def _asked_of_program(self, question: Question) -> Answer:
        try:
            # Not in the worktree: what the agent leaves there must not be what the program finds first.
            process = await asyncio.create_subprocess_exec(
                *self._argv, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, cwd="/", start_new_session=True
            )
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "its name is none"
            _log.error("%s: %s cannot be started: %s", APPROVER, printable(self._argv[0]), reason)
            return _broken("cannot be started")
        try:
            async with asyncio.timeout(max(0.0, question.deadline - self._clock())):
                said = await _talk(process, as_json(question, self._clock()))
        except TimeoutError:
            return _broken("did not answer in time")
        finally:
            await _end(process)
        return self._read(question, process.returncode, said)

    def _read(self, question: Question, status: int | None, said: bytes) -> Answer:
        line = said.decode("utf-8", "replace").partition("\n")[0].strip()
        if status == _NO:
            return Answer(False, line or "the program that answers said no", APPROVER)
        if status != _YES:
            _log.error("%s ended with status %s, which is neither 0 (yes) nor 1 (no)", APPROVER, status)
            return _broken("is broken")
        if question.override and not line:
            return Answer(False, "this denial is overridden with a reason only, and none was given", APPROVER)
        return Answer(True, line or "the program that answers said yes", APPROVER)


def as_json(question: Question, now: float) -> dict[str, object]:
    """A question as approvers read it. `now` is of the clock of `Approvals`; times are seconds."""
    session = question.session
    return {
        "id": question.id,
        "session": session.id,
        "workspace": session.workspace,
        "agent": session.agent,
        "space": session.space,
        "mode": session.mode.value,
        "action": question.action,
        "summary": question.summary,
        "details": dict(question.details),
        "age": round(question.age(now), 3),
        "left": round(max(0.0, question.deadline - now), 3),
        "override": question.override,
        "rememberable": bool(question.rules),
    }


def _broken(what: str) -> Answer:
    return Answer(False, f"{_BROKEN} {what}", APPROVER)


async def _talk(process: Process, question: dict[str, object]) -> bytes:
    """Gives it the question and reads what it says until it ends. One that reads nothing is no worse for that."""
    assert process.stdin is not None and process.stdout is not None
    with suppress(OSError):
        process.stdin.write(json.dumps(question).encode() + b"\n")
        await process.stdin.drain()
    with suppress(OSError):
        process.stdin.close()
    said = b""
    while block := await process.stdout.read(_OUTPUT):
        said = said or block  # the rest is read so that it does not wait for us
    await process.wait()
    return said


async def _end(process: Process) -> None:
    """Kills it with what it started, where that stayed in its process group, and waits."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        await process.wait()
    finally:
        # Whoever left its group may hold the pipe open for ever. asyncio has no public way to let go of it.
        process._transport.close()  # type: ignore[attr-defined]
    await asyncio.sleep(0)
