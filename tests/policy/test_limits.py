"""Connections live and new: the table of the rule, and the arithmetic of the bucket."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.egress import Code
from gateway.policy.limits import Allowance, Limits, decide_limit, refill

LIMITS = Limits(tunnels=4, new_per_second=2, burst=3, idle=60)


def test_defaults_are_the_documented_ones() -> None:
    assert Limits() == Limits(tunnels=256, new_per_second=50, burst=200, idle=3600)


@pytest.mark.parametrize(
    ("live", "tokens", "allowed", "word"),
    [
        (0, 3.0, True, "within"),
        (3, 1.0, True, "within"),
        (4, 3.0, False, "4 connections open"),
        (5, 3.0, False, "4 connections open"),
        (4, 0.0, False, "4 connections open"),
        (0, 0.999, False, "2 connections a second"),
        (0, 0.0, False, "2 connections a second"),
        (0, -1.0, False, "2 connections a second"),
        (0, math.nan, False, "2 connections a second"),
    ],
)
def test_rule(live: int, tokens: float, allowed: bool, word: str) -> None:
    decision = decide_limit(LIMITS, live, Allowance(tokens, 0.0))
    assert (decision.allowed, decision.rule) == (allowed, "egress.limits")
    assert word in decision.reason
    assert decision.code == ("" if allowed else Code.LIMIT)


@pytest.mark.parametrize(
    ("tokens", "at", "now", "after"),
    [
        (0.0, 10.0, 10.0, Allowance(0.0, 10.0)),
        (0.0, 10.0, 10.25, Allowance(0.5, 10.25)),
        (0.5, 10.0, 11.0, Allowance(2.5, 11.0)),
        (2.0, 10.0, 11.0, Allowance(3.0, 11.0)),
        (0.0, 10.0, 1e9, Allowance(3.0, 1e9)),
        (1.0, 10.0, 5.0, Allowance(1.0, 10.0)),
        (9.0, 10.0, 10.0, Allowance(3.0, 10.0)),
    ],
    ids=["at once", "a part", "a second", "full", "long after", "clock steps back", "too much"],
)
def test_refill(tokens: float, at: float, now: float, after: Allowance) -> None:
    assert refill(LIMITS, Allowance(tokens, at), now) == after


def test_a_clock_that_steps_back_and_on_adds_nothing() -> None:
    allowance = Allowance(0.0, 10.0)
    for now in (5.0, 10.0, 5.0, 10.0):
        allowance = refill(LIMITS, allowance, now)
    assert allowance == Allowance(0.0, 10.0)


@given(
    st.integers(1, 100),
    st.integers(1, 300),
    st.lists(st.floats(-2.0, 2.0, allow_nan=False) | st.just(0.0), max_size=300),
)
def test_never_more_than_burst_and_rate(rate: int, burst: int, steps: list[float]) -> None:
    """Whatever the clock does, and from whatever moment one counts."""
    limits = Limits(tunnels=10_000, new_per_second=rate, burst=burst)
    now = latest = 100.0
    allowance = Allowance(float(burst), now)
    admitted: list[float] = []
    for step in steps:
        now += step
        latest = max(latest, now)
        allowance = refill(limits, allowance, now)
        if decide_limit(limits, 0, allowance).allowed:
            allowance = Allowance(allowance.tokens - 1.0, allowance.at)
            admitted.append(latest)
    for first, begun in enumerate(admitted):
        assert len(admitted) - first <= burst + rate * (latest - begun) + 1e-6


@given(st.integers(1, 50), st.integers(1, 20))
def test_the_rate_is_reached(rate: int, seconds: int) -> None:
    """An agent that keeps to the rate is never refused."""
    limits = Limits(new_per_second=rate, burst=2)
    allowance = Allowance(2.0, 0.0)
    for number in range(rate * seconds):
        allowance = refill(limits, allowance, number / rate)
        assert decide_limit(limits, 0, allowance).allowed
        allowance = Allowance(allowance.tokens - 1.0, allowance.at)
