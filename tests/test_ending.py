"""The end of a session on record: the findings before it, and what is said where nothing can be recorded."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.audit import AuditLog
from gateway.ending import Ending, record
from gateway.lifecycle import SessionRequest, open_session
from gateway.session import SandboxStamp, Session, Sessions
from gateway.violations import Violations
from sandbox.backends.wrap import Wrap
from sandbox.events import SandboxViolation
from sandbox.launch import from_name
from sandbox.quarantine import Finding
from sandbox.spec import SandboxBindMount, SandboxSpec
from tests.fakes.rules import rules_for


@pytest.fixture
def wrap(tmp_path: Path) -> Iterator[Wrap]:
    spec = SandboxSpec("s", "default", "", (SandboxBindMount(str(tmp_path), str(tmp_path)),))
    backend = from_name("none")
    running = backend.launch(spec)
    assert isinstance(running, Wrap)
    yield running
    backend.destroy(running)


def opened(log: AuditLog, sessions: Sessions) -> Session:
    request = SessionRequest("s1", rules_for(), SandboxStamp("none", "none"), "secret")
    return open_session(request, sessions, log)


def records(log: AuditLog) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.path.read_bytes().splitlines()]


def test_the_end_comes_after_what_was_found(tmp_path: Path, wrap: Wrap) -> None:
    log, sessions, said = AuditLog(tmp_path / "log"), Sessions(), list[str]()
    session = opened(log, sessions)
    wrap.findings = (Finding("/w/.git/hooks/x", "was renamed"),)
    ending = Ending(said.append)
    ending.status = 7
    ending.close(session, sessions, log, wrap, Violations())
    _, violation, closed, *_ = records(log)
    assert (violation["event"], violation["target"], violation["rule"]) == (
        "violation",
        "/w/.git/hooks/x",
        "file_rules",
    )
    assert (closed["event"], closed["state"], closed["exit_status"]) == ("session", "closed", 7)
    assert said == ["agent-gateway: /w/.git/hooks/x was renamed"]
    assert sessions.get("s1") is None
    log.close()


def test_an_end_that_cannot_be_recorded_is_said(
    tmp_path: Path, wrap: Wrap, caplog: pytest.LogCaptureFixture
) -> None:
    log, sessions = AuditLog(tmp_path / "log"), Sessions()
    session = opened(log, sessions)
    log.close()
    with caplog.at_level(logging.ERROR):
        Ending(lambda line: None).close(session, sessions, log, wrap, Violations())
    assert "the end of the session is not recorded" in caplog.text
    assert sessions.get("s1") is None


def test_a_refusal_of_the_wrap(tmp_path: Path) -> None:
    log, sessions = AuditLog(tmp_path / "log"), Sessions()
    record(opened(log, sessions), log, SandboxViolation("file-write-create", "/w/.env", "raw", ".env", 3))
    violation = records(log)[-1]
    assert (violation["action"], violation["target"], violation["rule"], violation["count"]) == (
        "file-write-create", "/w/.env", ".env", 3,
    )  # fmt: skip
    log.close()
