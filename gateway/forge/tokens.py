"""Installation access tokens: made, found again, revoked. What they open is asked of each token (`reaches`, `may`).

A token is a random text; what it may do is kept here, not in the text, in both of GitHub's formats.
"""

import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

import jwt

from gateway.forge.repositories import Repository

Clock = Callable[[], datetime]

# GitHub's, which nobody can shorten.
LIFE: Final = timedelta(hours=1)
_CLASSIC_LENGTH: Final = 36
_LETTERS: Final = string.ascii_letters + string.digits
# What the stateless format is about as long as: 520 characters.
_FILLING: Final = 190


class Credential(StrEnum):
    """What a request came with."""

    NONE = "none"
    APP = "app"
    READ = "read"
    WRITE = "write"
    BAD = "bad"


@dataclass(slots=True)
class InstallationToken:
    """One token that was handed out. Changes: revoked, uses."""

    id: int
    installation: int
    # Ids; None means every repository of the installation.
    repositories: frozenset[int] | None
    permissions: Mapping[str, str]
    expires: datetime
    value: str = field(repr=False)
    revoked: bool = False
    # Requests to git endpoints it was sent with.
    uses: int = 0

    @property
    def kind(self) -> Credential:
        """WRITE when it may push."""
        return Credential.WRITE if self.may("contents", "write") else Credential.READ

    def may(self, permission: str, level: str) -> bool:
        """Does it grant the permission at this level, `read` or `write`?"""
        granted = self.permissions.get(permission)
        return granted == "write" or (granted is not None and granted == level)

    def reaches(self, repository: Repository) -> bool:
        """Is the repository in its scope? The installation's own must be asked besides."""
        return self.repositories is None or repository.id in self.repositories


class Tokens:
    """Every token since the start. Changes; used from the forge's loop, may be read from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_value: dict[str, InstallationToken] = {}

    @property
    def minted(self) -> tuple[InstallationToken, ...]:
        """All, oldest first."""
        return tuple(self._by_value.values())

    @property
    def live(self) -> tuple[InstallationToken, ...]:
        """Those that still open something."""
        return tuple(token for token in self.minted if self._lives(token))

    def mint(
        self,
        app_id: int,
        installation: int,
        repositories: frozenset[int] | None,
        permissions: Mapping[str, str],
        *,
        stateless: bool,
    ) -> InstallationToken:
        """A new token, an hour long."""
        number = 1 + len(self._by_value)
        expires = self._clock().astimezone(UTC).replace(microsecond=0) + LIFE
        value = _stateless(app_id, number) if stateless else _classic()
        token = InstallationToken(number, installation, repositories, dict(permissions), expires, value)
        self._by_value[value] = token
        return token

    def find(self, value: str) -> InstallationToken | None:
        """The token of that text, while it lives."""
        token = self._by_value.get(value)
        return token if token is not None and self._lives(token) else None

    def _lives(self, token: InstallationToken) -> bool:
        return not token.revoked and self._clock() < token.expires


def _classic() -> str:
    return "ghs_" + "".join(secrets.choice(_LETTERS) for _ in range(_CLASSIC_LENGTH))


def _stateless(app_id: int, number: int) -> str:
    """`ghs_<APPID>_<JWT>`: two dots, about 520 characters. Source: github.blog/changelog, 2026-05-15."""
    claims = {"jti": number, "sub": secrets.token_urlsafe(_FILLING)}
    return f"ghs_{app_id}_{jwt.encode(claims, secrets.token_bytes(32), algorithm='HS256')}"
