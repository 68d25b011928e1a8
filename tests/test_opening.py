"""A planned session is opened as it was planned, with what its self-test came to."""

import json
from pathlib import Path

import pytest

from gateway.audit import AuditLog
from gateway.opening import command_environment, open_planned
from gateway.options import RunOptions
from gateway.plan import Plan, make_plan
from gateway.self_test import Outcome, State
from gateway.session import Sessions
from sandbox.launch import from_name


def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **options: object) -> Plan:
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    chosen = RunOptions(command=("true",), sandbox="off", **options)  # type: ignore[arg-type]  # as the fields ask for
    return make_plan(chosen, {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"})


@pytest.mark.parametrize(
    ("outcome", "told"),
    [(None, None), (Outcome(State.HOLDS, "x"), "holds"), (Outcome(State.OPEN, "x"), "open")],
)
def test_opened_as_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: Outcome | None, told: str | None
) -> None:
    plan = planned(tmp_path, monkeypatch, agent="claude", workspace="w", session="s1", env=("EDITOR=vi",))
    backend = plan.choice.backend
    running = backend.launch(plan.spec)
    log = AuditLog(tmp_path / "log")
    try:
        environment = command_environment(
            plan, {"PATH": "/usr/bin", "SECRET": "x"}, running, "secret", "token"
        )
        session = open_planned(plan, environment, "secret", Sessions(), log, outcome)
    finally:
        backend.destroy(running)
    assert environment.values["AGENT_GATEWAY_SESSION"] == "s1"
    assert "SECRET" not in environment.values
    assert (session.id, session.agent, session.workspace, session.secret) == ("s1", "claude", "w", "secret")
    record = json.loads(log.path.read_bytes().splitlines()[0])
    assert (record["state"], record["self_test"], record["environment_set"]) == ("opened", told, ["EDITOR"])
    assert "SECRET" in record["environment_dropped"]
    log.close()


def test_a_terminal_has_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(tmp_path, monkeypatch, profile="terminal")
    backend = from_name("none")
    running = backend.launch(plan.spec)
    try:
        environment = command_environment(plan, {"PATH": "/opt/bin", "MINE": "x"}, running, "secret")
    finally:
        backend.destroy(running)
    assert environment.values["MINE"] == "x"
    assert "AGENT_GATEWAY_SECRET" not in environment.values
