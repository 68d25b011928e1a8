"""Learns the kinds of a push's refs while its pack streams by, in a worker thread, and stops as soon as it knows them.

Proofs come from `ancestry`; this module only feeds it and writes down what it finds.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from gateway.push.ancestry import Compare, UpdateKinds
from gateway.push.capabilities import ObjectFormat
from gateway.push.commands import Command
from gateway.push.pack_scan import PackError, PackScanner
from gateway.push.verdicts import RefVerdict


class _Nobody:
    """Knows no commit: for pushes about which GitHub is not asked."""

    async def is_ancestor(self, old: str, new: str) -> bool | None:
        return None


NOBODY: Final = _Nobody()


class KindFinder:
    """For the refs whose kind is open. Changes; one `feed` at a time, `finish` after the last one.

    `curious`: also the first lines of the newest commits are wanted, whatever is known of the kinds.
    """

    def __init__(
        self,
        object_format: ObjectFormat,
        refs: Sequence[RefVerdict],
        compare: Compare,
        *,
        curious: bool = False,
    ) -> None:
        self._refs = tuple(ref for ref in refs if not ref.kind_known and isinstance(ref.command, Command))
        self._scanner = PackScanner(object_format)
        commands = [ref.command for ref in self._refs if isinstance(ref.command, Command)]
        self._kinds = UpdateKinds(commands, self._scanner, compare)
        self._curious = curious
        self._broken = False
        self._settled = not self._refs

    @property
    def subjects(self) -> Sequence[tuple[str, str]]:
        """Id and first line of the newest commits seen so far, the committers' words."""
        return self._scanner.subjects

    @property
    def looking(self) -> bool:
        """Is there still something to learn from the pack?"""
        wanting = not self._settled or (self._curious and not self._scanner.past_commits)
        return wanting and not self._broken and not self._scanner.complete

    async def feed(self, data: bytes) -> None:
        """The next piece of the pack. Returns at once when there is nothing to learn any more."""
        if self.looking:
            await asyncio.to_thread(self._look, data)
            if self._settled:
                await self.finish()

    async def finish(self) -> None:
        """The pack is over, or nobody waits for the rest of it: whatever is not proven now counts as forced."""
        self._settled = True
        if any(not ref.kind_known for ref in self._refs):
            for ref, kind in zip(self._refs, await self._kinds.classify(), strict=True):
                ref.learn(kind)

    def _look(self, data: bytes) -> None:
        try:
            self._scanner.feed(data)
        except PackError:
            # GitHub will say what is wrong with it; what was learnt until here is true all the same.
            self._broken = True
        self._settled = self._settled or self._kinds.settled()
