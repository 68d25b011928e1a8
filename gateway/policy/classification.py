"""What one simple command means: effects, what the modes say of it, why it is denied outright. Tables, looked up."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.policy.actions import Action
from gateway.policy.commands.asked import (
    API_FIELDS,
    API_METHODS,
    API_READS,
    ASKED,
    CHANGING,
    CHANGING_OPTIONS,
    CLOUD_READS,
    CLOUD_TOOLS,
    HARMLESS,
    LISTING,
    LISTING_OPTIONS,
)
from gateway.policy.commands.denied import (
    CONTAINER_CAPABILITIES,
    CONTAINER_DEVICES,
    CONTAINER_FLAGS,
    CONTAINER_MOUNTS,
    CONTAINER_SHARES,
    CONTAINER_SOURCES,
    CONTAINERS,
    DENIED,
    DENIED_BEGINNINGS,
    DENIED_ROWS,
    ESCAPE,
)
from gateway.policy.commands.effects import EFFECTS
from gateway.policy.commands.tools import ABOUT_ITSELF, VALUES, WITHOUT_COMMAND
from gateway.policy.shell_words import Vague, Word, is_option, shown
from gateway.policy.started import Words, canonical_name, program_name

type _Path = tuple[str, ...]

_LONGEST_OPTION_MATTERS: Final = 4  # "--re": what is shorter abbreviates too much


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a command is denied in every mode; `name` is that of the rule."""

    name: str
    why: str


@dataclass(slots=True)
class Meaning:
    """What a command means. `name` is the tables' name of the program, `words` are normal: name without its directory,
    the tool's own words directly behind it, unknown words as written.

    `asks`: changes something elsewhere and has no action of its own. `changes`: changes something at all. `doubt` is a
    clause, or empty.
    """

    name: str
    words: tuple[str, ...]
    effects: list[Action] = field(default_factory=list)
    denials: list[Denial] = field(default_factory=list)
    asks: bool = False
    changes: bool = False
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class _Row:
    """What a row of the tables says; with `options` only where one of them is there."""

    options: frozenset[str]
    effect: Action | None = None
    asks: bool = False
    denied: str = ""


def _expanded(row: str) -> Iterator[tuple[_Path, frozenset[str]]]:
    """The words of a row, once for each alternative, and its options."""
    paths: list[_Path] = [()]
    for word in row.split():
        alternatives = word.split("|")
        if word.startswith("-"):
            for path in paths:
                yield path, frozenset(alternatives)
            return
        paths = [(*path, alternative) for path in paths for alternative in alternatives]
    for path in paths:
        yield path, frozenset()


def _index() -> dict[_Path, list[_Row]]:
    found: dict[_Path, list[_Row]] = {}

    def add(rows: Iterable[str], effect: Action | None = None, asks: bool = False, denied: str = "") -> None:
        for row in rows:
            for path, options in _expanded(row):
                found.setdefault(path, []).append(_Row(options, effect, asks, denied))

    for action, rows in EFFECTS.items():
        add(rows, effect=action)
    add(ASKED, asks=True)
    add(CHANGING)
    for row, why in DENIED_ROWS.items():
        add((row,), denied=why)
    return found


_ROWS: Final[Mapping[_Path, list[_Row]]] = _index()
# Words that begin a longer row: what comes next must be known.
_BEGINNINGS: Final = frozenset(path[:length] for path in _ROWS for length in range(1, len(path)))
_DENIED_BEGINNINGS: Final = tuple(DENIED_BEGINNINGS)
_SOURCE: Final = re.compile(r"(?:.*,)?(?:source|src)=([^,]*)")


def classify(words: Words) -> Meaning:
    """What a simple command means whose name is known. Its path is the longest that the tables know."""
    head = words[0]
    assert isinstance(head, str)
    base = program_name(head)
    name = canonical_name(base)
    if (name,) not in _BEGINNINGS and (name,) not in _ROWS and name not in CHANGING_OPTIONS:
        meaning = Meaning(name, (base, *map(shown, words[1:])))
    else:
        meaning = _look_up(name, base, words)
    _deny(meaning, base, words)
    if name in CONTAINERS or name == "docker":
        _deny_container(meaning, words)
    return meaning


