"""What a push does to each ref: created, deleted, moved on, forced. A fast-forward is what can be proven to be one.

Evidence is the pushed pack, whose commits are named by what they hold, and the forge's own answer about commits it
has. Never the agent's worktree, in which grafts and replaced objects say whatever the agent wants, and never a date.
What is not proven, for whatever reason, is a force.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.policy.push import UpdateKind
from gateway.push.commands import Command
from gateway.push.pack_scan import PackScanner

# Questions to the forge for one ref and for one push: pushes need one or two, and the forge limits how many it answers.
QUESTIONS_A_REF: Final = 50
QUESTIONS_A_PUSH: Final = 200
# Links from a commit to a parent that are followed for one push, a second or two: each of its refs may need a walk
# through all of its commits.
LINKS_A_PUSH: Final = 1_000_000

_TAGS: Final = "refs/tags/"


class Compare(Protocol):
    """The forge's knowledge of commits it already has."""

    async def is_ancestor(self, old: str, new: str) -> bool | None:
        """Is `old` reachable from `new`, or the same? None when that is not known. Does not raise for a forge that
        cannot be reached or does not know a commit."""


@dataclass(frozen=True, slots=True)
class Walk:
    """`met`: the pack itself proves the fast-forward. Otherwise `boundary` has the first commits, nearest first, that
    were reached but are not in the pack."""

    met: bool
    boundary: tuple[str, ...] = ()


def certain_kind(command: Command) -> UpdateKind | None:
    """The kind where the command alone tells it; None where it takes ancestry. There is no force bit in a push."""
    if not command.new.strip("0"):
        return UpdateKind.DELETE
    if not command.old.strip("0"):
        return UpdateKind.CREATE
    if command.ref.startswith(_TAGS):
        return UpdateKind.TAG_MOVE
    return UpdateKind.FAST_FORWARD if command.old == command.new else None


async def classify(command: Command, scanner: PackScanner | None, compare: Compare) -> UpdateKind:
    """The kind of a push's only command. `scanner` is None when no pack came."""
    return (await UpdateKinds((command,), scanner, compare).classify())[0]


class UpdateKinds:
    """The kinds of all commands of one push, within one bound of work. Changes; not while the scanner is being fed."""

    def __init__(
        self,
        commands: Sequence[Command],
        scanner: PackScanner | None,
        compare: Compare,
        *,
        links: int = LINKS_A_PUSH,
    ) -> None:
        self._commands = tuple(commands)
        self._scanner = scanner
        self._compare = compare
        self._proven: set[Command] = set()
        self._unsettled = [command for command in self._commands if certain_kind(command) is None]
        self._answers: dict[tuple[str, str], bool] = {}
        self._links = links
        # The other half is for `classify`, which has the last word.
        self._links_kept = links // 2
        self._commits_seen = 0
        self._commits_counted = 0

    def settled(self) -> bool:
        """Is every kind known already, though more of the pack may come? Then nothing that comes can change it.

        Asks nobody; made to be called after each piece of the pack, in the thread that feeds the scanner: it looks
        only when the last piece brought no new commits but those before it did, or when there are twice as many.
        """
        if self._unsettled and self._worth_looking():
            self._unsettled = [command for command in self._unsettled if not self._walk(command).met]
        return not self._unsettled

    async def classify(self) -> tuple[UpdateKind, ...]:
        """One kind for each command, in their order. Before the pack is over a force is not the last word yet."""
        return tuple([await self._classify(command) for command in self._commands])

    async def _classify(self, command: Command) -> UpdateKind:
        certain = certain_kind(command)
        if certain is not None:
            return certain
        if command in self._proven:
            return UpdateKind.FAST_FORWARD
        walk = await asyncio.to_thread(self._walk, command)
        if walk.met:
            return UpdateKind.FAST_FORWARD
        for commit in walk.boundary:
            if await self._ask(command.old, commit):
                self._proven.add(command)
                return UpdateKind.FAST_FORWARD
        return UpdateKind.FORCE

    async def _ask(self, old: str, commit: str) -> bool:
        """Does the forge say that one is an ancestor of the other? Each question is asked once."""
        question = old, commit
        if question not in self._answers and len(self._answers) < QUESTIONS_A_PUSH:
            self._answers[question] = await self._compare.is_ancestor(old, commit) is True
        return self._answers.get(question, False)

    def _worth_looking(self) -> bool:
        if self._scanner is None or self._links < self._links_kept:
            return False
        count, before = len(self._scanner.commits), self._commits_counted
        self._commits_counted = count
        if count == self._commits_seen or before < count < 2 * self._commits_seen:
            return False
        self._commits_seen = count
        return True

    def _walk(self, command: Command) -> Walk:
        """Follows parents from the new commit through the pack, breadth first, until the old one or the end of it."""
        self._links -= 1
        start = self._commit_of(command.new)
        met = start == command.old
        if met or self._scanner is None or start not in self._scanner.commits:
            return Walk(met, (start,) if start else ())
        index, old = self._scanner.commits, bytes.fromhex(command.old)
        waiting = deque((index.find(bytes.fromhex(start)),))
        seen = bytearray(len(index))
        outside: dict[bytes, None] = {}
        while waiting and self._links > 0:
            parents = index.parents(waiting.popleft())
            self._links -= 1 + len(parents)
            if old in parents:
                self._proven.add(command)
                return Walk(True)
            for parent in parents:
                number = index.find(parent)
                if number < 0 and len(outside) < QUESTIONS_A_REF:
                    outside[parent] = None
                elif number >= 0 and not seen[number]:
                    seen[number] = True
                    waiting.append(number)
        return Walk(False, tuple(commit.hex() for commit in outside))

    def _commit_of(self, name: str) -> str:
        """The name itself, or the commit it leads to when it is a tag of the pack; "" when that is no commit."""
        tags = self._scanner.tags if self._scanner is not None else {}
        while name in tags:
            kind, name = tags[name]
            if kind not in {"commit", "tag"}:
                return ""
        return name
