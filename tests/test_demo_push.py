"""The demo's pushes: what is shown is what happened, and each thing that must happen is looked at."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.demo import _read_log
from gateway.demo_push import _COMMANDS, _Facts, _faults, _told, push_demo
from gateway.errors import GatewayError
from tests.fakes.console import Console

DENIED = " ! [remote rejected] agent/demo -> main (Control Center policy: never main)\n"


def push(ref: str, verdict: str, status: str) -> Mapping[str, Any]:
    return {
        "event": "push",
        "repository": "acme/widget",
        "bytes": 1,
        "refs": [{"ref": f"refs/heads/{ref}", "verdict": verdict, "status": status}],
    }


def token(state: str) -> Mapping[str, Any]:
    return {"event": "token", "state": state}


GOOD = _Facts(
    results=((0, ""), (0, ""), (0, ""), (0, "To the gateway\n"), (1, DENIED)),
    records=(
        *(token(state) for state in ("minted", "minted", "revoked", "revoked")),
        push("agent/demo", "allow", "ok"),
        push("main", "deny", "Control Center policy: never main"),
    ),
    branches={"main": "a", "agent/demo": "b"},
    minted=2,
    left=0,
)


def test_good() -> None:
    assert _faults(GOOD) == []


@pytest.mark.parametrize(
    ("facts", "fault"),
    [
        (replace(GOOD, results=((0, ""),) * 5), "a command did not end"),
        (replace(GOOD, results=(*GOOD.results[:4], (1, "Everything up-to-date"))), "git did not show"),
        (replace(GOOD, branches={"main": "a"}), "the forge has not got"),
        (replace(GOOD, branches={"main": "b", "agent/demo": "b"}), "the forge has not got"),
        (replace(GOOD, records=GOOD.records[:-2]), "the log lacks the push"),
        (replace(GOOD, records=GOOD.records[:-1]), "the log lacks the refusal"),
        (replace(GOOD, minted=3), "tokens are left"),
        (replace(GOOD, left=1), "tokens are left"),
        (replace(GOOD, records=GOOD.records[1:]), "the log lacks a token"),
    ],
)
def test_each_fault_is_told(facts: _Facts, fault: str) -> None:
    assert any(fault in told for told in _faults(facts))


def test_what_git_says_is_shown_as_it_stands() -> None:
    lines = _told(replace(GOOD, results=(*GOOD.results[:4], (1, DENIED + "\x1b[31mred\n"))))
    assert [line for line in lines if line.startswith("  $ ")] == [
        f"  $ {' '.join(one)}" for one in _COMMANDS
    ]
    assert f"  {DENIED.rstrip()}" in lines
    assert not any("\x1b" in line for line in lines)


def test_run(tmp_path: Path) -> None:
    console = Console(tmp_path)
    lines, fine = push_demo(console.environ, _read_log)
    assert fine, "\n".join(lines)
    text = "\n".join(lines)
    assert " * [new branch]      agent/demo -> agent/demo" in text
    assert "! [remote rejected] agent/demo -> main (Control Center policy: Push to remote is denied" in text
    assert "none of them is left" in text
    assert console.left() == []


def test_without_git(tmp_path: Path) -> None:
    lines, fine = push_demo({"PATH": str(tmp_path)}, _read_log)
    assert fine
    assert "needs git" in lines[0]


def test_failure_is_told(tmp_path: Path) -> None:
    def broken(place: Path) -> list[Mapping[str, Any]]:
        raise GatewayError("the chain of the audit log is broken")

    lines, fine = push_demo(Console(tmp_path).environ, broken)
    assert (lines, fine) == (["The second half failed: the chain of the audit log is broken"], False)
