"""Questions about real pushes and tool calls, answered from another process as a person would: by the command line."""

import json

import pytest

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
from tests.fakes.push_machine import LABEL, PushMachine, records

PUSH = "git push origin agent/work:{branch} 2>&1; echo status $?\n"
CALL = (
    'curl -s -H "X-Agent-Gateway-Session: $AGENT_GATEWAY_SECRET" "$AGENT_GATEWAY_URL/agent/tool-call" '
    '-d \'{"tool": "Bash", "command": "npm install left-pad"}\'; echo\n'
)


@pytest.mark.parametrize(
    ("words", "status", "text", "state"),
    [
        (("approve", "1"), 0, "-> release/1", "approved"),
        (("deny", "1", "--message", "not on a Friday"), 1, "not on a Friday", "denied"),
    ],
    ids=["approved", "denied"],
)
def test_a_push_that_a_person_answers(
    machine: PushMachine, words: tuple[str, ...], status: int, text: str, state: str
) -> None:
    script = PUSH.format(branch="release/1") + "read line\n"  # it is still there for a second answer
    with watching(machine) as watcher, start_asking(machine, script) as running:
        attended(machine)
        seen_by(machine, watcher, running)
        assert "release/1" in seen(watcher, "push to acme/widget")
        (question,) = waiting(machine)
        [ref] = question["details"]["refs"]
        assert (ref["ref"], ref["kind"], question["details"]["commits"][0]["subject"]) == (
            "refs/heads/release/1", "create", "What the agent did",
        )  # fmt: skip
        assert approvals(machine, *words)[0] == 0
        assert approvals(machine, "approve", "1") == (1, "agent-gateway: 1 was answered already\n")
        running.tell("end")
        done = running.end()
    assert f"status {status}" in done.stdout
    assert text in done.stdout
    assert f"remote: {LABEL}: waiting for approval 1 (5 min left)" in done.stdout
    assert states(done) == ["asked", state]
    assert machine.has("release/1") is (status == 0)
    machine.settled(done, write=1 - status)


def test_remembered_for_its_folder_and_nothing_else(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    script = "".join(PUSH.format(branch=branch) for branch in ("release/1", "release/2", "other"))
    with watching(machine) as watcher, start_asking(machine, script) as running:
        attended(machine)
        seen_by(machine, watcher, running)
        seen(watcher, "push to acme/widget")
        assert "rest of the session" in approvals(machine, "approve", "1", "--remember")[1]
        assert "other" in seen(watcher, "push to acme/widget")
        approvals(machine, "deny", "2")
        done = running.end()
    assert done.stdout.count("status 0") == 2
    assert states(done) == ["asked", "approved", "asked", "denied"]
    rules = [ref["rule"] for record in records(done, "push") for ref in record["refs"]]
    assert rules == ["config.yaml:4", "approval:1", "default"]
    machine.settled(done, write=2)


def test_a_soft_denial_is_overridden_with_a_reason(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    machine.product.settings["rules"] = [{"action": "push", "decision": "deny", "enforcement": "soft"}]
    with watching(machine) as watcher, start_asking(machine, PUSH.format(branch="main")) as running:
        attended(machine)
        seen_by(machine, watcher, running)
        seen(watcher, "approve")
        status, said = approvals(machine, "approve", "1")
        assert (status, "--reason" in said) == (1, True)
        assert approvals(machine, "approve", "1", "--reason", "agreed in the meeting")[0] == 0
        done = running.end()
    assert "status 0" in done.stdout
    last = records(done, "approval")[-1]
    assert (last["state"], last["override"], last["reason"]) == ("approved", True, "agreed in the meeting")
    machine.settled(done, write=1)


def test_a_soft_denial_with_nobody_there_is_a_denial(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    machine.product.settings["rules"] = [{"action": "push", "decision": "deny", "enforcement": "soft"}]
    ran = machine.run("git push origin agent/work:main")
    assert ran[0].status == 1
    assert "Push to remote is denied for main by config.yaml:2" in ran[0].said
    assert states(ran.done) == []


def test_nobody_answers_in_time(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    machine.product.settings["approvals"] = {"timeout": 2}
    with watching(machine) as watcher, start_asking(machine, PUSH.format(branch="release/1")) as running:
        attended(machine)
        seen_by(machine, watcher, running)
        done = running.end()
    assert "nobody did within 2 seconds" in done.stdout
    assert states(done) == ["asked", "expired"]
    machine.settled(done)


def test_the_client_leaves(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    script = "setsid git push -q origin agent/work:release/1 2>/dev/null & read line; kill -- -$!; wait; read line\n"
    with watching(machine) as watcher, start_asking(machine, script) as running:
        attended(machine)
        seen_by(machine, watcher, running)
        seen(watcher, "push to acme/widget")
        running.tell("interrupt")
        seen(watcher, "is over")
        status, said = approvals(machine, "approve", "1")
        assert (status, "1 is over" in said) == (1, True)
        running.tell("end")
        done = running.end()
    assert states(done) == ["asked", "withdrawn"]
    assert not machine.has("release/1")


def test_the_run_ends_while_a_question_waits(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    script = "git push -q origin agent/work:release/1 2>/dev/null & read line\n"
    with watching(machine) as watcher, start_asking(machine, script) as running:
        attended(machine)
        seen_by(machine, watcher, running)
        seen(watcher, "push to acme/widget")
        running.tell("end")
        done = running.end()
        seen(watcher, "is over")
    assert states(done) == ["asked", "withdrawn"]
    assert not list((machine.product.folder / "run/agent-gateway").iterdir())
    assert not machine.has("release/1")


def test_a_tool_call_waits_and_is_remembered(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    with watching(machine) as watcher, start_asking(machine, CALL * 2) as running:
        attended(machine)
        seen_by(machine, watcher, running)
        assert "npm install left-pad" in seen(watcher, "npm install")
        assert approvals(machine, "approve", "1", "--remember")[0] == 0
        done = running.end()
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert [(answer["decision"], answer["rule"]) for answer in answers] == [
        ("allow", "default"),
        ("allow", "approval:1"),
    ]
    found = [(record["verdict"], record["rule"]) for record in records(done, "action")]
    assert found == [("allow", "default"), ("allow", "approval:1")]
    assert records(done, "action")[0]["approver"]


def test_a_program_of_the_configuration_answers(wrapped_machine: PushMachine) -> None:
    machine = wrapped_machine
    program = machine.product.folder / "answer"
    program.write_text(
        "#!/bin/sh\nread -r question\ncase $question in *release/1*) echo fine;; *) exit 1;; esac\n"
    )
    program.chmod(0o755)
    machine.product.settings["approvals"] = {"command": str(program)}
    ran = machine.run("git push origin agent/work:release/1", "git push origin agent/work:release/2")
    assert [step.status for step in ran.steps] == [0, 1]
    assert "the program that answers said no" in ran[1].said
    assert [one["approver"] for one in records(ran.done, "approval") if one["state"] != "asked"] == [
        "approvals.command"
    ] * 2
