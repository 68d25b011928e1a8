"""The values by their names: callers match on them."""

import dataclasses

import pytest

from sandbox.events import Cause, Exit, Killed, Ready, SandboxViolation, Starting, Stderr, Stdout, Violation


def test_causes_are_the_contracts() -> None:
    assert [str(cause) for cause in Cause] == ["oom", "timeout", "manual"]


def test_violation_needs_what_and_where_alone() -> None:
    violation = SandboxViolation("file-write-create", "/w/.env", "raw")
    assert (violation.action, violation.target, violation.raw) == ("file-write-create", "/w/.env", "raw")
    assert (violation.rule, violation.count) == ("", 1)


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (Starting(), "starting"),
        (Ready(), "ready"),
        (Stdout(b"a"), "out a"),
        (Stderr(b"b"), "err b"),
        (Violation(SandboxViolation("x", "y", "z")), "violation x"),
        (Killed(Cause.OOM), "killed oom"),
        (Exit(3), "exit 3"),
    ],
)
def test_events_are_matched_by_their_fields(event: object, said: str) -> None:
    match event:
        case Starting():
            found = "starting"
        case Ready():
            found = "ready"
        case Stdout(data):
            found = f"out {data.decode()}"
        case Stderr(data):
            found = f"err {data.decode()}"
        case Violation(violation):
            found = f"violation {violation.action}"
        case Killed(cause):
            found = f"killed {cause}"
        case Exit(code):
            found = f"exit {code}"
    assert found == said
    assert hash(event) == hash(dataclasses.replace(event))  # type: ignore[type-var]  # a value, whichever it is
