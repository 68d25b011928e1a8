"""The address of a request to the push gateway: read from the raw target, before anything is decoded.

Pure. There are four addresses below a repository; everything else is refused, whatever some server might make of it.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from gateway.policy.repositories import RepositoryError, RepositoryName, parse_repository

_NO_FETCH: Final = "this address is for pushes only; fetches go to the remote's own address"

_TARGET: Final = re.compile(r"/git/([^/?]+)/([^/?]+/[^/?]+)/(.+)")
# Git LFS: objects/batch, locks, locks/verify, locks/ID/unlock; the list of locks has a query.
_LFS: Final = re.compile(r"info/lfs(?:/[A-Za-z0-9_-]+)+(?:\?[!-~]*)?")


class Service(Enum):
    """What is asked of the repository."""

    ADVERTISE = "info/refs?service=git-receive-pack"
    RECEIVE = "git-receive-pack"
    LFS = "info/lfs"


@dataclass(frozen=True, slots=True)
class Target:
    """A well-formed request. `host` is one of the configured spellings, `repository` as the client spelt it; whether
    the session may push there is not decided here."""

    host: str
    repository: RepositoryName
    service: Service


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is none: the HTTP status (404, 405, or 403 for a fetch), a line of plain text, and the method
    that the address is for, where it is a matter of that."""

    status: int
    text: str
    allow: str = ""


_NOTHING_HERE: Final = Refusal(404, "there is nothing at this address")
# Path below the repository -> its only method and what it is. git asks for a fetch before a push if `push.negotiate`
# is set; it prints the text of a 403 and goes on with the push.
_SERVICES: Final[dict[str, tuple[str, Service | Refusal]]] = {
    Service.ADVERTISE.value: ("GET", Service.ADVERTISE),
    Service.RECEIVE.value: ("POST", Service.RECEIVE),
    "info/refs?service=git-upload-pack": ("GET", Refusal(403, _NO_FETCH)),
    "git-upload-pack": ("POST", Refusal(403, _NO_FETCH)),
}


def parse_target(raw_target: str, method: str, hosts: frozenset[str]) -> Target | Refusal:
    """Reads the target as it stands in the request line, as `/git/github.com/acme/widget.git/git-receive-pack`.

    `hosts` are the exact spellings, with a port where the configured address has one; letter case counts, as it does
    for git's own rewriting. Owner and name follow `parse_repository`; one `.git` may stand behind them in any case.
    """
    match = _TARGET.fullmatch(raw_target)
    if match is None or match[1] not in hosts:
        return _NOTHING_HERE
    try:
        repository = parse_repository(match[2])
    except RepositoryError:
        return _NOTHING_HERE
    if _LFS.fullmatch(match[3]):
        return Target(match[1], repository, Service.LFS)
    right_method, service = _SERVICES.get(match[3], (method, _NOTHING_HERE))
    if method != right_method:
        return Refusal(405, f"this address answers {right_method} only", right_method)
    return service if isinstance(service, Refusal) else Target(match[1], repository, service)
