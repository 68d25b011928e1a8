"""An installation token of the GitHub App, and what it is good for. The only place where a token's text lives.

Nothing here talks to GitHub. The text leaves by `basic` and `bearer` alone, and by `value` for whoever hands the
read token to the session; no repr, comparison or message shows it.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from gateway.policy.repositories import RepositoryName

# GitHub's limit for a header field is 8 KiB and more; its longest tokens have about 520 characters.
MAX_VALUE: Final = 4096
# The user of HTTP Basic in git's requests: GitHub answers Bearer with 401 there.
_USER: Final = "x-access-token"


class TokenKind(StrEnum):
    """What a token is for: reading goes to the session, writing stays in the gateway for one push."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository as GitHub knows it: a number that stays, the spelling of now, and the App's installation there."""

    id: int
    name: RepositoryName
    installation: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Token:
    """A token and the limits that GitHub confirmed. `expires` is aware, `value` opaque: two formats are in use.

    Equal to itself only, so that no comparison looks at the text.
    """

    kind: TokenKind
    repositories: tuple[Repository, ...]
    permissions: Mapping[str, str]
    expires: datetime
    value: str = field(repr=False)

    def basic(self) -> str:
        """The value of `Authorization` in git's requests."""
        pair = f"{_USER}:{self.value}".encode("ascii")
        return "Basic " + base64.b64encode(pair).decode("ascii")

    def bearer(self) -> str:
        """The value of `Authorization` in requests to the API."""
        return f"Bearer {self.value}"

    def is_live(self, now: datetime) -> bool:
        """Whether it has not expired yet."""
        return now < self.expires

    @property
    def names(self) -> tuple[str, ...]:
        """The repositories as "owner/name"."""
        return tuple(str(repository.name) for repository in self.repositories)

    def __repr__(self) -> str:
        return f"<Token {self.kind} {', '.join(self.names)} until {self.expires.isoformat()}>"

    __str__ = __repr__


def is_token_text(value: object) -> bool:
    """Can this be a token's text? A word of visible ASCII, as a header field needs it, of at most `MAX_VALUE`."""
    return isinstance(value, str) and 0 < len(value) <= MAX_VALUE and all("!" <= one <= "~" for one in value)
