"""The life of one wrap: its state, which changes only as `spec.TRANSITIONS` allows, and what is told of it.

It starts and stops nothing; `wrap.py` does.
"""

import threading
from collections import deque
from collections.abc import Iterator, Mapping

from gateway.errors import GatewayError
from sandbox.backends.base import OnEvent
from sandbox.events import Cause, Killed, Ready, SandboxEvent, SandboxViolation, Starting, Violation
from sandbox.spec import TRANSITIONS, SandboxHandle, SandboxState

# Events that wait for a reader of `events`; nobody need read them. What comes after is only counted.
MOST_WAITING = 4096
# The violation that stands for those that found no room.
UNTOLD = "(more than could be told one by one)"


class Life:
    """State and events. Used from any thread, and from signal handlers."""

    def __init__(self, session_id: str, backend: str, on_event: OnEvent | None = None) -> None:
        self._session_id = session_id
        self._backend = backend
        self._on_event = on_event
        self._changed = threading.Condition()  # reentrant
        self._state = SandboxState.CREATED
        self._error = ""
        self._details: dict[str, str] = {}
        self._events: deque[SandboxEvent] = deque()
        self._untold = 0
        self.tell(Starting())

    @property
    def state(self) -> SandboxState:
        """Where it is now."""
        return self._state

    @property
    def handle(self) -> SandboxHandle:
        """A snapshot."""
        with self._changed:
            return SandboxHandle(
                self._session_id, self._backend, self._state, self._error, dict(self._details)
            )

    def up(self, details: Mapping[str, str]) -> None:
        """The wrap waits for commands; `details` are what a handle tells beside the state."""
        with self._changed:
            self._details |= details
            self.move(SandboxState.WARM)
        self.tell(Ready())

    def move(self, state: SandboxState) -> None:
        """Changes the state. GatewayError where the table knows no such way."""
        with self._changed:
            if state not in TRANSITIONS[self._state]:
                why = f": {self._error}" if self._error else ""
                raise GatewayError(f"the wrap is {self._state}{why}", f"it cannot become {state} from there")
            self._state = state
            self._changed.notify_all()

    def fail(self, error: str, cause: Cause) -> None:
        """The wrap ended by itself or could not be kept. Nothing when it had ended before."""
        with self._changed:
            if SandboxState.ERROR not in TRANSITIONS[self._state]:
                return
            self._error = error
            self.move(SandboxState.ERROR)
        self.tell(Killed(cause))

    def destroyed(self) -> bool:
        """Makes it the last state; False when it was before."""
        with self._changed:
            if self._state is SandboxState.DESTROYED:
                return False
            self.move(SandboxState.DESTROYED)
            return True

    def tell(self, event: SandboxEvent) -> None:
        """Passes an event on, and keeps it for `events`."""
        with self._changed:
            if len(self._events) < MOST_WAITING:
                self._events.append(event)
            else:
                self._untold += event.violation.count if isinstance(event, Violation) else 0
            self._changed.notify_all()
        if self._on_event is not None:
            self._on_event(event)

    def events(self) -> Iterator[SandboxEvent]:
        """From the first not yet read on, until the wrap is destroyed."""
        while True:
            with self._changed:
                while not self._events and self._state is not SandboxState.DESTROYED:
                    self._changed.wait()
                if self._events:
                    event = self._events.popleft()
                elif self._untold:
                    missed, self._untold = self._untold, 0
                    event = Violation(SandboxViolation("unknown", UNTOLD, "", count=missed))
                else:
                    return
            yield event
