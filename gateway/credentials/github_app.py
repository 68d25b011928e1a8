"""The GitHub App: where it is installed, and the short-lived tokens GitHub makes for it.

Keeps no token and writes no record: `broker` does, and it is the only one that asks for tokens.
Source: docs.github.com, "REST API endpoints for GitHub Apps" and "… for GitHub App installations".
"""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import httpx

from gateway.credentials.answers import (
    GoneNames,
    Installation,
    Standing,
    Unwanted,
    Wanted,
    is_object,
    read_app_permissions,
    read_comparison,
    read_gone_names,
    read_installation,
    read_message,
    read_mint,
    read_repository,
)
from gateway.credentials.private_key import AppKey
from gateway.credentials.rest import DEADLINE, Answer, GitHubError, Rest, Sleep
from gateway.credentials.token import Repository, Token, TokenKind
from gateway.policy.repositories import RepositoryName

__all__ = ["MAX_REPOSITORIES", "GitHubApp", "GitHubError", "OutOfReachError", "UnwantedTokenError"]

# Repositories one token may be asked for: GitHub describes each of them in its answer, which is bounded.
MAX_REPOSITORIES: Final = 100
# Seconds between GitHub's clock and ours from which on it may refuse our proofs: they start a minute before ours.
_SKEW: Final = 60
_NOT_THE_API: Final = "what answers at github.api_url is not GitHub's API: check github.api_url"
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_OBJECT_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# First page first: GitHub promises the status there. Its list of changed files can be too long for us, though, and
# stands on no later page.
_COMPARE_PAGES: Final = ("?per_page=1", "?per_page=1&page=2")
_ANCESTRY: Final = {"ahead": True, "identical": True, "behind": False, "diverged": False}


class UnwantedTokenError(GitHubError):
    """GitHub made another token than the one asked for. Whoever gets this revokes it."""

    def __init__(self, fault: str, token: Token) -> None:
        super().__init__(f"GitHub's answer to the request for a token is refused: {fault}", status=201)
        self.token = token


class OutOfReachError(GitHubError):
    """One of several repositories, GitHub does not say which, is not among the installation's."""


class GitHubApp:
    """One App at one GitHub. Only `close`d clients end; this holds nothing to close.

    `clock` gives aware moments. GatewayError when the key is none that an App can have.
    """

    def __init__(
        self,
        api_url: str,
        app_id: int | str,
        private_key_pem: bytes | str,
        client: httpx.AsyncClient,
        clock: Callable[[], datetime],
        *,
        sleep: Sleep = asyncio.sleep,
        deadline: float = DEADLINE,
    ) -> None:
        self._key = AppKey(app_id, private_key_pem)
        self._rest = Rest(client, api_url, sleep=sleep, deadline=deadline)
        self._clock = clock

    async def find(self, name: RepositoryName) -> int:
        """The id of the installation that reaches the repository. GitHubError says what to do when there is none."""
        return (await self.installation(name)).id

    async def installation(self, name: RepositoryName) -> Installation:
        """The installation itself, which is not suspended."""
        answer = await self._ask("GET", f"/repos/{name}/installation")
        if answer.status in {404, *_REDIRECTS} and not is_object(answer):
            raise GitHubError(_NOT_THE_API, status=answer.status)
        if answer.status in _REDIRECTS:
            raise GitHubError(
                f"{name} has another name or owner on GitHub by now: write the new one into the git remote, and into "
                "the workspace's repositories if it stands there",
                status=answer.status,
            )
        if answer.status == 404:
            raise GitHubError(
                f"the GitHub App is not installed for {name}: install it for {name.owner}, or add the repository to "
                "those of the installation",
                status=404,
            )
        if answer.status != 200:
            raise _unexpected(answer)
        installation = read_installation(answer)
        if installation is None:
            raise _unreadable(answer)
        if installation.suspended:
            raise GitHubError(_suspended(name.owner), status=answer.status)
        return installation

    async def standing(self) -> Standing:
        """Whether GitHub takes us for the App, and what it knows of it. GitHubError says why it does not."""
        answer = await self._ask("GET", "/app")
        permissions = read_app_permissions(answer) if answer.status == 200 else None
        if answer.status in {404, *_REDIRECTS} and not is_object(answer):
            raise GitHubError(_NOT_THE_API, status=answer.status)
        if answer.status != 200:
            raise _unexpected(answer)
        if permissions is None:
            raise _unreadable(answer)
        return Standing(permissions, _ahead(answer, self._clock()))

    async def mint(
        self,
        installation: int,
        *,
        kind: TokenKind,
        permissions: Mapping[str, str],
        names: Sequence[RepositoryName] = (),
        ids: Sequence[int] = (),
    ) -> Token:
        """A token for exactly these repositories (names of one owner, or ids) and permissions.

        GitHubError when GitHub makes none, UnwantedTokenError when it made another one. ValueError for a request that
        would name no repository or no permission: GitHub takes that for all of them.
        """
        wanted = Wanted(kind, installation, dict(permissions), tuple(names), tuple(ids))
        body = {**_scope(wanted), "permissions": dict(permissions)}
        answer = await self._ask("POST", f"/app/installations/{installation}/access_tokens", body)
        if answer.status != 201:
            raise _not_minted(answer, wanted)
        token = read_mint(answer, wanted, self._clock())
        if isinstance(token, Token):
            return token
        raise _refused(answer, token)

    async def revoke(self, token: Token) -> None:
        """Ends a token; one that has ended is fine as well. One attempt. GitHubError when it may still live."""
        answer = await self._rest.call("DELETE", "/installation/token", token, attempts=1)
        if answer.status not in {204, 401}:
            raise _unexpected(answer)

    async def repository_by_id(self, repository: int, token: Token) -> Repository:
        """The repository under its name of now. GitHubError when the token does not reach it (any more)."""
        answer = await self._rest.call("GET", f"/repositories/{repository}", token)
        if answer.status in {401, 404}:
            raise GitHubError("the repository is out of the GitHub App's reach by now", status=answer.status)
        if answer.status != 200:
            raise _unexpected(answer)
        known = next((one.installation for one in token.repositories if one.id == repository), 0)
        found = read_repository(answer, known)
        if found is None or found.id != repository:
            raise _unreadable(answer)
        return found

    async def compare(self, repository: Repository, old: str, new: str, token: Token) -> bool | None:
        """Is commit `old` an ancestor of `new`, or the same? None when GitHub cannot say, for whatever reason.

        Ids are 40 or 64 lower-case hex digits; ValueError for other text.
        """
        if not _OBJECT_ID.fullmatch(old) or not _OBJECT_ID.fullmatch(new):
            raise ValueError("a commit is named by its full id")
        for page in _COMPARE_PAGES:
            path = f"/repos/{repository.name}/compare/{old}...{new}{page}"
            try:
                answer = await self._rest.call("GET", path, token, attempts=2)
            except GitHubError:
                continue
            if answer.status == 200:
                return _ANCESTRY.get(read_comparison(answer) or "")
            return None
        return None

    async def gone_names(self, repository: Repository, old: str, new: str, token: Token) -> GoneNames | None:
        """Which files commit `new` has no more since it parted from `old` (empty: from the default branch). None when
        GitHub cannot say, or says too much: it lists changed files with their contents. Ids as for `compare`."""
        if not _OBJECT_ID.fullmatch(old or new) or not _OBJECT_ID.fullmatch(new):
            raise ValueError("a commit is named by its full id")
        path = f"/repos/{repository.name}/compare/{old or 'HEAD'}...{new}{_COMPARE_PAGES[0]}"
        try:
            answer = await self._rest.call("GET", path, token, attempts=1)
        except GitHubError:
            return None
        return read_gone_names(answer) if answer.status == 200 else None

    async def _ask(self, method: str, path: str, body: object = None) -> Answer:
        """A call as the App. GitHubError when GitHub does not take us for it."""
        answer = await self._rest.call(method, path, self._key.prove(self._clock()), body=body)
        message = read_message(answer)
        if answer.status == 401:
            raise GitHubError(_not_the_app(answer, self._clock()), detail=message, status=401)
        if answer.status == 404 and message == "Integration not found":
            raise GitHubError(
                "GitHub knows no App of this number or client id: check github.app_id", status=404
            )
        return answer


