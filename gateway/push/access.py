"""Which repositories a session may push to, and what the read token tells about them. No write token comes by here.

A repository is looked up by the name in the address, and spoken of by GitHub's own from then on.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from gateway.credentials.answers import GoneNames
from gateway.credentials.broker import SessionCredentials
from gateway.credentials.github_app import GitHubApp
from gateway.credentials.rest import GitHubError
from gateway.credentials.token import Repository, Token
from gateway.errors import AuditError
from gateway.policy.modes import READ_ONLY, Mode
from gateway.policy.repositories import RepositoryName
from gateway.push.capabilities import ObjectFormat
from gateway.push.upstream import Upstream, UpstreamError
from gateway.push_authorizer import PushCode

# Questions to GitHub about refused pushes of one session, which only tell a fast-forward from a force in the record.
_FOR_THE_RECORD: Final = 100

_NETWORK_OFF = "the network is off for this session, so nothing can be pushed"
_NO_APP = (
    "pushes need a GitHub App: set github.app_id and github.private_key_file in the gateway's configuration"
)


class PushRefused(Exception):
    """A push that goes no further. `sentence` is a line for the client; `denied`: it is a matter of policy."""

    def __init__(self, code: PushCode, sentence: str, *, denied: bool = False) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.denied = denied


@dataclass(frozen=True, slots=True)
class Readable:
    """A repository, with the token that reads it."""

    repository: Repository
    token: Token


class RepositoryAccess:
    """The repositories of one session. Changes: remembers the format of ids, which no repository ever changes.

    `linked` are the session's own and the workspace's; `app` is None where none is configured. Without a `network`
    nothing leaves the session, by a push neither.
    """

    def __init__(
        self,
        linked: Collection[RepositoryName],
        workspace: str,
        app: GitHubApp | None,
        credentials: SessionCredentials,
        upstream: Upstream,
        *,
        network: bool = True,
        mode: Mode = Mode.CHAT,
    ) -> None:
        self._network = network
        self._mode = mode
        self._linked = frozenset(linked)
        self._workspace = workspace
        self._app = app
        self._credentials = credentials
        self._upstream = upstream
        self._formats: dict[int, ObjectFormat] = {}
        self._renamed: dict[int, Repository] = {}
        self._spare = _Spare()

    async def find(self, name: RepositoryName) -> Readable:
        """The repository of that name. PushRefused where a session may not push there, or nothing is known of it."""
        if not self._network:
            raise PushRefused(PushCode.NETWORK_OFF, _NETWORK_OFF, denied=True)
        if self._app is None and self._mode in READ_ONLY:
            # The better reason: an App would change nothing.
            raise PushRefused(
                PushCode.DENIED, f"the mode {self._mode} only reads, so nothing is pushed", denied=True
            )
        if self._app is None:
            raise PushRefused(PushCode.NO_APP, _NO_APP, denied=True)
        if name not in self._linked:
            sentence = (
                f"{name} is not linked to the workspace {self._workspace}, so nothing can be pushed there"
            )
            raise PushRefused(PushCode.NOT_LINKED, sentence, denied=True)
        try:
            token = await self._credentials.read_token(name)
        except AuditError:
            raise PushRefused(PushCode.INTERNAL, "a token for it could not be recorded") from None
        repository = self._credentials.repository(name)
        if token is None or repository is None:
            fault = self._credentials.fault(name) or "GitHub could not be asked"
            raise PushRefused(PushCode.UNAVAILABLE, f"{name} cannot be pushed to: {fault}")
        return Readable(self._renamed.get(repository.id, repository), token)

    async def with_format(self, name: RepositoryName) -> tuple[Readable, ObjectFormat]:
        """The same, with the format of the repository's ids; follows a rename, not a transfer. PushRefused."""
        readable = await self.find(name)
        known = self._formats.get(readable.repository.id)
        if known is not None:
            return readable, known
        try:
            found = await self._upstream.object_format(readable.repository, readable.token)
        except UpstreamError as error:
            if not error.moved:
                raise _unavailable(error.sentence) from None
            readable = await self.follow(readable)
            try:
                found = await self._upstream.object_format(readable.repository, readable.token)
            except UpstreamError as second:
                raise _unavailable(second.sentence) from None
        self._formats[readable.repository.id] = found
        return readable, found

    async def follow(self, readable: Readable) -> Readable:
        """The repository under its name of now, by its id; its owner must be the one that rules were written for."""
        assert self._app is not None
        before = readable.repository
        try:
            now = await self._app.repository_by_id(before.id, readable.token)
        except GitHubError as error:
            raise _unavailable(error.sentence) from None
        if now.name.key[0] != before.name.key[0]:
            raise PushRefused(
                PushCode.NOT_LINKED, f"{before.name} belongs to another owner by now", denied=True
            )
        self.note_rename(now)
        return Readable(now, readable.token)

    def note_rename(self, repository: Repository) -> None:
        """GitHub calls it so now, whatever it was called when the session opened."""
        self._renamed[repository.id] = repository

    async def read_credential(self, name: RepositoryName) -> tuple[str, str] | None:
        """User name and password for git's fetches, None where there is no token; for the agent listener."""
        try:
            token = await self._credentials.read_token(name)
        except AuditError:
            return None
        return ("x-access-token", token.value) if token else None

    def fault(self, name: RepositoryName) -> str:
        """Why there is no credential, in a sentence for an agent."""
        return self._credentials.fault(name)

    def comparison(self, readable: Readable) -> "Comparison":
        """GitHub's knowledge of this repository's commits."""
        assert self._app is not None
        return Comparison(self._app, readable, self._spare)


@dataclass(slots=True)
class _Spare:
    """Questions that may still be asked about refused pushes. Changes."""

    left: int = _FOR_THE_RECORD


class Comparison:
    """Answers `ancestry` from GitHub's compare API, with the read token. Changes: once the push is `refused`, what is
    asked is for the record alone, and that is no reason to spend GitHub's limits on an agent that tries again and
    again."""

    def __init__(self, app: GitHubApp, readable: Readable, spare: _Spare | None = None) -> None:
        self.refused = False
        self._app = app
        self._readable = readable
        self._spare = spare or _Spare()

    async def is_ancestor(self, old: str, new: str) -> bool | None:
        """None when it is not known."""
        if self.refused:
            if self._spare.left <= 0:
                return None
            self._spare.left -= 1
        return await self._app.compare(self._readable.repository, old, new, self._readable.token)

    async def gone_names(self, old: str, new: str) -> GoneNames | None:
        """Files that the commit `new` has no more since it parted from `old`, which is empty for the default branch.
        None when it is not known."""
        return await self._app.gone_names(self._readable.repository, old, new, self._readable.token)


def _unavailable(sentence: str) -> PushRefused:
    return PushRefused(PushCode.UNAVAILABLE, sentence)
