"""The constraints of a rule about pushes: its keys as frozen constraints, and what cannot be meant."""

from collections.abc import Mapping
from typing import Final

from gateway.config.section import Section
from gateway.config.tree import MappingNode, ScalarNode, SequenceNode, shown
from gateway.policy.decision import Verdict
from gateway.policy.push import FORCED, UPDATES, Kinds, Refs, Repositories, Tags, UpdateKind
from gateway.policy.refs import TAGS, RefPattern, RefPatternError, parse_ref_pattern, special_ref
from gateway.policy.repositories import RepositoryPattern, RepositoryPatternError, parse_repository_pattern
from gateway.policy.rules import Constraint

PUSH_CONSTRAINTS: Final = ("refs", "repositories", "kind", "force", "tags")

_KINDS: Final[Mapping[str, frozenset[UpdateKind]]] = {
    "create": frozenset({UpdateKind.CREATE}),
    "update": UPDATES,
    "delete": frozenset({UpdateKind.DELETE}),
}
# Starts of a branch's name that stand for something else where people write them, with what they mean by it.
_MISTAKEN: Final = (("heads/", "x"), ("tags/", "refs/tags/x"), ("origin/", "x"), ("remotes/", "x"))


def line_of_key(section: Section, key: str) -> int:
    """The line of a key's value; 0 where it is not set."""
    node = section.node(key)
    return 0 if node is None else node.line


def read_push_constraints(section: Section, item: MappingNode, decision: Verdict) -> tuple[Constraint, ...]:
    """The constraints of the rule that stands in `item`."""
    tags = _read_truth(section, "tags")
    refs, repositories = _read_refs(section, decision, tags), read_repositories(section)
    kinds = _read_kinds(section)
    force = _read_truth(section, "force")
    if force:
        kinds = FORCED if kinds is None else kinds & FORCED
    if kinds is not None and not kinds:
        section.reading.error(
            item.line,
            "rules: the rule can never match, force: true is about updates and kind leaves them out: "
            "write one of the two",
        )
    found: list[Constraint] = [Refs(refs)] if refs else []
    found += [Repositories(repositories)] if repositories else []
    found += [Kinds(kinds)] if kinds is not None else []
    found += [Tags()] if tags else []
    return tuple(found)


def read_words(section: Section, key: str, example: str) -> tuple[ScalarNode, ...]:
    """The items of a list of texts, or one text alone; each once, and at least one."""
    node = section.node(key)
    if node is None:
        return ()
    if isinstance(node, ScalarNode):
        item = section.one_line(node, key, example)
        return () if item is None else (item,)
    if node == SequenceNode(node.line, ()):
        section.reading.error(
            node.line,
            f"rules.{key} is empty, so the rule can never match: delete the key, or write {example}",
        )
    words: dict[str, ScalarNode] = {}
    for item in section.texts(key, example):
        if item.text in words:
            section.reading.warn(item.line, f"rules.{key}: {shown(item.text)} stands there twice: delete one")
        words.setdefault(item.text, item)
    return tuple(words.values())


def _read_refs(section: Section, decision: Verdict, tags: bool) -> tuple[RefPattern, ...]:
    patterns: list[RefPattern] = []
    for item in read_words(section, "refs", '"agent/**"'):
        try:
            pattern = parse_ref_pattern(item.text)
        except RefPatternError as error:
            section.reading.error(item.line, f"rules.refs: {shown(item.text)}: {error}")
            continue
        patterns.append(pattern)
        _check_pattern(section, item, pattern, decision, tags)
    return tuple(patterns)


def _check_pattern(
    section: Section, item: ScalarNode, pattern: RefPattern, decision: Verdict, tags: bool
) -> None:
    name, special = f"rules.refs: {shown(item.text)}", special_ref(pattern.sample)
    if special is not None and decision is not Verdict.DENY:
        section.reading.error(
            item.line, f"{name} can never be pushed to, {special}, and no rule opens it: delete the entry"
        )
    if tags and not pattern.reaches(TAGS):
        section.reading.error(
            item.line,
            f"{name} matches no tag, and the rule has tags: true: write refs/tags/..., or delete tags",
        )
    for start, meant in _MISTAKEN:
        if pattern.text.startswith(start):
            section.reading.warn(
                item.line,
                f"{name} is read as a branch of this very name: if another is meant, write {meant}",
            )


def read_repositories(section: Section) -> tuple[RepositoryPattern, ...]:
    patterns: list[RepositoryPattern] = []
    for item in read_words(section, "repositories", "owner/name"):
        try:
            patterns.append(parse_repository_pattern(item.text))
        except RepositoryPatternError as error:
            section.reading.error(item.line, f"rules.repositories: {shown(item.text)}: {error}")
    return tuple(patterns)


def _read_kinds(section: Section) -> frozenset[UpdateKind] | None:
    """The kinds that are named; None where the key is not set."""
    kinds: frozenset[UpdateKind] | None = None
    for item in read_words(section, "kind", "create"):
        if item.text not in _KINDS:
            section.reading.error(
                item.line,
                f"rules.kind: {shown(item.text)}: write create, update or delete (for forced updates alone, "
                "force: true)",
            )
        kinds = (kinds or frozenset()) | _KINDS.get(item.text, frozenset(UpdateKind))
    return kinds


def _read_truth(section: Section, key: str) -> bool:
    """Whether the key is set; it is `true` or not there."""
    if section.node(key) is None:
        return False
    if not section.switch(key, True):
        section.reading.error(line_of_key(section, key), f"rules.{key} is true or not there: delete the key")
    return True
