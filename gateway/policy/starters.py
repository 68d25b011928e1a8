"""Programs that start others in a way of their own: shells, `eval`, `find -exec`, git with its aliases, `python -m`.

Each function takes the words of its command, adds to what was found, and gives the commands to be looked at next.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from gateway.policy.commands.tools import GIT_COMMAND_KEYS, GIT_HIDING_KEYS, GIT_TEXTS, VALUES
from gateway.policy.commands.wrappers import FOREIGN_SHELLS, PYTHON_MODULES, PYTHON_VALUES, SHELL_VALUES
from gateway.policy.shell_words import Vague, Word, is_option
from gateway.policy.started import TEXT_IS_UNKNOWN, UNSEEN, Started, Words, start_text

_GIT_COMMAND_KEY: Final = re.compile(GIT_COMMAND_KEYS)
_GIT_HIDING_KEY: Final = re.compile(GIT_HIDING_KEYS)
_INPUTS: Final = frozenset({"/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_READS_INPUT: Final = "it is a shell that runs what it reads"


def start_shell(name: str, words: Words, found: Started) -> None:
    """`bash -c TEXT`, `sh -s`, `sh FILE` …"""
    found.simple.append(words)
    place, command = 1, False
    while place < len(words):
        word = words[place]
        if isinstance(word, Vague):
            if "(" in word.source or not command:
                found.doubts.append(TEXT_IS_UNKNOWN)
            break
        if word in ("-", "--"):
            place += 1
            break
        if word[:1] not in ("-", "+") or len(word) == 1:
            break
        if word in {"--version", "--help"}:
            return
        command = (
            command
            or (word[0] == "-" and word[1] != "-" and "c" in word)
            or word in {"-command", "--command"}
        )
        place += 1
        # `-o` may stand at the end of others, as in `-euo pipefail`.
        if word in SHELL_VALUES or (word[1] != "-" and word[-1] in "oO"):
            place += 1
    if not command:
        options = (word for word in words[1:place] if isinstance(word, str) and word[:2] != "--")
        if place >= len(words) or "s" in "".join(options) or words[place] in _INPUTS:
            if found.document is None:
                found.doubts.append(_READS_INPUT)
            else:
                found.texts.append(found.document)
        return
    if place < len(words):
        if name in FOREIGN_SHELLS:
            found.doubts.append(f"the syntax of {name} is not that of a POSIX shell")
        start_text(words[place : place + 1], found)


def _start_eval(words: Words, found: Started) -> list[Words]:
    found.simple.append(words[:1])
    start_text(words[2:] if words[1:2] == ("--",) else words[1:], found)
    return []


def _start_trap(words: Words, found: Started) -> list[Words]:
    found.simple.append(words)
    rest = words[2:] if words[1:2] == ("--",) else words[1:]
    if len(rest) > 1 and rest[0] not in ("-", "", "-l", "-p"):
        start_text(rest[:1], found)
    return []


def _start_alias(words: Words, found: Started) -> list[Words]:
    """Its text is judged, since who uses it is not known. (`lines.py` doubts every use.)"""
    found.simple.append(words)
    for word in words[1:]:
        if isinstance(word, Vague):
            found.doubts.append("it names a command that is not known")
        elif "=" in word and word.partition("=")[2].strip():
            found.texts.append(word.partition("=")[2])
    return []


def _start_source(words: Words, found: Started) -> list[Words]:
    """A script file is not judged; what comes out of a command or in by the input is a doubt."""
    found.simple.append(words)
    for word in words[1:2]:
        if (isinstance(word, Vague) and "(" in word.source) or word in _INPUTS:
            found.doubts.append(TEXT_IS_UNKNOWN)
    return []


def _start_find(words: Words, found: Started) -> list[Words]:
    """`find` itself, and what it starts for every file: the file is below where it begins."""
    found.simple.append(words)
    place = 1
    while place < len(words) and not (isinstance(word := words[place], str) and word[:1] in ("-", "(", "!")):
        place += 1
    roots = [word for word in words[1:place] if word not in {"-L", "-H", "-P"}] or ["."]
    inner: list[Words] = []
    while place < len(words):
        if words[place] in {"-exec", "-execdir", "-ok", "-okdir"}:
            end = place + 1
            while end < len(words) and words[end] not in {";", "+"}:
                end += 1
            inner.append(tuple(_filled(words[place + 1 : end], roots)))
            place = end
        place += 1
    return inner


def _filled(words: Words, roots: list[Word]) -> list[Word]:
    """With the files that `{}` stands for, as far as they are known."""
    made: list[Word] = []
    for index, word in enumerate(words):
        if not isinstance(word, str) or "{}" not in word:
            made.append(word)
        elif word != "{}" or not index:
            made.append(UNSEEN)
        else:
            made.extend(_below(root) for root in roots)
    return made


def _below(root: Word) -> Word:
    if isinstance(root, str):
        return Vague(f"{root}/*", f"{root}/*", pattern=True)
    return Vague(root.source, f"{root.text}/*", root.home, True) if root.text else root


def _start_git(words: Words, found: Started) -> list[Words]:
    """git itself, what its configuration makes it run, and what its commands start."""
    place, aliases = 1, dict[str, str]()
    while place < len(words) and is_option(word := words[place]):
        value = words[place + 1] if place + 1 < len(words) else ""
        assert isinstance(word, str)
        if word == "-c":
            _configure(value, aliases, found)
        elif word.startswith("-c") and not word.startswith("--"):
            _configure(word[2:], aliases, found)
        elif word.startswith(("--config-env", "--exec-path=")):
            found.doubts.append(f"{word.partition('=')[0]} changes what git runs")
        place += 2 if word in VALUES["git"] else 1
    if place >= len(words) or isinstance(command := words[place], Vague):
        found.simple.append(words)
        return []
    rest = words[place + 1 :]
    alias = aliases.get(command.lower())
    if alias is not None:
        found.simple.append(words)
        if alias.startswith("!"):
            found.texts.append(alias[1:])
            return []
        # An alias of words: read as the words that they are, with what follows.
        found.texts.append("git " + alias)
        return [("git", *alias.split(), *rest)]
    _start_git_texts(command, rest, found)
    found.simple.append(words)
    if command == "submodule" and "foreach" in rest:
        start_text(tuple(word for word in rest[rest.index("foreach") + 1 :] if not is_option(word)), found)
    if command == "bisect" and rest[:1] == ("run",):
        return [rest[1:]]
    return []


def _start_git_texts(command: str, rest: Words, found: Started) -> None:
    """The options of git's commands whose value is a shell line."""
    options = GIT_TEXTS.get(command, frozenset())
    for index, word in enumerate(rest):
        if not isinstance(word, str) or not options:
            continue
        name, equals, value = word.partition("=")
        if name in options:
            start_text((value,) if equals else rest[index + 1 : index + 2], found)
        elif len(word) > 2 and word[:2] in options and word[1] != "-":
            start_text((word[2:],), found)


