"""The GitHub half of a session, put together: the App, the session's tokens, the push gateway on the agent listener.

Composition only. Without an App all of it is there as well, and refuses with the reason.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gateway.api.agent import Malformed, Route
from gateway.api.git_credential import GitCredential, git_credential_route
from gateway.config import Config
from gateway.credentials.broker import OPENING, SessionCredentials
from gateway.credentials.client import make_client
from gateway.credentials.github_app import GitHubApp
from gateway.credentials.private_key import PrivateKeyFile, read_private_key
from gateway.policy.repositories import RepositoryName, SessionRepositories
from gateway.push.serving import PushGateway
from gateway.push_authorizer import PushAuthorizer
from gateway.session import Session


@dataclass(frozen=True, slots=True)
class GitHubHalf:
    """What a session has of GitHub: routes for its agent listener, its own repository's read token (empty: none), and
    lines for whoever started it."""

    routes: Sequence[Route]
    malformed: Malformed
    read_token: str
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"GitHubHalf({len(self.routes)} routes)"


def read_app_key(config: Config) -> PrivateKeyFile | None:
    """The configured App's key; None without an App. GatewayError when it cannot be used."""
    github = config.github
    if github.app_id is None or github.private_key_file is None:
        return None
    return read_private_key(github.private_key_file)


@asynccontextmanager
async def github_half(
    config: Config,
    key: PrivateKeyFile | None,
    session: Session,
    sessions: Iterable[Session],
    door: PushAuthorizer,
    repositories: SessionRepositories,
    authority: str,
    spool_folder: Path,
    left: list[str],
    *,
    opening: float = OPENING,
    is_protected: Callable[[str], bool] | None = None,
) -> AsyncIterator[GitHubHalf]:
    """The half for the time of the block. At its end pushes are cut and every token is revoked; what could not be is
    said in `left`. `authority` is the forge's HOST[:PORT], `spool_folder` where pushes wait that cannot go on yet:
    below the system's folder for temporary files they might lie in memory. `opening`: seconds that GitHub has.
    `is_protected`: whether the session may not write a path of its repository."""
    async with AsyncExitStack() as stack:
        client = make_client(config.egress.hosts, config.egress.upstream_proxy)
        stack.push_async_callback(client.aclose)
        github = config.github
        app = None
        if key is not None and github.app_id is not None:
            app = GitHubApp(github.api_url, github.app_id, key.pem, client, _now)
        credentials = SessionCredentials(app, session, door.log, clock=_now, opening=opening)

        async def revoke() -> None:
            left.extend(await credentials.close())

        stack.push_async_callback(revoke)
        # Without a network nothing is fetched or pushed, and a token would be for nothing.
        notes = await credentials.open(repositories.all if session.egress.network else ())
        gateway = PushGateway(
            session=session,
            door=door,
            app=app,
            credentials=credentials,
            client=client,
            github_url=github.url,
            label=config.push.label,
            linked=repositories.all,
            sessions=sessions,
            spool_folder=spool_folder,
            is_protected=is_protected,
        )
        stack.push_async_callback(gateway.close)
        credential = GitCredential(session.secret, authority, gateway.read_credential, gateway.fault)
        yield GitHubHalf(
            routes=(*gateway.routes(), git_credential_route(credential)),
            malformed=gateway.note_malformed,
            read_token=await _own_token(credentials, repositories.own),
            notes=(*(key.warnings if key else ()), *notes),
        )


async def _own_token(credentials: SessionCredentials, own: Iterable[RepositoryName]) -> str:
    """The text of the read token for the first of the worktree's repositories that there is one for by now: asking for
    one would wait for GitHub once more, without the bound of the opening."""
    for name in own:
        token = await credentials.read_token(name) if credentials.repository(name) else None
        if token is not None:
            return token.value
    return ""


def _now() -> datetime:
    return datetime.now(UTC)
