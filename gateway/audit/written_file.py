"""A file of the log while it is written: whole lines or nothing, and room on the disk for what must not fail later."""

import contextlib
import fcntl
import os
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from gateway.disk import keep_room
from gateway.errors import AuditError

_HALF: Final = "the audit log took half a record (is the disk full?)"


class UnusableFile(AuditError):
    """Nothing more may be written to this file ever: the chain would break."""


@dataclass(slots=True)
class WrittenFile:
    """An open file. Changes with every line. `descriptor` is -1 once closed, `dirty` until synced."""

    path: Path
    descriptor: int
    size: int = 0
    dirty: bool = False
    # Up to here the disk keeps room for this file.
    room: int = 0

    @classmethod
    def make(cls, path: Path) -> Self:
        """Makes the file, which is not there yet, and locks it for as long as it stays open. OSError."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        file = cls(path, os.open(path, flags, 0o600))
        lock(file.descriptor)
        return file

    def append(self, data: bytes) -> None:
        """Appends with one write(2). AuditError, OSError when the file is what it was; UnusableFile when it is not."""
        facts = os.fstat(self.descriptor)
        if facts.st_nlink == 0:
            raise UnusableFile(
                f"the audit file {self.path} was removed while it was being written",
                "restore the audit directory and start again",
            )
        if facts.st_size != self.size:
            raise UnusableFile(
                f"the audit file {self.path} was changed by another program",
                "find out by whom, and start again",
            )
        written = os.write(self.descriptor, data)
        # After the write: a sync between the two would take an unwritten line for synced.
        self.dirty = True
        if written != len(data):
            # Half a line would break the chain for a reader: take it back, or write nothing more ever.
            try:
                os.ftruncate(self.descriptor, self.size)
            except OSError as error:
                raise UnusableFile(_HALF) from error
            self.room = 0
            raise AuditError(_HALF)
        self.size += written

    def is_intact(self) -> bool:
        """Whether the file is there, and as long as it was left."""
        facts = os.fstat(self.descriptor)
        return facts.st_nlink > 0 and facts.st_size == self.size

    def keeps_room(self, end: int, wanted: int) -> bool:
        """Whether the disk keeps room for the file up to `end`; else it is asked to keep it up to `wanted`."""
        longest, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        if longest != resource.RLIM_INFINITY and end > longest:
            return False
        if end > self.room:
            if not keep_room(self.descriptor, self.size, wanted - self.size):
                return False
            self.room = wanted
        return True

    def bring_to_disk(self) -> None:
        """fsync, unless nothing was written since the last one. OSError."""
        if self.dirty and self.descriptor >= 0:
            self.dirty = False
            os.fsync(self.descriptor)

    def close(self) -> None:
        """Closes. Idempotent."""
        if self.descriptor < 0:
            return
        if self.room > self.size:
            with contextlib.suppress(OSError):
                # Gives back what was kept behind the end, but takes nothing away that another program wrote there.
                os.ftruncate(self.descriptor, os.fstat(self.descriptor).st_size)
        os.close(self.descriptor)
        self.descriptor = -1


def lock(descriptor: int) -> bool:
    """Locks a file for as long as it stays open, to tell other processes that it is written; False if it is already.
    A file system without locks protects nothing, but takes records all the same."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def is_written(path: Path) -> bool:
    """Whether a process has the file open for writing. Not for one that was made just now: it would find the file
    locked by us. OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return not lock(descriptor)
    finally:
        os.close(descriptor)
