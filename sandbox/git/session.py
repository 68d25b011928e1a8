"""What git inside the wrap is told of the forge: pushes go to the gateway, fetches to the forge by HTTPS with the
session's read token. Pure text and values; contract section 3.

Two places, because git reads them by different laws. Of two `pushInsteadOf` of one length the one that is read first
counts, so rewriting stands at the head of the global file, before the repository's own (remote.c, alias_url). Of
headers and helpers the last counts and an empty one resets what was read before, so those stand in `GIT_CONFIG_COUNT`,
which is read last (git-config(1), ENVIRONMENT).

This is convenience. The boundary is that nobody inside holds a credential that can push.
"""

import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from sandbox.git.github_host import GitHubHost
from sandbox.git.remotes import Remotes
from sandbox.git.settings import Setting, settings_text

LOOPBACK = "127.0.0.1"
# Below this path of the gateway stand the forges: /git/HOST[:PORT]/OWNER/NAME.
PUSH_PATH = "git"
# The header that names the session, for pushes and for the agent's own calls.
SECRET_HEADER = "X-Agent-Gateway-Session"
# A rewritten address is a beginning to git. One that ends so is hardly the beginning of another repository's.
WHOLE_PATH = ".git"


@dataclass(frozen=True, slots=True)
class SessionGit:
    """The forge of one session. `prefixes` are spellings of it that cannot be listed beforehand, with another user or
    in another letter case; `push_addresses` are whole addresses that git takes for pushes alone, as prefix and path.
    Both as the user wrote them, so perhaps with a login."""

    host: GitHubHost
    prefixes: tuple[str, ...] = field(default=(), repr=False)
    push_addresses: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def make_session_git(host: GitHubHost, remotes: Remotes, aliases: Collection[str] = ()) -> SessionGit:
    """The forge with the spellings of the worktree's remotes and the user's aliases (`remotes.find_aliases`).

    A `pushurl` is exempt from `pushInsteadOf` and obeys `insteadOf`, which holds for fetches too (git-config(1),
    url.<base>.pushInsteadOf). So it is rewritten whole, where that can touch no fetch: nothing is fetched from an
    address that begins so, and no other repository's address does.
    """
    fetched = [remote.prefix + remote.path for remote in remotes.found if not remote.for_push]
    pushed = {
        (remote.prefix, remote.path): None
        for remote in remotes.found
        if remote.for_push
        and remote.path.endswith(WHOLE_PATH)
        and not any(address.startswith(remote.prefix + remote.path) for address in fetched)
    }
    written = (*(remote.prefix for remote in remotes.found), *aliases)
    listed = set(host.spellings())
    prefixes = tuple(dict.fromkeys(prefix for prefix in written if prefix not in listed))
    return SessionGit(host, prefixes, tuple(pushed))


def gateway_url(port: int) -> str:
    """`<gateway>` of the contract: the third listener as the wrapped process reaches it."""
    return f"http://{LOOPBACK}:{port}"


def push_base(gateway: str, host: GitHubHost) -> str:
    """Where pushes to the forge go, up to the owner."""
    return f"{gateway}/{PUSH_PATH}/{host.authority}/"


def config_text(git: SessionGit | None, gateway_port: int, user_text: str) -> str:
    """The global configuration file of the session: rewriting first, then `user_text`, the copy of the user's."""
    if git is None:
        return user_text
    return settings_text(rewriting(git, gateway_url(gateway_port))) + user_text


def rewriting(git: SessionGit, gateway: str) -> Iterator[Setting]:
    """Pushes by every spelling to the gateway, fetches by every spelling to the forge; by the forge's own too, or the
    repository's configuration could lead them elsewhere (to ssh, which has no key here)."""
    pushes = push_base(gateway, git.host)
    spellings = (*git.host.spellings(), *git.prefixes)
    for spelling in spellings:
        yield Setting(f"url.{pushes}.pushInsteadOf", spelling)
    for prefix, path in git.push_addresses:
        yield Setting(f"url.{pushes}{path}.insteadOf", prefix + path)
    for spelling in spellings:
        yield Setting(f"url.{git.host.url}/.insteadOf", spelling)


def last_settings(
    git: SessionGit, gateway: str, secret: str, credential: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """What is read last, as key and value: the session's header, no proxy and no low-speed limit for the gateway (a
    push may wait for an answer), and one credential helper, for the forge alone.

    `credential` is the helper as a command. It gets the path too: a session may have a token for each repository.
    """
    pushes = f"http.{gateway}/{PUSH_PATH}/"
    logins = f"credential.{git.host.url}"
    # `!`: a shell runs it, whatever its first word looks like (gitcredentials(7)).
    helper = f"!{shlex.join([*credential, git.host.url])}"
    return (
        ("credential.helper", ""),
        (f"{logins}.helper", helper),
        (f"{logins}.useHttpPath", "true"),
        (f"{pushes}.extraHeader", ""),
        (f"{pushes}.extraHeader", f"{SECRET_HEADER}: {secret}"),
        (f"{pushes}.proxy", ""),
        (f"{pushes}.lowSpeedLimit", "0"),
        (f"{pushes}.lowSpeedTime", "0"),
    )
