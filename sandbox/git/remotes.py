"""The repositories of a worktree: what its git remotes name at the configured forge, read on the host, once.

Whoever opens a session calls `read_remotes` before anything of the session runs; what the command writes into the
configuration later is never looked at. Nothing of the repository can run here: of its files one is opened, its own
configuration, and git gets that on stdin, outside any repository and without following includes.
"""

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from gateway.errors import GatewayError
from gateway.policy.repositories import RepositoryName
from gateway.policy.wording import printable
from sandbox.git.directory import find_git_directory
from sandbox.git.github_host import Address, GitHubHost, parse_path
from sandbox.git.program import find_git, git_output
from sandbox.git.settings import Setting

# A configuration with a thousand remotes is shorter.
CONFIG_LIMIT = 1 << 20
# Of the remotes' addresses; the configuration can name one remote once and thousands of addresses below it.
LISTING_LIMIT = 4 << 20
# Seconds for git to read one file of that size from stdin, which takes it milliseconds.
REMOTES_DEADLINE = 5.0
# Each is looked up at GitHub when the session opens, and a maintainer's clone may know every contributor's fork.
REPOSITORY_LIMIT = 32
# The remote that a clone makes; its repository is the session's first.
ORIGIN = "origin"
# What git is asked for (git-config(1), --get-regexp: section and last part are compared in lower case).
WANTED = r"^(remote\..+\.(url|pushurl)|http\.(.+\.)?extraheader)$"
# Exit status of `git config` for: nothing matches.
NOTHING_FOUND = 1
# How much of a name is shown in a note, and how many notes: they are for a person who starts a command.
SHOWN = 80
NOTE_LIMIT = 5

_PASSWORD = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/@]*:[^/@]+@").match


@dataclass(frozen=True, slots=True)
class Remote:
    """One address of one remote. `prefix` and `path` are its two parts as written (`Address`), perhaps with a login;
    `for_push` tells a `pushurl`, which git takes for pushes alone."""

    name: str
    repository: RepositoryName
    prefix: str = field(repr=False)
    path: str
    for_push: bool = False


