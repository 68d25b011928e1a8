"""Compresses finished audit files while the gateway runs: in a thread of its own, which gives way to all else."""

import contextlib
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.audit.retention import compress_finished

# Seconds for which a finished file stays plain: whoever follows the log reads it to its end.
STAYS_PLAIN: Final = 3600
# The note of the last look for old files, and seconds for which it is good enough: a look takes long where there are
# tens of thousands of files, and nobody wants to wait for it at the end of every run.
_MARK: Final = "audit-looked"
_LOOKED: Final = 3600
# Seconds between two looks for what can be compressed.
_EVERY: Final = 900.0
# What the thread gives way with, where a thread can (Linux).
_NICENESS: Final = 15

_log = logging.getLogger(__name__)


def is_due(state: Path | None, now: int) -> bool:
    """Whether finished and old files are to be looked for: not within an hour of the last look that a process of this
    state directory took, and then this is the next. `now` is in nanoseconds since the epoch. Where nobody can note it,
    always."""
    if state is None:
        return True
    mark = state / _MARK
    try:
        if 0 <= now - mark.stat(follow_symlinks=False).st_mtime_ns < _LOOKED * 10**9:
            return False
    except OSError:
        pass
    with contextlib.suppress(OSError):
        descriptor = os.open(mark, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.utime(descriptor, ns=(now, now))
        finally:
            os.close(descriptor)
    return True


class Tending:
    """Compresses now and then. Changes; used from one thread at a time. `stop` must follow."""

    def __init__(self, directory: Path, clock: Callable[[], int]) -> None:
        self._directory = directory
        self._clock = clock
        self._next = time.monotonic()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()

    def wait(self) -> None:
        """Nothing is to be compressed before the time of another look: somebody has looked just now."""
        self._next = time.monotonic() + _EVERY

    def compress_now_and_then(self) -> None:
        """Starts the thread when it is time, and nothing is compressed yet."""
        if self._stopped.is_set() or time.monotonic() < self._next:
            return
        if self._thread is not None and self._thread.is_alive():
            return
        self._next = time.monotonic() + _EVERY
        self._thread = threading.Thread(target=self._compress, name="audit compression", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; a file that is half compressed stays plain. Idempotent."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _compress(self) -> None:
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        before = self._clock() - STAYS_PLAIN * 1_000_000_000
        try:
            compress_finished(self._directory, before, lambda: not self._stopped.is_set())
        except OSError as error:
            _log.warning("finished audit files cannot be compressed: %s", error.strerror or error)
