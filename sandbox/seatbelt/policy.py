"""What one launch on macOS may do with files, decided path by path. Pure: values and comparisons, no file is touched.

`profile.py` says the same to the kernel. This telling names the rule that refused something whose refusal the system's
log told, and is what the text is tested against. In a denial all spellings of a name are one (`spelling.py`); what is
allowed is allowed as it is spelled.

Names follow `sandbox/filerules.py`, with two differences, both towards less: an exception frees what it matches and
nothing below, so a directory's content needs a glob of its own (`DIR/*`), and names are judged below the roots alone.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import translate
from functools import cached_property, lru_cache

from sandbox.seatbelt.services import DANGEROUS_PROGRAMS, DEVICE_PATTERNS, DEVICES, TERMINAL_PATTERN
from sandbox.seatbelt.spelling import below, below_any_case, fold, is_disguised, written


class Operation(StrEnum):
    """Seatbelt's names of what is decided here."""

    READ = "file-read-data"
    METADATA = "file-read-metadata"
    CREATE = "file-write-create"
    WRITE = "file-write-data"
    UNLINK = "file-write-unlink"
    LINK = "file-link"
    CLONE = "file-clone"
    EXECUTE = "process-exec"


READS = frozenset({Operation.READ, Operation.METADATA})


@dataclass(frozen=True, slots=True)
class Root:
    """A directory that the spec names. Of nested ones the deeper counts, so they are kept parents first."""

    path: str
    writable: bool


@dataclass(frozen=True, slots=True)
class Names:
    """Denied names and paths, and their exceptions, as globs. Names are one component, paths are whole.

    `more_*` are the configuration's: they hold where a shipped exception frees. `allowed` frees a shipped denial,
    `more_allowed` and `allowed_paths` every one. `package_names` are those of `names` that are allowed below
    directories named `package_folders`, and in `package_places` (paths).
    """

    names: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    more_names: tuple[str, ...] = ()
    more_paths: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    more_allowed: tuple[str, ...] = ()
    allowed_paths: tuple[str, ...] = ()
    package_names: tuple[str, ...] = ()
    package_folders: frozenset[str] = frozenset()
    package_places: tuple[str, ...] = ()

    @property
    def names_among_packages(self) -> tuple[str, ...]:
        """The shipped names that are denied below `package_folders` too."""
        return tuple(glob for glob in self.names if glob not in self.package_names)


