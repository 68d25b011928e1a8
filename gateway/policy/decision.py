"""The one decision type every rule answers with."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a rule says of a request; `deny` beats `ask` beats `allow`."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with the rule that gave it.

    `rule` says where the rule stands, in a spelling a reviewer can open: "baseline.txt:12", "config.yaml:7",
    "--allow", "default" (nothing matched) or "built-in" (a rule of the code itself).
    `reason` is one sentence a stranger can act on; the wrapped process sees it, so nothing internal stands in it.
    `code` is the machine-readable code of a refusal (`gateway.policy.egress.Code`), empty for an allow.
    """

    verdict: Verdict
    rule: str
    reason: str
    code: str = ""

    @property
    def allowed(self) -> bool:
        """True for `allow` alone: an `ask` nobody settled is not a yes."""
        return self.verdict is Verdict.ALLOW
