"""What a command comes to once everything that only starts it is taken off: values, and the names of programs."""

import re
from dataclasses import dataclass, field
from typing import Final

from gateway.policy.commands.tools import SAME, VERSIONED
from gateway.policy.commands.wrappers import CHANGING_BEGINNINGS, CHANGING_VARIABLES, COMMAND_VARIABLES
from gateway.policy.shell_words import Vague, Word

type Words = tuple[Word, ...]

_LAST_OF_VERSION: Final = frozenset("0123456789.")
_VERSION: Final = re.compile(r"([a-z_]+?)[-_]?[0-9][0-9.]*")
# Stands for an unknown word in a text.
_SOMETHING: Final = '"$1"'
TEXT_IS_UNKNOWN: Final = "it runs a text that is not known"
# What xargs and its like add, and what a wrapper fills in.
UNSEEN: Final = Vague("{}")


@dataclass(slots=True)
class Started:
    """What a command comes to: simple commands, texts that are shell lines, doubts (clauses for people).

    `document` is what a shell among them reads, where the line says it.
    """

    document: str | None = None
    simple: list[Words] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def program_name(word: str) -> str:
    """The name of a program, without its directory; the tables have it in lower case."""
    return word.rpartition("/")[2].lower()


def canonical_name(name: str) -> str:
    """The name that the tables use for a program (`program_name`): without a version, one for all that are alike."""
    if name in SAME:
        return SAME[name]
    if not name or name[-1] not in _LAST_OF_VERSION:
        return name
    found = _VERSION.fullmatch(name)
    if found and found.group(1) in VERSIONED:
        return found.group(1)
    return name


def judge_variable(name: str, value: Word, found: Started) -> None:
    """A variable that is set for a command, or for all that follow."""
    if name in COMMAND_VARIABLES:
        if isinstance(value, str):
            if value:
                found.texts.append(value)
        else:
            found.doubts.append(f"{name} makes other programs run what is not known")
    elif name in CHANGING_VARIABLES or name.startswith(CHANGING_BEGINNINGS):
        found.doubts.append(f"{name} changes what other programs run")
    elif name == "PATH" and (isinstance(value, str) or "PATH" not in value.source):
        found.doubts.append("PATH changes what every command is")


def start_text(words: Words, found: Started) -> None:
    """A shell line that is put together of these words. What is known of it is looked at, whatever the rest is."""
    if any(isinstance(word, Vague) for word in words):
        found.doubts.append(TEXT_IS_UNKNOWN)
    if any(isinstance(word, str) for word in words):
        found.texts.append(" ".join(word if isinstance(word, str) else _SOMETHING for word in words))
