"""Tracked files whose names are denied: listed once at launch, since git stumbles over them inside and does not say so.

`git checkout` of a tree with such a file prints "Permission denied" and exits 0; the file is then missing or old, and
a `git commit -a` would record that. Nothing of the repository runs here: git reads the index alone, without the
repository's hooks and monitors, without any transport, bounded and with a deadline. What cannot be told is not listed.
"""

import os
from collections.abc import Mapping

from gateway.policy.wording import printable
from sandbox.filerules import FileRules, NameRules
from sandbox.git.program import find_git, git_output

# Seconds for git to print its index, which takes it a third of one for a million files.
TRACKED_DEADLINE = 3.0
# A million names of the usual length; of a longer listing the beginning is looked at.
LISTING_LIMIT = 64 << 20
# How many are named, and how much of one.
NAMED = 5
SHOWN = 80

# Git has no configuration but the repository's own; of that nothing may run, and nothing may be fetched (a partial
# clone asks for missing objects, and an address may name a command).
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
}
_SETTINGS = ("-c", "core.fsmonitor=", "-c", f"core.hooksPath={os.devnull}", "-c", "core.untrackedCache=false")


def find_tracked(environment: Mapping[str, str], worktree: str, rules: NameRules) -> tuple[str, ...]:
    """The tracked paths below `worktree`, relative to it, that may not be written; in the index's order.

    `environment` is the host's, for PATH alone. Empty where there is no repository, no git, or it fails.
    """
    git = find_git(environment, worktree)
    if not git or not worktree:
        return ()
    root = os.path.realpath(worktree)
    command = (git, *_SETTINGS, "ls-files", "-z", "--cached")
    listing = git_output(command, _ENVIRONMENT, root, TRACKED_DEADLINE, limit=LISTING_LIMIT)
    return denied_among(listing or b"", root, rules)


def denied_among(listing: bytes, root: str, rules: NameRules) -> tuple[str, ...]:
    """The denied ones of a listing of paths that end in NUL; what is cut off behind the last NUL is left out."""
    folder = os.fsencode(root).rstrip(b"/")
    # Once, also where a conflict has it thrice.
    found = dict.fromkeys(path for path in listing.split(b"\0")[:-1] if _is_denied(rules, folder, path))
    return tuple(map(os.fsdecode, found))


def _is_denied(rules: NameRules, root: bytes, path: bytes) -> bool:
    above, slash, name = path.rpartition(b"/")
    return bool(name and rules.denied(b"%s/%s" % (root, above) if slash else root, name))


class ProtectedPaths:
    """Tells of a path in a worktree's repository whether it may not be written inside. For one thread at a time."""

    def __init__(self, worktree: str, rules: FileRules) -> None:
        self._worktree = worktree
        self._root = os.fsencode(os.path.realpath(worktree)).rstrip(b"/")
        self._rules = NameRules(rules)

    def __call__(self, path: str) -> bool:
        return _is_denied(self._rules, self._root, path.encode("utf-8", "surrogatepass"))

    def note(self, search_path: str) -> str:
        """The line for whoever starts a session, empty for none; takes as long as the host's git, found on its PATH."""
        return tracked_note(find_tracked({"PATH": search_path}, self._worktree, self._rules))


def tracked_note(paths: tuple[str, ...]) -> str:
    """The line for the user; empty when there is nothing to say."""
    if not paths:
        return ""
    named = ", ".join(printable(path[:SHOWN]) for path in paths[:NAMED])
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return (
        f"tracked files that cannot be written inside: {named}{more}; a git checkout that changes them prints"
        ' "Permission denied" and goes on without them: do not commit their deletion'
    )
