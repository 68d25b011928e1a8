"""How much one session may do at once: a rule over counts, and a token bucket's arithmetic. The clock stays outside."""

from dataclasses import dataclass
from typing import Final

from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code

_RULE = "egress.limits"
# Requests on kept connections for each new connection that the limits allow.
_REQUESTS: Final = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """Per session. `tunnels` live connections, `new_per_second` and `burst` new ones, `idle` seconds without a byte."""

    tunnels: int = 256
    new_per_second: int = 50
    burst: int = 200
    idle: int = 3600


@dataclass(frozen=True, slots=True)
class Allowance:
    """A token bucket at one moment: `tokens` left at `at` seconds (any monotonic clock)."""

    tokens: float
    at: float


def refill(limits: Limits, allowance: Allowance, now: float) -> Allowance:
    """The bucket at `now`: refilled at `new_per_second`, never above `burst`. A clock that steps back adds nothing,
    nor does the time that it then goes through once more."""
    latest = max(allowance.at, now)
    earned = (latest - allowance.at) * limits.new_per_second
    return Allowance(min(float(limits.burst), allowance.tokens + earned), latest)


def spend(allowance: Allowance, count: int) -> Allowance:
    """The bucket after `count` further ones, which may have been taken elsewhere already: then it can be in debt."""
    return Allowance(allowance.tokens - count, allowance.at) if count else allowance


def full_pace(limits: Limits, now: float) -> Allowance:
    """The bucket of requests on kept connections, full."""
    return Allowance(float(limits.burst * _REQUESTS), now)


def pace(limits: Limits, allowance: Allowance, now: float) -> tuple[Allowance, float]:
    """One more request on a kept connection: the bucket after it, and the seconds it has to wait.

    Requests are slowed down, never refused: each one is a line in the log, and a client that loops must not fill the
    disk with them.
    """
    latest = max(allowance.at, now)
    rate = limits.new_per_second * _REQUESTS
    tokens = min(float(limits.burst * _REQUESTS), allowance.tokens + (latest - allowance.at) * rate)
    if tokens >= 1.0:
        return Allowance(tokens - 1.0, latest), 0.0
    return Allowance(tokens, latest), (1.0 - tokens) / rate


def decide_limit(limits: Limits, live: int, allowance: Allowance) -> Decision:
    """May one more connection start, with `live` others open and this allowance left?"""
    if live >= limits.tunnels:
        return _over(f"this session already has {limits.tunnels} connections open; close some and try again")
    if not allowance.tokens >= 1.0:  # in this spelling, no number at all is a no as well
        return _over(
            f"this session opens more than {limits.new_per_second} connections a second; slow down and try again"
        )
    return Decision(Verdict.ALLOW, _RULE, "within the session's limits")


def _over(reason: str) -> Decision:
    return Decision(Verdict.DENY, _RULE, reason, Code.LIMIT)
