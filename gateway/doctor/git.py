"""Checks of git: its version, and what in a repository's configuration leads pushes past the gateway.

The repository's configuration is data, never obeyed: git gets it on stdin, without includes, and what it says of
remotes and rewriting goes into an empty repository of the doctor's own. There real git is asked where a push would go.
"""

import os
import re
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.doctor.findings import Finding, failed, ok, warning
from gateway.doctor.place import Place
from sandbox.git.github_host import GitHubHost, parse_github_url
from sandbox.git.program import find_git, git_output
from sandbox.git.remotes import CONFIG_LIMIT, Remotes, config_file, find_aliases, read_remotes
from sandbox.git.session import WHOLE_PATH, config_text, gateway_url, make_session_git, push_base
from sandbox.git.settings import Setting, git_config_text, read_user_settings, settings_text

# What a wrap's git is told by: GIT_CONFIG_COUNT is of 2.31, GIT_CONFIG_GLOBAL of 2.32 (git's release notes).
OLDEST: Final = (2, 32)
_DEADLINE: Final = 5.0
_LISTING_LIMIT: Final = 4 << 20
# Any will do: nothing listens there, and nothing is sent.
_PORT: Final = 3180
_VERSION: Final = re.compile(rb"git version (\d+)\.(\d+)")
# Of a repository's settings: what says where pushes go, and what says who logs in.
_ADDRESSES: Final = re.compile(
    r"(remote\..+\.(url|pushurl)|url\..+\.(insteadof|pushinsteadof))", re.IGNORECASE
)
_REWRITING: Final = re.compile(r"url\..+\.(push)?insteadof", re.IGNORECASE)
_HELPERS: Final = re.compile(r"credential\.(.+\.)?helper", re.IGNORECASE)
_MOST: Final = 10


def look_at_git(place: Place, name: str) -> Iterator[Finding]:
    """Git is there, and new enough to be told by variables where its configuration is."""
    git = find_git(place.environ, place.worktree)
    if not git:
        yield warning(
            name, "git is not installed: nothing can be fetched or pushed", place.host.install("git")
        )
        return
    said = git_output((git, "--version"), {"LC_ALL": "C"}, "/", _DEADLINE, limit=_LISTING_LIMIT)
    found = _VERSION.match(said or b"")
    if found is None:
        yield failed(name, f"{git} does not say which version it is", place.host.install("git"))
        return
    version = int(found[1]), int(found[2])
    shown = ".".join(map(str, version))
    if version < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        reason = (
            f"git {shown} at {git} does not know GIT_CONFIG_GLOBAL, so pushes would not come to the gateway"
        )
        yield failed(name, reason, f"install git {wanted} or newer")
    else:
        yield ok(name, f"git {shown} at {git}")


def look_at_remotes(place: Place, name: str) -> Iterator[Finding]:
    """Where pushes of the worktree's remotes would go in a session, and which logins stand in its configuration."""
    git = find_git(place.environ, place.worktree)
    if not place.worktree or not git:
        yield ok(name, "there is no git worktree around here to look at")
        return
    host = parse_github_url(place.config.github.url)
    settings = read_user_settings(place.environ, place.worktree)
    aliases = find_aliases(settings, host)
    remotes = read_remotes(place.environ, place.worktree, host, aliases)
    own = _own_settings(git, place.worktree)
    if own is None:
        yield warning(
            name, f"the configuration of {place.worktree} cannot be read by git", "git config --list"
        )
        return
    session = config_text(make_session_git(host, remotes, aliases), _PORT, git_config_text(settings))
    found = [*_strays(git, session, own, remotes, host, name), *_logins(remotes, own, name)]
    yield from found[:_MOST]
    if not found:
        count = len(remotes.repositories)
        what = f"{count} {'repository' if count == 1 else 'repositories'} at {host.authority}"
        yield ok(
            name,
            f"pushes of {place.worktree} go to the gateway ({what})" if count else f"no remote at {host.url}",
        )


