"""What the system has too little of, as a sentence."""

import errno
import os

import pytest

from gateway.scarcity import what_is_wanting


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            RuntimeError("can't start new thread"),
            "no more threads may be started (raise this user's limit: ulimit -u",
        ),
        (MemoryError(), "there is not enough memory ("),
        (
            ExceptionGroup("two", [ValueError(), ExceptionGroup("one", [MemoryError()])]),
            "there is not enough memory (",
        ),
        (OSError(errno.EAGAIN, "no more"), "no more (raise this user's limit of processes: ulimit -u"),
        (OSError(errno.EMFILE, "too many"), "too many (raise this user's limit of open files: ulimit -n)"),
        (OSError(errno.ENOSPC, "full"), "full (make room on that disk"),
        (
            OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
            f"{os.strerror(errno.EDQUOT)} (make room in this user's",
        ),
    ],
)
def test_sentence(error: Exception, said: str) -> None:
    assert what_is_wanting(error).startswith(said)
    late = KeyError("cleaning up")
    late.__context__ = error
    assert what_is_wanting(late).startswith(said)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("cannot join thread"),
        OSError(errno.EACCES, "no"),
        OSError("text"),
        KeyError(),
        ExceptionGroup("", [KeyError()]),
    ],
)
def test_what_is_something_else(error: Exception) -> None:
    assert what_is_wanting(error) == ""


def test_circle() -> None:
    first, second = KeyError(), ValueError()
    first.__context__, second.__context__ = second, first
    assert what_is_wanting(first) == ""
