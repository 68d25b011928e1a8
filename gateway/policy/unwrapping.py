"""From a simple command to those that it starts: what `env`, `sudo`, `xargs` and their like are put in front of.

Pure text work over the tables of `commands/`. What a program reads from elsewhere (a script, its input) is not known
here: a shell that reads its input is a doubt, a script file is not.
"""

import re
from collections.abc import Sequence
from typing import Final

from gateway.policy.commands.tools import VALUES
from gateway.policy.commands.wrappers import SHELLS, WRAPPERS, Wrapper
from gateway.policy.shell_words import Vague, Word, is_option, shown
from gateway.policy.started import (
    TEXT_IS_UNKNOWN,
    UNSEEN,
    Started,
    Words,
    canonical_name,
    judge_variable,
    program_name,
    start_text,
)
from gateway.policy.starters import STARTERS, start_shell

# Programs around one another (`env nice nohup …`), and commands that one line of words may come to.
_MAX_STARTS: Final = 64
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=(.*)", re.DOTALL)
_NUMBER: Final = re.compile(r"-[0-9]+")
# Options of xargs and parallel that say what stands for a word that comes in.
_REPLACES: Final = frozenset({"-I", "-J", "-i", "--replace"})
# Names that begin the longer keys of WRAPPERS.
_BEGINNINGS: Final = frozenset(key.split()[0] for key in WRAPPERS if " " in key)


def started(words: Words, document: str | None = None) -> Started:
    """Everything that a simple command starts, itself included where what it does by itself matters. `document` is the
    text of its here-document or here-string."""
    found = Started(document)
    pending = [words]
    for _ in range(_MAX_STARTS):
        if not pending:
            return found
        pending.extend(_start(pending.pop(0), found))
    if pending:
        found.doubts.append("it starts commands through too many others")
        found.simple.extend(pending[:_MAX_STARTS])
    return found


def _start(words: Words, found: Started) -> list[Words]:
    """Takes one layer off: adds to `found`, and gives what is to be looked at next."""
    if not words:
        return []
    head = words[0]
    if isinstance(head, Vague):
        found.doubts.append("the name of the command is not known")
        return []
    name = canonical_name(program_name(head))
    if name in SHELLS:
        start_shell(name, words, found)
        return []
    special = STARTERS.get(name)
    if special is not None:
        return special(words, found)
    wrapper, place = _wrapper(name, words)
    if wrapper is None:
        found.simple.append(words)
        return []
    return _start_wrapper(wrapper, words, place, found)


def _wrapper(name: str, words: Words) -> tuple[Wrapper | None, int]:
    """The wrapper that these words begin, and where its own options begin."""
    if name in WRAPPERS:
        return WRAPPERS[name], 1
    if name not in _BEGINNINGS:
        return None, 0
    key, values = name, VALUES.get(name, frozenset())
    place = 1
    for _ in range(2):
        place = _behind_options(words, place, values)
        if place >= len(words) or isinstance(words[place], Vague):
            break
        key = f"{key} {words[place]}"
        place += 1
        if key in WRAPPERS:
            return WRAPPERS[key], place
    return None, 0


def _behind_options(words: Sequence[Word], place: int, values: frozenset[str]) -> int:
    """The place of the first word from `place` on that is neither an option nor an option's value."""
    while place < len(words) and is_option(word := words[place]):
        place += 2 if word in values else 1
    return place


def _start_wrapper(wrapper: Wrapper, words: Words, place: int, found: Started) -> list[Words]:
    texts_before = len(found.texts)
    place, idle = _options(wrapper, words, place, found)
    operands = wrapper.operands
    while place < len(words):
        word = words[place]
        assignment = _ASSIGNMENT.fullmatch(shown(word)) if wrapper.assignments else None
        if assignment:
            known = isinstance(word, str)
            judge_variable(assignment.group(1), assignment.group(2) if known else word, found)
        elif operands:
            operands -= 1
        else:
            break
        place += 1
    rest = words[place:]
    if rest and wrapper.assignments and len(found.texts) > texts_before:
        found.doubts.append(TEXT_IS_UNKNOWN)  # env -S: the words after it belong to the text
    if rest and isinstance(rest[0], str) and rest[0] in wrapper.texts:
        start_text(rest[1:2], found)
        rest = rest[2:]
    if wrapper.alone or idle or (not rest and len(found.texts) == texts_before):
        found.simple.append(words)
    if idle:
        return []
    if wrapper.remote:
        if rest or found.document is not None:
            found.doubts.append("it runs a command on another machine")
        return []
    if wrapper.appends:
        rest = _appended(rest, _markers(words[:place]))
    if wrapper.joined:
        start_text(rest, found)
        # The words as they are too: an operator in them may be the shell's, or none.
    return [rest] if rest and not (wrapper.appends and rest == (UNSEEN,)) else []


def _markers(words: Words) -> frozenset[str]:
    """What stands for the words that come in, as the wrapper's own options say it."""
    found = {"{}"}
    for word, following in zip(words, (*words[1:], ""), strict=True):
        if not isinstance(word, str):
            continue
        name, _, value = word.partition("=")
        if name in _REPLACES:
            found.add(value or shown(following))
        elif word[:2] in _REPLACES and len(word) > 2:
            found.add(word[2:])
    return frozenset(found)


def _appended(rest: Words, markers: frozenset[str]) -> Words:
    """With the words that come in, wherever they go. Behind `:::` parallel gives them, as good as unknown."""
    if ":::" in rest:
        rest = rest[: rest.index(":::")]
    filled = (
        UNSEEN if isinstance(word, str) and any(marker in word for marker in markers) else word
        for word in rest
    )
    return (*filled, UNSEEN)


def _options(wrapper: Wrapper, words: Words, place: int, found: Started) -> tuple[int, bool]:
    """Passes over a wrapper's own options: where the rest begins, and whether one says that nothing is started."""
    idle = False
    while place < len(words):
        word = words[place]
        if isinstance(word, Vague):
            if not wrapper.operands or word.source.startswith("-"):
                found.doubts.append("an option of what starts the command is not known")
                place += 1
                continue
            break
        if word == "--":
            return place + 1, idle
        if word not in wrapper.flags and not is_option(word):
            break
        idle = idle or word in wrapper.idle
        place += 1
        place += _option(wrapper, word, words[place] if place < len(words) else None, found)
    return place, idle


def _option(wrapper: Wrapper, word: str, following: Word | None, found: Started) -> int:
    """One option; 1 where the word after it is its value."""
    name, equals, value = word.partition("=")
    if word in wrapper.flags or word in wrapper.idle or _NUMBER.fullmatch(word):
        return 0
    if name in wrapper.texts or name in wrapper.values:
        if not equals and following is None:
            return 0
        if name in wrapper.texts:
            start_text((value,) if equals else (following or "",), found)
        return 0 if equals else 1
    if equals and name in wrapper.flags:
        return 0
    if word.startswith("--"):
        found.doubts.append(f"{name} is no option that is known here")
        return 0
    for index, letter in enumerate(word[1:], 2):
        option = f"-{letter}"
        if option in wrapper.flags:
            continue
        if option in wrapper.values or option in wrapper.texts:
            attached = word[index:]
            if option in wrapper.texts:
                start_text((attached,) if attached else (following or "",), found)
            return 0 if attached else 1
        found.doubts.append(f"{word} is no option that is known here")
        return 0
    return 0
