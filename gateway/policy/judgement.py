"""What becomes of a tool call or a shell line: a verdict, its rule, and what a person would be asked about.

Values only. Who decides stands in `lines.py` and `calls.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import Action
from gateway.policy.decision import Verdict

STRICTNESS = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one part, with its rule (a place as in `Decision.rule`, "mode:chat", "deny-list:sudo" …) and one
    printable line that a stranger can act on. `code` is OVERRIDABLE for a soft denial.

    `requests` are the effects that were held against rules. `text` is the part as written, for people; whoever shows or
    records it masks it. Of a part that is asked about, a yes may be remembered only where `requests` is not empty.
    """

    verdict: Verdict
    rule: str
    reason: str
    text: str = ""
    requests: tuple[ActionRequest, ...] = ()
    code: str = ""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdict on a whole: that of its most restrictive part. Of nothing at all there is none: never empty."""

    parts: tuple[Judgement, ...]

    @property
    def worst(self) -> Judgement:
        """The part that decides; of several equally restrictive ones the first."""
        return max(self.parts, key=lambda part: STRICTNESS.index(part.verdict))

    @property
    def verdict(self) -> Verdict:
        """Of the whole."""
        return self.worst.verdict

    @property
    def effects(self) -> tuple[Action, ...]:
        """Each action once, in the order of the parts."""
        return tuple(dict.fromkeys(request.action for part in self.parts for request in part.requests))

    @property
    def asked(self) -> tuple[Judgement, ...]:
        """The parts that a person must approve."""
        return tuple(part for part in self.parts if part.verdict is Verdict.ASK)


def whole(parts: Iterable[Judgement]) -> Verdicts:
    """Of these parts. ValueError for none: what has no parts was not understood, and that is a judgement too."""
    found = tuple(parts)
    if not found:
        raise ValueError("a whole without parts")
    return Verdicts(found)
