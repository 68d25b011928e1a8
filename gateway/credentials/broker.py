"""Which repositories of a session GitHub knows, and the tokens the session and its pushes get for them.

The read token is handed out; the write token is lent for one push and never leaves the gateway. Decides nothing about
pushes. Without an App, or with a GitHub that cannot be reached, a session opens all the same, without a token.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import batched
from types import MappingProxyType
from typing import Any, Final

from gateway.audit import AuditLog
from gateway.credentials.github_app import MAX_REPOSITORIES, GitHubApp, OutOfReachError
from gateway.credentials.ledger import ARRIVING, REVOKING, Ledger
from gateway.credentials.rest import GitHubError, Sleep
from gateway.credentials.token import Repository, Token, TokenKind
from gateway.policy.repositories import RepositoryName
from gateway.session import Session

READ: Final[Mapping[str, str]] = MappingProxyType(
    {"contents": "read", "pull_requests": "write", "metadata": "read"}
)
WRITE: Final[Mapping[str, str]] = MappingProxyType({"contents": "write"})
# A read token is renewed that long before its end: a clone may take a while.
AHEAD: Final = timedelta(minutes=10)
# Between two attempts at the same thing, so that an agent that asks again and again does not make GitHub do so.
PAUSE: Final = timedelta(seconds=30)
# Seconds that a session's opening waits for GitHub. What comes later is used all the same.
OPENING: Final = 20.0
# Questions to GitHub at a time while a session opens.
_AT_A_TIME: Final = 8
_NO_APP: Final = "no GitHub App is configured: set github.app_id and github.private_key_file"
_STRANGER: Final = "the repository is not one of this session"
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True, eq=False)
class _Grant:
    """Repositories of one installation with the read token for them. Changes with every token."""

    repositories: dict[int, Repository]
    token: Token
    # No other token is asked for before that.
    rest: datetime
    # Why there is no other one.
    fault: str = ""


@dataclass(slots=True, eq=False)
class _Entry:
    """A repository that the session may have. Changes: it has a grant, or a fault that says why not."""

    name: RepositoryName
    grant: _Grant | None = None
    id: int = 0
    fault: str = ""
    # The same for the operator, with what an agent need not know.
    note: str = ""
    # GitHub is not asked again before that.
    rest: datetime = _LONG_AGO


class SessionCredentials:
    """The tokens of one session. Changes; used from one event loop. `close` it whatever happened, `open` included.

    `app` None: no App is configured. `clock` gives aware moments; `opening`, `revoking` and `arriving` are seconds.
    """

    def __init__(
        self,
        app: GitHubApp | None,
        session: Session,
        log: AuditLog,
        *,
        clock: Callable[[], datetime],
        sleep: Sleep = asyncio.sleep,
        opening: float = OPENING,
        revoking: float = REVOKING,
        arriving: float = ARRIVING,
    ) -> None:
        self._app = app
        self._ledger = (
            Ledger(app, session, log, clock=clock, sleep=sleep, revoking=revoking, arriving=arriving)
            if app
            else None
        )
        self._clock = clock
        self._opening = opening
        self._entries: dict[RepositoryName, _Entry] = {}
        self._flights: dict[_Entry | _Grant, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(_AT_A_TIME)

    async def open(self, names: Iterable[RepositoryName]) -> tuple[str, ...]:
        """Finds the repositories and gets a read token per installation. Returns lines for the operator.

        What GitHub does not answer in time, or not at all, is no error: `read_token` asks again. AuditError when a
        token cannot be recorded.
        """
        entries = [_Entry(name) for name in dict.fromkeys(names) if name not in self._entries]
        self._entries |= {entry.name: entry for entry in entries}
        if self._ledger is None:
            for entry in entries:
                entry.fault = _NO_APP
            return ()
        task = self._ledger.start(self._admit(self._ledger, entries))
        for entry in entries:
            entry.fault = entry.note = "GitHub did not answer in time"
            self._fly(entry, task)
        await asyncio.wait((task,), timeout=self._opening)
        if task.done() and not task.cancelled():
            task.result()
        return _notes(entries)

    def repository(self, name: RepositoryName) -> Repository | None:
        """The repository as GitHub spells it, once it is found; None otherwise, and `fault` says why."""
        entry = self._entries.get(name)
        return entry.grant.repositories[entry.id] if entry and entry.grant else None

    def fault(self, name: RepositoryName) -> str:
        """Why there is no repository or no read token, in a sentence for an agent; "" when there is both."""
        entry = self._entries.get(name)
        if entry is None:
            return _STRANGER
        if entry.grant is None:
            return entry.fault
        return (
            ""
            if entry.grant.token.is_live(self._clock())
            else entry.grant.fault or "the read token has expired"
        )

    async def read_token(self, name: RepositoryName) -> Token | None:
        """A read token with minutes to live, a new one where need be; None when there is none, and `fault` says why.

        AuditError when a new one cannot be recorded.
        """
        entry, ledger = self._entries.get(name), self._ledger
        if entry is None or ledger is None or ledger.closed:
            return None
        if entry.grant is None and (entry in self._flights or self._is_due(entry)):
            await self._once(ledger, entry, lambda: self._admit(ledger, [entry]))
        grant = entry.grant
        if grant is not None and (grant in self._flights or self._is_due(grant)):
            await self._once(ledger, grant, lambda: self._renew(ledger, grant))
        token = entry.grant.token if entry.grant else None
        return token if token and token.is_live(self._clock()) else None

    @asynccontextmanager
    async def write_token(self, repository: Repository) -> AsyncIterator[Token]:
        """A token that may push to this repository and nothing else, for the time of the block, revoked at its end.

        Its `repositories` hold the name of now: a push goes there, whatever the repository was called when the session
        opened. GitHubError when there is none; AuditError when it cannot be recorded.
        """
        if self._ledger is None:
            raise GitHubError(_NO_APP)
        if all(entry.id != repository.id for entry in self._entries.values()):
            raise GitHubError(_STRANGER)
        async with self._ledger.lend(repository, WRITE) as token:
            yield token

    async def close(self) -> tuple[str, ...]:
        """Revokes everything, what is under way included; returns lines that tell what could not be revoked."""
        return await self._ledger.close() if self._ledger else ()

    def _is_due(self, item: _Entry | _Grant) -> bool:
        """Whether to ask GitHub for what is missing. Every fault may have been mended meanwhile."""
        now = self._clock()
        wanted = isinstance(item, _Entry) or item.token.expires - now <= AHEAD
        return wanted and now >= item.rest

    def _fly(self, item: _Entry | _Grant, task: asyncio.Task[None]) -> None:
        """Lets others wait for the task that is to mend the item."""
        self._flights[item] = task
        task.add_done_callback(lambda _: self._flights.pop(item, None))

    async def _once(
        self, ledger: Ledger, item: _Entry | _Grant, work: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Does the work once for all who ask for it meanwhile, whoever of them is cancelled."""
        task = self._flights.get(item)
        if task is None:
            task = ledger.start(work())
            self._fly(item, task)
        await asyncio.wait((task,))
        if not task.cancelled():  # by `close`, and not the caller
            task.result()

    async def _admit(self, ledger: Ledger, entries: Sequence[_Entry]) -> None:
        """Finds repositories, and gets a token for those of each installation."""
        found = await _all(self._find(ledger, entry) for entry in entries)
        groups: dict[tuple[int, str], list[_Entry]] = {}
        for entry, installation in zip(entries, found, strict=True):
            if installation is not None:
                # One installation has one owner; two for one are not taken from GitHub either.
                groups.setdefault((installation, entry.name.key[0]), []).append(entry)
        await _all(
            self._grant(ledger, installation, batch)
            for (installation, _), group in groups.items()
            for batch in batched(group, MAX_REPOSITORIES)
        )

    async def _find(self, ledger: Ledger, entry: _Entry) -> int | None:
        assert self._app is not None  # there is a ledger
        try:
            async with self._turns:
                return await self._app.find(entry.name)
        except GitHubError as error:
            self._failed([entry], error)
            ledger.record_failure(TokenKind.READ, [str(entry.name)], READ, error)
            return None

    async def _grant(self, ledger: Ledger, installation: int, entries: Sequence[_Entry]) -> None:
        try:
            token = await ledger.mint_for_names(installation, [entry.name for entry in entries], READ)
        except OutOfReachError as error:
            if len(entries) > 1:
                await _all(self._grant(ledger, installation, [entry]) for entry in entries)
            else:
                self._failed(entries, error)
            return
        except GitHubError as error:
            self._failed(entries, error)
            return
        ids = {repository.name: repository.id for repository in token.repositories}
        grant = _Grant({one.id: one for one in token.repositories}, token, self._clock() + PAUSE)
        for entry in entries:
            entry.grant, entry.id, entry.fault, entry.note = grant, ids[entry.name], "", ""

    def _failed(self, entries: Iterable[_Entry], error: GitHubError) -> None:
        for entry in entries:
            entry.fault, entry.note = error.sentence, str(error)
            entry.rest = self._clock() + PAUSE

    async def _renew(self, ledger: Ledger, grant: _Grant) -> None:
        """Gets a new token, or leaves the old one until it expires. The old one is not revoked: `GH_TOKEN` of a
        running process holds it."""
        ledger.forget_expired()
        grant.rest = self._clock() + PAUSE
        try:
            grant.token = await ledger.mint_for(tuple(grant.repositories.values()), TokenKind.READ, READ)
        except OutOfReachError as error:
            grant.fault = error.sentence
            if len(grant.repositories) > 1:
                await _all(self._renew(ledger, part) for part in self._split(grant))
            return
        except GitHubError as error:
            grant.fault = error.sentence
            return
        grant.repositories = {one.id: one for one in grant.token.repositories}
        grant.fault = ""

    def _split(self, grant: _Grant) -> tuple[_Grant, ...]:
        """A grant for each of the repositories: what one of them lost must not be lost to the others."""
        parts = {id_: replace(grant, repositories={id_: one}) for id_, one in grant.repositories.items()}
        for entry in self._entries.values():
            if entry.grant is grant:
                entry.grant = parts[entry.id]
        return tuple(parts.values())


async def _all[T](works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all; none of them is left behind when one fails, whose error comes out at the end."""
    outcomes = await asyncio.gather(*works, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def _notes(entries: Iterable[_Entry]) -> tuple[str, ...]:
    """A line for each reason, with the repositories it is about."""
    reasons: dict[str, list[str]] = {}
    for entry in entries:
        if entry.grant is None:
            reasons.setdefault(entry.note, []).append(str(entry.name))
    return tuple(f"no GitHub token for {', '.join(names)}: {reason}" for reason, names in reasons.items())
