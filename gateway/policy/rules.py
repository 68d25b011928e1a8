"""Rules of operators, and which one decides: scopes, constraints, managed rules, expiry. Knows no single action.

An action brings its request and its constraints; this module asks a constraint only whether it fits. The order of
rules never matters.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Final, Protocol

from gateway.policy.actions import Action, default_verdict
from gateway.policy.decision import Verdict
from gateway.policy.modes import READ_ONLY, Mode

# Where a verdict stands that is no rule's.
DEFAULT: Final = "default"
PRESET: Final = "preset"
# The code of a denial that an approver may override with a reason (enforcement: soft). Without one it is a denial.
OVERRIDABLE: Final = "overridable"


_STRICTNESS: Final = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)


class Enforcement(StrEnum):
    """How a denial holds: to the end, unless an approver overrides it, or not at all (but it is recorded)."""

    HARD = "hard"
    SOFT = "soft"
    ADVISORY = "advisory"


@dataclass(frozen=True, slots=True)
class Subject:
    """On whose behalf something is asked, and when (aware). An empty text is nobody's name."""

    workspace: str
    agent: str
    space: str
    mode: Mode
    now: datetime


class Request(Protocol):
    """What is attempted: a value of the action's own kind."""

    @property
    def action(self) -> Action: ...


class Constraint(Protocol):
    """One condition of a rule."""

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """How closely it fits, from 1 on (of two rules in one scope the closer one decides); None: not at all.

        `wide`: read as a refusal must be read, so that another spelling of the same thing does not slip by.
        """
        ...


@dataclass(frozen=True, slots=True)
class Scope:
    """Whom a rule is for; an empty text stands for everybody."""

    workspace: str = ""
    agent: str = ""
    space: str = ""

    @property
    def rank(self) -> int:
        """How narrow it is: space, agent, workspace, none. Of several, the narrowest counts."""
        return 3 if self.space else 2 if self.agent else 1 if self.workspace else 0

    def covers(self, subject: Subject) -> bool:
        """Whether the subject is one of them."""
        pairs = (
            (self.workspace, subject.workspace),
            (self.agent, subject.agent),
            (self.space, subject.space),
        )
        return all(wanted in ("", found) for wanted, found in pairs)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `place` says where it stands ("config.yaml:7"); all of its constraints must fit.

    From `expires` (aware) on it does not exist. `note` is a line for whoever meets the rule.
    """

    action: Action
    decision: Verdict
    place: str
    scope: Scope = Scope()
    constraints: tuple[Constraint, ...] = ()
    expires: datetime | None = None
    enforcement: Enforcement = Enforcement.HARD
    note: str = ""

    @property
    def advises(self) -> bool:
        """Whether it keeps nobody from anything."""
        return self.enforcement is Enforcement.ADVISORY

    def concerns(self, subject: Subject) -> bool:
        """Whether it is for this subject, and still exists."""
        return self.scope.covers(subject) and (self.expires is None or subject.now < self.expires)

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """How closely it fits: 0 without a constraint, None where one does not fit. An allow is never read widely."""
        closeness = 0
        for constraint in self.constraints:
            found = constraint.fit(request, wide=wide and self.decision is not Verdict.ALLOW)
            if found is None:
                return None
            closeness = max(closeness, found)
        return closeness


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of an installation. `managed` ones can only tighten what the others decide."""

    managed: tuple[Rule, ...] = ()
    rules: tuple[Rule, ...] = ()


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


def decide_action(rules: RuleSet, subject: Subject, request: Request) -> Ruling:
    """What the rules say to a request: the most restrictive of the rest's decision and of every managed rule that fits.

    A denial of a mode that only reads is final. A rule that fits only when read widely can tighten, never loosen: the
    rest is asked twice, and the more restrictive answer counts. Advice allows what no other rule speaks about, and
    loosens nothing that another one says.
    """
    default = default_verdict(request.action, subject.mode)
    if subject.mode in READ_ONLY and default is Verdict.DENY:
        return Ruling(default, f"{PRESET}:{subject.mode}")
    own, managed = _concerning(rules.rules, subject, request), _concerning(rules.managed, subject, request)
    enforced = [rule for rule in own if not rule.advises]
    fallback = Ruling(default, DEFAULT)
    answers = [_decide(enforced, request, wide) or fallback for wide in (False, True)]
    # What would decide if advice were more than that; only then does the advice count as given.
    trial = _decide(own, request, wide=False) if len(own) > len(enforced) else None
    if trial is not None and trial.rule is not None and trial.rule.advises:
        spoken = any(answer.rule is not None for answer in answers)
        answers = [*answers, _ruling(trial.rule)] if spoken else [_ruling(trial.rule)]
    answers += [_ruling(rule) for rule in managed if rule.fit(request, wide=True) is not None]
    return max(answers, key=_restrictiveness)


def _concerning(rules: Iterable[Rule], subject: Subject, request: Request) -> list[Rule]:
    return [rule for rule in rules if rule.action is request.action and rule.concerns(subject)]


def _decide(rules: Iterable[Rule], request: Request, wide: bool) -> Ruling | None:
    """The narrowest scope with a rule that fits, in it the closest fit, of those the most restrictive, as written."""
    fitting = [(rule, found) for rule in rules if (found := rule.fit(request, wide=wide)) is not None]
    if not fitting:
        return None
    nearest = max((rule.scope.rank, closeness) for rule, closeness in fitting)
    best = (
        Ruling(rule.decision, rule.place, rule)
        for rule, closeness in fitting
        if (rule.scope.rank, closeness) == nearest
    )
    return max(best, key=_restrictiveness)


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
