"""Approvals behind a real operator socket, on a loop of their own, and questions that wait there."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from gateway.approvals import Answer, Approvals, Question
from gateway.audit import AuditLog
from gateway.config import Config
from gateway.operator_half import operator_half
from gateway.policy.rules import Rule
from gateway.session import SandboxStamp, Session
from tests.fakes.rules import rules_for

DETAILS: Mapping[str, object] = {
    "repository": "acme/widget",
    "refs": [{"ref": "feature/x", "old": "0" * 40, "new": "a" * 40, "kind": "create", "ascii": True}],
    "commits": [{"id": "a" * 40, "subject": "Add x"}],
}


class OperatorDesk:
    """One session's approvals. `call` runs something on their loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, approvals: Approvals, session: Session, path: Path
    ) -> None:
        self.loop, self.approvals, self.session, self.path = loop, approvals, session, path
        self.notes: tuple[str, ...] = ()

    def call[T](self, work: Callable[[], T]) -> T:
        async def main() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(main(), self.loop).result(30)

    def ask(
        self,
        summary: str = "push to acme/widget: create feature/x",
        details: Mapping[str, object] = DETAILS,
        *,
        rules: tuple[Rule, ...] = (),
        override: bool = False,
    ) -> tuple[Question, Future[Answer]]:
        """A question that waits, and what its answer will be."""
        question = self.call(
            lambda: self.approvals.question(
                self.session, "push", summary, details, rules=rules, override=override
            )
        )
        asking = asyncio.run_coroutine_threadsafe(self.approvals.ask(question), self.loop)
        while (
            not self.call(lambda: any(one is question for one in self.approvals.waiting))
            and not asking.done()
        ):
            pass
        return question, asking

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Until this holds on the loop."""
        while not self.call(holds):
            pass


class Somebody:
    """Attached, and silent."""

    def asked(self, question: Question) -> None:
        """Says nothing."""

    def closed(self, question: Question) -> None:
        """Nor now."""


@contextmanager
def operator_desk(
    folder: Path, sockets: Path, *, session_id: str = "s1", config: Config | None = None
) -> Iterator[OperatorDesk]:
    """Serves until it is left."""
    log = AuditLog(folder / "audit")
    session = Session(
        session_id, SandboxStamp("none", "existing-only"), rules_for(), "secret", agent="claude"
    )
    ready = threading.Event()
    desks: list[OperatorDesk] = []
    over: list[asyncio.Event] = []

    async def main() -> None:
        approvals = Approvals(log, time.monotonic, 300)
        path = sockets / f"run-{session_id}.sock"
        desk = OperatorDesk(asyncio.get_running_loop(), approvals, session, path)
        half = operator_half(config or Config(), sockets, session, [session], approvals, time.monotonic)
        async with half as desk.notes:
            desks.append(desk)
            over.append(asyncio.Event())
            ready.set()
            await over[0].wait()

    def serve() -> None:
        asyncio.run(main())
        ready.set()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    ready.wait(30)
    try:
        yield desks[0]
    finally:
        desks[0].loop.call_soon_threadsafe(over[0].set)
        thread.join(30)
        log.close()
