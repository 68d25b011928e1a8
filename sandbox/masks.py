"""Finds what the file rules deny among the names that exist at launch. Reads directories, changes nothing.

This is the weaker enforcement (`existing-only`): a mask protects a file that is there, not a name. What is created
later under a denied name is not stopped; the start-up line and every record say so. And what a mask refuses the kernel
refuses by itself: nobody is asked, so there is no violation, but where somebody reads the command's stderr.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NoReturn

from gateway.errors import GatewayError
from sandbox.filerules import GIT_DENIED, LINKED_DENIED, UNSEARCHED_FOLDERS, NameRules
from sandbox.git.directory import POINTER_LIMIT, is_git_directory
from sandbox.places import within
from sandbox.reading import read_whole
from sandbox.sockets import find_sockets, is_socket

# Directory entries looked at in one launch: the largest public monorepositories have about half of this. It takes
# a few seconds; beyond it a start would feel broken.
ENTRY_LIMIT = 1_000_000
# Entries below installed packages and in git's own folders, where only sockets are looked for: that is several times
# as fast, and the largest installations stay below this.
PACKAGE_ENTRY_LIMIT = 2_000_000
# Mounts of one launch, pins among them. bubblewrap takes 9000 arguments and a mount needs three; and it looks at all
# mounts for each one: this many take five seconds.
MASK_LIMIT = 2_000


class MaskKind(StrEnum):
    """What a mask does to the name it covers."""

    PIN = "pin"  # stays writable, but can be neither renamed nor removed
    READ_ONLY = "read-only"
    EMPTY_FILE = "empty-file"  # content invisible
    EMPTY_FOLDER = "empty-folder"


# Of two masks for one path the stronger counts, whichever comes first.
STRENGTH = {MaskKind.PIN: 0, MaskKind.READ_ONLY: 1, MaskKind.EMPTY_FILE: 2, MaskKind.EMPTY_FOLDER: 2}
# Below these nothing can be renamed.
CLOSED = frozenset({MaskKind.READ_ONLY, MaskKind.EMPTY_FOLDER})


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
        self._package_entries = 0
        self.masks: dict[str, Mask] = {}
        # What no mount can hold in place, for `quarantine.py`: writable git directories, the worktrees around them,
        # and links of denied names.
        self.git_directories: list[str] = []
        self.worktrees: list[str] = []
        self.links: list[str] = []

    def in_order(self) -> tuple[Mask, ...]:
        """The masks found and the pins above them, parents before children, without what lies in a hidden directory:
        there is nothing left."""
        hidden = {mask.path for mask in self.masks.values() if mask.kind is MaskKind.EMPTY_FOLDER}
        shown = [mask for mask in self.masks.values() if hidden.isdisjoint(_above(mask.path))]
        shown += self._pins()
        if len(shown) > MASK_LIMIT:
            self._refuse_number(mask.path for mask in shown)
        return tuple(sorted(shown, key=lambda mask: (mask.path.count("/"), mask.path)))

    def _pins(self) -> list[Mask]:
        """The writable directories above every mask and every bind. What is mounted keeps its mask when a directory
        above it is renamed, but then something else takes its place under the old name."""
        closed = {mask.path for mask in self.masks.values() if mask.kind in CLOSED}
        seen = {*self.masks, *self._bound_paths}
        pins = []
        for path in (*self.masks, *self._bound_paths):
            for step in _above(path):
                if step in closed:
                    break  # nothing below can be renamed
                if step not in seen and self._read_only(step) is False:
                    pins.append(Mask(step, MaskKind.PIN))
                seen.add(step)
        return pins

    def add(self, path: str, kind: MaskKind) -> None:
        """Takes a mask in: as written or, for a symlink, where it leads, if the wrap shows (lets write) that at all."""
        real = os.path.realpath(path)
        read_only = self._read_only(real)
        if read_only is None or (read_only and kind in (MaskKind.PIN, MaskKind.READ_ONLY)):
            return
        if real != path and self._holds_all(real, path):
            return
        try:
            os.stat(real)
        except PermissionError:
            self._shut(real)
            return
        except OSError:  # a link that is left leads in a circle
            return
        found = self.masks.get(real)
        if found is not None and STRENGTH[found.kind] >= STRENGTH[kind]:
            return
        if found is None and len(self.masks) >= MASK_LIMIT:
            self._refuse_number(self.masks)
        self.masks[real] = Mask(real, kind)

    def _holds_all(self, real: str, link: str) -> bool:
        """Whether a link leads to a directory that holds the link itself or a bind: `ln -s . a.pem` would otherwise
        make the whole worktree read-only."""
        folder = os.path.realpath(os.path.dirname(link))
        return within(folder, real) or any(within(root, real) for root in self._bound_paths)

    def _shut(self, path: str) -> None:
        """Makes a directory that cannot be searched read-only if it is the user's own: inside, its mode could be
        changed back, and nothing in it would be protected."""
        while True:
            try:
                owner = os.stat(path).st_uid
                break
            except OSError:
                path = os.path.dirname(path)
        if owner == os.geteuid() and path not in self._bound_paths and self._read_only(path) is False:
            self.masks[path] = Mask(path, MaskKind.READ_ONLY)

    def _refuse_number(self, paths: Iterable[str]) -> NoReturn:
        """Too many, with the directory that holds most of them."""
        folder, count = Counter(os.path.dirname(path) for path in paths).most_common(1)[0]
        raise GatewayError(
            f"more than {MASK_LIMIT} files and directories below the bound directories are protected by name,"
            f" {count} of them in {folder}",
            f"remove them if nobody needs them; or allow the harmless ones in `files.allow_write` of the configuration"
            f' (for example "{folder}/*"); or bind a smaller directory',
        )

    def seal(self, path: str) -> None:
        """Makes a protected path read-only."""
        if any(step in self.masks and self.masks[step].kind in CLOSED for step in _above(path)):
            return  # nothing below can be written
        found = self.masks.get(path)
        if found is not None and found.kind is not MaskKind.PIN:
            return
        if self._bound(path) is False and path not in self._bound_paths:
            self.masks[path] = Mask(path, MaskKind.READ_ONLY)

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
            # `.git` in any state: without its HEAD it is no repository today, and one again tomorrow.
            if os.path.basename(folder) == ".git" or (
                "HEAD" in names and "objects" in names and is_git_directory(folder)
            ):
                self._git_directory(folder, entries, read_only)
                if "modules" in names:
                    pending.append((os.path.join(folder, "modules"), read_only, rules))
            else:
                pending += self._folder(folder, entries, read_only, rules)

    def _list(self, folder: str) -> list[os.DirEntry[str]]:
        """A directory's entries; what cannot be listed here cannot be listed inside either, or is shut."""
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except PermissionError:
            self._shut(folder)
            return []
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
                self._note_link(entry)
                if is_folder:
                    yield entry.path, True, rules
                else:
                    self._socket(entry)
            elif is_folder:
                below = rules.among_packages if entry.name in UNSEARCHED_FOLDERS else rules
                if below is not None:
                    yield entry.path, read_only, below
                else:
                    self._sockets_below(entry.path)
            elif entry.name == ".git" and not read_only:
                self._note_link(entry)
                # The pointer of a linked worktree or submodule. A link to a directory: that one is searched itself.
                if not _leads_to_folder(entry):
                    self.add(entry.path, MaskKind.READ_ONLY)
            elif not read_only and rules.leads_to_denied(entry.name) and _leads_to_folder(entry):
                self._linked_folder(entry, rules)
            else:
                self._socket(entry)

    def _linked_folder(self, link: os.DirEntry[str], rules: NameRules) -> None:
        """A link in the place of a directory whose entries are denied by the end of their path (`.claude`)."""
        self._note_link(link)
        for entry in self._list(link.path):
            if rules.write_denied(link.path, entry.name):
                self.add(entry.path, MaskKind.READ_ONLY)

    def _note_link(self, entry: os.DirEntry[str]) -> None:
        """A mount goes where a link leads; the link itself can be replaced."""
        if entry.is_symlink():
            self.links.append(entry.path)

    def _hide(self, entry: os.DirEntry[str]) -> None:
        self.add(entry.path, MaskKind.EMPTY_FOLDER if entry.is_dir() else MaskKind.EMPTY_FILE)

    def _git_directory(self, folder: str, entries: list[os.DirEntry[str]], read_only: bool) -> None:
        """A repository's hooks and configuration. The directory is pinned, or a renamed copy could take its place."""
        if not read_only:
            self.add(folder, MaskKind.PIN)
            self.git_directories.append(folder)
            if os.path.basename(folder) == ".git" and self._read_only(os.path.dirname(folder)) is False:
                self.worktrees.append(os.path.dirname(folder))
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if self._rules.read_denied(folder, entry.name):
                self._hide(entry)
                continue
            if entry.name.lower() in GIT_DENIED and not read_only:
                self.add(entry.path, MaskKind.READ_ONLY)
            if is_folder and entry.name == "worktrees":
                self._linked_worktrees(entry.path, read_only)
            elif is_folder and entry.name != "modules":
                self._sockets_below(entry.path)
            else:
                self._socket(entry)

    def _linked_worktrees(self, folder: str, read_only: bool) -> None:
        """The pointers of each linked worktree: they decide which configuration git on the host obeys there."""
        for entry in self._list(folder):
            if not entry.is_dir(follow_symlinks=False):
                self._socket(entry)
                continue
            if not read_only and not self._shows_worktree_of(entry.path):
                # git inside takes it for stale, and would remove what a worktree of the user's lives from.
                self.add(entry.path, MaskKind.READ_ONLY)
            elif not read_only:
                self.add(entry.path, MaskKind.PIN)
                self.git_directories.append(entry.path)
            for part in self._list(entry.path):
                if part.name.lower() in LINKED_DENIED and not read_only:
                    self.add(part.path, MaskKind.READ_ONLY)
                if part.is_dir(follow_symlinks=False):
                    self._sockets_below(part.path)
                else:
                    self._socket(part)

    def _shows_worktree_of(self, entry: str) -> bool:
        """Whether the wrap shows the worktree that an entry of `.git/worktrees` belongs to; True for one that names
        none, or one that is gone: there is nothing to lose."""
        pointer = read_whole(os.path.join(entry, "gitdir"), POINTER_LIMIT).strip()
        target = os.path.realpath(os.path.join(entry, pointer))
        return not pointer or not os.path.exists(target) or self._bound(target) is not None

    def _sockets_below(self, folder: str) -> None:
        """Looks for nothing but sockets: by the type that the listing brings, names are not compared."""
        found, count = find_sockets(folder, PACKAGE_ENTRY_LIMIT - self._package_entries)
        self._package_entries += count
        if self._package_entries > PACKAGE_ENTRY_LIMIT:
            raise GatewayError(
                f"more than {PACKAGE_ENTRY_LIMIT} files in installed packages: too many to search for sockets",
                "bind a smaller directory (--repo, --bind), or run with --sandbox off",
            )
        for path in found:
            self._cover(path)

    def _socket(self, entry: os.DirEntry[str]) -> None:
        """A socket has nothing to read that a mask could leave: it is covered."""
        if is_socket(entry):
            self._cover(entry.path)

    def _cover(self, path: str) -> None:
        """Unless it is bound itself: whoever names a socket means it to be reached."""
        if path not in self._bound_paths:
            self.add(path, MaskKind.EMPTY_FILE)


def _above(path: str) -> list[str]:
    """The directories above an absolute path, the topmost below "/" first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(2, len(parts))]


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a directory or a link to one; False for a link in a circle."""
    try:
        return entry.is_dir()
    except OSError:
        return False
