"""Becomes an ordinary user who can read the interpreter and the sources: `python ordinary.py UID PATH… -- CMD…`.

Run by root in a mount namespace of its own (`unshare --mount`). A PATH below somebody's private home is shown at the
very same place, since an interpreter knows by heart where its library is; the rest of that home is gone.
"""

import os
import stat
import subprocess
import sys
import tempfile


def closed_ancestor(path: str) -> str:
    """The topmost directory above `path` that others cannot enter; empty when all are open."""
    parts = path.split("/")
    for end in range(2, len(parts) + 1):
        above = "/".join(parts[:end])
        if not os.stat(above).st_mode & stat.S_IXOTH:
            return above
    return ""


def open_ways(paths: list[str]) -> None:
    """Replaces every closed ancestor by an empty directory that holds nothing but the paths."""
    closed = {path: closed_ancestor(path) for path in paths}
    aside = {}
    for path, above in closed.items():
        if above:
            aside[path] = tempfile.mkdtemp(dir="/mnt" if os.access("/mnt", os.W_OK) else "/var/tmp")
            subprocess.run(("mount", "--bind", path, aside[path]), check=True)
    for above in sorted(set(closed.values()) - {""}):
        subprocess.run(("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", above), check=True)
    for path, place in aside.items():
        os.makedirs(path, exist_ok=True)
        subprocess.run(("mount", "--bind", place, path), check=True)
        subprocess.run(("umount", place), check=True)
        os.rmdir(place)


def main(arguments: list[str]) -> None:
    """Opens the ways, gives up root, becomes CMD."""
    cut = arguments.index("--")
    user = int(arguments[0])
    open_ways(arguments[1:cut])
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    os.execvp(arguments[cut + 1], arguments[cut + 1 :])


if __name__ == "__main__":
    main(sys.argv[1:])
