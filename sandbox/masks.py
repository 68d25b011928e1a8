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
# about two seconds; beyond it a start would feel broken.
ENTRY_LIMIT = 1_000_000
# Masks of one launch. bubblewrap takes 9000 arguments, a mask needs three, and each mount costs a look at all others.
MASK_LIMIT = 1_000


class MaskKind(StrEnum):
    """What a mask does to the name it covers."""

    PIN = "pin"  # stays writable, but can be neither renamed nor removed
    READ_ONLY = "read-only"
    EMPTY_FILE = "empty-file"  # content invisible
    EMPTY_FOLDER = "empty-folder"


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
        self._sealed = tuple(sealed)
        self._entries = 0
        self.masks: dict[str, Mask] = {}

    def add(self, path: str, kind: MaskKind) -> None:
        """Takes a mask in: as written or, for a symlink, where it leads, if the wrap shows (lets write) that at all."""
        real = os.path.realpath(path)
        read_only = self._read_only(real)
        if read_only is None or (read_only and kind in (MaskKind.PIN, MaskKind.READ_ONLY)):
            return
        if not os.path.lexists(real):
            return
        if real in self.masks and self.masks[real].kind is not MaskKind.PIN:
            return
        if len(self.masks) >= MASK_LIMIT:
            raise GatewayError(
                f"more than {MASK_LIMIT} files below the bound directories are protected by name, {path} among them",
                "name the harmless ones in `files.allow_write` of the configuration, or bind a smaller directory",
            )
        self.masks[real] = Mask(real, kind)

    def seal(self, path: str, root: str) -> None:
        """Makes a protected path read-only and pins the directories between it and its writable root."""
        above = os.path.dirname(path)
        while within(above, root) and above != root:
            self.masks[above] = Mask(above, MaskKind.PIN)
            above = os.path.dirname(above)
        self.masks[path] = Mask(path, MaskKind.READ_ONLY)

    def _read_only(self, path: str) -> bool | None:
        """Whether the wrap shows this path read-only anyway; None when it does not show it."""
        for root, read_only in self._roots:
            if within(path, root):
                return read_only or any(within(path, sealed) for sealed in self._sealed)
        return None

    def walk(self, root: str, read_only: bool) -> None:
        """Searches `root` and everything below it; symlinks are not followed."""
        pending = [root]
        while pending:
            folder = pending.pop()
            entries = self._list(folder)
            names = {entry.name for entry in entries}
            if "HEAD" in names and "objects" in names and is_git_directory(folder):
                self._git_directory(folder, entries, read_only)
                if "modules" in names:
                    pending.append(os.path.join(folder, "modules"))
            else:
                pending += self._folder(folder, entries, read_only)

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

    def _folder(self, folder: str, entries: list[os.DirEntry[str]], read_only: bool) -> Iterator[str]:
        """Masks of one ordinary directory; yields the directories to look into."""
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if self._rules.read_denied(folder, entry.name):
                self.add(
                    entry.path, MaskKind.EMPTY_FOLDER if os.path.isdir(entry.path) else MaskKind.EMPTY_FILE
                )
            elif not read_only and self._rules.write_denied(folder, entry.name):
                self.add(entry.path, MaskKind.READ_ONLY)
            elif is_folder:
                if entry.name not in UNSEARCHED_FOLDERS:
                    yield entry.path
            elif entry.name == ".git" and not read_only:
                self.add(entry.path, MaskKind.READ_ONLY)  # the pointer of a linked worktree or submodule
            else:
                self._socket(entry)

    def _git_directory(self, folder: str, entries: list[os.DirEntry[str]], read_only: bool) -> None:
        """A repository's hooks and configuration. The directory is pinned, or a renamed copy could take its place."""
        if not read_only:
            self.add(folder, MaskKind.PIN)
        for entry in entries:
            if entry.name in GIT_DENIED and not read_only:
                self.add(entry.path, MaskKind.READ_ONLY)
            elif entry.name == "worktrees" and not read_only:
                self._linked_worktrees(entry.path)
            else:
                self._socket(entry)

    def _linked_worktrees(self, folder: str) -> None:
        """The pointers of each linked worktree: they decide which configuration git on the host obeys there."""
        for entry in self._list(folder):
            self.add(entry.path, MaskKind.PIN)
            for name in LINKED_DENIED:
                self.add(os.path.join(entry.path, name), MaskKind.READ_ONLY)

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
