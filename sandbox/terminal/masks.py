"""What a person's own shell may not read, reach or write although its home is writable: found at launch, by its path.

No directory is searched: a home holds too much for that. What does not exist yet is not covered, since a mount would
leave an empty file in its place. Reads the host, changes nothing.
"""

import glob
import os
import re
import stat

from gateway.errors import GatewayError
from sandbox.masks import STRENGTH, Mask, MaskKind
from sandbox.places import SYSTEM_SECRETS, Guard, within
from sandbox.spec import SandboxSpec

# Every socket of this network namespace that has a name (proc_net_unix(5)).
SOCKET_LIST = "/proc/net/unix"
# The listing of a very busy host; a line has about a hundred bytes.
SOCKET_LIST_LIMIT = 16 << 20
# A character that stands for itself (glob.escape).
_ESCAPED = re.compile(r"\[([*?[])\]")


class Covers:
    """Collects masks."""

    def __init__(self, shown: tuple[str, ...], private: tuple[str, ...]) -> None:
        """`shown` are the binds, and `private` the mounts of the wrap's own, in which only binds are seen."""
        self._shown = shown
        self._private = private
        self._found: dict[str, MaskKind] = {}

    def hide(self, path: str) -> None:
        """Makes what stands there unreadable, and where a link leads."""
        self._cover(path, MaskKind.EMPTY_FILE)

    def seal(self, path: str) -> None:
        """Makes what stands there read-only, and where a link leads."""
        self._cover(path, MaskKind.READ_ONLY)

    def in_order(self) -> tuple[Mask, ...]:
        """Parents before children, without what lies in a hidden directory: nothing is left of that."""
        hidden = [path for path, kind in self._found.items() if kind is MaskKind.EMPTY_FOLDER]
        kept = [
            Mask(path, kind)
            for path, kind in self._found.items()
            if not any(path != above and within(path, above) for above in hidden)
        ]
        return tuple(sorted(kept, key=lambda mask: (mask.path.count("/"), mask.path)))

    def _cover(self, path: str, kind: MaskKind) -> None:
        real = os.path.realpath(path)
        if not self._is_seen(real):
            return
        for above in _above(real):
            if _is_shut(above):
                # Nobody gets through, unless who owns it opens it: then it is what has to be covered.
                if os.stat(above).st_uid == os.geteuid():
                    self._take(above, MaskKind.EMPTY_FOLDER)
                return
        try:
            is_folder = stat.S_ISDIR(os.stat(real).st_mode)
        except OSError:
            return
        hides = kind is not MaskKind.READ_ONLY
        self._take(real, MaskKind.EMPTY_FOLDER if hides and is_folder else kind)

    def _take(self, path: str, kind: MaskKind) -> None:
        found = self._found.get(path)
        if found is None or STRENGTH[found] < STRENGTH[kind]:
            self._found[path] = kind

    def _is_seen(self, path: str) -> bool:
        if any(within(path, bind) for bind in self._shown):
            return True
        return not any(within(path, mount) for mount in self._private)


def secret_covers(covers: Covers, spec: SandboxSpec, places: Guard) -> None:
    """Hides logins and keys, the product's own state, and what the configuration says. GatewayError for what is no
    plain path there: it would have to be searched for everywhere."""
    for path in (*places.secrets, *SYSTEM_SECRETS, *places.own):
        covers.hide(path)
    for rule in spec.deny_read:
        path = _ESCAPED.sub(r"\1", rule)
        if not path.startswith("/") or glob.has_magic(_ESCAPED.sub("", rule)):
            raise GatewayError(
                f"files.deny_read: {rule!r} cannot be kept in a terminal, which shows the whole file system",
                "write an absolute path without wildcards, or use --backend none",
            )
        covers.hide(path)


def socket_covers(covers: Covers, listing: str = SOCKET_LIST) -> None:
    """Covers the sockets that somebody listens on: a container engine or a key agent is a way around the wrap."""
    for path in listed_sockets(listing):
        try:
            is_socket = stat.S_ISSOCK(os.lstat(path).st_mode)
        except (OSError, ValueError):
            continue
        if is_socket:
            covers.hide(path)


def listed_sockets(listing: str) -> list[str]:
    """The absolute paths in a listing of Unix sockets, each once; none where there is no such listing."""
    try:
        with open(listing, "rb") as file:
            data = file.read(SOCKET_LIST_LIMIT)
    except OSError:
        return []
    fields = (line.split(None, 7) for line in data.split(b"\n")[1:])
    named = (os.fsdecode(parts[7]) for parts in fields if len(parts) == 8)
    return sorted({path for path in named if path.startswith("/")})


def _above(path: str) -> list[str]:
    """The directories above an absolute path, the topmost below "/" first."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(2, len(parts))]


def _is_shut(folder: str) -> bool:
    """Whether this user, without the powers of an administrator, cannot pass through a directory."""
    try:
        found = os.stat(folder)
    except OSError:
        return False
    if found.st_uid == os.geteuid():
        return not found.st_mode & stat.S_IXUSR
    if found.st_gid in (os.getegid(), *os.getgroups()):
        return not found.st_mode & stat.S_IXGRP
    return not found.st_mode & stat.S_IXOTH
