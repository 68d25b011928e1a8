"""What the forge was asked, for whoever wants to know afterwards. Holds numbers of tokens, never their text."""

from collections import deque
from collections.abc import Iterator
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

    def __iter__(self) -> Iterator[Seen]:
        return iter(tuple(self._seen))

    def __len__(self) -> int:
        return len(self._seen)

    def paths(self, method: str) -> list[str]:
        """Of the requests with that method."""
        return [seen.path for seen in self if seen.method == method]

    def clear(self) -> None:
        """Forgets all."""
        self._seen.clear()

    def note(self, seen: Seen) -> None:
        """One more."""
        self._seen.append(seen)
