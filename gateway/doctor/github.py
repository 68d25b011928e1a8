"""Checks of the GitHub App: its key, whether GitHub takes us for it, where it is installed, what it may do, the clock.

Nothing is minted. Everything that is asked has a deadline, and no answer is a warning: this machine may be offline.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gateway.config.values import DEFAULT_WORKSPACE, Workspace
from gateway.credentials.broker import READ, WRITE
from gateway.credentials.client import make_client
from gateway.credentials.github_app import GitHubApp, GitHubError
from gateway.credentials.private_key import PrivateKeyFile, read_private_key
from gateway.doctor.findings import Finding, failed, ok, warning
from gateway.doctor.place import Place
from gateway.errors import GatewayError
from gateway.policy.repositories import RepositoryName
from sandbox.git.github_host import parse_github_url
from sandbox.git.remotes import find_aliases, read_remotes
from sandbox.git.settings import read_user_settings

# Seconds for all questions, and for one.
DEADLINE: Final = 15.0
_ONE: Final = 5.0
# Repositories that are asked about: enough to see whether the App is installed.
_MOST: Final = 5
# Seconds between the clocks that GitHub still takes (credentials/private_key.py: proofs start a minute before).
_SKEW: Final = 60
# A sign that something is not as it should be, before it fails.
_DRIFT: Final = 20
# Weaker first (docs.github.com, "Permissions required for GitHub Apps").
_LEVELS: Final = ("", "read", "write", "admin")
_NO_APP: Final = (
    "no App is configured: sessions get no token, public repositories can be read, pushes are refused"
)
_SET_UP: Final = "README, The GitHub App; then github.app_id and github.private_key_file in the config"
_SETTINGS: Final = "on GitHub: the App's settings, Permissions & events; then whoever installed it accepts"
_CLOCK: Final = "timedatectl set-ntp true, or set the clock"


def look_at_app(place: Place, name: str) -> Iterator[Finding]:
    """All of it; stops at the first thing without which the rest makes no sense."""
    github = place.config.github
    if github.app_id is None or github.private_key_file is None:
        yield warning(name, _NO_APP, _SET_UP)
        return
    try:
        key = read_private_key(github.private_key_file)
    except GatewayError as error:
        yield failed(f"{name} key", error.message, error.hint)
        return
    if key.warnings:
        yield from (
            warning(f"{name} key", note.partition(": ")[0], note.rpartition(": ")[2]) for note in key.warnings
        )
    else:
        yield ok(f"{name} key", f"{github.private_key_file} holds an RSA key, readable by this user alone")
    yield from asyncio.run(_ask(place, key, _repositories(place), name))


def _repositories(place: Place) -> tuple[RepositoryName, ...]:
    """Those that a session opened here could push to."""
    host = parse_github_url(place.config.github.url)
    listed = place.config.workspaces.get(DEFAULT_WORKSPACE, Workspace()).repositories
    if not place.worktree:
        return listed
    aliases = find_aliases(read_user_settings(place.environ, place.worktree), host)
    own = read_remotes(place.environ, place.worktree, host, aliases).repositories
    return tuple(dict.fromkeys((*own, *listed)))


async def _ask(
    place: Place, key: PrivateKeyFile, repositories: Sequence[RepositoryName], name: str
) -> Sequence[Finding]:
    github, egress = place.config.github, place.config.egress
    found: list[Finding] = []
    client = make_client(egress.hosts, egress.upstream_proxy)
    try:
        async with asyncio.timeout(DEADLINE):
            app = GitHubApp(github.api_url, github.app_id or 0, key.pem, client, place.now, deadline=_ONE)
            found += await _ask_about_app(app, github.api_url, name)
            if not found or found[0].verdict == "ok":
                found += await _ask_about_installations(app, repositories, name)
    except TimeoutError:
        found.append(
            warning(name, f"{github.api_url} did not answer within {DEADLINE:g} seconds", "try again later")
        )
    finally:
        await client.aclose()
    return found


async def _ask_about_app(app: GitHubApp, api_url: str, name: str) -> Sequence[Finding]:
    try:
        standing = await app.standing()
    except GitHubError as error:
        if not error.status:
            cure = "this machine may be offline; else github.api_url, or egress.upstream_proxy behind a company proxy"
            return (warning(name, error.message, cure),)
        sentence, _, cure = error.sentence.partition(": ")
        finding = failed(name, sentence, cure or "github.app_id and github.private_key_file in the config")
        return (finding,)
    found = [ok(name, f"{api_url} takes our signature"), _clock(standing.ahead, name)]
    lacking = _lacking(standing.permissions)
    if lacking:
        found.append(failed(f"{name} rights", f"the App does not ask for {lacking}", _SETTINGS))
    return found


def _clock(ahead: int | None, name: str) -> Finding:
    if ahead is None:
        return warning(f"{name} clock", "GitHub's answer has no date to compare this machine's clock with")
    side = "ahead of" if ahead > 0 else "behind"
    shown = f"this machine's clock is {abs(ahead)} seconds {side} GitHub's"
    if abs(ahead) > _SKEW:
        return failed(f"{name} clock", shown, _CLOCK)
    return (
        warning(f"{name} clock", shown, _CLOCK)
        if abs(ahead) > _DRIFT
        else ok(f"{name} clock", f"{abs(ahead)} seconds apart")
    )


async def _ask_about_installations(
    app: GitHubApp, repositories: Sequence[RepositoryName], name: str
) -> Sequence[Finding]:
    if not repositories:
        cure = "run doctor in a checkout, or list workspaces.default.repositories in the config"
        return (warning(f"{name} repos", "there is no repository here to ask about", cure),)
    found = [await _ask_about(app, repository, name) for repository in repositories[:_MOST]]
    if len(repositories) > _MOST:
        found.append(ok(f"{name} repos", f"{len(repositories) - _MOST} more were not asked about"))
    return found


async def _ask_about(app: GitHubApp, repository: RepositoryName, name: str) -> Finding:
    try:
        installation = await app.installation(repository)
    except GitHubError as error:
        if not error.status:
            return warning(f"{name} repos", f"{repository}: {error.message}", "try again later")
        sentence, _, cure = error.sentence.partition(": ")
        return failed(f"{name} repos", sentence, cure)
    lacking = _lacking(installation.permissions)
    if lacking:
        reason = f"the installation at {repository.owner} does not grant {lacking}"
        cure = f"on GitHub: the settings of {repository.owner}, GitHub Apps, Review request"
        return failed(f"{name} repos", reason, cure)
    return ok(f"{name} repos", f"installed for {repository}, with the permissions that are needed")


def _lacking(granted: Mapping[str, str]) -> str:
    """What sessions and pushes need and is not granted, in words; empty for nothing."""
    needed = {**READ, **WRITE}
    return ", ".join(
        f"{permission}: {level}"
        for permission, level in needed.items()
        if _level(granted.get(permission, "")) < _level(level)
    )


def _level(word: str) -> int:
    return _LEVELS.index(word) if word in _LEVELS else 0