@dataclass(frozen=True)
class FilePolicy:
    """One launch. Every path stands here in all its spellings.

    `hidden` is never read nor executed, apart from `shown`, which lies in it and may be read. `hidden_names` and
    `hidden_paths` are globs of what else is never read: names below `bases`, and whole paths. `roots` are the only
    places that can be written, if at all; below them `names` and `sealed` (paths; they need not exist) take away.
    `runnable` is executed although it can be written; `runs_everything` lifts that rule for a person's own shell.
    Of terminals only `terminals` are read and written, and those that the wrap opens itself, which the kernel knows.
    """

    roots: tuple[Root, ...]
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    hidden_names: tuple[str, ...] = ()
    hidden_paths: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    names: Names = field(default_factory=Names)
    sealed: tuple[str, ...] = ()
    runnable: tuple[str, ...] = ()
    runs_everything: bool = False
    terminals: tuple[str, ...] = ()

    @cached_property
    def grounds(self) -> tuple[str, ...]:
        """The outermost roots that hold something writable: where names are judged."""
        writable = [root.path for root in self.roots if root.writable]
        return tuple(
            path for path in writable if not any(path != one and below(path, one) for one in writable)
        )

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """All that is never written below the grounds: sealed paths, and roots that are read-only."""
        closed = (root.path for root in self.roots if not root.writable)
        found = dict.fromkeys((*self.sealed, *closed))
        return tuple(path for path in found if _in(path, self.grounds))

    @cached_property
    def guarded(self) -> tuple[str, ...]:
        """The roots and every directory between one and something kept: renamed, they would take it along."""
        found: dict[str, None] = {}
        for path in (*self.kept, *(root.path for root in self.roots)):
            for ground in self.grounds:
                if below(path, ground):
                    found |= dict.fromkeys(_between(path, ground))
        return tuple(sorted(found))

    @cached_property
    def ways(self) -> tuple[str, ...]:
        """Globs of the directories on the way to a path that is denied by a glob. Made or replaced, they could bring
        it along under a new name."""
        return tuple(
            dict.fromkeys(way for glob in (*self.names.paths, *self.names.more_paths) for way in ways(glob))
        )

    def refusal(self, operation: Operation, path: str, is_folder: bool = False) -> str:
        """The rule for which an absolute path may not be used this way; empty when it may."""
        if operation in READS:
            return self._unreadable(path, operation)
        if operation is Operation.EXECUTE:
            return self._not_executable(path)
        return self._not_writable(path) or self._held(path, operation, is_folder)

    def _unreadable(self, path: str, operation: Operation) -> str:
        if operation is Operation.METADATA and path in self.passages:
            return self._hidden_by_name(path)
        if operation is Operation.READ and self._is_foreign_terminal(path):
            return "another terminal"
        hidden = self.hidden_again if _in(path, self.shown) else self.hidden
        if rule := _spelled_in(path, hidden):
            return rule
        return self._hidden_by_name(path)

    @cached_property
    def passages(self) -> tuple[str, ...]:
        """Hidden directories that lead to something shown: they can be passed, not listed."""
        found: dict[str, None] = {}
        for path in self.shown:
            for hidden in self.hidden:
                if below(path, hidden) and path != hidden:
                    found |= dict.fromkeys(_between(path, hidden))
        return tuple(one for one in found if not _in(one, self.shown))

    @cached_property
    def hidden_again(self) -> tuple[str, ...]:
        """What is hidden inside something shown."""
        return tuple(
            path for path in self.hidden if any(path != one and below(path, one) for one in self.shown)
        )

    def _is_foreign_terminal(self, path: str) -> bool:
        return path not in self.terminals and re.match(TERMINAL_PATTERN, path) is not None

    def _hidden_by_name(self, path: str) -> str:
        for above in _prefixes(path):
            if rule := _match(self.hidden_paths, above):
                return rule
        for base in self.bases:
            for name in _names(path, base):
                if rule := _match_name(self.hidden_names, name):
                    return rule
        return ""

    def _not_executable(self, path: str) -> str:
        if any(_is_spelled(path, program) for program in DANGEROUS_PROGRAMS):
            return "dangerous program"
        if rule := self._hidden_by_name(path):
            return rule
        if _in(path, self.runnable):
            return ""
        if not self.runs_everything and _spelled_in(path, self.grounds):
            return "writable directory"
        return _spelled_in(path, self.hidden)

    def _not_writable(self, path: str) -> str:
        devices = (*DEVICES, *self.terminals)
        if path in devices or any(re.match(pattern, path) for pattern in DEVICE_PATTERNS):
            return ""
        if self._is_foreign_terminal(path):
            return "another terminal"
        writable = False
        for root in self.roots:
            if below(path, root.path) if root.writable else below_any_case(path, root.path):
                writable = root.writable
        if not writable:
            return "outside the writable directories"
        return (
            self._disguised(path)
            or self._denied_by_name(path)
            or _spelled_in(path, self.sealed)
            or self._hidden_by_name(path)
        )

    def _disguised(self, path: str) -> str:
        names = (name for ground in self.grounds for name in _names(path, ground))
        return "invisible character in a plain name" if any(map(is_disguised, names)) else ""

    def _denied_by_name(self, path: str) -> str:
        """The glob of a name or path that is denied here, counting the exceptions."""
        if _match(self.names.allowed_paths, path, written):
            return ""
        found = (self._own_rule(path, ground) for ground in self.grounds if below(path, ground))
        return next(filter(None, found), "")

    def _own_rule(self, path: str, ground: str) -> str:
        names = self.names
        *folders, leaf = _names(path, ground) or [""]
        everything = (*names.more_names, *names.names)
        for folder in folders:
            if rule := _match_name(everything, folder):
                return rule
        for above in _prefixes(path)[:-1]:
            if rule := _match((*names.more_paths, *names.paths), above):
                return rule
        if _match(names.more_allowed, leaf, written):
            return ""
        rule = _match_name(names.more_names, leaf) or _match(names.more_paths, path)
        if rule or _match(names.allowed, leaf, written):
            return rule
        packaged = not names.package_folders.isdisjoint(folders) or _in(path, names.package_places)
        shipped = names.names_among_packages if packaged else names.names
        return _match_name(shipped, leaf) or _match(names.paths, path)

    def _held(self, path: str, operation: Operation, is_folder: bool) -> str:
        """Whether a rename of a directory would bring or take something along that is judged by its path."""
        if operation is Operation.UNLINK and any(_is_spelled(path, one) for one in self.guarded):
            return "holds what is protected"
        if operation not in (Operation.UNLINK, Operation.CREATE) or not _in(path, self.grounds):
            return ""
        # Below a mere "*" everything is on the way. That a directory is made there says nothing.
        certain = tuple(way for way in self.ways if not way.endswith("*"))
        vague = tuple(way for way in self.ways if way.endswith("*"))
        taken = vague if operation is Operation.UNLINK and is_folder else ()
        return _match((*certain, *taken), path)


def ways(glob: str) -> tuple[str, ...]:
    """The directories above what a glob of paths denies, as globs."""
    parts = glob.split("/")
    found = ("/".join(parts[:end]) for end in range(1, len(parts)))
    return tuple(way for way in found if way.strip("/*"))


@lru_cache(maxsize=256)
def _compiled(globs: tuple[str, ...], form: Callable[[str], str]) -> re.Pattern[str]:
    return re.compile("|".join(f"({translate(form(glob))})" for glob in globs))


def _match(globs: tuple[str, ...], text: str, form: Callable[[str], str] = fold) -> str:
    """The first glob that matches the whole text, both in one form; empty for none.

    Folded, a letter with an accent is two characters. A wildcard for one character means it as it is spelled, too.
    """
    if not globs or not text:
        return ""
    for one in (form, str.casefold) if form is fold else (form,):
        found = _compiled(globs, one).match(one(text))
        if found and found.lastindex:
            return globs[found.lastindex - 1]
    return ""


def _match_name(globs: tuple[str, ...], name: str) -> str:
    """The glob that matches a name, or what a disk may cut it down to."""
    return _match(globs, name) or _match(globs, fold(name).partition(":")[0].rstrip(". "))


def _prefixes(path: str) -> list[str]:
    """The path and every directory above it, the topmost first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(2, len(parts) + 1)]


def _between(path: str, top: str) -> list[str]:
    """The directories from `top` down to the one that holds `path`, and `top` itself."""
    return [above for above in _prefixes(path) if below(above, top) and (above != path or above == top)]


def _names(path: str, base: str) -> list[str]:
    """The components of a path below `base`; none when it does not lie there."""
    return path[len(base.rstrip("/")) + 1 :].split("/") if below(path, base) and path != base else []


def _in(path: str, places: Iterable[str]) -> bool:
    return any(below(path, place) for place in places)


def _is_spelled(path: str, place: str) -> bool:
    return path.count("/") == place.count("/") and below_any_case(path, place)


def _spelled_in(path: str, places: Iterable[str]) -> str:
    """The place that holds the path, whatever the spelling; empty for none."""
    return next((place for place in places if below_any_case(path, place)), "")
