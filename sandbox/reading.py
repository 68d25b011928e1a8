"""Bounded reading of small files that somebody else may have put there."""

import os
import stat


def read_start(path: str, limit: int) -> bytes:
    """At most `limit` bytes from the start of a regular file; empty when there is none or it cannot be read."""
    try:
        # Not blocking: a FIFO would otherwise hold the launch up.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, limit) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def read_whole(path: str, limit: int) -> str:
    """A small file's text; empty when it is longer than `limit`: half a pointer is worse than none."""
    data = read_start(path, limit + 1)
    return os.fsdecode(data) if len(data) <= limit else ""
