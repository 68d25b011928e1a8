"""A decision is a yes for `allow` alone, and cannot be changed once given."""

from dataclasses import FrozenInstanceError

import pytest

from gateway.policy.decision import Decision, Verdict


@pytest.mark.parametrize(
    ("verdict", "allowed"), [(Verdict.ALLOW, True), (Verdict.ASK, False), (Verdict.DENY, False)]
)
def test_only_allow_is_a_yes(verdict: Verdict, allowed: bool) -> None:
    assert Decision(verdict, "built-in", "for the test").allowed is allowed


def test_every_verdict_is_covered() -> None:
    assert [str(verdict) for verdict in Verdict] == ["allow", "ask", "deny"]


def test_a_decision_is_frozen() -> None:
    decision = Decision(Verdict.DENY, "default", "for the test", "not_listed")
    with pytest.raises(FrozenInstanceError):
        decision.verdict = Verdict.ALLOW  # type: ignore[misc]  # the point of the test
    assert decision.allowed is False


def test_decisions_compare_by_value() -> None:
    assert Decision(Verdict.ALLOW, "deny.txt:1", "x") == Decision(Verdict.ALLOW, "deny.txt:1", "x", "")
