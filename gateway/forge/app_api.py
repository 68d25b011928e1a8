"""The part of GitHub's REST API that an App needs: find an installation, mint and revoke tokens, compare commits.

Answers below `/api/v3`, as GitHub Enterprise does. It must not hand out more than the App was granted.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from gateway.forge.access import Caller, api_caller
from gateway.forge.answering import ForgeHandler
from gateway.forge.app import App, AppTokenError, verify
from gateway.forge.comparison import changed_files, compare
from gateway.forge.faults import Fault, Moment, Point
from gateway.forge.journal import Seen
from gateway.forge.minting import MintError, granted_permissions, granted_repositories, read_mint_request
from gateway.forge.repositories import Installation, Repository
from gateway.forge.state import State
from gateway.forge.tokens import Credential, InstallationToken

PREFIX: Final = "/api/v3"
# Bytes of a request's body: 500 names of repositories fit.
_BODY: Final = 256 * 1024
_STATELESS: Final = "X-GitHub-Stateless-S2S-Token"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; None has no body."""

    status: int
    value: Mapping[str, object] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def said(status: int, message: str) -> Reply:
    """A message, as GitHub's errors are."""
    return Reply(status, {"message": message, "documentation_url": "https://docs.github.com/rest"})


NOT_FOUND: Final = said(404, "Not Found")
_BAD_CREDENTIALS: Final = said(401, "Bad credentials")
_NOT_ACCESSIBLE: Final = said(403, "Resource not accessible by integration")


class _Api(ForgeHandler):
    """One request to the API, read whole and answered in JSON."""

    method: ClassVar[str] = "GET"
    point: ClassVar[Point | None] = None

    def initialize(self, state: State) -> None:
        """tornado's constructor."""
        super().initialize(state)
        self._body = bytearray()
        self._caller: Caller

    def set_default_headers(self) -> None:
        """tornado's."""
        self.set_header("Server", "github.com")
        self.set_header("Content-Type", "application/json; charset=utf-8")

    async def prepare(self) -> None:
        """Notes the request, and fails at once where it is to."""
        state = self._state
        self._caller = api_caller(state, self.request.headers.get("Authorization"))
        self._state.journal.note(
            Seen(
                self.request.method or "",
                self.request.uri or "",
                self._caller.credential,
                self._caller.number,
            )
        )
        self._fault = state.faults.take(self.point) if self.point else None
        if self._fault is not None and self._fault.moment is Moment.ABRUPT:
            await self.fail_at_once(self._fault)

    async def data_received(self, chunk: bytes) -> None:
        """A piece of the body; what is too much is not kept."""
        if len(self._body) <= _BODY:
            self._body += chunk

    async def get(self, *arguments: str) -> None:
        """tornado's."""
        await self._serve(*arguments)

    async def post(self, *arguments: str) -> None:
        """tornado's."""
        await self._serve(*arguments)

    async def delete(self, *arguments: str) -> None:
        """tornado's."""
        await self._serve(*arguments)

    async def answer(self, *arguments: str) -> Reply:
        """What the endpoint says."""
        return NOT_FOUND

    async def _serve(self, *arguments: str) -> None:
        self._body_ended = True
        fault = self._fault or Fault()
        if fault.answers:
            await self.say_fault(fault)
            return
        if self.request.method != self.method:
            reply = NOT_FOUND
        elif len(self._body) > _BODY:
            reply = said(413, "Payload too large")
        elif not self.request.headers.get("User-Agent"):
            reply = said(403, "Request forbidden by administrative rules.")
        else:
            reply = await self.answer(*arguments)
        await self._reply(reply, fault)

    async def _reply(self, reply: Reply, fault: Fault) -> None:
        self.say_status(reply.status)
        for name, value in reply.headers.items():
            self.set_header(name, value)
        if reply.value is None:
            self.clear_header("Content-Type")
            return
        body = json.dumps(reply.value).encode()
        self.set_header("Content-Length", str(len(body) if fault.end_answer is None else fault.end_answer))
        await self.send(body[: fault.answer_limit])
        if fault.stall_answer is not None:
            await self._gone.wait()
        if fault.cut_answer is not None:
            self.cut()

    # --- Who and what -----------------------------------------------------------------------------

    def _app(self) -> App | Reply:
        """The App, when the request is signed by it."""
        app = self._state.app
        if self._caller.credential is not Credential.APP or app is None:
            return said(401, "A JSON web token could not be decoded")
        try:
            verify(app, self._caller.jwt, self._state.clock())
        except AppTokenError as error:
            return said(error.status, str(error))
        return app

    def _token(self) -> InstallationToken | Reply:
        """The token the request came with."""
        if self._caller.credential is Credential.NONE:
            return said(401, "Requires authentication")
        return self._caller.token or _BAD_CREDENTIALS

    def _repository(self, owner: str | None, name: str | None, number: str | None) -> Repository | Reply:
        """The repository of the path, not yet asked whether the caller may see it. Old names lead to the number."""
        repositories = self._state.repositories
        if number is not None:
            return repositories.by_id(int(number)) or NOT_FOUND
        repository = repositories.find(f"{owner}/{name}")
        if repository is None:
            return NOT_FOUND
        if repository.full_name.lower() == f"{owner}/{name}".lower():
            return repository
        rest = self.request.path.split("/", 6)[6:]
        to = f"{self.request.protocol}://{self.request.host}{PREFIX}/repositories/{repository.id}"
        value = {"message": "Moved Permanently", "url": "/".join([to, *rest])}
        return Reply(301, value, {"Location": value["url"]})

    def _visible(self, *path: str) -> Repository | Reply:
        """The repository of the path, when the caller may see that it exists."""
        if self._caller.credential in {Credential.BAD, Credential.APP}:
            return _BAD_CREDENTIALS
        repository = self._repository(*path)
        if isinstance(repository, Reply):
            return repository if self._caller.token else NOT_FOUND
        token = self._caller.token
        seen = not repository.private or (token is not None and self._state.reaches(token, repository))
        return repository if seen else NOT_FOUND


