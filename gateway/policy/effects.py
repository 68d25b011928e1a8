"""The effects of one simple command as requests to the rules: hosts it names, files it deletes, writes or reads.

Goes by what is written. What a program does besides that is not known here.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import Action
from gateway.policy.classification import Denial, Meaning, has_option, option_names
from gateway.policy.commands.denied import DEVICES, DISK, SYSTEM, TREES, WHOLE
from gateway.policy.commands.effects import (
    READS_NOTHING,
    WRITES_ALL,
    WRITES_BEHIND,
    WRITES_IN_PLACE,
    WRITES_LAST,
    WRITES_REST,
)
from gateway.policy.grounds import Grounds, Place, within
from gateway.policy.named import hosts_of, repository_of, value_of
from gateway.policy.shell_line import Redirect
from gateway.policy.shell_words import Vague, Word, is_option
from gateway.policy.started import UNSEEN, Words

# Files and hosts of one command that are told apart; with more of them, one that is not known stands for the rest.
_MAX_THINGS: Final = 32
# Characters of a command in a request, for people.
_MAX_TARGET: Final = 300
_DEVICE: Final = re.compile(DEVICES)
_OUTPUTS: Final = frozenset({"-", "/dev/null"})


@dataclass(slots=True)
class Effects:
    """What a command comes to: `requests` for the rules, `denials` of the fixed list, `protected` paths that file rules
    keep from being written, and `changed` those in the worktree, or nobody knows where, that are."""

    requests: list[ActionRequest] = field(default_factory=list)
    denials: list[Denial] = field(default_factory=list)
    protected: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    def add(self, request: ActionRequest) -> None:
        """Each only once."""
        if request not in self.requests:
            self.requests.append(request)


class Places:
    """Where the paths of a line are: from every directory that it may have gone to before."""

    def __init__(self, grounds: Sequence[Grounds]) -> None:
        self._grounds = tuple(grounds)
        self._found: dict[str, tuple[str, ...]] = {}

    def paths(self, word: Word) -> tuple[str, ...]:
        """Every absolute path that a word may mean; an empty one where it cannot be told."""
        text = _path_text(word)
        if not text:
            return ("",)
        found = self._found.get(text)
        if found is None:
            found = self._found[text] = tuple(dict.fromkeys(one.absolute(text) for one in self._grounds))
        return found

    def is_home(self, path: str) -> bool:
        """Whether it is the home directory."""
        return any(path == one.home for one in self._grounds)

    def place(self, path: str) -> Place:
        """Where an absolute path lies."""
        return self._grounds[0].place(path)

    def is_in_worktree(self, path: str) -> bool:
        """Whether it is a file of the worktree."""
        return within(path, self._grounds[0].worktree)

    def is_protected(self, path: str) -> bool:
        """Whether file rules keep it from being written."""
        return self._grounds[0].is_protected(path)

    def is_secret(self, path: str) -> bool:
        """Whether it is a secret."""
        return self._grounds[0].is_secret(path)


def _path_text(word: Word) -> str:
    """What of a word can be read as a path: a known one, or the pattern. A known tilde is no home directory."""
    if isinstance(word, str):
        return f"./{word}" if word.startswith("~") else word
    if word.pattern and any(
        part[:1] in (".", "[", "?") and set(part) & set("*?[") for part in word.text.split("/")
    ):
        return ""  # it may come to ".." as well
    if word.text.startswith("~") and not word.home:
        return f"./{word.text}"
    return word.text


def effects_of(meaning: Meaning, words: Words, places: Places) -> Effects:
    """The effects of a simple command."""
    found = Effects()
    target = " ".join(meaning.words)[:_MAX_TARGET]
    found.add(ActionRequest(Action.SPAWN_PROCESS, target=target, words=meaning.words))
    for action in meaning.effects:
        if action is Action.ACCESS_NETWORK:
            for host in hosts_of(meaning.name, words):
                found.add(ActionRequest(action, target=target, host=host, words=meaning.words))
        elif action is Action.DELETE_FILE:
            _delete(found, meaning, words, places)
        else:
            repository = repository_of(words) if meaning.name in ("gh", "glab") else None
            found.add(ActionRequest(action, target=target, words=meaning.words, repository=repository))
    _deny_trees(found, meaning, words, places)
    for word in written_words(meaning.name, words):
        _write(found, word, meaning.words, places)
    if meaning.name not in READS_NOTHING:
        _read_secrets(found, words[1:], meaning.words, places)
    return found


def effects_of_redirects(
    found: Effects, redirects: Iterable[Redirect], words: tuple[str, ...], places: Places
) -> None:
    """Adds what a command's redirections do. Numbers behind `>&` are descriptors."""
    for redirect in redirects:
        target = redirect.target
        if redirect.writes:
            if (
                redirect.operator == ">&"
                and isinstance(target, str)
                and (target.isdigit() or target.rstrip("-").isdigit() or target == "-")
            ):
                continue
            _write(found, target, words, places)
        elif redirect.operator == "<":
            _read_secrets(found, (target,), words, places)


# --- Files ----------------------------------------------------------------------------------------


def _operands(words: Words) -> list[Word]:
    """The words behind the program's name that are no options; behind `--` all of them."""
    found: list[Word] = []
    for index, word in enumerate(words[1:], 1):
        if word == "--":
            return [*found, *words[index + 1 :]]
        if not is_option(word):
            found.append(word)
    return found


