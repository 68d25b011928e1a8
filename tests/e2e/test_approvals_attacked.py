"""Approvals of real runs in bad company: crowds, floods, half requests, a killed run, answers at once."""

import json
import os
import signal
import socket
import subprocess
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from gateway.operator_socket import connect
from tests.fakes.approving import (
    approvals,
    attended,
    seen,
    seen_by,
    start_asking,
    states,
    waiting,
    watching,
)
from tests.fakes.product import PROGRAM
from tests.fakes.push_machine import PushMachine, records

CALL = (
    'curl -s -H "X-Agent-Gateway-Session: $AGENT_GATEWAY_SECRET" "$AGENT_GATEWAY_URL/agent/tool-call" '
    "--data-binary @{body}; echo\n"
)
PUSH = "git push origin agent/work:release/1 2>&1; echo status $?\n"


def install(machine: PushMachine, name: str, more: str = "") -> str:
    """A script that makes a tool call which is asked about."""
    call = {"tool": "Bash", "command": f"npm install {name}{more}"}
    body = machine.product.work / f"{name}.json"
    body.write_text(json.dumps(call))
    return CALL.format(body=body.name)


def only_socket(machine: PushMachine) -> Path:
    (found,) = (machine.product.folder / "run/agent-gateway").glob("run-*.sock")
    return found


def test_a_crowd_of_questions(wrapped_machine: PushMachine) -> None:
    """An agent that asks without end is told so; what waits can still be answered, one by one."""
    machine = wrapped_machine
    calls = "".join(f"({install(machine, f'p{number}').strip()}) &\n" for number in range(45))
    with watching(machine) as watcher, start_asking(machine, f"{calls}wait\n") as running:
        attended(machine)
        seen_by(machine, watcher, running)
        machine.until(lambda: len(waiting(machine)) == 32)
        numbers = [question["id"] for question in waiting(machine)]
        assert approvals(machine, "approve", str(numbers[0]))[0] == 0
        for number in numbers[1:]:
            assert approvals(machine, "deny", str(number))[0] == 0
        machine.until(lambda: running.process.poll() is not None or _deny_rest(machine))
        done = running.end()
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == 45
    assert Counter(answer["decision"] for answer in answers)["allow"] == 1
    found = Counter(states(done))
    assert found["approved"] == 1
    assert found["crowded"] + found["denied"] == 44
    assert len(records(done, "action")) == 45


def _deny_rest(machine: PushMachine) -> bool:
    for question in waiting(machine):
        approvals(machine, "deny", str(question["id"]))
    return False


def test_a_huge_question_with_control_characters(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    call = install(machine, "x", " '" + "\x1b[2J\u202e\n" * 6_000 + "'")
    with watching(machine) as watcher, start_asking(machine, call) as running:
        attended(machine)
        seen_by(machine, watcher, running)
        shown = seen(watcher, "npm install") + seen(watcher, "npm install") + seen(watcher, "json")
        assert shown.replace("\n", "").isprintable()
        status, listed = approvals(machine)
        assert (status, listed.replace("\n", "").isprintable()) == (0, True)
        assert len(listed) < 100_000
        (question,) = waiting(machine)
        assert len(question["details"]["command"]) > 36_000
        assert approvals(machine, "deny", "1")[0] == 0
        done = running.end()
    assert '"decision": "deny"' in done.stdout


def test_two_answers_at_once(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    with watching(machine) as watcher, start_asking(machine, f"{PUSH}read line\n") as running:
        attended(machine)
        seen_by(machine, watcher, running)
        seen(watcher, "push to acme/widget")
        both = [
            subprocess.Popen(
                (str(PROGRAM), "approvals", word, "1"),
                env=machine.product.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for word in ("approve", "deny")
        ]
        said = [one.communicate(timeout=60)[0] for one in both]
        assert sorted(one.returncode for one in both) == [0, 1]
        assert "answered already" in said[1 - [one.returncode for one in both].index(0)]
        running.tell("end")
        done = running.end()
    first = [one.returncode for one in both].index(0)
    assert states(done) == ["asked", ("approved", "denied")[first]]
    assert machine.has("release/1") is (first == 0)


def test_with_the_last_watcher_goes_the_push(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    with start_asking(machine, PUSH) as running:
        with watching(machine) as watcher:
            attended(machine)
            seen_by(machine, watcher, running)
            seen(watcher, "push to acme/widget")
        done = running.end()
    assert "the approver left before there was an answer" in done.stdout
    assert states(done) == ["asked", "denied"]
    machine.settled(done)


def test_half_requests_and_idle_clients_are_in_nobody_s_way(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    with watching(machine) as watcher, start_asking(machine, PUSH) as running, ExitStack() as stack:
        attended(machine)
        seen_by(machine, watcher, running)
        seen(watcher, "push to acme/widget")
        path = only_socket(machine)
        for number in range(60):
            client = stack.enter_context(connect(path))
            client.sendall(
                (b"", b"GET /appr", b"POST /approvals/1/approve HTTP/1.1\r\nHost: x\r\n")[number % 3]
            )
        half = stack.enter_context(connect(path))
        half.sendall(b"POST /approvals/1/approve HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n{")
        half.shutdown(socket.SHUT_WR)
        assert [question["id"] for question in waiting(machine)] == [1]
        assert approvals(machine, "approve", "1")[0] == 0
        done = running.end()
    assert states(done) == ["asked", "approved"]
    machine.settled(done, write=1)


def test_a_killed_run_leaves_nothing_that_is_in_the_way(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    with start_asking(machine, "", "--session", "again") as running:
        attended(machine)
        path = only_socket(machine)
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait()
    assert path.exists()
    assert approvals(machine) == (0, "no questions are waiting\n")
    assert not path.exists()
    with start_asking(machine, "", "--session", "again") as running:
        attended(machine)
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait()
    done = machine.product.run("true", options=("--session", "again"))
    assert done.status == 0
    assert "cannot be" not in done.stderr
    assert not path.exists()