def _look_up(name: str, base: str, words: Words) -> Meaning:
    values = VALUES.get(name, frozenset())
    first, places = _path(name, words, values, unknown_take_values=False)
    taken = set(places[: len(first) - 1])
    rest = words[places[0] :] if places and (name,) in _BEGINNINGS else words[1:]
    skipped = len(words) - len(rest)
    normal = (
        base,
        *first[1:],
        *(shown(word) for place, word in enumerate(rest, skipped) if place not in taken),
    )
    meaning = Meaning(name, normal)
    options = option_names(words)
    operands = [word for word in words[1:] if not is_option(word)]
    paths = [first]
    if places and places[0] > 1:
        other, _ = _path(name, words, values, unknown_take_values=True)
        if other != first:
            paths.append(other)
    if not operands and name in WITHOUT_COMMAND and not options & ABOUT_ITSELF:
        paths.append((name, WITHOUT_COMMAND[name]))
    for path in paths:
        _apply(meaning, path, options, operands)
        if path in _BEGINNINGS and isinstance(_next_word(words, values, len(path) - 1), Vague):
            meaning.doubt = f"what {' '.join(path)} is to do is not known"
    special = CHANGING_OPTIONS.get(name)
    if special and has_option(options, special):
        meaning.changes = True
    if name in CLOUD_TOOLS:
        _judge_cloud(meaning, operands)
    if name in ("gh", "glab") and operands[:1] == ["api"]:
        _judge_api(meaning, words, options)
    return meaning


def _next_word(words: Words, values: frozenset[str], passed: int) -> Word | None:
    """The first word behind `passed` of the tool's own."""
    place = 1
    while place < len(words):
        word = words[place]
        if is_option(word):
            place += 2 if word in values else 1
            continue
        if not passed:
            return word
        passed -= 1
        place += 1
    return None


def _path(
    name: str, words: Words, values: frozenset[str], unknown_take_values: bool
) -> tuple[_Path, list[int]]:
    """The longest path of the tables that the words begin with, options left out, and where its words stand."""
    path: _Path = (name,)
    places: list[int] = []
    place = 1
    while path in _BEGINNINGS and place < len(words):
        word = words[place]
        if isinstance(word, Vague):
            break
        if is_option(word):
            place += 2 if word in values or (unknown_take_values and "=" not in word) else 1
            continue
        longer = (*path, word.lower())
        if longer not in _BEGINNINGS and longer not in _ROWS:
            places = places or [place]
            break
        path = longer
        places.append(place)
        place += 1
    return path, places


def _apply(meaning: Meaning, path: _Path, options: frozenset[str], operands: list[Word]) -> None:
    """Adds what the rows say of a path and of all that begin it."""
    for length in range(1, len(path) + 1):
        part = path[:length]
        rows = _ROWS.get(part)
        if rows is None or _is_harmless(" ".join(part), length, options, operands):
            continue
        for row in rows:
            if row.options and not has_option(options, row.options):
                continue
            if row.denied:
                meaning.denials.append(Denial(" ".join(part), row.denied))
            elif row.effect is not None:
                if row.effect not in meaning.effects:
                    meaning.effects.append(row.effect)
            else:
                meaning.asks = meaning.asks or row.asks
                meaning.changes = True


def _is_harmless(key: str, length: int, options: frozenset[str], operands: list[Word]) -> bool:
    """Whether this use of a command that may change something only looks."""
    words = HARMLESS.get(key)
    if words is not None:
        first = operands[length - 1] if len(operands) >= length else None
        if key == "tar" and isinstance(first, str) and not options:
            return "t" in first and not set(first) & set("xcruA")
        return (isinstance(first, str) and first in words) or bool(options & words)
    listing = LISTING.get(key)
    if listing is None:
        return False
    most, changing = listing
    if options & changing:
        return False
    return len(operands) - (length - 1) <= most or bool(options & LISTING_OPTIONS)


