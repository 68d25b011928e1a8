"""Kinds are learnt while the pack streams by, and no longer than that takes."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from gateway.policy.push import UpdateKind
from gateway.push.commands import BadRef, Command
from gateway.push.kinds import KindFinder
from gateway.push.verdicts import UNPROVEN, RefVerdict
from tests.fakes.packs import COMMIT, commit, entry, object_id, pack
from tests.fakes.proofs import ALLOW, FILLING, NEW, OLD, PROVING, Forge


def ref(new: str = NEW, old: str = OLD, name: str = "refs/heads/x") -> RefVerdict:
    return RefVerdict(Command(old, new, name), dict.fromkeys(UNPROVEN, ALLOW))


def run[T](work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


async def feed(finder: KindFinder, data: bytes, size: int = 500) -> int:
    """Feeds until nothing is wanted any more; how much that was."""
    for at in range(0, len(data), size):
        if not finder.looking:
            return at
        await finder.feed(data[at : at + size])
    return len(data)


def test_a_proof_ends_the_search() -> None:
    async def test() -> None:
        forge, one = Forge(), ref()
        finder = KindFinder("sha1", [one], forge)
        read = await feed(finder, PROVING)
        assert read < len(PROVING)
        assert one.kind is UpdateKind.FAST_FORWARD and one.kind_known
        await finder.finish()
        assert forge.questions == []

    run(test())


def test_what_the_pack_does_not_prove_is_asked_at_its_end() -> None:
    async def test() -> None:
        known = {(OLD, "b" * 40): True}
        root = commit("b" * 40)
        forge, one = Forge(known), ref(object_id(COMMIT, root))
        finder = KindFinder("sha1", [one], forge)
        data = pack([entry(COMMIT, root), *FILLING])
        assert await feed(finder, data) == len(data)
        assert not one.kind_known and forge.questions == []
        await finder.finish()
        assert one.kind is UpdateKind.FAST_FORWARD
        assert forge.questions == list(known)

    run(test())


def test_what_nobody_knows_is_forced() -> None:
    async def test() -> None:
        one = ref("c" * 40)
        finder = KindFinder("sha1", [one], Forge())
        await feed(finder, PROVING)
        await finder.finish()
        await finder.finish()
        assert one.kind is UpdateKind.FORCE and one.kind_known

    run(test())


@pytest.mark.parametrize("data", [b"GARBAGE-GARBAGE-GARBAGE", PROVING[:-30] + b"\0" * 30])
def test_a_broken_pack_proves_what_it_proved(data: bytes) -> None:
    async def test() -> None:
        one, other = ref(), ref("c" * 40, name="refs/heads/y")
        finder = KindFinder("sha1", [one, other], Forge())
        await feed(finder, data)
        assert not finder.looking
        await finder.finish()
        assert one.kind is (UpdateKind.FORCE if data.startswith(b"G") else UpdateKind.FAST_FORWARD)
        assert other.kind is UpdateKind.FORCE

    run(test())


def test_nothing_to_learn() -> None:
    async def test() -> None:
        refs = [
            RefVerdict(Command(OLD, NEW, "refs/heads/x"), {UpdateKind.CREATE: ALLOW}),
            RefVerdict(BadRef(OLD, NEW, b"HEAD", "HEAD", "funny"), {UpdateKind.FORCE: ALLOW}),
        ]
        finder = KindFinder("sha1", refs, Forge())
        assert not finder.looking
        await finder.feed(b"anything")
        await finder.finish()

    run(test())


def test_curiosity_reads_on_for_the_subjects() -> None:
    async def test() -> None:
        created = RefVerdict(Command("0" * 40, NEW, "refs/heads/x"), {UpdateKind.CREATE: ALLOW})
        finder = KindFinder("sha1", [created], Forge(), curious=True)
        read = await feed(finder, PROVING)
        assert read < len(PROVING)
        assert [subject for _, subject in finder.subjects] == ["the second", "the first"]

    run(test())
