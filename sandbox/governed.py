"""What the create-time rules govern in one wrap: the search for it, and its result. Reads directories, changes nothing.

With these rules no mount denies a name: it is judged when it is made. What judging by name alone cannot know is
found here once, at launch: where git directories are, where links of denied names lead, what is protected by its path.
"""

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sandbox.filerules import GIT_DENIED, LINKED_DENIED, WRITE_DENIED_PATHS, NameRules
from sandbox.git.obeyed import obeyed_paths
from sandbox.masks import Mask, MaskKind, Search
from sandbox.places import account_home, within

# Mounts of the wrap's own. What lies in one is nobody else's business, unless something of the host is bound into it.
PRIVATE_MOUNTS = ("/tmp", "/var/tmp", "/dev", "/proc")
# A repository's configuration: the one file of it whose replacement is judged instead of refused.
CONFIG = "config"
# Package caches below the private home. Packages bring certificates and keys of their own (`cacert.pem`, test data);
# what is unpacked here is read by the tools of this workspace alone.
PACKAGE_CACHES = (
    ".cache",  # pip, uv, yarn, go-build, pre-commit …
    ".npm",
    ".yarn",
    ".local/share/pnpm",
    ".cargo/registry",
    ".cargo/git",
    "go/pkg",
    ".gradle/caches",
    ".m2/repository",
    ".nuget/packages",
    ".gem",
    ".bundle/cache",
)


@dataclass(frozen=True, slots=True)
class Governed:
    """Absolute, resolved paths; they are the same outside and inside.

    `writable` are the binds that can be written: everything below is judged. `read_only` are binds that cannot, in
    a place where something else can: the kernel keeps them from being written, not from being moved aside by
    somebody who sees none of the wrap's mounts. `private` are the wrap's own mounts that hold no writable bind,
    `own` those that do. `sealed` is never written, made, renamed or replaced, nor what is below, nor may a
    directory above it (below a bind) be renamed; a sealed path need not exist. Of `git_configs` a replacement is
    judged by its content. `allow_write` are exceptions in addition to the configuration's. `closed` are the binds
    of the spec that are read-only: what the kernel refuses there is told.
    """

    writable: tuple[str, ...]
    private: tuple[str, ...]
    own: tuple[str, ...]
    sealed: tuple[str, ...]
    git_configs: tuple[str, ...]
    allow_write: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()


class Ground(Search):
    """The search for what is governed.

    The masks that are left hide sockets and what may not be read; and since nobody is asked before something is
    removed, they hold in place what is sealed and there: hooks, git's pointers, protected paths. Without its
    `commondir`, say, a linked worktree's entry would be a repository of its own, with another configuration.
    """

    def __init__(self, rules: NameRules, roots: Mapping[str, bool], sealed: Collection[str]) -> None:
        super().__init__(rules, roots, sealed)
        self._found: set[str] = set()

    def add(self, path: str, kind: MaskKind) -> None:
        """Hides what is to be hidden; what would be read-only is sealed where its name alone does not tell."""
        if kind in (MaskKind.EMPTY_FILE, MaskKind.EMPTY_FOLDER):
            super().add(path, kind)
        elif kind is MaskKind.READ_ONLY:
            folder, name = os.path.split(path)
            real = os.path.realpath(path)
            if real == path and not self._rules.write_denied(folder, name):
                self._found.add(path)
                if name.lower() != CONFIG or folder not in self.git_directories:
                    super().add(path, kind)
            elif real != path and not self._holds_all(real, path):
                self._found |= {path, real}

    def seal(self, path: str) -> None:
        """A protected path; it need not exist."""
        self._found.add(path)
        if os.path.lexists(path):
            super().seal(path)

    def seal_links(self, paths: Iterable[str]) -> None:
        """Protected paths as they are written: where one is a link, that stays what it is as well."""
        for path in paths:
            folder, name = os.path.split(os.path.normpath(path))
            written = os.path.join(os.path.realpath(folder), name)
            if os.path.islink(written):
                self._found.add(written)

    def _pins(self) -> list[Mask]:
        """None: whoever is asked before a rename needs no mount that refuses it."""
        return []

    def _linked_folder(self, link: os.DirEntry[str], rules: NameRules) -> None:
        """What is denied in the directory that a link leads to is denied there whether it exists or not."""
        super()._linked_folder(link, rules)
        real = os.path.realpath(link.path)
        if not self._holds_all(real, link.path):
            self._found |= {os.path.join(real, name) for name in _denied_in(link.name)}

    def governed(
        self, binds: Iterable[tuple[str, bool]], private: Iterable[str], home: str, masks: Iterable[Mask]
    ) -> Governed:
        """All of it. `binds` are paths and whether read-only, `home` is the bound private home or empty."""
        shown = dict(binds)
        writable = tuple(sorted(path for path, read_only in shown.items() if not read_only))
        sealed = self._found | {*self.links, *(mask.path for mask in masks)}
        of_git, configs = self._of_git()
        sealed |= of_git
        own = {mount for mount in private if any(within(path, mount) for path in writable)}
        return Governed(
            writable=writable,
            private=tuple(sorted(set(private) - own)),
            own=tuple(sorted(own)),
            sealed=tuple(sorted(path for path in sealed - configs if _reachable(path, writable))),
            git_configs=tuple(sorted(configs)),
            allow_write=tuple(f"{home}/{cache}/*" for cache in PACKAGE_CACHES) if home else (),
            closed=tuple(sorted(path for path, read_only in self._roots if read_only)),
            read_only=tuple(
                sorted(
                    path for path, closed in shown.items() if closed and _reachable(path, (*writable, *own))
                )
            ),
        )

    def _of_git(self) -> tuple[set[str], set[str]]:
        """What of every git directory is sealed, there or not, and the configurations that are judged instead."""
        sealed, configs = set(), set()
        entries = {os.path.join(folder, "worktrees") for folder in self.git_directories}
        for folder in self.git_directories:
            linked = os.path.dirname(folder) in entries
            sealed |= {os.path.join(folder, name) for name in (LINKED_DENIED if linked else GIT_DENIED)}
            sealed |= obeyed_paths(folder, account_home())
            config = os.path.join(folder, CONFIG)
            protected = any(within(config, path) for path in self._sealed)
            if not linked and not protected and not os.path.islink(config):
                configs.add(config)
        return sealed, configs


def _denied_in(folder: str) -> tuple[str, ...]:
    """Names that the shipped rules deny in a directory of this name."""
    ends = (end.split("/") for end in WRITE_DENIED_PATHS)
    return tuple(parts[-1] for parts in ends if parts[-2] == folder.lower())


def _reachable(path: str, writable: Collection[str]) -> bool:
    """Whether it lies in something that can be written."""
    return any(within(path, root) for root in writable)
