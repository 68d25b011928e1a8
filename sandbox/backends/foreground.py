"""The one command of a wrap that has the caller's terminal: how it ends, and who ended it. It has no streams to read.

The backend knows how to wait for it, signal it and end it, and what to do when a process of its own was killed around
it; that is given.
"""

import threading
from collections.abc import Callable, Iterator

from sandbox.backends.base import FAILED, KILLED
from sandbox.events import Cause, Exit, Killed, SandboxEvent
from sandbox.memory import OomWatch


class Foreground:
    """An `Execution`. `wait` may be called many times and by many, and gives None when the wrap itself has ended around
    the command; `send` takes a signal, `end` kills the tree. `lost` is called once when nobody here had ended it."""

    def __init__(
        self,
        wait: Callable[[], int | None],
        send: Callable[[int], None],
        end: Callable[[], None],
        timeout: float | None,
        oom: OomWatch | None,
        lost: Callable[[Cause], None],
    ) -> None:
        self._wait = wait
        self._send = send
        self._end = end
        self._oom = oom
        self._lost = lost
        self._lock = threading.RLock()
        self._cause: Cause | None = None
        self._is_lost = False
        self._code: int | None = None
        self._told = False
        self._timer: threading.Timer | None = None
        if timeout is not None:
            self._timer = threading.Timer(timeout, self.end, (Cause.TIMEOUT,))
            self._timer.daemon = True
            self._timer.start()

    def __iter__(self) -> Iterator[SandboxEvent]:
        code = self.wait()
        with self._lock:
            told, self._told = self._told, True
        if told:
            return
        cause = self._cause
        if self._is_lost or (code == KILLED and cause is None and self._short_of_memory()):
            cause = Cause.OOM if self._short_of_memory() else Cause.MANUAL
        if (code == KILLED or self._is_lost) and cause is not None:
            yield Killed(cause)
        yield Exit(code)

    def write(self, data: bytes) -> None:
        """It reads from where the caller does."""
        raise BrokenPipeError("the command has the caller's own input")

    def close_stdin(self) -> None:
        """Likewise."""

    def signal(self, number: int) -> None:
        """To the command itself."""
        self._send(number)

    def kill(self) -> None:
        """With everything it started."""
        self.end(Cause.MANUAL)

    def wait(self) -> int:
        """Its exit status."""
        code = self._wait()
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            first = self._code is None
            if self._code is None:
                self._is_lost = code is None and self._cause is None
                self._code = FAILED if self._is_lost else KILLED if code is None else code
            code = self._code
        if first and self._is_lost:
            self._lost(Cause.OOM if self._short_of_memory() else Cause.MANUAL)
        return code

    def _short_of_memory(self) -> bool:
        return self._oom is not None and self._oom.happened()

    def end(self, cause: Cause) -> None:
        """Kills it for this cause, unless it was killed before."""
        with self._lock:
            if self._cause is None:
                self._cause = cause
        self._end()

    def settle(self, seconds: float) -> None:
        """Nothing of it stays behind but its clock."""
        if self._timer is not None:
            self._timer.cancel()
            if threading.current_thread() is not self._timer:
                self._timer.join(seconds)
