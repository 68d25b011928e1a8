"""A shell line as values: its commands with their words, and what keeps it from being known. `shell.py` makes them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.policy.shell_words import Word

# Half of what Linux lets one argument be, and what keeps the slowest texts that are known below a second.
MAX_BYTES: Final = 65_536
# A person cannot judge more, and rules are asked for each one.
MAX_COMMANDS: Final = 1_000
# Of the syntax tree: a substitution is two to four of them.
MAX_DEPTH: Final = 1_000
# Here-documents that are not read yet cost the grammar's scanner time with every further one.
MAX_HERE_DOCUMENTS: Final = 64
# Of a command's text, for people.
MAX_SHOWN: Final = 400


class Problem(StrEnum):
    """What keeps a line from being known whole, as one clause for people."""

    UNSENDABLE = "it holds a character that no shell can be given"
    TOO_LONG = f"it is longer than {MAX_BYTES} bytes"
    TOO_MANY = f"it has more than {MAX_COMMANDS} commands or {MAX_HERE_DOCUMENTS} here-documents"
    TOO_DEEP = "it is nested too deeply"
    NOTHING = "there is no command in it"
    UNPARSABLE = "it cannot be taken apart as a shell would do it"
    ODD_BLANK = "it holds a carriage return or another blank that is none for a shell"


# Lines that were not read to their end: their commands are not all of them.
UNREAD: Final = frozenset(
    {Problem.UNSENDABLE, Problem.TOO_LONG, Problem.TOO_MANY, Problem.TOO_DEEP, Problem.NOTHING}
)


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where a stream comes from or goes to. The target of `<<` is the here-document's text, that of `<<<` the word."""

    operator: str
    target: Word

    @property
    def writes(self) -> bool:
        """Whether a file is written."""
        return self.operator in {">", ">>", ">|", "&>", "&>>", "<>", ">&"}


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command: the program's name and its arguments, the variables set before it, its redirections.

    Without words it only sets variables or opens files. `text` is what is written, cut to MAX_SHOWN.
    """

    words: tuple[Word, ...]
    text: str
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class ShellLine:
    """All commands of a line, also those that run only under a condition, or inside a function that nobody calls."""

    commands: tuple[Command, ...]
    problems: tuple[Problem, ...] = ()
