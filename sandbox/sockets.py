"""Finds sockets in directories where nothing else is looked for. Reads listings, opens nothing.

A service of the host listens on a socket (an editor, a file watcher): a way out of the wrap,
also where it is read-only.
"""

import os
import stat
from collections.abc import Iterable


def is_socket(entry: os.DirEntry[str]) -> bool:
    """Whether it is a socket itself. The listing brings the common types along; only the rest costs a call."""
    if entry.is_file(follow_symlinks=False) or entry.is_symlink():
        return False
    try:
        return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return False


def sockets_among(paths: Iterable[str]) -> tuple[str, ...]:
    """Those of the paths that are sockets themselves."""
    return tuple(path for path in paths if _is_socket_at(path))


def _is_socket_at(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path, follow_symlinks=False).st_mode)
    except OSError:
        return False


def find_sockets(folder: str, limit: int) -> tuple[list[str], int]:
    """The sockets anywhere below `folder`, and how many entries were looked at. It stops above `limit` entries."""
    found: list[str] = []
    count = 0
    pending = [folder]
    while pending and count <= limit:
        entries = _list(pending.pop())
        count += len(entries)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                pending.append(entry.path)
            elif is_socket(entry):
                found.append(entry.path)
    return found, count


def _list(folder: str) -> list[os.DirEntry[str]]:
    """A directory's entries; none when it cannot be listed."""
    try:
        with os.scandir(folder) as listing:
            return list(listing)
    except OSError:
        return []
