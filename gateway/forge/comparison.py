"""How two commits of a repository stand to each other, as GitHub's compare endpoint says it. Reads only."""

import re
from dataclasses import dataclass
from enum import StrEnum

from gateway.errors import GatewayError
from gateway.forge.repositories import Git, Repository

# An id or a branch's name: nothing that git would take for an option, a range or a path to elsewhere.
_REVISION = re.compile(r"(?!-)(?!.*(?:\.\.|@\{))[A-Za-z0-9._/@+-]{1,200}")

# GitHub lists no more.
MOST_FILES = 300
_WORDS = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "C": "copied"}


class Status(StrEnum):
    """Of the head, seen from the base."""

    IDENTICAL = "identical"
    AHEAD = "ahead"
    BEHIND = "behind"
    DIVERGED = "diverged"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ids of commits, and how many of them only one side has."""

    base: str
    merge_base: str
    ahead_by: int
    behind_by: int

    @property
    def status(self) -> Status:
        """In one word."""
        if self.ahead_by and self.behind_by:
            return Status.DIVERGED
        if self.ahead_by:
            return Status.AHEAD
        return Status.BEHIND if self.behind_by else Status.IDENTICAL


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file that differs: its name, GitHub's word for how, and the name it had, empty unless it was renamed."""

    name: str
    status: str
    previous: str = ""


def changed_files(
    git: Git, repository: Repository, comparison: Comparison, head: str
) -> tuple[ChangedFile, ...]:
    """What changed from the merge base to the head, as git tells it. Blocks while git looks; nothing where it fails."""
    words = ("diff-tree", "-r", "-z", "-M100%", "--name-status", comparison.merge_base, f"{head}^{{commit}}")
    try:
        listing = git.run("--git-dir", str(repository.path), *words)
    except (GatewayError, UnicodeDecodeError):
        return ()
    fields = iter(listing.split("\0"))
    found: list[ChangedFile] = []
    for letter in fields:
        if letter.strip() and len(found) < MOST_FILES:
            name = next(fields)
            previous, name = (name, next(fields)) if letter.startswith(("R", "C")) else ("", name)
            found.append(ChangedFile(name, _WORDS.get(letter[0], "changed"), previous))
    return tuple(found)


def compare(git: Git, repository: Repository, base: str, head: str) -> Comparison | None:
    """Blocks while git looks. None for a commit that is not there, and for two without a common ancestor."""
    where = ("--git-dir", str(repository.path))
    if not (_REVISION.fullmatch(base) and _REVISION.fullmatch(head)):
        return None
    try:
        one = git.run(*where, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
        two = git.run(*where, "rev-parse", "--verify", "--quiet", f"{head}^{{commit}}")
        merge_base = git.run(*where, "merge-base", one, two)
        counts = git.run(*where, "rev-list", "--count", "--left-right", f"{one}...{two}")
    except GatewayError:
        return None
    behind, ahead = counts.split()
    return Comparison(one, merge_base, int(ahead), int(behind))
