"""Shell lines, taken apart by a shell grammar: every simple command anywhere in a line. The only home of tree-sitter.

The grammar recovers from errors and knows less than bash; wherever the two may differ, the line has a `Problem`. What
the commands mean is none of this module's business.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from gateway.policy.shell_line import (
    MAX_COMMANDS,
    MAX_DEPTH,
    MAX_SHOWN,
    UNREAD,
    Command,
    Problem,
    Redirect,
    ShellLine,
)
from gateway.policy.shell_text import Prepared, ends_document, prepare
from gateway.policy.shell_words import PLAIN, DoubtError, Opaque, Vague, Word, decode_words

_LANGUAGE: Final = Language(tree_sitter_bash.language())
_HIDDEN: Final = re.compile(rb"`|\$\(|<\(|>\(")
_PLAIN_STRING: Final = re.compile(r'"[^"$`\\]*"')
# The grammar takes it for a blank where it does not expect a word; for bash it begins one.
_ESCAPED_BLANK: Final = re.compile(rb"\\[ \t]")
# `!`, `{` and `[[` are words of their own in bash, whatever the grammar says.
_STANDS_ALONE: Final = re.compile(rb"(?:!|\{|\[\[?)(?=[ \t\n\\(])|\(\(")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?")
# Words of the shell itself: as the name of a command they mean that the grammar did not see what they begin.
_RESERVED: Final = frozenset(
    [
        "if",
        "then",
        "elif",
        "else",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "in",
        "select",
        "function",
        "[[",
        "]]",
    ]
)
# What may stand before one, and is no command either.
_PREFIXES: Final = frozenset({"!", "time", "-p", "--", "coproc", "{"})
_QUOTED: Final = frozenset("'\"\\")
_NAME: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")

_EXPANSIONS: Final = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"}
)
_WORDS: Final = frozenset(
    {"word", "number", "raw_string", "string", "concatenation", "ansi_c_string", "translated_string",
     "brace_expression", "variable_name", "test_operator", "regex", "extglob_pattern", "array", *_EXPANSIONS}
)  # fmt: skip
_REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_WITHOUT_EXPANSIONS: Final = frozenset({"word", "number", "raw_string", "string"})
_PARTS_OF_REDIRECTS: Final = frozenset({"file_descriptor", "heredoc_start", "heredoc_body", "heredoc_end"})
_ASSIGNMENTS: Final = frozenset({"variable_assignment", "variable_assignments"})
# Chains: what is redirected is their last command.
_CHAINS: Final = frozenset({"list", "pipeline", "negated_command"})
_LITERAL_LEAVES: Final = frozenset({"raw_string", "comment", "heredoc_start", "heredoc_end", "ansi_c_string"})


@dataclass(slots=True)
class _Draft:
    """A command that is being read."""

    text: str
    words: list[Word] = field(default_factory=list)
    assignments: list[tuple[str, Word]] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)

    def finished(self) -> Command:
        return Command(tuple(self.words), self.text, tuple(self.assignments), tuple(self.redirects))


def read_line(text: str) -> ShellLine:
    """Takes a line apart. Nothing is raised, whatever the text."""
    prepared = prepare(text)
    if prepared.problems & UNREAD:
        return ShellLine((), tuple(prepared.problems))
    problems = set(prepared.problems)
    commands = _Reading(prepared, problems).read()
    if not commands and not problems:
        problems.add(Problem.NOTHING)
    return ShellLine(commands, tuple(problem for problem in Problem if problem in problems))


class _Reading:
    """Walks the tree of one line, without recursion: how deep it is, is the line's choice."""

    def __init__(self, prepared: Prepared, problems: set[Problem]) -> None:
        self._source = prepared.text
        self._shadow = prepared.shadow
        self._problems = problems
        self._drafts: list[_Draft] = []
        # Redirections that stand behind a chain, by the id of the command that they belong to.
        self._owed: dict[int, list[Node]] = {}
        self._stack: list[tuple[Node, int]] = []

    def read(self) -> tuple[Command, ...]:
        """The commands, in the order in which they are written."""
        root = Parser(_LANGUAGE).parse(self._shadow).root_node
        if root.has_error:
            self._problems.add(Problem.UNPARSABLE)
        if _ESCAPED_BLANK.search(self._shadow):
            self._check_gaps(root)
        self._stack.append((root, 0))
        while self._stack:
            node, depth = self._stack.pop()
            if depth > MAX_DEPTH:
                self._problems.add(Problem.TOO_DEEP)
                break
            if len(self._drafts) > MAX_COMMANDS:
                break
            self._visit(node, depth + 1)
        if len(self._drafts) > MAX_COMMANDS:
            self._problems.add(Problem.TOO_MANY)
        return tuple(draft.finished() for draft in self._drafts[:MAX_COMMANDS])

    def _check_gaps(self, root: Node) -> None:
        """Between what the grammar knows there are only blanks."""
        stack, end = [root], 0
        while stack:
            node = stack.pop()
            if node.child_count:
                stack.extend(reversed(node.children))
                continue
            if node.start_byte > end and _ESCAPED_BLANK.search(self._shadow, end, node.start_byte + 1):
                self._problems.add(Problem.UNPARSABLE)
                return
            end = max(end, node.end_byte)
        if _ESCAPED_BLANK.search(self._shadow, end):
            self._problems.add(Problem.UNPARSABLE)

    def _visit(self, node: Node, depth: int) -> None:
        match node.type:
            case "command" | "declaration_command" | "unset_command":
                self._command(node, depth)
            case "redirected_statement":
                self._redirected(node, depth)
            case "variable_assignment":
                self._drafts.append(draft := _Draft(self._shown(node)))
                self._assign(draft, node, depth)
            case "file_redirect" | "heredoc_redirect" | "herestring_redirect":
                # Of a function or a compound that is not part of a redirected statement.
                self._drafts.append(draft := _Draft(self._shown(node)))
                self._redirect(draft, node, depth)
                if draft.words:
                    self._problems.add(Problem.UNPARSABLE)
            case "negated_command" | "compound_statement" | "test_command":
                if not _STANDS_ALONE.match(self._shadow, node.start_byte):
                    self._problems.add(Problem.UNPARSABLE)
                self._descend(node, depth)
            case "list":
                # Chains lean to the left: their length is not depth.
                self._push(node.named_children, depth - 1)
            case _:
                self._descend(node, depth)

    def _descend(self, node: Node, depth: int) -> None:
        """Into whatever may hold commands. A leaf that looks as if it did was not understood by the grammar."""
        children = node.named_children
        if children:
            self._push(children, depth)
        elif node.child_count:
            return
        elif (
            _HIDDEN.search(self._shadow, node.start_byte, node.end_byte) and node.type not in _LITERAL_LEAVES
        ):
            self._problems.add(Problem.UNPARSABLE)

    def _push(self, children: list[Node], depth: int) -> None:
        self._stack.extend([(child, depth) for child in reversed(children)])

    def _command(self, node: Node, depth: int) -> None:
        draft = _Draft(self._shown(node))
        self._drafts.append(draft)
        within: list[Node] = []
        end = -1
        for child in node.children:
            kind, start = child.type, child.start_byte
            if start == end and kind not in _REDIRECTS:
                self._problems.add(Problem.UNPARSABLE)  # two words for the grammar, one for bash
            elif (
                start > end >= 0
                and "\n" in (gap := self._source[end:start])
                and gap.replace("\\\n", "").strip(" \t")
            ):
                self._problems.add(Problem.UNPARSABLE)  # one command for the grammar, two for bash
            end = child.end_byte
            if kind == "command_name":
                child = child.children[0] if child.child_count else child
                kind = child.type
            if kind == "word":
                self._word(draft, child, start, end)
            elif kind in _REDIRECTS:
                self._redirect(draft, child, depth, within)
                end = -1 if kind == "heredoc_redirect" else end
            elif kind in _ASSIGNMENTS:
                self._assign(draft, child, depth, within)
            elif kind in _WORDS:
                draft.words.extend(self._words(child, within))
            elif not child.is_named:
                # `export`, `declare` …: the name of the command is a token of the grammar.
                draft.words.append(self._text(child))
            else:
                within.append(child)
        for owed in self._owed.pop(node.id, ()):
            self._redirect(draft, owed, depth, within)
            draft.text = self._shown(node, owed.end_byte)
        self._check_name(draft.words)
        self._push(within, depth)

    def _check_name(self, words: list[Word]) -> None:
        place = 0
        if not words or (words[0] not in _PREFIXES and words[0] not in _RESERVED):
            return
        while place < len(words) and words[place] in _PREFIXES:
            place += 1
        if place < len(words) and words[place] in _RESERVED:
            self._problems.add(Problem.UNPARSABLE)

    def _word(self, draft: _Draft, node: Node, start: int, end: int) -> None:
        """The usual case, without detours."""
        text = self._source[start:end]
        if PLAIN.fullmatch(text):
            draft.words.append(text)
        else:
            draft.words.extend(self._decoded([text]))

    def _decoded(self, pieces: list[str | Opaque]) -> tuple[Word, ...]:
        try:
            return decode_words(pieces)
        except DoubtError:
            self._problems.add(Problem.UNPARSABLE)
            return (Vague("".join(piece if isinstance(piece, str) else piece.source for piece in pieces)),)

    def _words(self, node: Node, within: list[Node]) -> tuple[Word, ...]:
        """What bash makes of one written word. What the shell runs to fill it in is added to `within`."""
        kind = node.type
        if kind in _WITHOUT_EXPANSIONS:
            text = self._text(node)
            if kind == "raw_string" or (kind == "string" and _PLAIN_STRING.fullmatch(text)):
                return (text[1:-1],)
            if kind != "string" and PLAIN.fullmatch(text):
                return (text,)
        if kind == "array":
            within.append(node)
            return (Vague(self._shown(node)),)
        pieces: list[str | Opaque] = []
        place = node.start_byte
        for inner in self._expansions(node):
            if inner.start_byte > place:
                pieces.append(self._source[place : inner.start_byte])
            source = self._text(inner)
            if source[1:2].isspace():
                self._problems.add(Problem.UNPARSABLE)
            found = _NAME.fullmatch(source)
            pieces.append(Opaque(source, found.group(1) if found else ""))
            within.append(inner)
            place = inner.end_byte
        if place < node.end_byte or not pieces:
            pieces.append(self._source[place : node.end_byte])
        return self._decoded(pieces)

    def _expansions(self, node: Node) -> Iterator[Node]:
        """Those of a word, the outermost ones, in order."""
        stack = [node]
        while stack:
            current = stack.pop()
            if current.type in _EXPANSIONS:
                yield current
            elif current.child_count:
                stack.extend(reversed(current.children))

    def _assign(self, draft: _Draft, node: Node, depth: int, within: list[Node] | None = None) -> None:
        """A variable that is set. The value of an array is not known."""
        found: list[Node] = []
        for assignment in node.children if node.type == "variable_assignments" else [node]:
            name = assignment.child_by_field_name("name")
            value = assignment.child_by_field_name("value")
            if name is not None and name.type == "subscript":
                found.append(name)
            words: tuple[Word, ...] = ("",) if value is None else self._words(value, found)
            word = words[0] if len(words) == 1 else Vague(self._shown(assignment))
            named = self._text(name).partition("[")[0] if name else ""
            if _VARIABLE.fullmatch(named) is None:
                self._problems.add(Problem.UNPARSABLE)
            draft.assignments.append((named, word))
        if within is None:
            self._push(found, depth)
        else:
            within.extend(found)

    def _redirected(self, node: Node, depth: int) -> None:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.named_children if child.type in _REDIRECTS]
        others = [child for child in node.named_children if child.type not in _REDIRECTS]
        last = body
        while last is not None and last.type in _CHAINS:
            last = last.named_children[-1] if last.named_child_count else None
        if last is not None and last.type in {"command", "declaration_command", "unset_command"}:
            self._owed.setdefault(last.id, []).extend(redirects)
            self._push(others, depth)
        elif body is None and redirects:
            # Only redirections, or a command whose words stand behind them.
            self._drafts.append(draft := _Draft(self._shown(node)))
            for redirect in redirects:
                self._redirect(draft, redirect, depth)
            self._push(others, depth)
        else:
            self._push([*others, *redirects], depth)

    def _redirect(self, draft: _Draft, node: Node, depth: int, within: list[Node] | None = None) -> None:
        """A redirection, and the words that the grammar takes for its own and that are the command's."""
        found: list[Node] = []
        operator, targets, end = "", 0, -1
        for child in node.children:
            kind = child.type
            if child.start_byte == end and targets and kind in _WORDS:
                self._problems.add(Problem.UNPARSABLE)  # two words for the grammar, one for bash
            end = child.end_byte
            if kind in _PARTS_OF_REDIRECTS:
                continue
            if kind in _WORDS:
                words = self._words(child, found)
                if targets or (operator.startswith("<<") and operator != "<<<"):
                    draft.words.extend(words)
                else:
                    draft.redirects.append(
                        Redirect(operator, words[0] if len(words) == 1 else Vague(self._shown(child)))
                    )
                targets += 1
            elif kind in _REDIRECTS:
                self._redirect(draft, child, depth, found)
            elif child.is_named:
                found.append(child)
            elif not operator:
                operator = self._text(child)
            else:
                found.append(child)
        if operator in {"<<", "<<-"}:
            draft.redirects.append(Redirect("<<", self._here_document(node, operator == "<<-", found)))
        elif node.type == "heredoc_redirect":
            self._problems.add(Problem.UNPARSABLE)
        if within is None:
            self._push(found, depth)
        else:
            within.extend(found)

    def _here_document(self, node: Node, dedent: bool, within: list[Node]) -> Word:
        """The text of a here-document; with a quoted delimiter nothing in it is filled in."""
        parts = {child.type: child for child in node.named_children if child.type in _PARTS_OF_REDIRECTS}
        delimiter, ending = (
            self._text(parts[one]) if one in parts else "" for one in ("heredoc_start", "heredoc_end")
        )
        body = parts.get("heredoc_body")
        text = "" if body is None else self._text(body)
        words = self._decoded([delimiter])
        place = parts["heredoc_end"].start_byte if "heredoc_end" in parts else -1
        if len(words) != 1 or not ends_document(self._source, place, words[0], ending, text, dedent):
            self._problems.add(Problem.UNPARSABLE)
        if body is not None and _QUOTED.isdisjoint(delimiter):
            within.append(body)
            if "$" in text or "`" in text or "\\" in text:
                return Vague(text)
        return "\n".join(line.lstrip("\t") for line in text.split("\n")) if dedent else text

    def _text(self, node: Node) -> str:
        return self._source[node.start_byte : node.end_byte]

    def _shown(self, node: Node, end: int = 0) -> str:
        """What is written, for people; up to `end` where a command's redirections stand elsewhere."""
        end = min(max(node.end_byte, end), node.start_byte + MAX_SHOWN)
        return self._source[node.start_byte : end]
