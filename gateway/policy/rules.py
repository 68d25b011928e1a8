"""Which of an operator's rules decides: scopes, constraints, managed rules, expiry. Knows no single action.

An action brings its request and its constraints; this module asks a constraint only whether it fits. The order of
rules never matters.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from gateway.policy.actions import default_verdict
from gateway.policy.decision import Verdict
from gateway.policy.modes import READ_ONLY
from gateway.policy.prepared_rules import RuleSet
from gateway.policy.rule import Constraint, Enforcement, Request, Rule, Scope, Subject

__all__ = [
    "DEFAULT",
    "OVERRIDABLE",
    "PRESET",
    "Constraint",
    "Enforcement",
    "Request",
    "Rule",
    "RuleSet",
    "Ruling",
    "Scope",
    "Subject",
    "decide_action",
    "find_undecided",
    "is_stricter",
    "most_restrictive",
]

# Where a verdict stands that is no rule's.
DEFAULT: Final = "default"
PRESET: Final = "preset"
# The code of a denial that an approver may override with a reason (enforcement: soft). Without one it is a denial.
OVERRIDABLE: Final = "overridable"
_STRICTNESS: Final = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the rules come to. `rule` decided, and None stands for a mode's preset or the default (`place`)."""

    verdict: Verdict
    place: str
    rule: Rule | None = None


class _Weight(IntEnum):
    """How restrictive a ruling is. Advice is named before an allow that comes to the same."""

    ALLOW = 0
    ADVICE = 1
    ASK = 2
    SOFT_DENY = 3
    DENY = 4


def most_restrictive(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of a whole with these parts; of nothing at all a denial."""
    return max(verdicts, key=_STRICTNESS.index, default=Verdict.DENY)


def is_stricter(one: Verdict, other: Verdict) -> bool:
    """Whether a verdict is more restrictive than another."""
    return _STRICTNESS.index(one) > _STRICTNESS.index(other)


def decide_action(rules: RuleSet, subject: Subject, request: Request) -> Ruling:
    """What the rules say to a request: the most restrictive of the rest's decision and of every managed rule that fits.

    A denial of a mode that only reads is final. A rule that fits only when read widely can tighten, never loosen: the
    rest is asked twice, and the more restrictive answer counts. Advice allows what no other rule speaks about, and
    loosens nothing that another one says.
    """
    default = default_verdict(request.action, subject.mode)
    if subject.mode in READ_ONLY and default is Verdict.DENY:
        return Ruling(default, f"{PRESET}:{subject.mode}")
    own, managed = rules.prepared(subject).find(request, subject.now)
    # What does not fit widely does not fit at all.
    fitting = [(rule, found) for rule in own if (found := rule.fit(request, wide=True)) is not None]
    enforced = [(rule, found) for rule, found in fitting if not rule.advises]
    fallback = Ruling(default, DEFAULT)
    written = _as_written(enforced, request)
    answers = [_nearest(written) or fallback]
    if written != enforced:
        answers.append(_nearest(enforced) or fallback)
    # What would decide if advice were more than that; only then does the advice count as given.
    trial = _nearest(_as_written(fitting, request)) if len(fitting) > len(enforced) else None
    if trial is not None and trial.rule is not None and trial.rule.advises:
        spoken = any(answer.rule is not None for answer in answers)
        answers = [*answers, _ruling(trial.rule)] if spoken else [_ruling(trial.rule)]
    answers += [_ruling(rule) for rule in managed if rule.fit(request, wide=True) is not None]
    return max(answers, key=_restrictiveness) if len(answers) > 1 else answers[0]


def find_undecided(rules: RuleSet, subject: Subject, request: Request) -> Iterator[tuple[Rule, str]]:
    """The denials and questions that would decide if what the request leaves open were what they mean, each with what
    that is. A narrower rule that fits decides whatever it is."""
    prepared = rules.prepared(subject)
    restricting = prepared.restricting(request, subject.now)
    if not restricting:
        return
    own, _ = prepared.find(request, subject.now)
    spoken = [rule for rule in own if not rule.advises and rule.fit(request, wide=False) is not None]
    outweighed = max((rule.scope.rank for rule in spoken), default=0)
    for rule, rank in restricting:
        if rank >= outweighed and (fact := rule.lacks(request)):
            yield rule, fact


def _as_written(fitting: Iterable[tuple[Rule, int]], request: Request) -> list[tuple[Rule, int]]:
    """Those that also fit as they are written, with how closely. An allow is never read in another way."""
    found = (
        (rule, wide if rule.decision is Verdict.ALLOW else rule.fit(request, wide=False))
        for rule, wide in fitting
    )
    return [(rule, closeness) for rule, closeness in found if closeness is not None]


def _nearest(fitting: list[tuple[Rule, int]]) -> Ruling | None:
    """The narrowest scope with a rule that fits, in it the closest fits, of those the most restrictive, as written."""
    if len(fitting) < 2:
        return _as_meant(fitting[0][0]) if fitting else None
    narrowest = max(rule.scope.rank for rule, _ in fitting)
    closest = _closest([(rule, found) for rule, found in fitting if rule.scope.rank == narrowest])
    return max(map(_as_meant, closest), key=_restrictiveness)


def _closest(fitting: list[tuple[Rule, int]]) -> list[Rule]:
    """Those with a constraint, if there are any; without those that another one of the same kinds, or of more, is
    closer than. Different kinds cannot be held against each other."""
    constrained = [(rule, closeness) for rule, closeness in fitting if rule.constraints]
    if not constrained:
        return [rule for rule, _ in fitting]
    if not any(closeness for _, closeness in constrained):
        return [rule for rule, _ in constrained]
    furthest: dict[frozenset[type[Constraint]], int] = {}
    for rule, closeness in constrained:
        furthest[rule.kinds] = max(closeness, furthest.get(rule.kinds, 0))
    return [
        rule
        for rule, closeness in constrained
        if not any(0 < closeness < other and rule.kinds <= kinds for kinds, other in furthest.items())
    ]


def _as_meant(rule: Rule) -> Ruling:
    """What a rule says, be it advice."""
    return Ruling(rule.decision, rule.place, rule)


def _ruling(rule: Rule) -> Ruling:
    """What a rule comes to."""
    return Ruling(Verdict.ALLOW if rule.advises else rule.decision, rule.place, rule)


def _restrictiveness(ruling: Ruling) -> tuple[int, int, bool, str]:
    """What is compared; among equals a rule before the default, then always the same one, whatever the order."""
    wanted = ruling.verdict if ruling.rule is None else ruling.rule.decision
    return _weight(ruling), _STRICTNESS.index(wanted), ruling.rule is not None, ruling.place


def _weight(ruling: Ruling) -> _Weight:
    enforcement = Enforcement.HARD if ruling.rule is None else ruling.rule.enforcement
    match ruling.verdict:
        case Verdict.ALLOW:
            return _Weight.ADVICE if enforcement is Enforcement.ADVISORY else _Weight.ALLOW
        case Verdict.ASK:
            return _Weight.ASK
        case Verdict.DENY:
            return _Weight.SOFT_DENY if enforcement is Enforcement.SOFT else _Weight.DENY
