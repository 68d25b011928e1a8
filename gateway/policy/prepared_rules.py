"""All rules of an installation, and those for one subject made ready: a decision looks only at the few that may fit.

Decides nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from gateway.policy.actions import Action
from gateway.policy.decision import Verdict
from gateway.policy.marks import ANYTHING, Mark, MarkIndex
from gateway.policy.rule import Enforcement, Request, Rule, Scope, Subject

# Subjects whose rules are kept ready: sessions that live at the same time, with room.
_PREPARED: Final = 64
# Above the rank of every scope: no own rule outweighs a managed one.
_MANAGED_RANK: Final = 4
_STRICTNESS: Final = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)


class PreparedRules:
    """The rules that are for one subject, so that those that may fit a request are found without a look at the rest."""

    __slots__ = ("_managed", "_own", "_restricting")

    def __init__(self, all_managed: Iterable[Rule], all_own: Iterable[Rule], whom: Scope) -> None:
        own = [rule for rule in all_own if rule.scope.covers(whom)]
        managed = [rule for rule in all_managed if rule.scope.covers(whom)]
        self._own, self._managed = _index(own), _index(managed)
        # Denials and questions by what a request may leave open, with the rank that outweighs them.
        self._restricting: dict[tuple[Action, str], list[tuple[Rule, int]]] = {}
        ranked = [(rule, rule.scope.rank) for rule in own] + [(rule, _MANAGED_RANK) for rule in managed]
        for rule, rank in sorted(ranked, key=lambda entry: entry[0].place):
            if rule.decision is not Verdict.ALLOW and not rule.advises:
                for fact in {one.fact for one in rule.constraints if one.fact}:
                    self._restricting.setdefault((rule.action, fact), []).append((rule, rank))

    def find(self, request: Request, now: datetime) -> tuple[list[Rule], list[Rule]]:
        """Every rule that may fit the request, own ones and managed ones; some that do not, and some twice."""
        action, anchors, text = request.action, tuple(request.anchors), request.text
        own, managed = (index.find(action, anchors, text) for index in (self._own, self._managed))
        return [rule for rule in own if rule.exists(now)], [rule for rule in managed if rule.exists(now)]

    def restricting(self, request: Request, now: datetime) -> list[tuple[Rule, int]]:
        """Every denial and question about a fact that the request leaves open."""
        return [
            (rule, rank)
            for fact in request.unknown
            for rule, rank in self._restricting.get((request.action, fact), ())
            if rule.exists(now)
        ]


def _index(rules: Iterable[Rule]) -> MarkIndex[Rule]:
    """By marks. Of rules for good about everything, that differ in their decision alone, the most restrictive do."""
    plain: dict[tuple[Action, int, bool], Rule] = {}
    entries: list[tuple[Action, tuple[Mark, ...], Rule]] = []
    for rule in rules:
        marks = next((found for one in rule.constraints if (found := one.marks) is not None), ANYTHING)
        if rule.constraints or rule.expires is not None:
            entries.append((rule.action, marks, rule))
            continue
        key = (rule.action, rule.scope.rank, rule.advises)
        plain[key] = max(rule, plain.get(key, rule), key=_firmness)
    return MarkIndex([*entries, *((rule.action, ANYTHING, rule) for rule in plain.values())])


def _firmness(rule: Rule) -> tuple[int, bool, str]:
    return _STRICTNESS.index(rule.decision), rule.enforcement is Enforcement.HARD, rule.place


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of an installation. `managed` ones can only tighten what the others decide."""

    managed: tuple[Rule, ...] = ()
    rules: tuple[Rule, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)
    # Made when first asked for: part of no comparison, and the same whenever it is made.
    _prepared: dict[Scope, PreparedRules] = field(
        init=False, repr=False, compare=False, default_factory=dict[Scope, PreparedRules]
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.managed, self.rules)))

    def __hash__(self) -> int:
        """Worked out once: rules are many, and asked for often."""
        return self._hash

    def prepared(self, subject: Subject) -> PreparedRules:
        """Those that are for this subject."""
        whom = Scope(subject.workspace, subject.agent, subject.space)
        found = self._prepared.get(whom)
        if found is None:
            if len(self._prepared) >= _PREPARED:
                self._prepared.clear()
            found = self._prepared[whom] = PreparedRules(self.managed, self.rules, whom)
        return found