def _scope(wanted: Wanted) -> dict[str, object]:
    """The part of the request that keeps a token from reaching everything."""
    count = len(wanted.names) or len(wanted.ids)
    if bool(wanted.names) == bool(wanted.ids) or count > MAX_REPOSITORIES or not wanted.permissions:
        raise ValueError("a token is for named permissions, and for some repositories by name or by id")
    if wanted.ids:
        return {"repository_ids": list(wanted.ids)}
    if len({name.key[0] for name in wanted.names}) != 1:
        raise ValueError("an installation belongs to one owner")
    return {"repositories": [name.name for name in wanted.names]}


def _not_minted(answer: Answer, wanted: Wanted) -> GitHubError:
    message = read_message(answer)
    owner = wanted.names[0].owner if wanted.names else "the repository's owner"
    match answer.status:
        case 403:
            sentence = _suspended(owner)
        case 404:
            sentence = f"the GitHub App is not installed for {owner} any more: install it again"
        case 422 if "permission" in message.lower():
            asked = ", ".join(f"{name}: {level}" for name, level in sorted(wanted.permissions.items()))
            sentence = (
                f"the GitHub App lacks a permission ({asked}): give it to the App, and let {owner} accept it"
            )
        case 422:
            sentence = "a repository is not among those of the GitHub App's installation: add it there"
            return OutOfReachError(sentence, detail=message, status=422)
        case _:
            return _unexpected(answer)
    return GitHubError(sentence, detail=message, status=answer.status)


def _refused(answer: Answer, refused: Unwanted) -> GitHubError:
    return UnwantedTokenError(refused.fault, refused.token) if refused.token else _unreadable(answer)


def _suspended(owner: str) -> str:
    return f"the GitHub App is suspended for {owner}: an owner can unsuspend it in the settings, under GitHub Apps"


def _not_the_app(answer: Answer, now: datetime) -> str:
    """Why a proof was not accepted: most often a clock, or the key of another App."""
    ahead = _ahead(answer, now)
    if ahead is not None and abs(ahead) > _SKEW:
        side = "ahead of" if ahead > 0 else "behind"
        return f"this machine's clock is {abs(ahead)} seconds {side} GitHub's, which refuses the App for it: set it"
    return "GitHub does not accept the App's signature: does github.private_key_file belong to github.app_id?"


def _ahead(answer: Answer, now: datetime) -> int | None:
    """Seconds that our clock is ahead of the one that wrote the answer's Date (RFC 9110 6.6.1)."""
    try:
        theirs = parsedate_to_datetime(answer.headers.get("date", ""))
    except (ValueError, OverflowError):
        return None
    if theirs.tzinfo is None:
        theirs = theirs.replace(tzinfo=UTC)
    return round((now - theirs).total_seconds())


def _unexpected(answer: Answer) -> GitHubError:
    return GitHubError(
        f"GitHub's answer was not expected (status {answer.status})",
        detail=read_message(answer),
        status=answer.status,
    )


def _unreadable(answer: Answer) -> GitHubError:
    return GitHubError("GitHub's answer cannot be understood", status=answer.status)
