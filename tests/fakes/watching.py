"""Watches a directory tree with inotify(7): what appeared, vanished or changed in it, also what is gone again since."""

import ctypes
import errno
import os
import select
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

# sys/inotify.h
MODIFY, ATTRIB, MOVED_FROM, MOVED_TO, CREATE, DELETE, DELETE_SELF, OVERFLOW = (
    2,
    4,
    64,
    128,
    256,
    512,
    1024,
    0x4000,
)
NAMES = {
    MODIFY: "changed",
    ATTRIB: "touched",
    MOVED_FROM: "moved away",
    MOVED_TO: "moved here",
    CREATE: "made",
    DELETE: "removed",
    DELETE_SELF: "removed itself",
    OVERFLOW: "too much to tell",
}
_EVENT = struct.Struct("iIII")
_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass
class Watch:
    """The watched tree. `seen` fills when `look` is called."""

    descriptor: int
    folders: dict[int, str] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    def add(self, folder: Path) -> None:
        """Watches one directory."""
        wanted = MODIFY | ATTRIB | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF
        number = _LIBC.inotify_add_watch(self.descriptor, os.fsencode(folder), wanted)
        assert number >= 0, os.strerror(ctypes.get_errno())
        self.folders[number] = str(folder)

    def look(self) -> list[str]:
        """Everything that has happened so far, a line each."""
        while select.select([self.descriptor], [], [], 0)[0]:
            data = os.read(self.descriptor, 1 << 16)
            while data:
                number, mask, _, length = _EVENT.unpack_from(data)
                name = data[_EVENT.size : _EVENT.size + length].rstrip(b"\0")
                data = data[_EVENT.size + length :]
                words = ", ".join(text for bit, text in NAMES.items() if mask & bit)
                if words:
                    self.seen.append(f"{self.folders.get(number, '?')}/{os.fsdecode(name)}: {words}")
        return self.seen


@contextmanager
def watching(tree: Path) -> Iterator[Watch]:
    """Watches a directory and every one that is below it now."""
    descriptor = _LIBC.inotify_init1(os.O_CLOEXEC)
    assert descriptor >= 0, errno.errorcode.get(ctypes.get_errno())
    try:
        watch = Watch(descriptor)
        for folder, _, _ in os.walk(tree):
            watch.add(Path(folder))
        yield watch
    finally:
        os.close(descriptor)
