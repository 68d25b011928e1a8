"""The rules of the config file and of the managed file: entries as frozen rules, and entries that cannot be meant.

Reads nodes, not files. What a rule comes to among others is `gateway.policy.rules`.
"""

import re
from collections.abc import Container
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from gateway.config.action_rules import CONSTRAINTS, read_action_constraints
from gateway.config.push_rules import PUSH_CONSTRAINTS, line_of_key, read_push_constraints
from gateway.config.rule_checks import check_rules
from gateway.config.section import Section
from gateway.config.tree import MappingNode, Node, Reading, ScalarNode, shown
from gateway.policy.actions import Action
from gateway.policy.decision import Verdict
from gateway.policy.reasons import MAX_NOTE
from gateway.policy.rules import Constraint, Enforcement, Rule, Scope

# Rules of one file. Every ref of a push is held against each of them; a list of more is better written with globs.
MAX_RULES: Final = 500
EXAMPLE: Final = '{action: push, decision: deny, refs: [main, "release/*"]}'

# RFC 3339, section 5.6.
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # of what a session can be opened for


@dataclass(frozen=True, slots=True)
class RuleKeys:
    """The keys of a rule, of any action."""

    action: str
    decision: str
    workspace: str
    agent: str
    space: str
    refs: str
    repositories: str
    kind: str
    force: str
    tags: str
    hosts: str
    paths: str
    commands: str
    expires: str
    enforcement: str
    note: str


@dataclass(frozen=True, slots=True)
class ManagedKeys:
    """The keys of the managed file."""

    rules: str


_EVERY_CONSTRAINT: Final = (*PUSH_CONSTRAINTS, "hosts", "paths", "commands")


def read_rules(
    items: tuple[Node, ...],
    reading: Reading,
    now: datetime,
    workspaces: Container[str],
    *,
    managed: bool = False,
) -> tuple[Rule, ...]:
    """The rules of a list. Every problem goes to `reading`; with an error among them the rules are void.

    `now` (aware) tells which have expired; `workspaces` are the names that the config knows.
    """
    if len(items) > MAX_RULES:
        reading.error(
            items[MAX_RULES].line, f"rules: more than {MAX_RULES}: write globs in the place of single names"
        )
    found = (_read_rule(item, reading, now, workspaces, managed) for item in items[:MAX_RULES])
    rules = tuple(rule for rule in found if rule is not None)
    check_rules(rules, reading, managed=managed)
    return rules


def read_managed_rules(
    root: Node, reading: Reading, now: datetime, workspaces: Container[str]
) -> tuple[Rule, ...]:
    """The rules of the managed file, whose only key is `rules`."""
    top = Section(root, "", ManagedKeys, reading)
    if isinstance(root, MappingNode) and top.node("rules") is None:
        reading.error(root.line, "there are no rules here: write rules: and the list, or rules: []")
    return read_rules(top.items("rules", f"[{EXAMPLE}]"), reading, now, workspaces, managed=True)


def _read_rule(
    item: Node, reading: Reading, now: datetime, workspaces: Container[str], managed: bool
) -> Rule | None:
    if not isinstance(item, MappingNode):
        reading.error(item.line, f"rules: each entry is a mapping: write {EXAMPLE}")
        return None
    section = Section(item, "rules", RuleKeys, reading)
    action = _required(section, item, "action", Action.PUSH)
    decision = _required(section, item, "decision", Verdict.DENY)
    if action is None or decision is None:
        return None
    _refuse_constraints(section, action)
    return Rule(
        action=action,
        decision=decision,
        place=reading.rule(item.line),
        scope=_read_scope(section, workspaces),
        constraints=_read_constraints(section, item, action, decision),
        expires=_read_expires(section, now),
        enforcement=_read_enforcement(section, decision, managed),
        note=_read_note(section),
    )


def _read_constraints(
    section: Section, item: MappingNode, action: Action, decision: Verdict
) -> tuple[Constraint, ...]:
    if action is Action.PUSH:
        return read_push_constraints(section, item, decision)
    return read_action_constraints(section)


def _required[E: StrEnum](section: Section, item: MappingNode, key: str, default: E) -> E | None:
    """One of the members; None where the key is missing or wrong, which was reported."""
    node = section.node(key)
    if node is None:
        section.reading.error(item.line, f"rules: an entry without {key}: write {EXAMPLE}")
        return None
    value = section.choice(key, default)
    return value if isinstance(node, ScalarNode) and node.text == value else None


def _refuse_constraints(section: Section, action: Action) -> None:
    for key in _EVERY_CONSTRAINT:
        if key not in CONSTRAINTS[action] and section.node(key) is not None:
            section.reading.error(
                line_of_key(section, key),
                f"rules.{key} says nothing about action {action}: the constraints are "
                f"{', '.join(CONSTRAINTS[action])}",
            )


def _read_scope(section: Section, workspaces: Container[str]) -> Scope:
    names = {key: _read_name(section, key) for key in ("workspace", "agent", "space")}
    workspace = names["workspace"]
    if workspace and workspace not in workspaces:
        section.reading.warn(
            line_of_key(section, "workspace"),
            f"rules.workspace: {workspace} stands nowhere under workspaces: mend the name, or add it there",
        )
    return Scope(**names)


def _read_name(section: Section, key: str) -> str:
    item = section.text(key, f"{key}: NAME")
    if item is None:
        return ""
    if not _NAME.fullmatch(item.text):
        section.reading.error(
            item.line,
            f"rules.{key}: {shown(item.text)} is no name, so the rule can never match: write up to 64 letters, "
            "digits, dots, _ and -",
        )
    return item.text


def _read_expires(section: Section, now: datetime) -> datetime | None:
    item = section.text("expires", "2030-01-31T12:00:00Z", nullable=True)
    if item is None:
        return None
    try:
        if not _MOMENT.fullmatch(item.text):
            raise ValueError
        moment = datetime.fromisoformat(item.text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        section.reading.error(
            item.line,
            f"rules.expires: {shown(item.text)} is no moment: write 2030-01-31T12:00:00Z (RFC 3339, with Z or "
            "an offset)",
        )
        return None
    if moment <= now:
        section.reading.warn(
            item.line,
            "rules.expires has passed, so the rule no longer exists: delete it, or write a later one",
        )
    return moment


def _read_enforcement(section: Section, decision: Verdict, managed: bool) -> Enforcement:
    enforcement, line = section.choice("enforcement", Enforcement.HARD), line_of_key(section, "enforcement")
    if managed and decision is Verdict.ALLOW:
        section.reading.error(
            line_of_key(section, "decision"),
            "rules.decision: a managed rule can only tighten, so an allow has no effect: delete the rule",
        )
    if enforcement is Enforcement.SOFT and decision is not Verdict.DENY:
        section.reading.error(
            line, f"rules.enforcement: soft is for a denial, not for {decision}: delete the key"
        )
    if enforcement is Enforcement.ADVISORY and decision is Verdict.ALLOW:
        section.reading.error(
            line, "rules.enforcement: advisory is for a denial or a question, not for allow: delete the key"
        )
    return enforcement


def _read_note(section: Section) -> str:
    item = section.text("note", "a line", nullable=True)
    if item is None:
        return ""
    if len(item.text) > MAX_NOTE:
        section.reading.error(
            item.line, f"rules.note has more than {MAX_NOTE} characters: write a short line"
        )
    return item.text
