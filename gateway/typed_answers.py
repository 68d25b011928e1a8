"""Answers typed into `approvals watch`: a letter and the question's number, so that none meant for another question
that has just gone counts for the one that came."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

HELP: Final = (
    "answer with: y ID [REASON] (yes), r ID [REASON] (yes, for the rest of the session), n ID [MESSAGE] (no)"
)
_WORDS: Final = {
    "y": (True, False),
    "yes": (True, False),
    "r": (True, True),
    "remember": (True, True),
    "n": (False, False),
    "no": (False, False),
}


@dataclass(frozen=True, slots=True)
class TypedAnswer:
    """What was typed: which question, yes or no, whether for the rest of the session, and why."""

    question: str
    approve: bool
    remember: bool
    text: str


def parse_typed(line: str) -> TypedAnswer | None:
    """A typed line; None for one that is no answer."""
    word, _, rest = line.strip().partition(" ")
    question, _, text = rest.strip().partition(" ")
    found = _WORDS.get(word.lower())
    if found is None or not question:
        return None
    approve, remember = found
    return TypedAnswer(question, approve, remember, text.strip())


def take_typed(
    read: Callable[[], str], answer: Callable[[TypedAnswer], str], say: Callable[[str], None]
) -> None:
    """Reads lines until there are no more, gives each to `answer`, and says what became of it."""
    while line := _next(read):
        if not line.strip():
            continue
        typed = parse_typed(line)
        say(answer(typed) if typed is not None else HELP)


def _next(read: Callable[[], str]) -> str:
    try:
        return read()
    except (OSError, ValueError):
        return ""  # the terminal has gone, or this is no longer its foreground job: others may answer still