def _own_settings(git: str, worktree: str) -> tuple[Setting, ...] | None:
    """The settings of the repository itself; None where git cannot read them."""
    path = config_file(worktree)
    if not path:
        return ()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:
        return None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_size > CONFIG_LIMIT:
            return None
        environment = {"LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        command = (git, "config", "--file", "-", "--no-includes", "-z", "--list")
        listing = git_output(command, environment, "/", _DEADLINE, limit=_LISTING_LIMIT, source=descriptor)
    finally:
        os.close(descriptor)
    if listing is None or len(listing) > _LISTING_LIMIT:
        return None
    entries = (
        entry.partition("\n") for entry in listing.decode(errors="surrogateescape").split("\0") if entry
    )
    return tuple(Setting(key, value if separator else None) for key, separator, value in entries)


@dataclass(frozen=True, slots=True)
class _Trial:
    """An empty repository with the remotes and the rewriting of the one that is looked at, and a session's settings."""

    git: str
    folder: str

    def pushes(self, remote: str) -> tuple[str, ...]:
        """Where git would push to for this remote."""
        environment = {
            "LC_ALL": "C",
            "HOME": self.folder,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.path.join(self.folder, "global"),
            "GIT_CEILING_DIRECTORIES": os.path.dirname(self.folder),
            "GIT_TERMINAL_PROMPT": "0",
        }
        command = (self.git, "--git-dir=repository", "remote", "get-url", "--push", "--all", "--", remote)
        said = git_output(command, environment, self.folder, _DEADLINE, limit=_LISTING_LIMIT)
        return tuple((said or b"").decode(errors="surrogateescape").splitlines())


def _make_trial(git: str, folder: str, session: str, own: tuple[Setting, ...]) -> _Trial:
    addresses = [one for one in own if _ADDRESSES.fullmatch(one.name) and one.value is not None]
    repository = Path(folder, "repository")
    for name in ("objects", "refs"):
        (repository / name).mkdir(parents=True)
    (repository / "HEAD").write_text("ref: refs/heads/main\n")
    head = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
    text = (head + settings_text(addresses)).encode(errors="surrogateescape")
    (repository / "config").write_bytes(text)
    Path(folder, "global").write_bytes(session.encode(errors="surrogateescape"))
    return _Trial(git, folder)


def _strays(
    git: str, session: str, own: tuple[Setting, ...], remotes: Remotes, host: GitHubHost, name: str
) -> Iterator[Finding]:
    """Remotes at the forge whose pushes git would not bring to the gateway."""
    wanted = push_base(gateway_url(_PORT), host)
    names = tuple(dict.fromkeys(remote.name for remote in remotes.found))[:_MOST]
    if not names:
        return
    with tempfile.TemporaryDirectory(prefix="agent-gateway-doctor-") as folder:
        trial = _make_trial(git, os.path.realpath(folder), session, own)
        for remote in names:
            if any(not address.startswith(wanted) for address in trial.pushes(remote)):
                yield _stray(remote, remotes, own, name)


def _stray(remote: str, remotes: Remotes, own: tuple[Setting, ...], name: str) -> Finding:
    """Why, as far as the settings tell: addresses are not shown, they may hold a login."""
    result = f"pushes to {remote} go past the gateway, and GitHub refuses them"
    if any(
        one.name == remote and one.for_push and not one.path.endswith(WHOLE_PATH) for one in remotes.found
    ):
        reason = f"{result}: its pushurl is no whole address that ends in {WHOLE_PATH}"
        return warning(name, reason, f"git config --unset-all {_safe(f'remote.{remote}.pushurl')}")
    rewriting = next((one.name for one in own if _REWRITING.fullmatch(one.name)), "")
    if not rewriting:
        return warning(name, result, "git config --list --show-origin shows what rewrites its address")
    last = rewriting.rpartition(".")[2]
    reason = f"{result}: {last} in this repository's configuration beats the session's"
    return warning(name, reason, f"git config --unset-all {_safe(rewriting)}")


def _logins(remotes: Remotes, own: tuple[Setting, ...], name: str) -> Iterator[Finding]:
    """Logins, and programs that give them out: a session resets those, whoever works outside of it does not."""
    for note in remotes.notes:
        reason, _, cure = note.partition(": take it out (")
        yield warning(name, reason, cure.removesuffix(")"))
    for key in dict.fromkeys(one.name for one in own if _HELPERS.fullmatch(one.name) and one.value):
        reason = (
            "a credential helper in this repository's configuration: sessions reset it, git outside obeys it"
        )
        yield warning(name, reason, f"git config --unset-all {_safe(key)}")


def _safe(key: str) -> str:
    """A setting's name for a command line; one that may hold a login, or is no plain word, is not shown."""
    return key if re.fullmatch(r"[A-Za-z0-9._:/-]+", key) else "KEY (git config --show-origin --list)"