class _TheApp(_Api):
    async def answer(self, *_: str) -> Reply:
        app = self._app()
        if isinstance(app, Reply):
            return app
        return Reply(200, {"id": app.id, "client_id": app.client_id, "permissions": dict(app.permissions)})


class _Find(_Api):
    point = Point.FIND

    async def answer(self, *path: str) -> Reply:
        app = self._app()
        if isinstance(app, Reply):
            return app
        repository = self._repository(*path)
        if isinstance(repository, Reply):
            return repository
        installation = self._state.repositories.installation_of(repository)
        return NOT_FOUND if installation is None else Reply(200, self._describe(app, installation))

    def _describe(self, app: App, installation: Installation) -> Mapping[str, object]:
        return {
            "id": installation.id,
            "app_id": app.id,
            "client_id": app.client_id,
            "account": {"login": installation.owner},
            "repository_selection": "selected",
            "permissions": dict(app.permissions),
            "suspended_at": _shown(self._state.clock()) if installation.suspended else None,
        }


class _Mint(_Api):
    method = "POST"
    point = Point.MINT

    async def answer(self, *path: str) -> Reply:
        app = self._app()
        if isinstance(app, Reply):
            return app
        installation = self._state.repositories.installation(int(path[0]))
        if installation is None:
            return NOT_FOUND
        if installation.suspended:
            return said(403, "This installation has been suspended")
        try:
            return self._mint(app, installation)
        except MintError as error:
            return said(error.status, str(error))

    def _mint(self, app: App, installation: Installation) -> Reply:
        state = self._state
        request = read_mint_request(bytes(self._body))
        repositories = granted_repositories(request, state.repositories.of_installation(installation))
        permissions = granted_permissions(request, app.permissions)
        wish = self.request.headers.get(_STATELESS, "")
        token = state.tokens.mint(
            app.id,
            installation.id,
            None if repositories is None else frozenset(repository.id for repository in repositories),
            permissions,
            stateless=wish == "enabled" or (wish != "disabled" and state.faults.stateless),
        )
        echoed = state.faults.echo_permissions
        value: dict[str, Any] = {
            "token": token.value,
            "expires_at": _shown(token.expires),
            "permissions": dict(permissions if echoed is None else echoed),
            "repository_selection": "selected",
        }
        if state.faults.echo_repositories is not None:
            named = (state.repositories.find(name) for name in state.faults.echo_repositories)
            repositories = tuple(repository for repository in named if repository is not None)
        if repositories is not None:
            value["repositories"] = [_describe_repository(repository) for repository in repositories]
        return Reply(201, value)


