"""What GitHub's answers say, read strictly. Pure.

Nothing here raises: bodies hold tokens, and a traceback that shows variables would show them. What cannot be read
comes back as None, or as a fault in words.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from gateway.credentials.rest import Answer, shown
from gateway.credentials.token import Repository, Token, TokenKind, is_token_text
from gateway.policy.repositories import RepositoryError, RepositoryName, parse_repository

_MOMENT = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})Z")
# Comes with every permission, asked for or not.
_IMPLIED: Final[Mapping[str, str]] = {"metadata": "read"}
# How long a token lives, where its answer does not say so in a way that can be read.
_LIFE: Final = timedelta(hours=1)

# GitHub lists so many changed files and no more.
_MOST_FILES: Final = 300


@dataclass(frozen=True, slots=True)
class Installation:
    """Where the App is installed, and what its owner has granted it there."""

    id: int
    suspended: bool
    permissions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Standing:
    """The App as GitHub knows it. `ahead`: seconds that our clock is ahead of GitHub's; None where it does not say."""

    permissions: Mapping[str, str]
    ahead: int | None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a token was asked for: repositories by name, or by id where there are no names."""

    kind: TokenKind
    installation: int
    permissions: Mapping[str, str]
    names: tuple[RepositoryName, ...] = ()
    ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Unwanted:
    """Why the answer to a mint is refused, and the token in it that must be revoked, if there is one."""

    fault: str
    token: Token | None = None


@dataclass(frozen=True, slots=True)
class GoneNames:
    """Paths of files that one commit has and a later one has not, also of renamed ones; all of them if `complete`."""

    names: tuple[str, ...]
    complete: bool


def read_installation(answer: Answer) -> Installation | None:
    """From `GET /repos/{owner}/{repo}/installation`."""
    fields = _object(answer)
    number = _id(fields.get("id"))
    if number is None:
        return None
    granted = _permissions(fields.get("permissions")) or {}
    return Installation(number, fields.get("suspended_at") is not None, granted)


def read_app_permissions(answer: Answer) -> Mapping[str, str] | None:
    """From `GET /app`: what the App asks of whoever installs it."""
    return _permissions(_object(answer).get("permissions"))


def read_repository(answer: Answer, installation: int) -> Repository | None:
    """From `GET /repositories/{id}`."""
    return _repository(_object(answer), installation)


def read_comparison(answer: Answer) -> str | None:
    """The `status` of `GET /repos/{owner}/{repo}/compare/{basehead}`."""
    status = _object(answer).get("status")
    return status if isinstance(status, str) else None


def read_gone_names(answer: Answer) -> GoneNames | None:
    """The names that a comparison takes away, from the `files` of the same answer; None where they cannot be read."""
    files = _object(answer).get("files")
    if not isinstance(files, list):
        return None
    changed = [one for one in files if isinstance(one, dict)]
    gone = [
        one.get(field)
        for status, field in (("removed", "filename"), ("renamed", "previous_filename"))
        for one in changed
        if one.get("status") == status
    ]
    names = tuple(name for name in gone if isinstance(name, str))
    return GoneNames(
        names, len(files) < _MOST_FILES and len(names) == len(gone) and len(changed) == len(files)
    )


def is_object(answer: Answer) -> bool:
    """Whether it is in JSON, as all that GitHub's API says is; another site's pages are not."""
    try:
        return isinstance(json.loads(answer.body), dict)
    except (ValueError, RecursionError):
        return False


def read_message(answer: Answer) -> str:
    """GitHub's own words, made harmless; "" where it has none."""
    message = _object(answer).get("message")
    return shown(message) if isinstance(message, str) else ""


def read_mint(answer: Answer, wanted: Wanted, now: datetime) -> Token | Unwanted:
    """The token of `POST /app/installations/{id}/access_tokens`, if it is exactly what was asked for."""
    fields = _object(answer)
    value = fields.get("token")
    if not isinstance(value, str) or not is_token_text(value):
        return Unwanted("it holds no token")
    expires = _moment(fields.get("expires_at"))
    granted = _permissions(fields.get("permissions"))
    repositories = _repositories(fields.get("repositories"), wanted.installation)
    fault = ""
    if expires is None or expires <= now:
        fault = "it does not say when the token expires, or names a moment that has passed"
    elif granted is None or {**_IMPLIED, **granted} != {**_IMPLIED, **wanted.permissions}:
        fault = "the token has other permissions than those asked for"
    elif repositories is None or not _are(repositories, wanted):
        fault = "the token reaches other repositories than those asked for"
    token = Token(
        wanted.kind, repositories or (), granted or wanted.permissions, expires or now + _LIFE, value
    )
    return Unwanted(fault, token) if fault else token


def _are(repositories: tuple[Repository, ...], wanted: Wanted) -> bool:
    if len({one.id for one in repositories}) != len(repositories):
        return False
    if wanted.names:
        return sorted(one.name.key for one in repositories) == sorted(name.key for name in wanted.names)
    return sorted(one.id for one in repositories) == sorted(wanted.ids)


def _object(answer: Answer) -> Mapping[str, object]:
    """The JSON object that the body is; an empty one for anything else."""
    try:
        value: object = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _id(value: object) -> int | None:
    # Not isinstance: True is an int.
    return value if type(value) is int and value > 0 else None


def _moment(value: object) -> datetime | None:
    found = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups())
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


def _permissions(value: object) -> dict[str, str] | None:
    if not isinstance(value, dict):
        return None
    granted = {name: level for name, level in value.items() if isinstance(level, str)}
    return granted if len(granted) == len(value) else None


def _repositories(value: object, installation: int) -> tuple[Repository, ...] | None:
    if not isinstance(value, list):
        return None
    found = [_repository(item, installation) for item in value if isinstance(item, dict)]
    known = tuple(one for one in found if one is not None)
    return known if len(known) == len(value) else None


def _repository(fields: Mapping[str, object], installation: int) -> Repository | None:
    number, full_name = _id(fields.get("id")), fields.get("full_name")
    if number is None or not isinstance(full_name, str):
        return None
    try:
        name = parse_repository(full_name)
    except RepositoryError:
        return None
    return Repository(number, name, installation) if str(name) == full_name else None
