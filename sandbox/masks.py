"""Finds what the file rules deny among the names that exist at launch. Reads directories, changes nothing.

This is the weaker enforcement (`existing-only`): a mask protects a file that is there, not a name. What is created
later under a denied name is not stopped; the start-up line and every record say so.
"""

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gateway.errors import GatewayError
from sandbox.filerules import GIT_DENIED, LINKED_DENIED, UNSEARCHED_FOLDERS, NameRules
from sandbox.gitdir import is_git_directory
from sandbox.places import within

# Directory entries looked at in one launch: the largest public monorepositories have about half of this. It takes
# a few seconds; beyond it a start would feel broken.
ENTRY_LIMIT = 1_000_000
# Masks of one launch. bubblewrap takes 9000 arguments, a mask needs three, and each mount costs a look at all others.
MASK_LIMIT = 1_000


class MaskKind(StrEnum):
    """What a mask does to the name it covers."""

    PIN = "pin"  # stays writable, but can be neither renamed nor removed
    READ_ONLY = "read-only"
    EMPTY_FILE = "empty-file"  # content invisible
    EMPTY_FOLDER = "empty-folder"


# Of two masks for one path the stronger counts, whichever comes first.
STRENGTH = {MaskKind.PIN: 0, MaskKind.READ_ONLY: 1, MaskKind.EMPTY_FILE: 2, MaskKind.EMPTY_FOLDER: 2}


@dataclass(frozen=True, slots=True)
class Mask:
    """One mount over something that exists. `path` is resolved."""

    path: str
    kind: MaskKind