def _delete(found: Effects, meaning: Meaning, words: Words, places: Places) -> None:
    """What is deleted outside of what the session may write is a write outside too, and so is what cannot be told."""
    operands: list[Word] = _operands(words)
    if meaning.name == "git":
        found.add(
            ActionRequest(
                Action.DELETE_FILE, target=" ".join(meaning.words)[:_MAX_TARGET], words=meaning.words
            )
        )
        return
    if meaning.name == "find":
        operands = list(_find_roots(words))
    elif meaning.name in {"gio"}:
        operands = operands[1:]
    for word in operands[:_MAX_THINGS]:
        for path in places.paths(word):
            _delete_path(found, path, meaning.words, places)
    if len(operands) > _MAX_THINGS or not operands:
        _delete_path(found, "", meaning.words, places)


def _delete_path(found: Effects, path: str, words: tuple[str, ...], places: Places) -> None:
    target = path or " ".join(words)[:_MAX_TARGET]
    found.add(ActionRequest(Action.DELETE_FILE, target=target, path=path, words=words))
    if not path:
        found.add(ActionRequest(Action.WRITE_OUTSIDE, target=target, words=words))
    else:
        _write_path(found, path, words, places)


def _find_roots(words: Words) -> Iterator[Word]:
    roots = False
    for word in words[1:]:
        if isinstance(word, str) and word in {"-L", "-H", "-P"}:
            continue
        if isinstance(word, str) and word[:1] in ("-", "(", "!"):
            break
        roots = True
        yield word
    if not roots:
        yield "."


def _deny_trees(found: Effects, meaning: Meaning, words: Words, places: Places) -> None:
    """The end of a whole system or home."""
    options = TREES.get(meaning.name)
    if options is None or (options and not has_option(option_names(words), options)):
        return
    operands = _operands(words)
    if meaning.name == "mv":
        operands = operands[:-1]
    elif meaning.name == "find":
        operands = list(_find_roots(words)) if "-delete" in words else []
    for word in operands[:_MAX_THINGS]:
        text = _whole(word if isinstance(word, str) else word.text)
        if isinstance(word, Vague) and word.home and text == "~":
            found.denials.append(Denial(f"{meaning.name} {text}", DISK))
            continue
        for path in places.paths(word):
            whole = _whole(path)
            if whole in WHOLE or (whole and places.is_home(whole)):
                found.denials.append(Denial(f"{meaning.name} {whole}", DISK))


def _whole(path: str) -> str:
    """Of "everything in it" the directory itself."""
    while path.endswith(("/*", "/.*", "/{}", "/")) and path != "/":
        path = path[: path.rindex("/")] or "/"
    return path


def written_words(name: str, words: Words) -> Iterator[Word]:
    """The words of a command that name files which it writes."""
    operands = _operands(words)
    if name in WRITES_LAST:
        target = value_of(words, ("-t", "--target-directory"))
        if operands[-1:] == [UNSEEN]:
            operands = operands[:-1]  # what comes in may go before it, or be it
        yield from [target] if target is not None else operands[-1:] if len(operands) > 1 else []
        if name == "mv":
            yield from operands[:-1][:_MAX_THINGS]
    elif name in WRITES_ALL:
        yield from operands[:_MAX_THINGS]
    elif name in WRITES_REST:
        yield from operands[1:][:_MAX_THINGS]
    elif name in WRITES_IN_PLACE and has_option(option_names(words), WRITES_IN_PLACE[name]):
        yield from operands[:_MAX_THINGS]
    for key in WRITES_BEHIND.get(name, ()):
        if key.endswith("="):
            yield from (word[len(key) :] for word in words if isinstance(word, str) and word.startswith(key))
        elif (value := value_of(words, (key,))) is not None:
            yield value


def _write(found: Effects, word: Word, words: tuple[str, ...], places: Places) -> None:
    """A file that is written. Where it cannot be told, the file rules of the wrap hold."""
    if word in _OUTPUTS:
        return
    if isinstance(word, Vague) and not word.text:
        found.changed.append(word.source)
        return
    for path in places.paths(word):
        if path:
            _write_path(found, path, words, places)


def _write_path(found: Effects, path: str, words: tuple[str, ...], places: Places) -> None:
    if _DEVICE.match(path):
        found.denials.append(Denial(path[:60], DISK if path.startswith("/dev") else SYSTEM))
        return
    place = places.place(path)
    if places.is_in_worktree(path):
        found.changed.append(path)
    elif place is Place.PRIVATE:
        return
    if places.is_protected(path):
        found.protected.append(path)
    elif place is Place.OUTSIDE:
        found.add(ActionRequest(Action.WRITE_OUTSIDE, target=path, path=path, words=words))


def _read_secrets(found: Effects, read: Words, words: tuple[str, ...], places: Places) -> None:
    candidates = (candidate for word in read[:_MAX_THINGS] for candidate in _read_words(word))
    for candidate in candidates:
        for path in places.paths(candidate):
            if path and places.is_secret(path):
                found.add(ActionRequest(Action.ACCESS_SECRET, target=path, path=path, words=words))


def _read_words(word: Word) -> Iterator[Word]:
    """The paths that a word may be, or hold behind a sign: `@file`, `--file=path`."""
    if isinstance(word, Vague):
        if word.text:
            yield word
        return
    texts = (
        (word.partition("=")[2].lstrip("@"),)
        if is_option(word)
        else (word, word.partition("@")[2], word.partition("=")[2])
    )
    yield from (text for text in texts if 0 < len(text) < _MAX_TARGET)
