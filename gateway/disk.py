"""Room on the disk, kept for what must not fail later. Linux alone can keep some without making the file longer."""

import ctypes
import errno
import sys
from functools import cache
from typing import Final

# linux/falloc.h: the file's size stays as it is.
_KEEP_SIZE: Final = 1


def keep_room(descriptor: int, start: int, length: int) -> bool:
    """Whether the disk now keeps `length` bytes for the file from `start` on; False where it has none or cannot say.
    Cutting the file to its own size gives them back."""
    fallocate = _fallocate()
    if fallocate is None:
        return False
    while fallocate(descriptor, _KEEP_SIZE, start, length) != 0:
        if ctypes.get_errno() != errno.EINTR:
            return False
    return True


@cache
def _fallocate() -> "ctypes._NamedFuncPointer | None":
    """fallocate(2), where the system has it."""
    if sys.platform != "linux":
        return None
    found = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong)
    return found