class Search:
    """One walk over the bound directories. Collects masks; stops with a GatewayError at the limits."""

    def __init__(self, rules: NameRules, roots: Mapping[str, bool], sealed: Collection[str]) -> None:
        """`roots` are the bound directories and whether each is read-only; `sealed` is never writable."""
        self._rules = rules
        self._roots = sorted(roots.items(), key=lambda root: -len(root[0]))
        self._bound_paths = frozenset(roots)
        self._sealed = tuple(sealed)
        self._entries = 0
        self.masks: dict[str, Mask] = {}

    def in_order(self) -> tuple[Mask, ...]:
        """The masks found, parents before children, without what lies in a hidden directory: there is nothing left."""
        hidden = [mask.path for mask in self.masks.values() if mask.kind is MaskKind.EMPTY_FOLDER]
        shown = [
            mask
            for mask in self.masks.values()
            if not any(mask.path != folder and within(mask.path, folder) for folder in hidden)
        ]
        return tuple(sorted(shown, key=lambda mask: (mask.path.count("/"), mask.path)))

    def add(self, path: str, kind: MaskKind) -> None:
        """Takes a mask in: as written or, for a symlink, where it leads, if the wrap shows (lets write) that at all."""
        real = os.path.realpath(path)
        read_only = self._read_only(real)
        if read_only is None or (read_only and kind in (MaskKind.PIN, MaskKind.READ_ONLY)):
            return
        if not os.path.exists(real):  # a link that is left leads in a circle
            return
        found = self.masks.get(real)
        if found is not None and STRENGTH[found.kind] >= STRENGTH[kind]:
            return
        if found is None and len(self.masks) >= MASK_LIMIT:
            raise GatewayError(
                f"more than {MASK_LIMIT} files below the bound directories are protected by name, {path} among them",
                "name the harmless ones in `files.allow_write` of the configuration, or bind a smaller directory",
            )
        self.masks[real] = Mask(real, kind)

    def seal(self, path: str) -> None:
        """Makes a protected path read-only and pins the directories between it and the bind that holds it: under
        another name it would be safe, but something else could take its place."""
        steps = [path]
        while steps[0] != "/":
            steps.insert(0, os.path.dirname(steps[0]))
        for step in steps:
            if step in self.masks and self.masks[step].kind is not MaskKind.PIN:
                return  # nothing below can be written
            bound_read_only = self._bound(step)
            if bound_read_only is False and step not in self._bound_paths:
                self.masks[step] = Mask(step, MaskKind.READ_ONLY if step == path else MaskKind.PIN)

    def _bound(self, path: str) -> bool | None:
        """Whether the bind that shows this path is read-only; None when there is none."""
        return next((read_only for root, read_only in self._roots if within(path, root)), None)

    def _read_only(self, path: str) -> bool | None:
        """Whether the wrap shows this path read-only anyway; None when it does not show it."""
        read_only = self._bound(path)
        return (
            read_only
            if read_only is None
            else read_only or any(within(path, sealed) for sealed in self._sealed)
        )

    def walk(self, root: str, read_only: bool) -> None:
        """Searches `root` and everything below it; symlinks are not followed."""
        pending = [(root, read_only, self._rules)]
        while pending:
            folder, read_only, rules = pending.pop()
            entries = self._list(folder)
            names = {entry.name for entry in entries}
            if "HEAD" in names and "objects" in names and is_git_directory(folder):
                self._git_directory(folder, entries, read_only)
                if "modules" in names:
                    pending.append((os.path.join(folder, "modules"), read_only, rules))
            else:
                pending += self._folder(folder, entries, read_only, rules)

    def _list(self, folder: str) -> list[os.DirEntry[str]]:
        """A directory's entries; what cannot be listed here cannot be listed inside either."""
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            return []
        self._entries += len(entries)
        if self._entries > ENTRY_LIMIT:
            raise GatewayError(
                f"more than {ENTRY_LIMIT} files below the bound directories: too many to search for protected names",
                "bind a smaller directory (--repo, --bind), or run with --sandbox off",
            )
        return entries

    def _folder(
        self, folder: str, entries: list[os.DirEntry[str]], read_only: bool, rules: NameRules
    ) -> Iterator[tuple[str, bool, NameRules]]:
        """Masks of one ordinary directory; yields the directories to look into, each with how it is to be seen."""
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if rules.read_denied(folder, entry.name):
                self._hide(entry)
            elif not read_only and rules.write_denied(folder, entry.name):
                self.add(entry.path, MaskKind.READ_ONLY)
                if is_folder:
                    yield entry.path, True, rules
                else:
                    self._socket(entry)
            elif is_folder:
                below = rules.among_packages if entry.name in UNSEARCHED_FOLDERS else rules
                if below is not None:
                    yield entry.path, read_only, below
            elif entry.name == ".git" and not read_only and not entry.is_dir():
                # The pointer of a linked worktree or submodule. A link to a directory: that one is searched itself.
                self.add(entry.path, MaskKind.READ_ONLY)
            else:
                self._socket(entry)

    def _hide(self, entry: os.DirEntry[str]) -> None:
        self.add(entry.path, MaskKind.EMPTY_FOLDER if entry.is_dir() else MaskKind.EMPTY_FILE)

    def _git_directory(self, folder: str, entries: list[os.DirEntry[str]], read_only: bool) -> None:
        """A repository's hooks and configuration. The directory is pinned, or a renamed copy could take its place."""
        if not read_only:
            self.add(folder, MaskKind.PIN)
        for entry in entries:
            if self._rules.read_denied(folder, entry.name):
                self._hide(entry)
            elif entry.name in GIT_DENIED and not read_only:
                self.add(entry.path, MaskKind.READ_ONLY)
            elif entry.name == "worktrees":
                self._linked_worktrees(entry.path, read_only)
            else:
                self._socket(entry)

    def _linked_worktrees(self, folder: str, read_only: bool) -> None:
        """The pointers of each linked worktree: they decide which configuration git on the host obeys there."""
        for entry in self._list(folder):
            if not read_only:
                self.add(entry.path, MaskKind.PIN)
            for part in self._list(entry.path):
                if part.name in LINKED_DENIED and not read_only:
                    self.add(part.path, MaskKind.READ_ONLY)
                else:
                    self._socket(part)

    def _socket(self, entry: os.DirEntry[str]) -> None:
        """A service of the host listens on a socket (an editor, a file watcher): a way out of the wrap."""
        if entry.is_file(follow_symlinks=False) or entry.is_symlink():
            return
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            return
        if stat.S_ISSOCK(mode):
            self.add(entry.path, MaskKind.EMPTY_FILE)
