"""Flags what a push deleted of the files that the session may not write: seen once it is at GitHub, never in its way.

Inside the wrap a checkout leaves such files out and says so in a line that is easily missed; a `git commit -a` then
records their deletion. Which files a commit has no more only GitHub can tell: a pack holds what is new, not what is
gone. What it does not tell, in a few seconds and of a few branches, stays unknown, and the record says so.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.policy.push import UpdateKind
from gateway.policy.wording import printable
from gateway.push.access import Comparison
from gateway.push.commands import Command

# Branches of one push that are looked at, and seconds for all of them: git waits for its answer meanwhile.
MOST_BRANCHES: Final = 4
SECONDS: Final = 5.0
# Names that are recorded, and told to the client, and how much of one, in characters.
MOST_NAMES: Final = 100
MOST_TOLD: Final = 5
NAME_LENGTH: Final = 200

_BRANCHES: Final = "refs/heads/"


@dataclass(frozen=True, slots=True)
class Deletions:
    """Protected files that were deleted, each once, fit to be shown; `unknown`: there may be more."""

    names: tuple[str, ...] = ()
    unknown: bool = False

    @property
    def told(self) -> str:
        """A line for the client; empty for nothing."""
        if not self.names:
            return ""
        named = ", ".join(self.names[:MOST_TOLD])
        more = f" and {len(self.names) - MOST_TOLD} more" if len(self.names) > MOST_TOLD else ""
        return (
            f"this push deletes protected files: {named}{more}; they cannot be written in here, so a checkout leaves"
            " them out: if that was not meant, bring them back from outside"
        )


async def find_deletions(
    comparison: Comparison, pushed: Sequence[tuple[Command, UpdateKind]], is_protected: Callable[[str], bool]
) -> Deletions:
    """Of these commands, which GitHub took. Never fails: what it cannot tell is unknown."""
    branches = [
        command
        for command, kind in pushed
        if command.ref.startswith(_BRANCHES) and kind is not UpdateKind.DELETE
    ]
    found: dict[str, None] = {}
    unknown = len(branches) > MOST_BRANCHES
    try:
        async with asyncio.timeout(SECONDS):
            for command in branches[:MOST_BRANCHES]:
                gone = await comparison.gone_names(command.old if command.old.strip("0") else "", command.new)
                unknown = unknown or gone is None or not gone.complete
                names = gone.names if gone is not None else ()
                found |= dict.fromkeys(filter(is_protected, names))
    except TimeoutError:
        unknown = True
    shown = dict.fromkeys(printable(name)[:NAME_LENGTH] for name in found)
    return Deletions(tuple(shown)[:MOST_NAMES], unknown or len(shown) > MOST_NAMES)
