"""The typed reading of one section of the config file, key by key.

A wrong value is reported and the default stands in for it, so that one reading finds every problem; nobody
may use the values of a reading that found an error.
"""

from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path

from gateway.config.tree import Kind, MappingNode, Node, Reading, ScalarNode, SequenceNode, described, shown
from gateway.config.values import DERIVED, Config

_SWITCH = {"on": True, "off": False, "true": True, "false": False}
_TRUTHS = {"True": True, "TRUE": True, "False": False, "FALSE": False}  # YAML's own further spellings


def keys_of(section: type) -> tuple[str, ...]:
    """The keys of the section that a class of `gateway.config.values` stands for."""
    if not is_dataclass(section):
        return ()
    return tuple(one.name.rstrip("_") for one in fields(section) if DERIVED not in one.metadata)


def _homes() -> dict[str, str]:
    """Key to the section it belongs to, for keys written at the top by mistake."""
    top = Config()
    return {key: name for name in keys_of(Config) for key in keys_of(type(getattr(top, name)))}


class Section:
    """One mapping of the file, read key by key. Unknown keys are reported at once."""

    def __init__(self, node: Node | None, path: str, of: type, reading: Reading) -> None:
        """`path` is the dotted name ("" for the whole file); `of` the class whose fields are the keys."""
        self.reading = reading
        self._path = path
        self._nodes: dict[str, Node] = {}
        if isinstance(node, MappingNode):
            self._take(node, keys_of(of))
        elif node is not None:
            empty = "{} or delete the key" if path else 'keys, such as "sandbox: on"'
            place = path or "the file"
            reading.error(
                node.line,
                f"{place} must be a mapping of keys to values, not {described(node)}: write {empty}",
            )

    def _take(self, node: MappingNode, known: tuple[str, ...]) -> None:
        for key, value in node.entries:
            if key.text in known:
                self._nodes[key.text] = value
                self.reading.lines[self.name(key.text)] = key.line
            else:
                self.reading.error(
                    key.line, f"unknown key {shown(key.text)}{self._below()}: {_instead(key.text, known)}"
                )

    def _below(self) -> str:
        return f" in {self._path}" if self._path else ""

    def name(self, key: str) -> str:
        """The dotted name of a key."""
        return f"{self._path}.{key}" if self._path else key

    def node(self, key: str) -> Node | None:
        """The value as it stands in the file; None where the key is not set."""
        return self._nodes.get(key)

    def wrong(self, node: Node, key: str, wanted: str, instead: str) -> None:
        """Reports a value of the wrong type or outside its range."""
        self.reading.error(
            node.line, f"{self.name(key)} must be {wanted}, not {described(node)}: write {instead}"
        )

    def switch(self, key: str, default: bool) -> bool:
        """`on`, `off`, `true` or `false`, quoted or not."""
        node = self.node(key)
        if node is None:
            return default
        if isinstance(node, ScalarNode) and node.text in _SWITCH:
            return _SWITCH[node.text]
        if isinstance(node, ScalarNode) and node.kind is Kind.TRUTH:
            return _TRUTHS[node.text]
        self.wrong(node, key, "on or off", f"{key}: {'on' if default else 'off'}")
        return default

    def number(self, key: str, default: int, low: int, high: int) -> int:
        """A whole number from `low` to `high`, decimal, without quotes."""
        node = self.node(key)
        if node is None:
            return default
        if isinstance(node, ScalarNode) and node.kind is Kind.INTEGER:
            if low <= int(node.text) <= high:
                return int(node.text)
            self.reading.error(
                node.line,
                f"{self.name(key)} must be from {low} to {high}, not {node.text}: "
                f"the default is {key}: {default}",
            )
        else:
            self.wrong(node, key, f"a whole number from {low} to {high}", f"{key}: {default}")
        return default

    def choice[E: StrEnum](self, key: str, default: E) -> E:
        """One of the members of an enumeration, by its text."""
        node = self.node(key)
        if node is None:
            return default
        names = [str(member) for member in type(default)]
        if isinstance(node, ScalarNode) and node.text in names:
            return type(default)(node.text)
        near = get_close_matches(node.text, names, 1) if isinstance(node, ScalarNode) else ()
        self.reading.error(
            node.line,
            f"{self.name(key)} must be one of {', '.join(names)}: write {key}: {(*near, default)[0]}",
        )
        return default

    def text(self, key: str, example: str, *, nullable: bool = False) -> ScalarNode | None:
        """One line of text, not empty; None where the key is not set, null (if it may be) or reported."""
        node = self.node(key)
        if node is None or (nullable and isinstance(node, ScalarNode) and node.kind is Kind.EMPTY):
            return None
        return self.one_line(node, key, example)

    def one_line(self, node: Node, key: str, example: str) -> ScalarNode | None:
        """The node, if it is one line of text and not empty; None if that was reported."""
        if not isinstance(node, ScalarNode) or node.kind is not Kind.TEXT:
            quotes = ", in quotes if it looks like something else" if isinstance(node, ScalarNode) else ""
            self.wrong(node, key, "text", f"{example}{quotes}")
        elif not node.text.strip():
            self.reading.error(node.line, f"{self.name(key)} is an empty text: write {example} or delete it")
        elif not node.text.isprintable():
            self.reading.error(
                node.line, f"{self.name(key)} holds a line break or an invisible character: remove it"
            )
        else:
            return node
        return None

    def texts(self, key: str, example: str) -> tuple[ScalarNode, ...]:
        """The items of a list of texts, those that are right."""
        found = (self.one_line(item, key, example) for item in self.items(key, f"[{example}]"))
        return tuple(item for item in found if item is not None)

    def items(self, key: str, example: str) -> tuple[Node, ...]:
        """The items of a list of anything."""
        node = self.node(key)
        if isinstance(node, SequenceNode):
            return node.items
        if node is not None:
            self.wrong(node, key, "a list", f"{key}: [] or {key}: {example}")
        return ()

    def pairs(self, key: str, example: str) -> tuple[tuple[ScalarNode, Node], ...]:
        """Names and values of a mapping whose keys are free."""
        node = self.node(key)
        if isinstance(node, MappingNode):
            return node.entries
        if node is not None:
            self.wrong(node, key, "a mapping", f"{key}: {{}} or {key}: {example}")
        return ()

    def path(self, key: str) -> Path | None:
        """A path: absolute, or below a home as ~/... A relative one would depend on where the agent works."""
        node = self.text(key, "an absolute path", nullable=True)
        return None if node is None else self.absolute(node, key)

    def absolute(self, node: ScalarNode, key: str) -> Path | None:
        """The path that a text is; None if that was reported."""
        try:
            path = Path(node.text).expanduser()
        except RuntimeError:
            self.reading.error(
                node.line, f"{self.name(key)} names the home of nobody known: write an absolute path"
            )
            return None
        if not path.is_absolute():
            self.reading.error(
                node.line,
                f"{self.name(key)} is a relative path: write an absolute one, "
                "or one below your home as ~/...",
            )
            return None
        return path


def _instead(key: str, known: tuple[str, ...]) -> str:
    homes = _homes()
    near = get_close_matches(key.lower(), known, 1)
    if near:
        return f"write {near[0]}"
    if key == "<<":
        return "merge keys are not part of YAML 1.2, write the keys out"
    if key in homes and homes[key] not in ("", key):
        return f"write it below {homes[key]}:"
    return f"the keys here are {', '.join(known)}"
