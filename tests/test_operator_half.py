"""An operator's half of a session: socket and program come with it and go with it; without a socket it runs on."""

import json
import sys
from dataclasses import replace
from pathlib import Path

from gateway.config import Config
from gateway.config.values import ApprovalsConfig
from gateway.operator_socket import find_sockets
from tests.fakes.operator_desk import operator_desk


def test_the_socket_is_there_for_the_time_of_the_block(tmp_path: Path) -> None:
    sockets = tmp_path / "sockets"
    with operator_desk(tmp_path, sockets) as desk:
        assert [found.session for found in find_sockets(sockets)] == ["s1"]
        assert desk.notes == ()
    assert list(sockets.iterdir()) == []


def test_the_program_answers(tmp_path: Path) -> None:
    program = tmp_path / "answer"
    program.write_text(f"#!{sys.executable} -IS\nimport json, sys\nprint(json.load(sys.stdin)['summary'])\n")
    program.chmod(0o755)
    config = replace(Config(), approvals=ApprovalsConfig(command=(str(program),)))
    with operator_desk(tmp_path, tmp_path / "sockets", config=config) as desk:
        assert desk.call(lambda: desk.approvals.attended)
        _, asking = desk.ask("push to acme/widget")
        answer = asking.result(30)
        assert (answer.allowed, answer.reason, answer.approver) == (
            True,
            "push to acme/widget",
            "approvals.command",
        )
    assert not desk.approvals.attended


def test_without_a_socket_it_runs_on_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "sockets").write_text("in the way")
    with operator_desk(tmp_path, tmp_path / "sockets") as desk:
        assert desk.notes[0].startswith("approvals cannot be answered from another terminal: ")
        _, asking = desk.ask()
        assert not asking.result(30).allowed


def test_a_question_that_waits_at_the_end_is_denied(tmp_path: Path) -> None:
    program = tmp_path / "answer"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    config = replace(Config(), approvals=ApprovalsConfig(command=(str(program),)))
    with operator_desk(tmp_path, tmp_path / "sockets", config=config) as desk:
        desk.ask()
    (log,) = (tmp_path / "audit").glob("*.jsonl")
    states = [
        record["state"] for record in map(json.loads, log.read_text().splitlines()) if "state" in record
    ]
    assert states in (["asked", "denied"], ["asked", "withdrawn"])
