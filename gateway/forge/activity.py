"""What the forge is busy with, so that others can wait for it to come to rest."""

import threading
from collections.abc import Hashable


class Activity:
    """Requests and processes under way. Changes; may be used from any thread."""

    def __init__(self) -> None:
        self._items: set[Hashable] = set()
        self._change = threading.Condition()

    def begin(self, item: Hashable) -> None:
        """One more is under way."""
        with self._change:
            self._items.add(item)

    def end(self, item: Hashable) -> None:
        """It is over; again is no error."""
        with self._change:
            self._items.discard(item)
            self._change.notify_all()

    def wait_until_idle(self, timeout: float) -> bool:
        """Blocks until nothing is under way; False when that takes more seconds."""
        with self._change:
            return self._change.wait_for(lambda: not self._items, timeout)
