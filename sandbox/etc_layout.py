"""The wrap's view of /etc as bubblewrap arguments and files, with as few mounts as can be.

A mount costs more than a small file, and each costs more the more there are. So small files, and directories that hold
a few of them, are copied; links are links; the rest is bound. What was found is kept while none of it has changed: a
process that launches many wraps looks at times instead of reading everything again.
"""

import os
import stat
from collections.abc import Iterator

from sandbox.etc import EtcEntry, Seen, view_etc
from sandbox.layout import DataFile

# Bytes of a file that is copied, and entries of a directory that is.
COPY_LIMIT = 128 << 10
ENTRY_LIMIT = 12
# Files that are copied: each travels as a descriptor, and one message carries 253 of them (unix(7), SCM_RIGHTS).
COPIES_LIMIT = 96

Layout = tuple[tuple[str, ...], tuple[DataFile, ...]]


class _Bound(Exception):
    """Too much of it, or nothing that could be copied."""


class EtcLayout:
    """The layout of a directory like /etc; remembers the last. Of two threads that use it at once both are right."""

    def __init__(self, root: str = "/etc") -> None:
        self._root = root
        self._kept: tuple[Layout, Seen] | None = None

    def now(self) -> Layout:
        """The arguments that make directories, links and binds, and the files that are copied, at this moment."""
        kept = self._kept
        if kept is not None and all(_changed(path) == moment for path, moment in kept[1].items()):
            return kept[0]
        seen: Seen = {}
        arguments: list[str] = []
        files: list[DataFile] = []
        for entry in view_etc(self._root, seen):
            for piece in _cheapest(entry, len(files) <= COPIES_LIMIT - ENTRY_LIMIT):
                if isinstance(piece, DataFile):
                    files.append(piece)
                else:
                    arguments += piece
        layout = (tuple(arguments), tuple(files))
        self._kept = (layout, seen)
        return layout


def _changed(path: str) -> int:
    """When something was last changed in any way, its content and mode included (ns); 0 when it is gone."""
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0


def _cheapest(entry: EtcEntry, may_copy: bool) -> list[DataFile | tuple[str, ...]]:
    """One entry of the view."""
    if entry.target:
        return [("--symlink", entry.target, entry.path)]
    try:
        return list(_copies(entry.path, [ENTRY_LIMIT if may_copy else 0]))
    except (_Bound, OSError):
        return [("--ro-bind", entry.path, entry.path)]


def _copies(path: str, budget: list[int]) -> Iterator[DataFile | tuple[str, ...]]:
    """A file, or a directory and what is in it; `budget` is how many entries it may be."""
    budget[0] -= 1
    if budget[0] < 0:
        raise _Bound
    mode = os.lstat(path).st_mode
    if stat.S_ISLNK(mode):
        yield ("--symlink", os.readlink(path), path)
    elif stat.S_ISREG(mode):
        yield DataFile(path, _read(path))
    elif stat.S_ISDIR(mode):
        yield ("--dir", path)
        for name in sorted(os.listdir(path)):
            yield from _copies(f"{path}/{name}", budget)
    else:
        raise _Bound


def _read(path: str) -> bytes:
    """A small file that everybody may read, still."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or not about.st_mode & stat.S_IROTH or about.st_size > COPY_LIMIT:
            raise _Bound
        content = file.read(COPY_LIMIT + 1) or b""
    if len(content) > COPY_LIMIT:
        raise _Bound
    return content