class _Revoke(_Api):
    method = "DELETE"
    point = Point.REVOKE

    async def answer(self, *_: str) -> Reply:
        token = self._token()
        if isinstance(token, Reply):
            return token
        token.revoked = True
        return Reply(204)


class _Reached(_Api):
    async def answer(self, *_: str) -> Reply:
        token = self._token()
        if isinstance(token, Reply):
            return token
        installation = self._state.repositories.installation(token.installation)
        found = self._state.repositories.of_installation(installation) if installation else ()
        shown = [_describe_repository(item) for item in found if self._state.reaches(token, item)]
        return Reply(200, {"total_count": len(shown), "repositories": shown})


class _Repository(_Api):
    point = Point.REPOSITORY

    async def answer(self, *path: str) -> Reply:
        repository = self._visible(*path)
        return repository if isinstance(repository, Reply) else Reply(200, _describe_repository(repository))


class _Compare(_Api):
    point = Point.COMPARE

    async def answer(self, *path: str) -> Reply:
        repository = self._visible(*path[:3])
        if isinstance(repository, Reply):
            return repository
        token = self._caller.token
        if token is not None and repository.private and not token.may("contents", "read"):
            return _NOT_ACCESSIBLE
        base, dots, head = path[3].partition("...")
        if not dots:
            return NOT_FOUND
        found = await asyncio.to_thread(compare, self._state.git, repository, base, head)
        if found is None:
            return NOT_FOUND
        files = await asyncio.to_thread(changed_files, self._state.git, repository, found, head)
        return Reply(
            200,
            {
                "status": found.status.value,
                "ahead_by": found.ahead_by,
                "behind_by": found.behind_by,
                "total_commits": found.ahead_by,
                "base_commit": {"sha": found.base},
                "merge_base_commit": {"sha": found.merge_base},
                "commits": [],
                "files": [
                    {"filename": file.name, "status": file.status}
                    | ({"previous_filename": file.previous} if file.previous else {})
                    for file in files
                ],
            },
        )


class _Nothing(_Api):
    """Whatever else is asked for."""


def _describe_repository(repository: Repository) -> dict[str, object]:
    return {
        "id": repository.id,
        "name": repository.name,
        "full_name": repository.full_name,
        "private": repository.private,
        "owner": {"login": repository.owner},
        "default_branch": "main",
    }


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


_WHICH: Final = r"/(?:repos/([^/]+)/([^/]+)|repositories/([0-9]{1,15}))"
# The endpoints, most particular first.
ROUTES: Final[tuple[tuple[str, type[_Api]], ...]] = (
    (f"{PREFIX}/app", _TheApp),
    (rf"{PREFIX}/app/installations/([0-9]{{1,15}})/access_tokens", _Mint),
    (f"{PREFIX}/installation/token", _Revoke),
    (f"{PREFIX}/installation/repositories", _Reached),
    (rf"{PREFIX}{_WHICH}/installation", _Find),
    (rf"{PREFIX}{_WHICH}/compare/(.+)", _Compare),
    (rf"{PREFIX}{_WHICH}", _Repository),
    (r".*", _Nothing),
)
