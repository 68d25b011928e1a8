"""The request for a token, read strictly and held against what the installation grants. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.forge.repositories import Repository

# GitHub's limit.
_REPOSITORIES: Final = 500
_LEVELS: Final[Mapping[str, int]] = {"read": 1, "write": 2, "admin": 3}

_NO_REPOSITORY: Final = (
    "There is at least one repository that does not exist or is not accessible to the parent installation."
)
_NO_PERMISSION: Final = "The permissions requested are not granted to this installation."


class MintError(ValueError):
    """Why no token is made, in GitHub's words. `status`: of the answer."""

    def __init__(self, message: str, status: int = 422) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class MintRequest:
    """What is asked for. None: whatever there is."""

    repository_ids: tuple[int, ...] | None = None
    repositories: tuple[str, ...] | None = None
    permissions: Mapping[str, str] | None = field(default=None)


def read_mint_request(body: bytes) -> MintRequest:
    """Of the JSON body, which may be empty. MintError when it is not what GitHub documents."""
    if not body.strip():
        return MintRequest()
    try:
        value = json.loads(body)
    except ValueError as error:
        raise MintError("Problems parsing JSON", 400) from error
    if not isinstance(value, dict):
        raise MintError("Body should be a JSON object", 400)
    ids, names, permissions = (value.get(key) for key in ("repository_ids", "repositories", "permissions"))
    if ids is not None and not _is_list(ids, int):
        raise MintError("Invalid request. For 'repository_ids', the value is not an array of integers.")
    if names is not None and not _is_list(names, str):
        raise MintError("Invalid request. For 'repositories', the value is not an array of strings.")
    if permissions is not None and not (
        isinstance(permissions, dict) and all(_is_level(level) for level in permissions.values())
    ):
        raise MintError("Invalid request. For 'permissions', the value is not an object of levels.")
    if len(ids or ()) + len(names or ()) > _REPOSITORIES:
        raise MintError("Too many repositories: the limit is 500.")
    return MintRequest(
        None if ids is None else tuple(ids), None if names is None else tuple(names), permissions
    )


def granted_repositories(
    request: MintRequest, reachable: tuple[Repository, ...]
) -> tuple[Repository, ...] | None:
    """Those asked for; None when none were named, which means all. MintError when one is out of reach."""
    if not request.repository_ids and not request.repositories:
        return None
    by_id = {repository.id: repository for repository in reachable}
    by_name = {repository.name.lower(): repository for repository in reachable}
    asked = [by_id.get(number) for number in request.repository_ids or ()]
    asked += [by_name.get(name.lower()) for name in request.repositories or ()]
    found = {repository.id: repository for repository in asked if repository is not None}
    if None in asked:
        raise MintError(_NO_REPOSITORY)
    return tuple(found.values())


def granted_permissions(request: MintRequest, granted: Mapping[str, str]) -> Mapping[str, str]:
    """Those asked for, and `metadata: read`, which every token has. MintError when one is not granted."""
    if request.permissions is None:
        return granted
    for name, level in request.permissions.items():
        if _LEVELS[level] > _LEVELS.get(granted.get(name, ""), 0):
            raise MintError(_NO_PERMISSION)
    return {**request.permissions, "metadata": "read"}


def _is_level(level: object) -> bool:
    return isinstance(level, str) and level in _LEVELS


def _is_list(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, kind) and not isinstance(item, bool) for item in value
    )
