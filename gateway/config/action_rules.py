"""The constraints of rules about actions other than pushes: which action has which, and their entries as values."""

import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from gateway.config.push_rules import PUSH_CONSTRAINTS, read_repositories, read_words
from gateway.config.section import Section
from gateway.config.tree import Node, ScalarNode, SequenceNode, shown
from gateway.policy.actions import Action
from gateway.policy.constraints import ActionRepositories, Commands, Hosts, Paths
from gateway.policy.hosts import HostPattern, PatternError, parse_pattern
from gateway.policy.rules import Constraint

_ON_FORGE: Final = ("repositories", "commands")
_ON_FILES: Final = ("paths", "commands")

# What the rules of an action may be about.
CONSTRAINTS: Final[Mapping[Action, tuple[str, ...]]] = MappingProxyType(
    {
        Action.COMMIT: ("commands",),
        Action.PUSH: PUSH_CONSTRAINTS,
        Action.OPEN_PULL_REQUEST: _ON_FORGE,
        Action.PUBLISH_REVIEW: _ON_FORGE,
        Action.WRITE_TRACKER: _ON_FORGE,
        Action.INSTALL_PACKAGE: ("commands",),
        Action.ACCESS_NETWORK: ("hosts", "commands"),
        Action.DELETE_FILE: _ON_FILES,
        Action.WRITE_OUTSIDE: _ON_FILES,
        Action.ACCESS_SECRET: _ON_FILES,
        Action.SPAWN_PROCESS: ("commands",),
    }
)
_COMMAND: Final = '"npm install"'
# What a shell takes apart before a command is one.
_OPERATORS: Final = frozenset("|&;<>()`$*?\n")


def read_action_constraints(section: Section) -> tuple[Constraint, ...]:
    """The constraints of a rule that is not about pushes. Keys that its action has not were reported before."""
    readers: tuple[Callable[[Section], Constraint | None], ...] = (
        _read_hosts, _read_paths, _read_commands, _read_repositories,
    )  # fmt: skip
    return tuple(found for reader in readers if (found := reader(section)) is not None)


def _read_hosts(section: Section) -> Hosts | None:
    patterns: list[HostPattern] = []
    for item in read_words(section, "hosts", '"*.x.example"'):
        try:
            patterns.append(HostPattern(parse_pattern(item.text), section.reading.rule(item.line)))
        except PatternError as error:
            section.reading.error(item.line, f"rules.hosts: {shown(item.text)}: {error}")
    return Hosts(tuple(patterns)) if patterns else None


def _read_paths(section: Section) -> Paths | None:
    globs: list[str] = []
    for item in read_words(section, "paths", '"/srv/data/*"'):
        if ".." in item.text.split("/"):
            section.reading.error(
                item.line,
                f"rules.paths: {shown(item.text)} can never match, paths have no ..: write the path itself",
            )
        elif item.text.startswith("*"):
            globs.append(item.text)
        elif item.text.startswith(("/", "~")):
            path = section.absolute(item, "paths")
            globs += _spellings(str(path)) if path is not None else []
        else:
            section.reading.error(
                item.line,
                f"rules.paths: {shown(item.text)} can never match, paths are whole ones: write "
                f"{shown(f'*/{item.text}')} for that path anywhere, or begin with / or ~/",
            )
    return Paths(tuple(globs)) if globs else None


def _spellings(glob: str) -> tuple[str, ...]:
    """The glob, and where links lead: what an agent does is known by paths without links."""
    spelt, star, rest = glob.partition("*")
    if not star:
        return tuple(dict.fromkeys((glob, os.path.realpath(glob))))
    folder, _, begun = spelt.rpartition("/")
    resolved = os.path.realpath(folder or "/").rstrip("/")
    return tuple(dict.fromkeys((glob, f"{resolved}/{begun}{star}{rest}")))


def _read_commands(section: Section) -> Commands | None:
    node = section.node("commands")
    items = node.items if isinstance(node, SequenceNode) else ()
    if any(isinstance(item, SequenceNode) for item in items):
        rows = [_read_row(section, item) for item in items]
    else:
        rows = [_read_command(section, item) for item in read_words(section, "commands", _COMMAND)]
    found = tuple(dict.fromkeys(row for row in rows if row))
    return Commands(found) if found else None


def _read_row(section: Section, item: Node) -> tuple[str, ...]:
    """A command as a list of words, which stand for themselves, or as a text; empty where that was reported."""
    if not isinstance(item, SequenceNode):
        text = section.one_line(item, "commands", _COMMAND)
        return () if text is None else _read_command(section, text)
    found = [section.one_line(word, "commands", _COMMAND) for word in item.items]
    words = tuple(word.text for word in found if word is not None)
    if not found or (words and "/" in words[0]):
        section.reading.error(item.line, "rules.commands: begin with a program's name: write [npm, install]")
        return ()
    return words if len(words) == len(found) else ()


def _read_command(section: Section, item: ScalarNode) -> tuple[str, ...]:
    """A command as a text; empty where that was reported."""
    problem = "".join(_problem_of_command(item))
    if problem:
        section.reading.error(item.line, f"rules.commands: {shown(item.text)}: {problem}")
        return ()
    return tuple(shlex.split(item.text))


def _problem_of_command(item: ScalarNode) -> Iterator[str]:
    """What keeps an entry from meaning anything; one at most."""
    if not _OPERATORS.isdisjoint(item.text):
        yield 'one command, word by word: write "npm install", and an entry for each'
        return
    try:
        words = shlex.split(item.text)
    except ValueError:
        yield "a quote is not closed"
        return
    if not words or not words[0]:
        yield 'there is no command in it: write "npm install"'
    elif "/" in words[0]:
        yield f"programs go by their names, wherever they are: write {words[0].rpartition('/')[2] or 'npm'}"


def _read_repositories(section: Section) -> ActionRepositories | None:
    patterns = read_repositories(section)
    return ActionRepositories(patterns) if patterns else None
