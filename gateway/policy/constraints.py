"""The conditions that rules about actions may have besides those of pushes: hosts, paths, commands, repositories.

Each is read in two ways, as everywhere: exactly for an allow, widely for a denial or a question.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Final

from gateway.policy.action_request import ActionRequest, command_anchor, host_anchor, path_anchor, spellings
from gateway.policy.actions import Action
from gateway.policy.hosts import HostMatcher, HostPattern
from gateway.policy.marks import ANYTHING, Mark, longest
from gateway.policy.refs import caseless
from gateway.policy.repositories import RepositoryPattern
from gateway.policy.rules import Request

# Rows of words by their first one, the longest first.
type _Rows = Mapping[str, tuple[tuple[str, ...], ...]]
# How close a constraint is that has no degrees.
_CLOSE: Final = 0
# What stands for other letters in a glob; what follows a bracket is not looked into.
_STARS: Final = re.compile(r"\*|\?|\[.*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Hosts:
    """Only these hosts, in the grammar of the egress lists. What names no host fits none of them."""

    patterns: tuple[HostPattern, ...]
    _exact: HostMatcher = field(init=False, repr=False, compare=False)
    _wide: HostMatcher = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_exact", HostMatcher(self.patterns))
        object.__setattr__(self, "_wide", HostMatcher(self.patterns, storage_labels=True))

    @property
    def marks(self) -> tuple[Mark, ...]:
        """How the names end, and the longest part of them."""
        texts = [pattern.text for pattern in self.patterns]
        return tuple(Mark(host_anchor(text), longest(text.split("*"))) for text in texts)

    @property
    def fact(self) -> str:
        """What may not be known."""
        return "host"

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """A denial's star also stands for a storage service's label, as in the deny list."""
        if not isinstance(request, ActionRequest) or not request.host:
            return None
        matcher = self._wide if wide else self._exact
        return None if matcher.match(request.host) is None else _CLOSE


@dataclass(frozen=True, slots=True)
class Paths:
    """Only these files: globs over absolute paths. A star crosses directories, as in the file rules."""

    globs: tuple[str, ...]
    _exact: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)
    _wide: tuple[re.Pattern[str], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        wide = [form for glob in map(caseless, self.globs) for form in (glob, f"{glob}/*")]
        object.__setattr__(self, "_exact", tuple(re.compile(translate(glob)) for glob in self.globs))
        object.__setattr__(self, "_wide", tuple(re.compile(translate(glob)) for glob in wide))

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The longest part of each glob; and what contains its files."""
        parts = [
            Mark(fragment=longest(_STARS.split(caseless(glob)))) for glob in self.globs if glob.isascii()
        ]
        parts += ANYTHING if len(parts) < len(self.globs) else ()
        above = {path_anchor(folder) for glob in self.globs for folder in _folders(glob)}
        return (*parts, *map(Mark, sorted(above)))

    @property
    def fact(self) -> str:
        """What may not be known."""
        return "path"

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """A denial does not mind the case and form of letters: some disks do not either. It takes in what lies in a
        directory that it names, and, since whoever deletes a directory deletes what is in it, what contains it."""
        if not isinstance(request, ActionRequest) or not request.path:
            return None
        if any(glob.match(request.path) for glob in self._exact):
            return _CLOSE
        return _CLOSE if wide and self._fits_widely(request) else None

    def _fits_widely(self, request: ActionRequest) -> bool:
        path = caseless(request.path)
        if any(glob.match(path) for glob in self._wide):
            return True
        if request.action is not Action.DELETE_FILE:
            return False
        inside = f"{path.rstrip('/')}/"
        return any(caseless(_STARS.split(glob)[0]).startswith(inside) for glob in self.globs) or any(
            glob.match(f"{inside}{_SOMETHING}") for glob in self._wide
        )


# A name that no glob spells out: what is in a directory, whatever it is.
_SOMETHING: Final = "\N{REPLACEMENT CHARACTER}"


def _folders(glob: str) -> Iterator[str]:
    """The directories above everything that a glob means, as far as it spells them out."""
    spelt = _STARS.split(glob)[0]
    while "/" in spelt:
        spelt = spelt.rpartition("/")[0]
        yield spelt


@dataclass(frozen=True, slots=True)
class Commands:
    """Only commands that begin with one of these rows of words. The longest row is the closest."""

    prefixes: tuple[tuple[str, ...], ...]
    _exact: _Rows = field(init=False, repr=False, compare=False)
    _wide: _Rows = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        every = [form for prefix in self.prefixes for form in spellings(prefix)]
        object.__setattr__(self, "_exact", _by_first_word(self.prefixes))
        object.__setattr__(self, "_wide", _by_first_word(every))

    @property
    def marks(self) -> tuple[Mark, ...]:
        """How the commands begin."""
        return tuple(Mark(command_anchor(form)) for prefix in self.prefixes for form in spellings(prefix))

    @property
    def fact(self) -> str:
        """Nothing: words that are not known are doubted by whoever took the line apart, and tools have none."""
        return ""

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """Word by word; a denial of a program is also one of its other versions: of pip, one of pip3."""
        if not isinstance(request, ActionRequest) or not request.words:
            return None
        if not wide:
            return _longest_row(self._exact, request.words)
        found = (_longest_row(self._wide, words) for words in spellings(request.words))
        return max((length for length in found if length is not None), default=None)


def _by_first_word(rows: Iterable[tuple[str, ...]]) -> _Rows:
    found: dict[str, tuple[tuple[str, ...], ...]] = {}
    for row in sorted(rows, key=len, reverse=True):
        found[row[0]] = (*found.get(row[0], ()), row)
    return found


def _longest_row(rows: _Rows, words: tuple[str, ...]) -> int | None:
    """How many words the longest row has that the command begins with."""
    return next((len(row) for row in rows.get(words[0], ()) if words[: len(row)] == row), None)


@dataclass(frozen=True, slots=True)
class ActionRepositories:
    """Only in these repositories, in whatever case they are written."""

    patterns: tuple[RepositoryPattern, ...]

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The longest part of each."""
        return tuple(pattern.mark for pattern in self.patterns)

    @property
    def fact(self) -> str:
        """What may not be known."""
        return "repository"

    def fit(self, request: Request, *, wide: bool) -> int | None:
        """The same for every verdict."""
        if not isinstance(request, ActionRequest) or request.repository is None:
            return None
        return _CLOSE if any(pattern.matches(request.repository) for pattern in self.patterns) else None
