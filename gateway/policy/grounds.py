"""Where paths lie for one session: in what it may write, in what is the wrap's own, or outside. Text work only.

What only the file system or the file rules can tell (where links lead, what is protected, what is a secret) comes in as
functions from the composition root.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

# Linux's PATH_MAX: no path that a program can open is longer.
PATH_LIMIT: Final = 4096
# Places that are nobody's file.
_DEVICES: Final = frozenset(
    f"/dev/{name}"
    for name in ("null", "zero", "full", "tty", "stdin", "stdout", "stderr", "random", "urandom")
)
_DESCRIPTORS: Final = "/dev/fd"


class Place(StrEnum):
    """Where a path lies. `PRIVATE` is the wrap's own (its /tmp, its home) or a device: nothing of the host's."""

    INSIDE = "inside"
    PRIVATE = "private"
    OUTSIDE = "outside"


def _nothing(path: str) -> bool:
    return False


def normal(path: str) -> str:
    """An absolute path without `.`, `..`, doubled and closing slashes, by its text alone. Empty for a relative one."""
    if not path.startswith("/"):
        return ""
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            del steps[-1:]
        elif step not in ("", "."):
            steps.append(step)
    return "/" + "/".join(steps)


def within(path: str, root: str) -> bool:
    """Whether a path is that root or lies below it; both as `normal` gives them. Nothing lies in an empty root."""
    return bool(root) and (path == root or path.startswith(root.rstrip("/") + "/"))


@dataclass(frozen=True, slots=True)
class Grounds:
    """The places of a session, absolute paths in the form of `normal`; an empty text is no place.

    `cwd` is where relative paths begin, `home` what `~` stands for. `writable` are the roots the session may change
    (the worktree among them, in chat), `private` those that are the wrap's own. A path in both is inside: roots may lie
    in the private /tmp. `protected` and `secret` are asked about a path as `absolute` gives it. `resolve` says where
    an absolute path that is not private leads, links followed.
    """

    worktree: str = ""
    cwd: str = ""
    home: str = ""
    writable: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    protected: Callable[[str], bool] = _nothing
    secret: Callable[[str], bool] = _nothing
    resolve: Callable[[str], str] = normal

    def at(self, cwd: str) -> "Grounds":
        """The same grounds for who stands in another directory, named as `absolute` takes it; an unknown one leaves
        relative paths unknown."""
        return replace(self, cwd=self.absolute(cwd))

    def absolute(self, path: str) -> str:
        """The path that is meant, absolute and without links; empty when that cannot be told: nothing at all, a NUL, a
        relative path without a `cwd`, somebody else's home, or longer than any path is."""
        if not path or "\0" in path or len(path) > PATH_LIMIT:
            return ""
        if path == "~" or path.startswith("~/"):
            path = self.home + path[1:] if self.home else ""
        elif path.startswith("~"):
            return ""
        elif not path.startswith("/"):
            path = f"{self.cwd}/{path}" if self.cwd else ""
        found = normal(path)
        if not found or self._lies_private(found):
            return found
        return normal(self.resolve(path))

    def place(self, path: str) -> Place:
        """Where a path lies, as `absolute` gives it. What is not known (empty) lies outside."""
        if any(within(path, root) for root in self.writable):
            return Place.INSIDE
        return Place.PRIVATE if self._lies_private(path) else Place.OUTSIDE

    def is_protected(self, path: str) -> bool:
        """Whether file rules deny writing it. What is not known is protected."""
        return not path or self.protected(path)

    def is_secret(self, path: str) -> bool:
        """Whether reading it reads a secret. What is not known is taken for one."""
        return not path or self.secret(path)

    def _lies_private(self, path: str) -> bool:
        if path in _DEVICES or within(path, _DESCRIPTORS):
            return True
        roots = [root for root in self.private if within(path, root)]
        return bool(roots) and not any(within(path, root) for root in self.writable)
