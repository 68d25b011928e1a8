"""What the governed git configurations last held. Removing is not policed; so what was removed is remembered: a
replacement is judged against it, and when the wrap is over it is put back.

Without that an agent would remove a configuration and write one of its own: hooks paths, signing and remotes of the
user's would be gone, and nothing in the new file would be a change.
"""

import os
import stat
from _collections_abc import Iterable  # without the rest of `collections`

from sandbox.supervisor import kernel

# Larger than any configuration that people write.
SIZE_LIMIT = 1 << 20
# Of a configuration that is there: it is read at once, never waited for.
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_PIN_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Configurations:
    """Paths as the host and the wrap have them, with content and mode. Made before anything runs in the wrap."""

    __slots__ = ("_known",)

    def __init__(self, paths: Iterable[str]) -> None:
        self._known: dict[bytes, tuple[bytes, int]] = {}
        for path in paths:
            encoded = path.encode("utf-8", "surrogateescape")
            try:
                descriptor = os.open(encoded, READ)
            except OSError:
                continue  # not there, or nobody's to read: nothing is known of it
            try:
                status = os.fstat(descriptor)
                content = os.read(descriptor, SIZE_LIMIT + 1) if stat.S_ISREG(status.st_mode) else b""
                if content and len(content) <= SIZE_LIMIT:
                    self._known[encoded] = content, stat.S_IMODE(status.st_mode)
            finally:
                os.close(descriptor)

    def last(self, path: bytes) -> bytes:
        """What it held when it was last seen; empty when it never was."""
        return self._known.get(path, (b"", 0))[0]

    def remember(self, path: bytes, content: bytes, mode: int) -> None:
        """It holds this now. Of a path that was not governed at the start nothing is kept."""
        if path in self._known:
            self._known[path] = content, mode & 0o777

    def restore(self) -> list[bytes]:
        """Puts back what is missing, in directories that are still where they were; returns the paths."""
        return [path for path, (content, mode) in self._known.items() if _put_back(path, content, mode)]


def _put_back(path: bytes, content: bytes, mode: int) -> bool:
    """Whether it was missing and is there again. Whatever else stands there is left alone."""
    above, _, name = path.rpartition(b"/")
    try:
        folder = kernel.openat2(-100, above, _PIN_FOLDER, kernel.NO_SYMLINKS)
    except OSError:
        return False
    try:
        descriptor = os.open(name, _NEW, mode, dir_fd=folder)
        try:
            os.fchmod(descriptor, mode)
            return os.write(descriptor, content) == len(content)
        finally:
            os.close(descriptor)
    except OSError:
        return False
    finally:
        os.close(folder)
