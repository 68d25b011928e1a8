"""The git configuration of the wrapped process: a copy of the user's without what holds secrets or runs programs.

`read_user_settings` asks git on the host, outside the wrap; `git_config_text` is pure.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.errors import GatewayError
from sandbox.git.program import find_git, git_output
from sandbox.variables import CREDENTIAL_VALUES

# Seconds for `git config --list`, which reads a handful of files.
GIT_DEADLINE = 10.0
# The same where a repository's own configuration is read along, which somebody may have made to take forever.
WORKTREE_DEADLINE = 3.0
# Nobody's settings are longer; a file that includes a data directory by mistake is.
SETTINGS_LIMIT = 1 << 20
# Where the repository's own settings begin in the listing: a scope stands between NULs, and no entry is such a word.
REPOSITORY_SCOPE = b"\0local\0"

# What is copied; "local" and "worktree" are the repository's own and read inside as well.
USER_SCOPES = frozenset({"system", "global"})

# Sections that go as a whole: logins and connections, rewriting, other files, programs, where other repositories are.
DROPPED_SECTIONS = frozenset({
    "credential", "credentialcache", "credentialstore", "http", "https", "url", "include", "includeif",
    "sendemail", "imap", "browser", "man", "web", "instaweb", "pager", "gpg", "filter", "difftool", "mergetool",
    "guitool", "hook", "gitcvs", "lfs", "maintenance", "scalar",
})  # fmt: skip

# Single keys, by section and last part.
DROPPED_KEYS = frozenset({
    # run a program, or let a URL run one
    "core.sshcommand", "core.hookspath", "core.fsmonitor", "core.editor", "core.pager", "core.askpass",
    "core.gitproxy", "core.alternaterefscommand", "sequence.editor", "interactive.difffilter", "init.templatedir",
    "diff.external", "protocol.allow",
    # name a file that is not there, and fail without it
    "commit.template", "blame.ignorerevsfile",
    # run gpg or ssh with a key that is not there: every commit would fail
    "commit.gpgsign", "tag.gpgsign", "tag.forcesignannotated", "push.gpgsign",
    # ask for what the gateway does not offer: a push would fail, or ask it for a fetch first
    "push.pushoption", "push.negotiate",
})  # fmt: skip

# Last parts that say it themselves, in whatever section.
DROPPED_ENDINGS = re.compile(
    r".*(cmd|command|program|helper|driver|textconv|askpass|editor|pager|browser|proxy|hookspath|uploadpack"
    r"|receivepack|vcs|templatedir|token|secret|password|passwd|pass|apikey|cookiefile|extraheader)"
).fullmatch

_SECTION = re.compile(r"[A-Za-z0-9.-]+").fullmatch
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9-]*").fullmatch
_SECRET = re.compile("|".join(CREDENTIAL_VALUES)).search
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\b": "\\b"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as git lists it: section and key in lower case, the subsection as written; no value means true."""

    name: str
    value: str | None


def read_user_settings(environment: Mapping[str, str], worktree: str = "") -> tuple[Setting, ...]:
    """The user's and the system's settings, not a repository's. Empty when git is missing or fails.

    `environment` is the host's: of it git gets what says where the files are, and nothing that adds settings.
    A git below `worktree` is not run: it may be the wrapped process's.
    """
    git = find_git(environment, worktree)
    if not git:
        return ()
    passed = {name: environment[name] for name in ("HOME", "PATH", "XDG_CONFIG_HOME") if name in environment}
    command = (git, "config", "--includes", "--show-scope", "--list", "-z")
    # In the worktree, so that settings included for it alone are found; its own are left out by their scope. A broken
    # configuration there makes git fail, and then the user's unconditional settings are better than none.
    tries = [("/", GIT_DEADLINE)]
    if worktree and _is_readable(os.path.join(worktree, ".git/config")):
        tries.insert(0, (worktree, WORKTREE_DEADLINE))
    for folder, seconds in tries:
        # Git lists the system's settings first, then the user's, then the repository's, which may be any number.
        listing = git_output(
            command, {**passed, "LC_ALL": "C"}, folder, seconds, limit=SETTINGS_LIMIT, stop=REPOSITORY_SCOPE
        )
        if listing is not None:
            return parse_listing((b"\0" + listing).partition(REPOSITORY_SCOPE)[0].removeprefix(b"\0"))
    return ()


def _is_readable(config: str) -> bool:
    """Whether a repository's own configuration is short enough for git to read it before it lists anything."""
    try:
        return os.stat(config).st_size <= SETTINGS_LIMIT
    except OSError:
        return True  # elsewhere, as in a linked worktree


def parse_listing(data: bytes) -> tuple[Setting, ...]:
    """The settings of the user and the system in the output of `git config --show-scope --list -z`.

    GatewayError when it is out of bounds.
    """
    if len(data) > SETTINGS_LIMIT:
        raise GatewayError(f"the git configuration is longer than {SETTINGS_LIMIT >> 20} MiB")
    fields = data.decode(errors="surrogateescape").split("\0")
    settings = []
    for scope, entry in zip(fields[::2], fields[1::2], strict=False):  # the last field is the empty end
        name, separator, value = entry.partition("\n")
        if scope in USER_SCOPES and name:
            settings.append(Setting(name, value if separator else None))
    return tuple(settings)


def is_kept(setting: Setting) -> bool:
    """Whether a setting may be copied."""
    section, _, rest = setting.name.partition(".")
    _, _, key = rest.rpartition(".")
    section, key = section.lower(), key.lower()
    value = setting.value or ""
    if not _SECTION(section) or not _KEY(key) or "\n" in rest or "\0" in value:
        return False
    if section in DROPPED_SECTIONS or f"{section}.{key}" in DROPPED_KEYS or DROPPED_ENDINGS(key):
        return False
    if value.lstrip().startswith("!"):  # an alias, or submodule.NAME.update: the shell runs it
        return False
    return _SECRET(value) is None


def git_config_text(user_config_entries: Iterable[Setting]) -> str:
    """The text of a git configuration file with what may be copied, in the given order; empty for nothing."""
    return settings_text(setting for setting in user_config_entries if is_kept(setting))


def settings_text(settings: Iterable[Setting]) -> str:
    """The text of a git configuration file with these settings, in the given order; empty for nothing."""
    lines: list[str] = []
    head = ""
    for setting in settings:
        section, _, rest = setting.name.partition(".")
        subsection, dot, key = rest.rpartition(".")
        escaped = subsection.replace("\\", "\\\\").replace('"', '\\"')
        opening = f'[{section} "{escaped}"]' if dot else f"[{section}]"
        if opening != head:
            lines.append(opening)
            head = opening
        lines.append(f"\t{key}" if setting.value is None else f"\t{key} = {_quote(setting.value)}")
    return "".join(f"{line}\n" for line in lines)


def _quote(value: str) -> str:
    """A value in quotes, so that blanks, `#` and `;` are themselves (git-config(1), SYNTAX)."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in value) + '"'
