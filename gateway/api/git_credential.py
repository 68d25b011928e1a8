"""`POST /agent/git-credential`: the read token of a session's repository, for the credential helper inside the wrap.

Gives out what the session holds anyway, never a token that can push; it mints nothing and knows no GitHub.
"""

import hmac
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tornado.web import HTTPError

from gateway.api.agent import JsonHandler, Route
from gateway.policy.repositories import RepositoryError, RepositoryName, parse_repository

SECRET_HEADER: Final = "X-Agent-Gateway-Session"

# User name and password for git's read access to a repository; None where the session has no token for it.
ReadCredential = Callable[[RepositoryName], Awaitable[tuple[str, str] | None]]


@dataclass(frozen=True, slots=True)
class GitCredential:
    """What the endpoint answers from: `host` is the forge as git spells it ("github.com", "ghe.test:8443"), `fault`
    says in a sentence why nothing is found."""

    secret: str
    host: str
    find: ReadCredential
    fault: Callable[[RepositoryName], str]


def git_credential_route(credential: GitCredential) -> Route:
    """The route for `serve_agent_api`."""
    return (r"/agent/git-credential", _GitCredentialHandler, {"credential": credential})


class _GitCredentialHandler(JsonHandler):
    """JSON `{"host", "path"}` in, `{"username", "password"}` out; 403 without the session's secret, 404 without a
    token, 400 for what is no question."""

    def initialize(self, credential: GitCredential) -> None:
        self._credential = credential

    async def post(self) -> None:
        shown = self.request.headers.get(SECRET_HEADER, "").encode("utf-8", "replace")
        if not hmac.compare_digest(shown, self._credential.secret.encode()):
            raise HTTPError(403)
        host, repository = _question(self.request.body)
        found = None
        if host == self._credential.host.lower():
            found = await self._credential.find(repository)
        if found is None:
            self.set_status(404)
            self.finish(json.dumps({"message": self._credential.fault(repository)}) + "\n")
            return
        username, password = found
        self.finish(json.dumps({"username": username, "password": password}) + "\n")


def _question(body: bytes) -> tuple[str, RepositoryName]:
    """Host in lower case, and repository; 400 for what is not both. The path is git's: no slash in front, ".git" or
    not, and what stands behind it (LFS has its own paths) does not count."""
    try:
        asked = json.loads(body)
        host, path = asked["host"], asked["path"]
        if not isinstance(host, str) or not isinstance(path, str):
            raise HTTPError(400)
        return host.lower(), parse_repository("/".join(path.split("/", 2)[:2]))
    except (ValueError, TypeError, KeyError, RecursionError, RepositoryError):
        raise HTTPError(400) from None