@dataclass(frozen=True, slots=True)
class Remotes:
    """What was found, `origin` first, then in the configuration's order. `notes` are for the user, a line each."""

    found: tuple[Remote, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def repositories(self) -> tuple[RepositoryName, ...]:
        """Each repository once; the first is the worktree's own in the narrow sense."""
        return tuple(dict.fromkeys(remote.repository for remote in self.found))


def read_remotes(
    environment: Mapping[str, str], worktree: str, host: GitHubHost, aliases: Collection[str] = ()
) -> Remotes:
    """The remotes of the git worktree at this path; none when there is no repository, no git, or nothing to be read.

    `environment` is the host's (for PATH alone), `aliases` are the user's own words for the forge (`find_aliases`).
    """
    git = find_git(environment, worktree)
    config = config_file(worktree)
    if not git or not config:
        return Remotes()
    with suppress(OSError):
        # Not blocking: a FIFO would hold the start up. As stdin git reads what was looked at here, and no other file.
        descriptor = os.open(config, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > CONFIG_LIMIT:
                return Remotes()
            listing = _list(git, descriptor)
        finally:
            os.close(descriptor)
        return parse_remotes(listing, host, aliases)
    return Remotes()


def config_file(worktree: str) -> str:
    """The configuration that all worktrees of the repository share; empty when there is none."""
    if not worktree:
        return ""
    root = os.path.realpath(worktree)
    marker = os.path.join(root, ".git")
    if os.path.islink(marker):
        return ""  # as for the wrap: somebody may have planted it, and nothing there points back
    if os.path.isdir(marker):
        return os.path.join(marker, "config")
    try:
        outside = find_git_directory(root, ())
    except GatewayError:  # a pointer that does not hold; a wrap says so itself
        return ""
    return os.path.join(outside, "config") if outside else ""


def _list(git: str, config: int) -> bytes:
    """What git finds in the configuration; empty for nothing, also when it is broken or out of bounds.

    In "/" and without a home, so that git has no other configuration to read.
    """
    listing = git_output(
        (git, "config", "--file", "-", "--no-includes", "-z", "--get-regexp", WANTED),
        {"LC_ALL": "C", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull},
        "/",
        REMOTES_DEADLINE,
        limit=LISTING_LIMIT,
        source=config,
        accepted=(0, NOTHING_FOUND),
    )
    return listing if listing is not None and len(listing) <= LISTING_LIMIT else b""


def parse_remotes(listing: bytes, host: GitHubHost, aliases: Collection[str] = ()) -> Remotes:
    """The remotes in the output of `git config -z --get-regexp`, as far as they are at the forge."""
    found: list[Remote] = []
    notes: dict[str, None] = {}
    for entry in listing.decode(errors="surrogateescape").split("\0"):
        key, _, value = entry.partition("\n")
        section, _, rest = key.partition(".")
        name, _, last = rest.rpartition(".")
        if section == "http":
            notes |= dict.fromkeys(_header_notes(name, value, host))
            continue
        address = find_address(value, host, aliases)
        repository = parse_path(address.path) if address is not None else None
        if address is None or repository is None:
            continue
        if _PASSWORD(value):
            command = f"git remote set-url {_shown(name)} {host.url}/{repository}"
            notes[_login_note(f"the address of the remote {_shown(name)}", command)] = None
        found.append(Remote(name, repository, address.prefix, address.path, last == "pushurl"))
    found.sort(key=lambda remote: remote.name != ORIGIN)
    repositories = tuple(dict.fromkeys(remote.repository for remote in found))
    kept = frozenset(repositories[:REPOSITORY_LIMIT])
    if len(kept) < len(repositories):
        notes[
            f"this worktree has remotes of more than {REPOSITORY_LIMIT} repositories: pushes go to the first"
            f" {REPOSITORY_LIMIT}, and to those that the workspace lists"
        ] = None
    return Remotes(tuple(remote for remote in found if remote.repository in kept), tuple(notes)[:NOTE_LIMIT])


def find_address(url: str, host: GitHubHost, aliases: Collection[str] = ()) -> Address | None:
    """The address at the forge that `url` is, by any spelling or by one of the user's aliases; the longest counts,
    as for git."""
    alias = max((alias for alias in aliases if url.startswith(alias)), key=len, default="")
    if alias and url.isprintable():
        return Address(alias, url[len(alias) :])
    return host.locate(url)


def find_aliases(settings: Collection[Setting], host: GitHubHost) -> tuple[str, ...]:
    """The user's own words for the whole forge: `gh:` of `url.git@github.com:.insteadOf = gh:`.

    One for a part of the forge (`work:` for git@github.com:acme/) is none: which repository an address names must
    stand in the repository's configuration, not in a file that somebody else may have included.
    """
    found = []
    for setting in settings:
        section, _, rest = setting.name.partition(".")
        base, _, last = rest.rpartition(".")
        if section.lower() != "url" or last.lower() != "insteadof" or not setting.value:
            continue
        address = host.locate(base)
        if address is not None and not address.path and setting.value.isprintable():
            found.append(setting.value)
    return tuple(dict.fromkeys(found))


def _header_notes(base: str, value: str, host: GitHubHost) -> Iterator[str]:
    """Of an `http.BASE.extraHeader`: CI systems leave a login for the checkout in one."""
    if not value.lower().lstrip().startswith("authorization:"):
        return
    if not base or host.locate(base.rstrip("/") + "/") is not None:
        key = f"http.{base}.extraHeader" if base else "http.extraHeader"
        shown = "KEY" if "@" in key else _shown(key)
        yield _login_note("an http.extraHeader", f"git config --unset-all {shown}")


def _shown(name: str) -> str:
    return printable(name[:SHOWN])


def _login_note(what: str, command: str) -> str:
    return (
        f"{what} in this repository's configuration holds a login, with which the command can push past the rules:"
        f" take it out ({command})"
    )
