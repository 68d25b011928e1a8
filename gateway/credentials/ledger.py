"""The tokens of one session from birth to end: each is recorded before anybody gets it, and revoked at last.

A request under way is never abandoned: whoever waits for it may be cancelled, the token it brings is revoked all the
same. Decides neither who gets a token nor what it is for.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.credentials.github_app import GitHubApp, UnwantedTokenError
from gateway.credentials.rest import GitHubError, Sleep
from gateway.credentials.token import Repository, Token, TokenKind
from gateway.errors import AuditError
from gateway.policy.repositories import RepositoryName
from gateway.session import Session

# Seconds for the end of one token, all attempts together: a push, or a teardown, waits for it.
REVOKING: Final = 5.0
# Seconds before each attempt.
_REVOKE_PAUSES: Final = (0.0, 0.5, 1.0)
# Seconds that a teardown waits for tokens GitHub was asked for before it began.
ARRIVING: Final = 10.0
_ENDED: Final = "the session has ended"

_log = logging.getLogger(__name__)


class State(StrEnum):
    """What a `token` record tells."""

    MINTED = "minted"
    REVOKED = "revoked"
    REVOKE_FAILED = "revoke_failed"
    MINT_FAILED = "mint_failed"


class Ledger:
    """The tokens of a session. Changes; used from one event loop. `revoking` and `arriving` are in seconds."""

    def __init__(
        self,
        app: GitHubApp,
        session: Session,
        log: AuditLog,
        *,
        clock: Callable[[], datetime],
        sleep: Sleep,
        revoking: float = REVOKING,
        arriving: float = ARRIVING,
    ) -> None:
        self._app = app
        self._session = session
        self._log = log
        self._clock = clock
        self._sleep = sleep
        self._revoking = revoking
        self._arriving = arriving
        self._live: set[Token] = set()
        self._ending: dict[Token, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.closed = False

    def start[T](self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs work that goes on when whoever waits for it is cancelled; `close` waits for it, for a while."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def mint_for_names(
        self, installation: int, names: Sequence[RepositoryName], permissions: Mapping[str, str]
    ) -> Token:
        """A recorded read token. GitHubError; AuditError when it cannot be recorded (then it is revoked)."""
        kind = TokenKind.READ
        self._refuse_when_closed()
        made = self._app.mint(installation, kind=kind, permissions=permissions, names=names)
        return await self._enter(made, [str(name) for name in names], kind, permissions)

    async def mint_for(
        self, repositories: Sequence[Repository], kind: TokenKind, permissions: Mapping[str, str]
    ) -> Token:
        """The same for repositories of one installation that are known by id. GitHubError also when one of them has
        another owner by now: the rules were written for the old one."""
        self._refuse_when_closed()
        known = {repository.id: repository for repository in repositories}
        installation = repositories[0].installation
        made = self._app.mint(installation, kind=kind, permissions=permissions, ids=tuple(known))
        token = await self._enter(made, [str(one.name) for one in repositories], kind, permissions)
        for now in token.repositories:
            before = known[now.id].name
            if now.name.key[0] != before.key[0]:
                await settled(self.end(token))
                raise GitHubError(f"{before} belongs to another owner by now: {now.name}")
        return token

    @asynccontextmanager
    async def lend(self, repository: Repository, permissions: Mapping[str, str]) -> AsyncIterator[Token]:
        """A recorded write token for the time of the block; whatever ends that, the token is revoked then."""
        task = self.start(self.mint_for((repository,), TokenKind.WRITE, permissions))
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            self.start(self._drop(task))
            raise
        if task.cancelled():
            raise GitHubError(_ENDED)
        token = task.result()
        try:
            yield token
        finally:
            await settled(self.end(token))

    async def _drop(self, task: asyncio.Task[Token]) -> None:
        """Ends the token that nobody waits for any more, once it is there."""
        await asyncio.wait((task,))
        if not task.cancelled() and task.exception() is None:
            await self.end(task.result())

    def record_failure(
        self, kind: TokenKind, names: Sequence[str], permissions: Mapping[str, str], error: GitHubError
    ) -> None:
        """Records that there is no token for these repositories, and why. AuditError."""
        fields = {
            "kind": kind.value,
            "repositories": names,
            "permissions": dict(permissions),
            "expires": None,
        }
        self._append({"state": State.MINT_FAILED.value, **fields, "reason": str(error)})

    def end(self, token: Token) -> asyncio.Task[None]:
        """Revokes a token and records that; the task never fails, and is one for all who ask meanwhile."""
        task = self._ending.get(token)
        if task is None:
            task = self._ending[token] = self.start(self._revoke(token))
            task.add_done_callback(lambda _: self._ending.pop(token, None))
        return task

    async def close(self) -> tuple[str, ...]:
        """Waits for what is under way, revokes what lives, and tells what could not be revoked, a line each. May be
        called again."""
        self.closed = True
        return await settled(asyncio.ensure_future(self._close()))

    async def _enter(
        self,
        made: Coroutine[Any, Any, Token],
        names: Sequence[str],
        kind: TokenKind,
        permissions: Mapping[str, str],
    ) -> Token:
        try:
            token = await made
        except UnwantedTokenError as refusal:
            await self._discard(refusal.token, refusal.sentence)
            raise
        except GitHubError as error:
            self.record_failure(kind, names, permissions, error)
            raise
        if self.closed:
            await self._discard(token, _ENDED)
            raise GitHubError(_ENDED)
        self._live.add(token)
        try:
            self._record(State.MINTED, token)
        except AuditError:
            await settled(self.end(token))
            raise
        return token

    def _refuse_when_closed(self) -> None:
        if self.closed:
            raise GitHubError(_ENDED)

    async def _discard(self, token: Token, reason: str) -> None:
        """Ends a token that nobody gets; that it was made stands in the log if it can be written."""
        self._live.add(token)
        try:
            self._record(State.MINTED, token, reason)
        finally:
            await settled(self.end(token))

    async def _revoke(self, token: Token) -> None:
        if token not in self._live:
            return
        fault = await self._try_to_revoke(token)
        if fault and token.is_live(self._clock()):
            state = State.REVOKE_FAILED
        else:
            self._live.discard(token)
            state = State.REVOKED
        try:
            self._record(state, token, fault)
        except AuditError as error:
            # It has happened; to undo it because nobody can write it down would help nobody.
            _log.error("the end of a token is not in the audit log: %s", error.message)

    async def _try_to_revoke(self, token: Token) -> str:
        """What keeps the token alive; "" once it is dead."""
        fault = ""
        try:
            async with asyncio.timeout(self._revoking):
                for pause in _REVOKE_PAUSES:
                    if pause:
                        await self._sleep(pause)
                    try:
                        await self._app.revoke(token)
                    except GitHubError as error:
                        fault = str(error)
                    else:
                        return ""
        except TimeoutError:
            fault = fault or "GitHub did not answer in time"
        return fault

    async def _close(self) -> tuple[str, ...]:
        if self._tasks:
            _, late = await asyncio.wait(tuple(self._tasks), timeout=self._arriving)
            for task in late.difference(self._ending.values()):
                task.cancel()
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))
        self.forget_expired()
        await asyncio.gather(*(self.end(token) for token in tuple(self._live)))
        return tuple(
            f"a GitHub token ({token.kind}) for {', '.join(token.names)} could not be revoked; "
            f"it ends by itself at {_moment(token.expires)}"
            for token in self._live
        )

    def forget_expired(self) -> None:
        """Drops tokens that have ended by themselves."""
        now = self._clock()
        self._live = {token for token in self._live if token.is_live(now)}

    def _record(self, state: State, token: Token, reason: str = "") -> None:
        fields = {
            "state": state.value,
            "kind": token.kind.value,
            "repositories": list(token.names),
            "permissions": dict(token.permissions),
            "expires": _moment(token.expires),
        }
        self._append({**fields, "reason": reason} if reason else fields)

    def _append(self, fields: Mapping[str, object]) -> None:
        self._log.metrics.count_token(str(fields["state"]))
        self._log.append(AuditEvent(EventKind.TOKEN, fields, self._session))


async def settled[T](task: asyncio.Task[T]) -> T:
    """The task's result. Who is cancelled meanwhile waits for its end all the same, and is cancelled then."""
    interrupted: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted
    return task.result()


def _moment(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
