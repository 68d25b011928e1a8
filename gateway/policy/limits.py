"""How much one session may do at once: a rule over counts, and a token bucket's arithmetic. The clock stays outside."""

from dataclasses import dataclass

from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code

_RULE = "egress.limits"


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
