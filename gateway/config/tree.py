"""A parsed file as plain nodes with line numbers, and what is wrong with it.

Knows neither YAML's syntax nor what a key means. What the file can make of it is bounded here: depth, nodes,
aliases.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.policy.problem import Problem

MAX_DEPTH = 12  # the deepest key of the contract stands at five
MAX_NODES = 20_000  # with aliases followed; a list of 5,000 hosts is a large one

_UNPRINTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")  # from escapes in quotes
_USERINFO = re.compile(r"(['\"]|//)[^'\"]+@")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+")
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = frozenset({"true", "True", "TRUE", "false", "False", "FALSE"})


class Kind(StrEnum):
    """What a scalar is in the core schema of YAML 1.2 (10.3.2); `on`, `yes` and `12:30` are text there."""

    EMPTY = "empty"
    TRUTH = "true or false"
    INTEGER = "a whole number"
    NUMBER = "a number that is not whole and decimal"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """One value as written. `plain`: without quotes, so that it may be something else than text."""

    line: int
    text: str
    plain: bool = True

    @property
    def kind(self) -> Kind:
        """What the value is; everything in quotes is text."""
        if not self.plain:
            return Kind.TEXT
        if self.text in _NULLS:
            return Kind.EMPTY
        if self.text in _BOOLEANS:
            return Kind.TRUTH
        if _INTEGER.fullmatch(self.text):
            return Kind.INTEGER
        return Kind.NUMBER if _NUMBER.fullmatch(self.text) else Kind.TEXT


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """A list; `line` is where it starts."""

    line: int
    items: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class MappingNode:
    """Keys with values, in order; no key twice."""

    line: int
    entries: "tuple[tuple[ScalarNode, Node], ...]"


Node = ScalarNode | SequenceNode | MappingNode


def described(node: Node) -> str:
    """What the node is, for a message; never its text, which may be a secret."""
    match node:
        case ScalarNode():
            return str(node.kind)
        case SequenceNode():
            return "a list"
        case MappingNode():
            return "a mapping"


def masked(message: str) -> str:
    """The message, with what stands before an `@` in quoted text or a URL (user, password) cut out."""
    return _USERINFO.sub(r"\1...@", message)


def shown(text: str) -> str:
    """A text from the file in quotes, ASCII only, masked, cut to a length that fits a message."""
    quoted = masked(ascii(text))
    return quoted if len(quoted) <= 80 else quoted[:76] + "..." + quoted[0]


class Reading:
    """What one file says and what is wrong with it. Changes; lives for one reading.

    `lines` has the line of every key that the file sets, by its dotted name.
    """

    def __init__(self, file: str, name: str) -> None:
        """`file` stands in problems, `name` (the last part of the path) in rules."""
        self.file = file
        self.lines: dict[str, int] = {}
        self._name = name
        self._problems: list[Problem] = []

    def error(self, line: int, message: str) -> None:
        """Notes what forbids the use of the file. Text of the file goes into a message through `shown`."""
        self._problems.append(Problem(self.file, line, message))

    def warn(self, line: int, message: str) -> None:
        """Notes what is likely not meant, and harmless."""
        self._problems.append(Problem(self.file, line, message, warning=True))

    def rule(self, line: int) -> str:
        """The rule of an entry in this line, "config.yaml:7"."""
        return f"{self._name}:{line}"

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All of them, by line."""
        return tuple(sorted(self._problems, key=lambda problem: problem.line))


def line_of(rule: str) -> int:
    """The line that a rule ("config.yaml:7") names."""
    return int(rule.rpartition(":")[2])


class TreeError(ValueError):
    """The file cannot be read any further. `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet. Changes; `key` is a key that waits for its value."""

    line: int
    mapping: bool
    anchor: str | None
    size: int = 1
    depth: int = 1
    items: list[Node] = field(default_factory=list)
    entries: dict[str, tuple[ScalarNode, Node]] = field(default_factory=dict)
    key: ScalarNode | None = None


@dataclass(frozen=True, slots=True)
class _Measured:
    """A finished node with the number of nodes and levels that it stands for."""

    node: Node
    size: int = 1
    depth: int = 1


class TreeBuilder:
    """Makes nodes of what a parser meets: scalars, aliases, starts and ends. Changes; lives for one document.

    TreeError where nothing further can be read. An alias stands for the node of its anchor and counts fully.
    """

    def __init__(self, reading: Reading) -> None:
        self.line = 1
        self.root: Node | None = None
        self._reading = reading
        self._open: list[_Open] = []
        self._anchors: dict[str, _Measured] = {}

    def start(self, line: int, mapping: bool, anchor: str | None) -> None:
        """A list or a mapping begins."""
        self.line = line
        if len(self._open) >= MAX_DEPTH:
            raise TreeError(
                line, f"nested more than {MAX_DEPTH} levels deep: no key needs that, write it flat"
            )
        self._open.append(_Open(line, mapping, anchor))

    def end(self) -> None:
        """The innermost list or mapping ends."""
        done = self._open.pop()
        entries = tuple(done.entries.values())
        node = MappingNode(done.line, entries) if done.mapping else SequenceNode(done.line, tuple(done.items))
        self._finish(_Measured(node, done.size, done.depth), done.anchor)

    def scalar(self, line: int, text: str, plain: bool, anchor: str | None) -> None:
        """A value or a key."""
        self.line = line
        if _UNPRINTED.search(text):
            self._reading.error(line, "an escape for a character that no text has: remove it")
            text = ""
        self._finish(_Measured(ScalarNode(line, text, plain)), anchor)

    def alias(self, line: int, name: str) -> None:
        """A reference to what an anchor named before."""
        self.line = line
        found = self._anchors.get(name)
        if found is None:
            raise TreeError(
                line, f"*{name[:80]} refers to nothing: put a pattern that starts with a star in quotes"
            )
        self._finish(found, None)

    def _finish(self, done: _Measured, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = done
        if not self._open:
            self.root = done.node
            return
        parent = self._open[-1]
        parent.size += done.size
        parent.depth = max(parent.depth, done.depth + 1)
        if len(self._open) + done.depth > MAX_DEPTH + 1:
            raise TreeError(
                self.line, f"nested more than {MAX_DEPTH} levels deep through an alias: write it out"
            )
        if sum(one.size for one in self._open) > MAX_NODES:
            raise TreeError(self.line, f"more than {MAX_NODES} values: remove what does not belong there")
        if parent.mapping:
            self._pair(parent, done.node)
        else:
            parent.items.append(done.node)

    def _pair(self, parent: _Open, node: Node) -> None:
        if parent.key is None:
            if not isinstance(node, ScalarNode):
                raise TreeError(node.line, f"{described(node)} as a key: keys are plain words")
            parent.key = node if node.line == self.line else ScalarNode(self.line, node.text, node.plain)
            return
        if node == ScalarNode(node.line, ""):
            node = ScalarNode(
                parent.key.line, ""
            )  # a missing value: the parser sees it where the next key is
        first = parent.entries.get(parent.key.text)
        if first is None:
            parent.entries[parent.key.text] = (parent.key, node)
        else:
            self._reading.error(
                parent.key.line,
                f"duplicate key {shown(parent.key.text)}: line {first[0].line} has it too, keep one",
            )
        parent.key = None
