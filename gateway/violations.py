"""Violations of a run on their way into the audit log: from whatever thread they come up in, by the loop, counted.

Nobody decides anything here: the wrap has refused already.
"""

import asyncio
import threading
from collections.abc import Callable

from sandbox.events import SandboxEvent, SandboxViolation, Violation


class Violations:
    """Called with the events of a wrap (`launch(on_event=…)`). What comes before `attach` waits for it.

    Recording happens in the loop that `attach` was called in, as everything that writes to the log does. What cannot
    be recorded fails in that loop, as everything does that keeps a command from going on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[SandboxViolation] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._record: Callable[[SandboxViolation], None] | None = None
        self.count = 0

    def __call__(self, event: SandboxEvent) -> None:
        """Takes what is a violation."""
        if not isinstance(event, Violation):
            return
        with self._lock:
            self._waiting.append(event.violation)
            loop = self._loop
            if loop is not None and len(self._waiting) == 1:
                loop.call_soon_threadsafe(self._flush)

    def attach(self, record: Callable[[SandboxViolation], None]) -> None:
        """From here on `record` gets each of them, in the running loop."""
        with self._lock:
            self._loop, self._record = asyncio.get_running_loop(), record
        self._flush()

    def detach(self) -> None:
        """The wrap is destroyed, so nothing more comes: what is there is recorded now."""
        with self._lock:
            self._loop = None
        self._flush()

    def _flush(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for violation in waiting:
            self.count += violation.count
            if self._record is not None:
                self._record(violation)
