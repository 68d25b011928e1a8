"""A program that answers: by its exit status and its first line; everything else is a no that says what went wrong."""

import asyncio
import json
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gateway.approvals import Answer, Approvals, Question
from gateway.approver_command import ApproverCommand
from gateway.audit import AuditLog
from gateway.session import SandboxStamp, Session
from tests.fakes.rules import rules_for

SESSION = Session("s1", SandboxStamp("none", "existing-only"), rules_for(), "secret", agent="claude")


def program(folder: Path, body: str) -> tuple[str, ...]:
    """A Python program; `question` is what it was asked."""
    path = folder / "answer.py"
    path.write_text("import json, os, sys, time\n" + textwrap.dedent(body))
    return sys.executable, "-I", "-S", str(path)


def ask(
    folder: Path, argv: tuple[str, ...], *, timeout: float = 30, override: bool = False
) -> tuple[Answer, list[dict[str, object]]]:
    """The answer, and the records of it."""
    log = AuditLog(folder / "audit")

    async def main() -> Answer:
        approvals = Approvals(log, time.monotonic, timeout)
        approver = ApproverCommand(argv, approvals, time.monotonic)
        approvals.attach(approver)
        details = {"refs": ["refs/heads/x"]}
        question = approvals.question(SESSION, "push", "push to acme/widget", details, override=override)
        try:
            return await approvals.ask(question)
        finally:
            approvals.detach(approver)
            await approver.close()

    answer = asyncio.run(main())
    log.close()
    lines = map(json.loads, log.path.read_text().splitlines())
    return answer, [record for record in lines if record["event"] == "approval"]


READ = "question = json.loads(sys.stdin.readline())\n"
ROWS = (
    ("yes", READ + "print('looks good'); sys.exit(0)", True, "looks good", "approved"),
    ("yes without a word", READ + "sys.exit(0)", True, "the program that answers said yes", "approved"),
    ("no", READ + "print('not on a Friday\\nreally'); sys.exit(1)", False, "not on a Friday", "denied"),
    ("no without a word", "sys.exit(1)", False, "the program that answers said no", "denied"),
    ("another status", READ + "sys.exit(2)", False, "answers for them is broken", "denied"),
    ("killed", READ + "os.kill(os.getpid(), 9)", False, "answers for them is broken", "denied"),
    ("an exception", READ + "raise ValueError('x')", False, "the program that answers said no", "denied"),
    ("reads nothing", "os.close(0); print('fine')", True, "fine", "approved"),
    ("says too much", READ + "print('a' * 100_000)", True, "a" * 500, "approved"),
    ("control characters", READ + "print('a\\x1b[2Jb')", True, "a\\x1b[2Jb", "approved"),
    ("no text", READ + "os.write(1, b'\\xff\\xfe')", True, "\N{REPLACEMENT CHARACTER}" * 2, "approved"),
)


@pytest.mark.parametrize(
    ("body", "is_allowed", "reason", "state"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_answer(tmp_path: Path, body: str, is_allowed: bool, reason: str, state: str) -> None:
    answer, records = ask(tmp_path, program(tmp_path, body))
    assert answer.allowed is is_allowed
    assert reason in answer.reason
    assert [record["state"] for record in records] == ["asked", state]
    assert records[-1]["approver"] == "approvals.command"


def test_it_reads_the_question(tmp_path: Path) -> None:
    body = READ + "print(question['session'], question['agent'], question['summary'], question['details'])"
    answer, _ = ask(tmp_path, program(tmp_path, body))
    assert answer.reason == "s1 claude push to acme/widget {'refs': ['refs/heads/x']}"


@pytest.mark.parametrize("kind", ["missing", "no program", "a directory"])
def test_one_that_cannot_be_started_is_a_no(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "program"
    if kind == "no program":
        path.write_text("x")
    elif kind == "a directory":
        path.mkdir()
    answer, records = ask(tmp_path, (str(path),))
    assert (answer.allowed, answer.reason.endswith("cannot be started")) == (False, True)
    assert records[-1]["state"] == "denied"


@pytest.mark.parametrize(("says", "is_allowed"), [("print('agreed')", True), ("pass", False)])
def test_an_override_needs_a_line(tmp_path: Path, says: str, is_allowed: bool) -> None:
    answer, records = ask(tmp_path, program(tmp_path, READ + says), override=True)
    assert answer.allowed is is_allowed
    assert records[-1]["override"] is True


def test_one_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    body = f"""
    child = os.fork()
    open({str(tmp_path / "pids")!r}, "a").write(f"{{os.getpid()}}\\n")
    time.sleep(600)
    """
    answer, records = ask(tmp_path, program(tmp_path, body), timeout=1)
    assert not answer.allowed
    assert records[-1]["state"] in ("expired", "denied")
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 2
    assert not any(map(is_running, pids))


def is_running(pid: str) -> bool:
    """Whether a process is there and no zombie: whoever takes in orphans here may leave them so."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def with_approver(folder: Path, argv: tuple[str, ...], test: Callable[[Approvals], Awaitable[None]]) -> None:
    log = AuditLog(folder / "audit")

    async def main() -> None:
        approvals = Approvals(log, time.monotonic, 30)
        approver = ApproverCommand(argv, approvals, time.monotonic)
        approvals.attach(approver)
        await test(approvals)
        approvals.detach(approver)
        await approver.close()

    asyncio.run(main())
    log.close()


def test_many_questions_are_all_answered(tmp_path: Path) -> None:
    async def test(approvals: Approvals) -> None:
        questions: list[Question] = [approvals.question(SESSION, "push", str(n), {}) for n in range(20)]
        answers = await asyncio.gather(*map(approvals.ask, questions))
        assert [answer.reason for answer in answers] == [str(number) for number in range(20)]

    with_approver(tmp_path, program(tmp_path, READ + "print(question['summary'])"), test)


def test_whoever_asked_leaves(tmp_path: Path) -> None:
    async def test(approvals: Approvals) -> None:
        asking = asyncio.create_task(approvals.ask(approvals.question(SESSION, "push", "x", {})))
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)

    body = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with_approver(tmp_path, program(tmp_path, body), test)
    assert not is_running((tmp_path / "pid").read_text())
