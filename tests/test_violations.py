"""Violations of a run: from other threads into the loop, none lost, each counted."""

import asyncio
import threading

import pytest

from gateway.violations import Violations
from sandbox.events import Ready, SandboxViolation, Starting, Violation


def violation(target: str, count: int = 1) -> Violation:
    return Violation(SandboxViolation("file-write-create", target, "raw", "*.env", count))


def test_what_comes_before_the_session_waits_for_it() -> None:
    violations, recorded = Violations(), []
    for event in (Starting(), violation("a"), Ready(), violation("b", 40)):
        violations(event)
    assert violations.count == 0

    async def session() -> None:
        violations.attach(lambda one: recorded.append((one.target, one.count)))
        violations.detach()

    asyncio.run(session())
    assert (recorded, violations.count) == ([("a", 1), ("b", 40)], 41)


def test_threads_hand_over_to_the_loop() -> None:
    violations = Violations()
    recorded: list[tuple[str, int]] = []

    def tell(target: str) -> None:
        for _ in range(50):
            violations(violation(target))

    async def session() -> None:
        violations.attach(lambda one: recorded.append((one.target, threading.get_ident())))
        await asyncio.gather(*(asyncio.to_thread(tell, f"{number}") for number in range(4)))
        violations.detach()

    asyncio.run(session())
    assert sorted(target for target, _ in recorded) == sorted(["0", "1", "2", "3"] * 50)
    assert {thread for _, thread in recorded} == {threading.get_ident()}
    assert violations.count == 200


def test_recorded_while_the_command_runs() -> None:
    violations = Violations()

    async def session() -> None:
        came = asyncio.Event()
        violations.attach(lambda one: came.set())
        threading.Thread(target=violations, args=(violation("x"),)).start()
        await came.wait()

    asyncio.run(asyncio.wait_for(session(), 60))


def test_what_cannot_be_recorded_fails_where_the_session_ends() -> None:
    violations = Violations()

    def refuse(one: SandboxViolation) -> None:
        raise OSError("no room")

    async def session() -> None:
        failed = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failed.set_result(context))
        violations.attach(refuse)
        violations(violation("x"))
        assert isinstance((await failed)["exception"], OSError)
        violations(violation("y"))
        with pytest.raises(OSError, match="no room"):
            violations.detach()

    asyncio.run(asyncio.wait_for(session(), 60))
