"""Looks, after CMD, for what it may have made where no mask can be: new names that git on the host would obey, and
links of denied names that lead elsewhere now. Renames them aside in their directory; removes and reads nothing.

This is the half of the `existing-only` rules that a mount cannot give: a mount needs something that is there. What
happens on the host while CMD still runs is not covered.

    known = remember(git_directories, links, worktrees)    # at launch, before CMD
    findings = quarantine(known)                # when nothing runs in the wrap any more

Directories are opened component by component without following links, and everything is done relative to the
descriptor: whatever lies in the way, nothing outside the directory is touched.
"""

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass

from sandbox.filerules import GIT_DENIED
from sandbox.git.directory import is_git_directory

MARK = ".agent-gateway-quarantined-"
# Names tried for what is moved aside, before one is drawn that nobody can have taken.
NUMBER_LIMIT = 1_000
# What makes a directory a repository without a `.git`: git looks for it when `.git` is not one (any more).
BARE_NAMES = frozenset({"head", "objects", "refs"})


@dataclass(frozen=True, slots=True)
class Link:
    """A symlink as it was: its text and where it led; None for where nothing was."""

    text: str
    real: str | None


@dataclass(frozen=True, slots=True)
class KnownFolder:
    """A directory at launch. `path` is resolved, `identity` its device and inode.

    `names` were there (lower case), `links` are those of them that were symlinks and are watched (as written).
    `is_git` says that it is a git directory, `holds_git` that it is a worktree around one and none itself.
    """

    path: str
    identity: tuple[int, int]
    names: frozenset[str]
    links: tuple[tuple[str, Link], ...]
    is_git: bool
    holds_git: bool


@dataclass(frozen=True, slots=True)
class Known:
    """What `quarantine` compares with."""

    folders: tuple[KnownFolder, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that CMD left: the path it is at, and what is wrong with it and was done. Its text is one line."""

    path: str
    words: str

    def __str__(self) -> str:
        return f"{_printable(self.path)} {_printable(self.words)}"


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)


def remember(
    git_directories: Collection[str], links: Collection[str] = (), worktrees: Collection[str] = ()
) -> Known:
    """Notes what is there. All paths are absolute; those of the directories are resolved.

    `git_directories`, the directories of `links` and `worktrees` (which hold a `.git` directory) are the writable
    ones that a launch found.
    """
    watched: dict[str, set[str]] = {path: set() for path in git_directories}
    for link in links:
        watched.setdefault(os.path.realpath(os.path.dirname(link)), set()).add(os.path.basename(link))
    for path in worktrees:
        watched.setdefault(path, set())
    own, around = frozenset(git_directories), frozenset(worktrees)
    found = (_look(path, names, path in own, path in around) for path, names in watched.items())
    return Known(tuple(folder for folder in found if folder is not None))


def _look(path: str, watched: set[str], is_git: bool, holds_git: bool) -> KnownFolder | None:
    """A directory as it is now; None when it is gone."""
    try:
        identity = _identity(os.stat(path, follow_symlinks=False))
        names = os.listdir(path)
    except OSError:
        return None
    denied = {name for name in names if is_git and name.lower() in GIT_DENIED}
    links = {name: _link(path, name) for name in sorted(watched | denied)}
    return KnownFolder(
        path,
        identity,
        frozenset(name.lower() for name in names),
        tuple((name, link) for name, link in links.items() if link is not None),
        is_git,
        holds_git and not is_git_directory(path),
    )


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _link(folder: str, name: str) -> Link | None:
    """A link and where it leads; None when it is no link (any more)."""
    path = os.path.join(folder, name)
    try:
        text = os.readlink(path)
    except OSError:
        return None
    return Link(text, os.path.realpath(path) if os.path.exists(path) else None)


def quarantine(known: Known) -> tuple[Finding, ...]:
    """Renames aside what is new or leads elsewhere; returns what it found, nothing when all is well."""
    findings: list[Finding] = []
    for folder in known.folders:
        descriptor = _open(folder.path)
        if descriptor is None:
            if folder.is_git:
                findings.append(Finding(folder.path, "is gone or a link now: do not run git there"))
            continue
        try:
            findings += _compare(folder, descriptor)
        finally:
            os.close(descriptor)
    return tuple(findings)


def _open(path: str) -> int | None:
    """The directory's descriptor, no link followed on the way; None when there is no such directory."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open("/", flags)
    for part in path.split("/"):
        if not part:
            continue
        try:
            below = os.open(part, flags, dir_fd=descriptor)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


def _compare(folder: KnownFolder, descriptor: int) -> list[Finding]:
    """The findings of one directory."""
    findings = []
    replaced = _identity(os.fstat(descriptor)) != folder.identity
    if replaced and folder.is_git:
        findings.append(Finding(folder.path, "is another directory than before: do not run git there"))
    names = _list(descriptor)
    for name in sorted(names):
        if folder.is_git and name.lower() in GIT_DENIED and (replaced or name.lower() not in folder.names):
            findings.append(_move(folder.path, name, descriptor, "was not there before"))
    for name, link in folder.links:
        if name in names and _link(folder.path, name) != link:
            findings.append(_move(folder.path, name, descriptor, "was a link to something else before"))
    there = {name.lower() for name in names}
    if folder.holds_git and there >= BARE_NAMES:
        findings += [
            _move(
                folder.path, name, descriptor, "makes a repository of the directory, and was not there before"
            )
            for name in names
            if name.lower() == "head"
        ]
    if folder.is_git and "head" in folder.names and "head" not in there:
        findings.append(Finding(folder.path, "has no HEAD any more: git looks for another repository"))
    return findings


def _list(descriptor: int) -> list[str]:
    """The names in a directory opened for its path alone; its own mode is mended when it keeps us out."""
    path = f"/proc/self/fd/{descriptor}"
    try:
        return os.listdir(path)
    except PermissionError:
        _open_up(descriptor)
    try:
        return os.listdir(path)
    except OSError:
        return []


def _open_up(descriptor: int) -> None:
    """Gives the owner all rights on a directory."""
    try:
        os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IMODE(os.fstat(descriptor).st_mode) | stat.S_IRWXU)
    except OSError:
        pass  # what follows fails as well, and says so


def _move(folder: str, name: str, descriptor: int, reason: str) -> Finding:
    """Renames an entry of the directory aside; says what was done."""
    aside = _free_name(name, descriptor)
    for attempt in (1, 2):
        try:
            os.rename(name, aside, src_dir_fd=descriptor, dst_dir_fd=descriptor)
            return Finding(f"{folder}/{name}", f"{reason}: renamed to {aside}")
        except PermissionError as error:
            failure = error.strerror
            if attempt == 1:
                _open_up(descriptor)
        except OSError as error:
            failure = error.strerror
            break
    told = f"{reason}, and cannot be renamed ({failure}): remove it before anything reads it"
    return Finding(f"{folder}/{name}", told)


def _free_name(name: str, descriptor: int) -> str:
    """A name in the directory that nothing has."""
    for number in range(1, NUMBER_LIMIT):
        aside = f"{name}{MARK}{number}"
        try:
            os.stat(aside, dir_fd=descriptor, follow_symlinks=False)
        except OSError:
            return aside
    return f"{name}{MARK}{int.from_bytes(os.urandom(8))}"
