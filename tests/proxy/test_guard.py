"""Stages: nothing is reached that was not, and a refusal undoes all of it."""

from pathlib import Path

import pytest

from gateway.audit import AuditLog
from gateway.authorizer import INTERNAL, Attempt, Authorizer
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Transport
from gateway.proxy.guard import Guard, Stage
from gateway.session import SandboxStamp, Session
from tests.fakes.clock import FakeClock
from tests.fakes.rules import GOOD, rules_for

DENIAL = Decision(Verdict.DENY, "deny.txt:1", "the host is on the deny list", "denied")


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    session = Session("s1", SandboxStamp("none", "existing-only"), rules_for(), "secret")
    return Authorizer(AuditLog(tmp_path), FakeClock()).attempt(session, Transport.CONNECT, GOOD, 443)


def test_order_of_stages() -> None:
    """As they are passed on the way out."""
    assert list(Stage) == [Stage.NEW, Stage.ALLOWED, Stage.VETTED, Stage.RECORDED, Stage.NAMED]
    assert sorted(Stage) == list(Stage)


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("wanted", Stage)
def test_reaching(stage: Stage, wanted: Stage, attempt: Attempt) -> None:
    guard = Guard(attempt, stage)
    assert guard.reached(wanted) is (stage >= wanted)
    guard.refusal = DENIAL
    assert not guard.reached(wanted)


def test_new_guard_has_passed_nothing(attempt: Attempt) -> None:
    guard = Guard(attempt)
    assert not guard.reached(Stage.ALLOWED)
    assert not guard.raw
    assert guard.addresses == ()


def test_why_not(attempt: Attempt) -> None:
    """The refusal; without one the gateway's own."""
    guard = Guard(attempt)
    assert guard.why_not() is INTERNAL
    guard.refusal = DENIAL
    assert guard.why_not() is DENIAL
