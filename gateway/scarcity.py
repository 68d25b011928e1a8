"""What the system has too little of, in a sentence: it is no fault of ours, and nobody reads it out of a traceback."""

import errno
from collections.abc import Iterator, Mapping
from typing import Final

# What the errors of the system mean, and what to do about them.
_ERRORS: Final[Mapping[int | None, str]] = {
    errno.EAGAIN: "raise this user's limit of processes: ulimit -u, or the container's pids limit",
    errno.ENOMEM: "end something else, or raise this user's limit: ulimit -v",
    errno.EMFILE: "raise this user's limit of open files: ulimit -n",
    errno.ENFILE: "the whole system has too many open files: raise fs.file-max",
    errno.ENOSPC: "make room on that disk, or keep the state on another one: XDG_STATE_HOME",
    errno.EDQUOT: "make room in this user's quota, or keep the state on another disk: XDG_STATE_HOME",
}
# What CPython says when pthread_create(3) fails; there is no number.
_NO_THREAD: Final = "can't start new thread"


def what_is_wanting(error: BaseException) -> str:
    """The sentence, with what to do, for an exception or one that it came after; empty for all others."""
    return next(filter(None, map(_of_one, _chain(error))), "")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and those that it came after: cleaning up after the first may fail for the same reason."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        if isinstance(error, BaseExceptionGroup):
            for one in error.exceptions:
                yield from _chain(one)
        error = error.__cause__ or error.__context__


def _of_one(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory (end something else, or raise this user's limit: ulimit -v)"
    if isinstance(error, RuntimeError) and _NO_THREAD in str(error):
        return "no more threads may be started (raise this user's limit: ulimit -u, or the container's pids limit)"
    if isinstance(error, OSError) and error.errno in _ERRORS:
        return f"{error.strerror} ({_ERRORS[error.errno]})"
    return ""
