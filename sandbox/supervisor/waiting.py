"""Calls that cannot be answered yet: a pipe that nobody reads, a connection that nobody accepted. Asked again later.

Nothing in the supervisor may block, since everybody's calls pass through it, and there is one thread. So whoever
would block is tried without blocking, at growing intervals, for as long as its caller waits.
"""

from _collections_abc import Callable

# Seconds between tries: the first, and the longest.
SHORTEST, LONGEST = 0.001, 0.025
# Calls that wait at once; each holds a descriptor.
WAITING_LIMIT = 512

# Tries once; True when it is over, answered or not.
Attempt = Callable[[], bool]


class Waiter:
    """One call."""

    __slots__ = ("attempt", "delay", "due", "leave")

    def __init__(self, attempt: Attempt, leave: Callable[[], None], due: float) -> None:
        self.attempt = attempt
        self.leave = leave
        self.due = due
        self.delay = SHORTEST


class WaitingRoom:
    """All of them. `attempt` must not raise; `leave` is called once, when it is over."""

    def __init__(self) -> None:
        self._waiters: list[Waiter] = []

    def __len__(self) -> int:
        return len(self._waiters)

    @property
    def is_full(self) -> bool:
        """Whether nobody else may wait."""
        return len(self._waiters) >= WAITING_LIMIT

    def add(self, attempt: Attempt, leave: Callable[[], None], now: float) -> None:
        """Another one, tried for the first time in a moment."""
        self._waiters.append(Waiter(attempt, leave, now + SHORTEST))

    def due(self, now: float) -> float | None:
        """Seconds until `try_again` wants to be called; None when nobody waits."""
        return max(0.0, min(waiter.due for waiter in self._waiters) - now) if self._waiters else None

    def try_again(self, now: float) -> None:
        """Tries everybody whose time has come."""
        staying = []
        for waiter in self._waiters:
            if waiter.due > now or not waiter.attempt():
                if waiter.due <= now:
                    waiter.delay = min(waiter.delay * 2, LONGEST)
                    waiter.due = now + waiter.delay
                staying.append(waiter)
            else:
                waiter.leave()
        self._waiters = staying