def _configure(setting: Word, aliases: dict[str, str], found: Started) -> None:
    """One `-c key=value` of git. Keys are alike in upper and lower case."""
    if isinstance(setting, Vague):
        known = setting.source.lstrip("\"'").lower()
        if not re.match(
            r"(?:user|color|advice|commit|core\.quotepath|core\.autocrlf|init\.defaultbranch)\b", known
        ):
            found.doubts.append("a setting of git is not known, and some of them run programs")
        return
    key, _, value = setting.partition("=")
    key = key.lower()
    if key.startswith("alias."):
        aliases[key.removeprefix("alias.").removesuffix(".command")] = value
    elif _GIT_COMMAND_KEY.fullmatch(key):
        if value and value.lower() not in {"true", "false", "cat", "never"}:
            found.texts.append(value.removeprefix("!"))
    elif _GIT_HIDING_KEY.fullmatch(key):
        found.doubts.append(f"{key} changes what git runs")


def _start_python(words: Words, found: Started) -> list[Words]:
    """`python -m pip …` is pip. Programs in other languages than the shell's are not read."""
    place = 1
    while place < len(words) and is_option(word := words[place]):
        assert isinstance(word, str)
        if word.startswith("-m") or (word[1] != "-" and word.endswith("m") and "c" not in word):
            rest = words[place + 1 :] if word.endswith("m") else (word[2:], *words[place + 1 :])
            if rest and isinstance(rest[0], str) and rest[0] in PYTHON_MODULES:
                return [rest]
            if rest and isinstance(rest[0], Vague):
                found.doubts.append("the module that python runs is not known")
            break
        if "c" in word and word[1] != "-":
            break
        place += 2 if word in PYTHON_VALUES else 1
    found.simple.append(words)
    return []


def _start_coproc(words: Words, found: Started) -> list[Words]:
    """A group may have a name, and the grammar knows neither."""
    return [("{", *words[3:]) if words[2:3] == ("{",) else ("{", *words[1:])]


def _start_nothing(words: Words, found: Started) -> list[Words]:
    """The end of a group, which the grammar takes for a command behind `time {` and its like."""
    return [words[1:]] if len(words) > 1 else []


STARTERS: Final[Mapping[str, Callable[[Words, Started], list[Words]]]] = MappingProxyType(
    {
        "eval": _start_eval,
        "trap": _start_trap,
        "alias": _start_alias,
        "source": _start_source,
        ".": _start_source,
        "find": _start_find,
        "git": _start_git,
        "python": _start_python,
        "pypy": _start_python,
        "coproc": _start_coproc,
        "}": _start_nothing,
    }
)
