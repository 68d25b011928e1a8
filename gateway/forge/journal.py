"""What the forge was asked, for whoever wants to know afterwards. Holds numbers of tokens, never their text."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from gateway.forge.tokens import Credential

# Requests remembered; older ones are forgotten.
_KEPT: Final = 10_000


@dataclass(frozen=True, slots=True)
class Seen:
    """One request. `path` with its query, as sent; `token`: the number of the token it came with, 0 for none."""

    method: str
    path: str
    credential: Credential
    token: int


class Journal:
    """The last requests, oldest first. Changes; may be read from any thread.

    A request stands here before it is answered, so whoever has an answer finds its request.
    """

    def __init__(self) -> None:
        self._seen: deque[Seen] = deque(maxlen=_KEPT)
        self._change = threading.Condition()

    def __iter__(self) -> Iterator[Seen]:
        with self._change:
            return iter(tuple(self._seen))

    def __len__(self) -> int:
        return len(self._seen)

    def paths(self, method: str) -> list[str]:
        """Of the requests with that method."""
        return [seen.path for seen in self if seen.method == method]

    def clear(self) -> None:
        """Forgets all."""
        with self._change:
            self._seen.clear()

    def note(self, seen: Seen) -> None:
        """One more."""
        with self._change:
            self._seen.append(seen)
            self._change.notify_all()

    def wait_for(self, wanted: Callable[[Seen], bool], timeout: float = 30.0) -> bool:
        """Blocks until such a request stands here; False after `timeout` seconds. Not for the forge's own thread."""
        with self._change:
            return self._change.wait_for(lambda: any(map(wanted, self._seen)), timeout)
