"""Rules that cannot make a difference, or that contradict each other: warnings, each with the rule that stands above.

Says only what is certain: which of two globs reaches further is not always to be told.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from gateway.config.tree import Reading, line_of, shown
from gateway.policy.action_request import spellings
from gateway.policy.actions import LABELS, Action
from gateway.policy.commands.effects import EFFECTS
from gateway.policy.constraints import ActionRepositories, Commands, Hosts, Paths
from gateway.policy.decision import Verdict
from gateway.policy.push import Kinds, Refs, Repositories, Tags
from gateway.policy.refs import TAGS, RefPattern
from gateway.policy.repositories import RepositoryPattern
from gateway.policy.rules import Constraint, Enforcement, Rule, Scope, is_stricter

# Pairs are compared: more rules of one action than this have been checked enough by their number.
_COMPARED: Final = 200
# The actions that shell lines come to by these tables alone.
_TABLES: Final = {
    action: EFFECTS[action]
    for action in (
        Action.COMMIT,
        Action.OPEN_PULL_REQUEST,
        Action.PUBLISH_REVIEW,
        Action.WRITE_TRACKER,
        Action.INSTALL_PACKAGE,
    )
}


def check_rules(rules: Sequence[Rule], reading: Reading, *, managed: bool = False) -> None:
    """Warns of pairs in one list of rules, of which one has no effect."""
    _check_commands(rules, reading)
    reported = _check_pairs(rules, reading)
    find = find_managed_shadow if managed else find_shadow
    # A managed allow was reported as such.
    for rule in [one for one in rules if not managed or one.decision is not Verdict.ALLOW]:
        if rule.place not in reported and (above := find(rule, rules)) is not None:
            reading.warn(
                line_of(rule.place),
                f"rules: the rule has no effect: {above.place} decides about all of it, as strictly or more: "
                "delete one of the two",
            )


def _check_commands(rules: Sequence[Rule], reading: Reading) -> None:
    """Warns of commands that are not known to do what their rule is about: no shell line with them comes to it."""
    for rule in rules:
        prefixes = [row for one in rule.constraints if isinstance(one, Commands) for row in one.prefixes]
        unknown = [row for row in prefixes if not _may_do(row, rule.action)]
        if unknown:
            reading.warn(
                line_of(rule.place),
                f"rules.commands: {shown(' '.join(unknown[0]))} can never match, it is not known for "
                f"{LABELS[rule.action]}: write {_known(unknown[0][0], rule.action)}, or action: "
                f"{Action.SPAWN_PROCESS} for whatever it does",
            )


def _known(program: str, action: Action) -> str:
    """A command that is known for this action, of this program if there is one."""
    rows = [row for row in _TABLES[action] if row.split()[0] == program] or _TABLES[action]
    return " ".join(step.split("|")[0] for step in rows[0].split())


def _may_do(prefix: tuple[str, ...], action: Action) -> bool:
    """Whether a command that begins so may be known for this action."""
    words = spellings(prefix)[-1]
    return action not in _TABLES or any(
        all(word in step.split("|") for word, step in zip(words, row.split(), strict=False) if step[0] != "-")
        for row in _TABLES[action]
    )


def _check_pairs(rules: Sequence[Rule], reading: Reading) -> set[str]:
    """Warns of rules about the very same; where they stand. Advice beside an order, and an exception that ends beside
    what holds for good, are no mistake in themselves."""
    seen: dict[object, Rule] = {}
    reported: set[str] = set()
    for rule in rules:
        if rule.expires is not None:
            continue
        key = (rule.action, rule.scope, rule.advises, frozenset(map(_essence, rule.constraints)))
        first = seen.setdefault(key, rule)
        if first is not rule:
            what = "the same" if first.decision is rule.decision else "another decision"
            reading.warn(
                line_of(rule.place),
                f"rules: {first.place} has {what} for the very same: the more restrictive counts, delete one",
            )
            reported |= {rule.place, first.place}
    return reported


def check_against_managed(rules: Sequence[Rule], managed: Sequence[Rule], reading: Reading) -> None:
    """Warns of rules that a managed denial leaves no effect."""
    for rule in rules[:_COMPARED]:
        above = find_managed_denial(rule, managed)
        if above is not None:
            reading.warn(
                line_of(rule.place),
                f"rules: the rule has no effect: {above.place}, a managed rule, denies all of it: delete the rule",
            )


def find_managed_denial(rule: Rule, managed: Iterable[Rule]) -> Rule | None:
    """A managed denial of all that a rule of the config is about; None where none is certain to be one."""
    above = _others(rule, managed)
    return next((one for one in above if one.decision is Verdict.DENY and _is_above(one, rule)), None)


def find_managed_shadow(rule: Rule, managed: Iterable[Rule]) -> Rule | None:
    """A managed rule that asks or denies whatever this managed one does; None where none is certain to be one."""
    return next(
        (
            other
            for other in _others(rule, managed)
            if _is_above(other, rule)
            and not is_stricter(rule.decision, other.decision)
            and not (_is_twin(other, rule) and rule.place < other.place)
        ),
        None,
    )


def find_shadow(rule: Rule, rules: Iterable[Rule]) -> Rule | None:
    """A rule beside which this one never decides; None where none is certain to be one."""
    return next(
        (
            other
            for other in _others(rule, rules)
            if _is_above(other, rule)
            and other.scope.rank == rule.scope.rank
            and bool(other.constraints) is bool(rule.constraints)
            and _outlasts(other, rule)
            and not is_stricter(rule.decision, other.decision)
            and not (_is_twin(other, rule) and rule.place < other.place)
        ),
        None,
    )


def _others(rule: Rule, rules: Iterable[Rule]) -> list[Rule]:
    return [one for one in rules if one.action is rule.action and one is not rule][:_COMPARED]


def _is_above(other: Rule, rule: Rule) -> bool:
    """Whether it is there for good, to the end, and for every request that the rule is there for."""
    return _holds(other) and _includes(other.scope, rule.scope) and _covers(other, rule)


def _is_twin(other: Rule, rule: Rule) -> bool:
    """Whether each of the two makes the other one needless: then only the second is."""
    return (
        other.decision is rule.decision
        and other.scope == rule.scope
        and _holds(rule)
        and _covers(rule, other)
    )


def _outlasts(other: Rule, rule: Rule) -> bool:
    """Whether nothing pushes it aside that does not push the rule aside too, and it pushes aside what the rule does: a
    rule about commands gives way to longer ones, and shorter ones give way to it."""
    return Commands not in rule.kinds or other.kinds == rule.kinds


def _holds(rule: Rule) -> bool:
    """Whether it is there for good, and to the end."""
    return rule.expires is None and rule.enforcement is Enforcement.HARD


def _includes(outer: Scope, inner: Scope) -> bool:
    pairs = ((outer.workspace, inner.workspace), (outer.agent, inner.agent), (outer.space, inner.space))
    return all(wanted in ("", found) for wanted, found in pairs)


def _covers(outer: Rule, inner: Rule) -> bool:
    """Whether every request that fits the inner rule fits the outer one, with commands that are as long."""
    return all(any(_contains(one, other) for other in inner.constraints) for one in outer.constraints)


def _contains(outer: Constraint, inner: Constraint) -> bool:
    match outer, inner:
        case Refs(), Refs():
            return all(any(_reaches(one, other) for one in outer.patterns) for other in inner.patterns)
        case Tags(), Refs():
            return all(pattern.text.startswith(TAGS) for pattern in inner.patterns)
        case Repositories(), Repositories():
            return all(any(_takes_in(one, other) for one in outer.patterns) for other in inner.patterns)
        case ActionRepositories(), ActionRepositories():
            return all(any(_takes_in(one, other) for one in outer.patterns) for other in inner.patterns)
        case Kinds(), Kinds():
            return inner.kinds <= outer.kinds
        case Hosts(), Hosts():
            return {one.text for one in inner.patterns} <= {one.text for one in outer.patterns}
        case Paths(), Paths():
            return set(inner.globs) <= set(outer.globs)
        case Commands(), Commands():
            return set(inner.prefixes) <= set(outer.prefixes)
        case _:
            return outer == inner


def _reaches(outer: RefPattern, inner: RefPattern) -> bool:
    """Whether all that the inner pattern matches is matched by the outer one; False also where that is not certain."""
    if outer.text == inner.text:
        return True
    if outer.text.isascii() and not inner.text.isascii():
        return False  # an allow in ASCII allows no name that is not
    if outer.text.endswith("/**") and inner.text.startswith(outer.text[:-2]):
        return "*" not in outer.text[:-2]
    return "*" not in inner.text and outer.matches(inner.sample, fold=False)


def _takes_in(outer: RepositoryPattern, inner: RepositoryPattern) -> bool:
    return outer.text in ("*/*", inner.text) or outer.text.lower() == inner.text.lower()


def _essence(constraint: Constraint) -> object:
    """A constraint without the order of its entries."""
    match constraint:
        case Refs() | Repositories() | ActionRepositories():
            return type(constraint), frozenset(constraint.patterns)
        case Hosts():
            return Hosts, frozenset(pattern.text for pattern in constraint.patterns)
        case Paths():
            return Paths, frozenset(constraint.globs)
        case Commands():
            return Commands, frozenset(constraint.prefixes)
        case _:
            return constraint