def option_names(words: Iterable[Word]) -> frozenset[str]:
    """The options of a command, without values: as written, and each letter of several behind one dash."""
    found: set[str] = set()
    for word in words:
        if not isinstance(word, str) or not is_option(word):
            continue
        if word == "--":
            break
        name = word.partition("=")[0]
        found.add(name)
        if name[1] != "-":
            found.update(f"-{letter}" for letter in name[1:])
    return frozenset(found)


def has_option(options: frozenset[str], wanted: frozenset[str]) -> bool:
    """Whether one of the wanted options is there, also abbreviated as programs allow it."""
    if options & wanted:
        return True
    return any(
        long.startswith(option)
        for option in options
        if option.startswith("--") and len(option) >= _LONGEST_OPTION_MATTERS
        for long in wanted
    )


def _deny(meaning: Meaning, base: str, words: Words) -> None:
    why = DENIED.get(meaning.name) or DENIED.get(base)
    if why is None and base.startswith(_DENIED_BEGINNINGS):
        why = next((why for begin, why in DENIED_BEGINNINGS.items() if base.startswith(begin)), None)
    if why is not None:
        meaning.denials.append(Denial(base, why))


def _deny_container(meaning: Meaning, words: Words) -> None:
    """Options of a container that make it none. Those of what runs inside are taken for its own: nobody loses by it."""
    if not {"run", "create", "exec"} & set(meaning.words[:4]):
        return
    for index, word in enumerate(words):
        if not isinstance(word, str) or word[:1] != "-":
            continue
        name, equals, value = word.partition("=")
        following = words[index + 1] if index + 1 < len(words) else ""
        given: Word = value if equals else following
        if name == "-v" or (word.startswith("-v") and not word.startswith("--")):
            given = word[2:].removeprefix("=") or following
            name = "-v"
        if (
            (name in CONTAINER_FLAGS and value.lower() not in {"false", "0"})
            or name in CONTAINER_CAPABILITIES
            or name in CONTAINER_DEVICES
            or (name in CONTAINER_SHARES and shown(given).lower() in CONTAINER_SHARES[name])
            or (name in CONTAINER_MOUNTS and _source(name, given) in CONTAINER_SOURCES)
        ):
            meaning.denials.append(Denial(f"docker {name}", ESCAPE))


def _source(option: str, value: Word) -> str:
    """What of the host a mount shows."""
    text = value if isinstance(value, str) else value.text
    if option == "--mount":
        found = _SOURCE.match(text)
        text = found.group(1) if found else ""
    else:
        text = text.partition(":")[0]
    return text.rstrip("/") or ("/" if text else "")


def _judge_cloud(meaning: Meaning, operands: list[Word]) -> None:
    """Clouds' tools have thousands of operations: those that only read begin with known words."""
    known = [word for word in operands if isinstance(word, str)]
    if not known:
        if operands:
            meaning.doubt = f"what {meaning.name} is to do is not known"
        return
    reads = any(word == verb or word.startswith(f"{verb}-") for word in known[:5] for verb in CLOUD_READS)
    if not reads:
        meaning.asks = meaning.changes = True


def _judge_api(meaning: Meaning, words: Words, options: frozenset[str]) -> None:
    """Raw calls of a forge's API: what does more than look is asked about; what it does cannot be told."""
    method = ""
    for index, word in enumerate(words):
        if isinstance(word, Vague):
            continue
        name, equals, value = word.partition("=")
        if name in API_METHODS:
            given = value if equals else words[index + 1] if index + 1 < len(words) else ""
            method = given.lower() if isinstance(given, str) else "?"
        elif word.startswith("-X") and len(word) > 2:
            method = word[2:].lower()
    if (method and method not in API_READS) or (not method and options & API_FIELDS):
        meaning.asks = meaning.changes = True
