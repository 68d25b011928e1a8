"""A ruling in words: what a stranger reads of it, on one printable line."""

from types import MappingProxyType
from typing import Final

from gateway.policy.decision import Decision, Verdict
from gateway.policy.rules import DEFAULT, OVERRIDABLE, Enforcement, Ruling, Subject
from gateway.policy.wording import printable

# Characters. A refusal is one line of git's output, with the ref's name before it; a note is a remark, not a text.
MAX_REASON: Final = 300
MAX_NOTE: Final = 80
MAX_SHOWN: Final = 60
_MAX_PLACE: Final = 40

VERBS: Final = MappingProxyType(
    {
        Verdict.ALLOW: "is allowed for",
        Verdict.ASK: "needs an approval for",
        Verdict.DENY: "is denied for",
    }
)
_WOULD: Final = MappingProxyType({Verdict.ALLOW: "allow", Verdict.ASK: "ask about", Verdict.DENY: "deny"})


def decided(ruling: Ruling, text: str) -> Decision:
    """The decision that a ruling is, with this text as its reason. `code` is OVERRIDABLE for a denial that an approver
    may override with a reason."""
    soft = ruling.rule is not None and ruling.rule.enforcement is Enforcement.SOFT
    code = OVERRIDABLE if soft and ruling.verdict is Verdict.DENY else ""
    return Decision(ruling.verdict, ruling.place, cut(printable(text), MAX_REASON), code)


def because(ruling: Ruling, subject: Subject) -> str:
    """Which rule decided and what it says, or why there is none."""
    rule = ruling.rule
    if rule is None and ruling.place == DEFAULT:
        return ": no rule decides about it"
    if rule is None:
        return f": this session is in mode {subject.mode}, which changes nothing"
    place, note = cut(rule.place, _MAX_PLACE), f" ({cut(rule.note, MAX_NOTE)})" if rule.note else ""
    if rule.advises:
        return f": {place} would {_WOULD[rule.decision]} it, but only advises{note}"
    return f" by {place}{note}"


def cut(text: str, length: int = MAX_SHOWN) -> str:
    """The text, no longer than that."""
    return text if len(text) <= length else text[: length - 3] + "..."
