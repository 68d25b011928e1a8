"""Kinds of updates: from the command alone, from the pack, from the forge's answers; random histories against git."""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from gateway.policy.push import UpdateKind
from gateway.push.ancestry import QUESTIONS_A_PUSH, QUESTIONS_A_REF, UpdateKinds, certain_kind, classify
from gateway.push.capabilities import ObjectFormat
from gateway.push.commands import Command
from gateway.push.pack_scan import PackScanner
from tests.fakes.histories import History
from tests.fakes.packs import BLOB, COMMIT, TAG, commit, entry, object_id, pack

ZERO, A, B, C = "0" * 40, "a" * 40, "b" * 40, "c" * 40
MAIN = "refs/heads/main"


class Forge:
    """A forge that knows these pairs of old and new, and remembers what it was asked."""

    def __init__(self, *yes: tuple[str, str], otherwise: bool | None = None) -> None:
        self._yes = frozenset(yes)
        self._otherwise = otherwise
        self.asked: list[tuple[str, str]] = []

    async def is_ancestor(self, old: str, new: str) -> bool | None:
        self.asked.append((old, new))
        return True if (old, new) in self._yes else self._otherwise


class RealForge:
    """Answers from a real repository, and counts."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.asked = 0

    async def is_ancestor(self, old: str, new: str) -> bool | None:
        self.asked += 1
        return self._history.is_ancestor(old, new)


def scanned(entries: Iterable[bytes]) -> PackScanner:
    scanner = PackScanner("sha1")
    scanner.feed(pack(entries))
    scanner.finish()
    return scanner


def line(length: int, *first: str, word: str = "") -> list[tuple[str, bytes]]:
    """So many commits, one after the other, the first one upon `first`: ids and contents."""
    commits: list[tuple[str, bytes]] = []
    for number in range(length):
        parents = (commits[-1][0],) if commits else first
        content = commit(*parents, message=f"{word} {number}".encode())
        commits.append((object_id(COMMIT, content), content))
    return commits


def packed(commits: Sequence[tuple[str, bytes]]) -> list[bytes]:
    """Newest first, as git does."""
    return [entry(COMMIT, content) for _, content in reversed(commits)]


# --- From the command alone -----------------------------------------------------------------------

CERTAIN: list[tuple[str, Command, UpdateKind | None]] = [
    ("a new branch", Command(ZERO, A, MAIN), UpdateKind.CREATE),
    ("a new tag", Command(ZERO, A, "refs/tags/v1"), UpdateKind.CREATE),
    ("a new branch of SHA-256", Command("0" * 64, "a" * 64, MAIN), UpdateKind.CREATE),
    ("a branch goes", Command(A, ZERO, MAIN), UpdateKind.DELETE),
    ("a tag goes", Command(A, ZERO, "refs/tags/v1"), UpdateKind.DELETE),
    ("nothing goes", Command(ZERO, ZERO, MAIN), UpdateKind.DELETE),
    ("a tag moves", Command(A, B, "refs/tags/v1"), UpdateKind.TAG_MOVE),
    ("a tag is touched", Command(A, A, "refs/tags/v1"), UpdateKind.TAG_MOVE),
    ("a branch is touched", Command(A, A, MAIN), UpdateKind.FAST_FORWARD),
    ("a branch moves", Command(A, B, MAIN), None),
    ("a branch called like a tag moves", Command(A, B, "refs/heads/tags/v1"), None),
    ("another ref moves", Command(A, B, "refs/notes/commits"), None),
    ("no tag, for its letters", Command(A, B, "refs/Tags/v1"), None),
]


@pytest.mark.parametrize(("command", "kind"), [row[1:] for row in CERTAIN], ids=[row[0] for row in CERTAIN])
def test_from_the_command_alone(command: Command, kind: UpdateKind | None) -> None:
    forge = Forge()
    assert certain_kind(command) is kind
    assert asyncio.run(classify(command, None, forge)) is (kind or UpdateKind.FORCE)
    assert bool(forge.asked) is (kind is None)


# --- From the pack and the forge ------------------------------------------------------------------


def kind_of(old: str, new: str, scanner: PackScanner | None, forge: Forge) -> UpdateKind:
    return asyncio.run(classify(Command(old, new, MAIN), scanner, forge))


def test_the_pack_proves_it() -> None:
    commits = line(5, A)
    forge = Forge()
    scanner = scanned(packed(commits))
    assert kind_of(A, commits[-1][0], scanner, forge) is UpdateKind.FAST_FORWARD
    assert kind_of(commits[1][0], commits[-1][0], scanner, forge) is UpdateKind.FAST_FORWARD
    assert forge.asked == []


def test_backwards_is_a_force() -> None:
    commits = line(5, A)
    forge = Forge(otherwise=False)
    assert kind_of(commits[-1][0], commits[1][0], scanned(packed(commits)), forge) is UpdateKind.FORCE
    assert forge.asked == [(commits[-1][0], A)]


def test_the_forge_proves_the_rest() -> None:
    """The branch was at A; the new commits stand on B, which the forge has."""
    commits = line(3, B)
    forge = Forge((A, B))
    assert kind_of(A, commits[-1][0], scanned(packed(commits)), forge) is UpdateKind.FAST_FORWARD
    assert forge.asked == [(A, B)]


def test_a_merge_of_what_the_forge_has() -> None:
    commits = line(1, B, C)
    forge = Forge((A, C), otherwise=False)
    assert kind_of(A, commits[-1][0], scanned(packed(commits)), forge) is UpdateKind.FAST_FORWARD
    assert forge.asked == [(A, B), (A, C)]


@pytest.mark.parametrize("answer", [None, False])
def test_a_forge_that_does_not_say_yes(answer: bool | None) -> None:
    commits = line(1, B, C)
    forge = Forge(otherwise=answer)
    assert kind_of(A, commits[-1][0], scanned(packed(commits)), forge) is UpdateKind.FORCE
    assert forge.asked == [(A, B), (A, C)]


def test_an_empty_pack_and_none() -> None:
    for scanner in (scanned([]), None):
        for yes, kind in (((A, B), UpdateKind.FAST_FORWARD), ((B, A), UpdateKind.FORCE)):
            forge = Forge(yes)
            assert kind_of(A, B, scanner, forge) is kind
            assert forge.asked == [(A, B)]


def test_a_commit_that_was_left_out_proves_nothing() -> None:
    """It stands between the new commit and the old one; the forge does not have it yet."""
    below = commit(A, message=b"x" * (2 << 20))
    above = commit(object_id(COMMIT, below))
    forge = Forge((A, A))
    scanner = scanned([entry(COMMIT, above), entry(COMMIT, below)])
    assert kind_of(A, object_id(COMMIT, above), scanner, forge) is UpdateKind.FORCE
    assert forge.asked == [(A, object_id(COMMIT, below))]


def test_what_a_blob_or_a_message_says_proves_nothing() -> None:
    content = commit(B, message=b"parent " + A.encode() + b"\n")
    entries = [entry(COMMIT, content), entry(BLOB, commit(A)), entry(BLOB, content)]
    assert kind_of(A, object_id(COMMIT, content), scanned(entries), Forge()) is UpdateKind.FORCE
    assert kind_of(A, object_id(BLOB, commit(A)), scanned(entries), Forge()) is UpdateKind.FORCE


def test_a_part_of_the_pack_proves_what_it_proves() -> None:
    """Links hold whatever comes later, also when what comes later is broken or too much."""
    commits = line(30, A)
    scanner = PackScanner("sha1", max_commits=10)
    scanner.feed(pack(packed(commits)))
    assert scanner.overflow
    assert kind_of(commits[22][0], commits[-1][0], scanner, Forge()) is UpdateKind.FAST_FORWARD
    assert kind_of(A, commits[-1][0], scanner, Forge()) is UpdateKind.FORCE


# A ref that may point to a tag: what the tag names counts.
def tag(kind: str, target: str) -> bytes:
    return f"object {target}\ntype {kind}\ntag v1\n\nx\n".encode()


def test_tags_lead_to_their_commits() -> None:
    commits = line(2, A)
    inner = tag("commit", commits[-1][0])
    outer = tag("tag", object_id(TAG, inner))
    scanner = scanned([*packed(commits), entry(TAG, inner), entry(TAG, outer)])
    assert kind_of(A, object_id(TAG, outer), scanner, Forge()) is UpdateKind.FAST_FORWARD
    assert kind_of(commits[-1][0], object_id(TAG, outer), scanner, Forge()) is UpdateKind.FAST_FORWARD
    assert kind_of(B, object_id(TAG, outer), scanner, Forge(otherwise=False)) is UpdateKind.FORCE


@pytest.mark.parametrize("kind", ["blob", "tree"])
def test_tags_of_other_things_lead_nowhere(kind: str) -> None:
    content = tag(kind, B)
    forge = Forge((A, B))
    assert kind_of(A, object_id(TAG, content), scanned([entry(TAG, content)]), forge) is UpdateKind.FORCE
    assert forge.asked == []


# --- Bounds ---------------------------------------------------------------------------------------


def test_questions_for_one_ref_have_a_bound() -> None:
    """An octopus on sixty commits of the forge's: the first fifty are asked about, nearest first."""
    parents = [f"{number:040x}" for number in range(1, 61)]
    content = commit(*parents)
    for yes, kind in ((parents[49], UpdateKind.FAST_FORWARD), (parents[50], UpdateKind.FORCE)):
        forge = Forge((A, yes))
        assert kind_of(A, object_id(COMMIT, content), scanned([entry(COMMIT, content)]), forge) is kind
        assert len(forge.asked) == QUESTIONS_A_REF


def test_questions_for_one_push_have_a_bound() -> None:
    content = commit(*(f"{number:040x}" for number in range(1, 61)))
    new = object_id(COMMIT, content)
    commands = [Command(f"{number:040x}", new, f"refs/heads/{number}") for number in range(100, 110)]
    forge = Forge()
    kinds = UpdateKinds(commands, scanned([entry(COMMIT, content)]), forge)
    assert set(asyncio.run(kinds.classify())) == {UpdateKind.FORCE}
    assert len(forge.asked) == len(set(forge.asked)) == QUESTIONS_A_PUSH
    asyncio.run(kinds.classify())
    assert len(forge.asked) == QUESTIONS_A_PUSH


def test_the_same_is_not_asked_twice() -> None:
    """Refs that moved in the same way, and a push that is asked about a second time."""
    new = line(3, B)
    commands = [Command(A, new[-1][0], f"refs/heads/{number}") for number in range(5)]
    for forge, kind in ((Forge((A, B)), UpdateKind.FAST_FORWARD), (Forge(), UpdateKind.FORCE)):
        kinds = UpdateKinds(commands, scanned(packed(new)), forge)
        for _ in range(2):
            assert asyncio.run(kinds.classify()) == (kind,) * 5
        assert forge.asked == [(A, B)]


def test_walks_for_one_push_have_a_bound() -> None:
    """Thousands of refs, each of which needs the whole history: those that come too late count as forced."""
    commits = line(100, A)
    commands = [Command(A, commits[-1][0], f"refs/heads/{number}") for number in range(2000)]
    kinds = asyncio.run(UpdateKinds(commands, scanned(packed(commits)), Forge(), links=1000).classify())
    assert kinds[0] is UpdateKind.FAST_FORWARD
    assert kinds[-1] is UpdateKind.FORCE
    assert 4 <= kinds.count(UpdateKind.FAST_FORWARD) <= 10


def test_a_ladder_of_merges_is_walked_once() -> None:
    """Each rung has two ways to the next: 2^60 ways from top to bottom."""
    left, right = A, B
    contents = []
    for rung in range(60):
        pair = [commit(left, right, message=b"%d %d" % (rung, side)) for side in range(2)]
        left, right = (object_id(COMMIT, content) for content in pair)
        contents += pair
    scanner = scanned(entry(COMMIT, content) for content in contents)
    forge = Forge()
    assert kind_of(C, left, scanner, forge) is UpdateKind.FORCE
    assert set(forge.asked) == {(C, A), (C, B)}
    assert kind_of(B, left, scanner, Forge()) is UpdateKind.FAST_FORWARD


# --- Before the pack is over ----------------------------------------------------------------------


def fed_until_settled(data: bytes, kinds: UpdateKinds, scanner: PackScanner, length: int = 256) -> int:
    """How many bytes it took."""
    for at in range(0, len(data), length):
        scanner.feed(data[at : at + length])
        if kinds.settled():
            return scanner.size
    return -1


def test_settled_when_the_old_commit_was_met() -> None:
    commits = line(50, A)
    noise = random.Random(7).randbytes(100_000)
    data = pack([*packed(commits), entry(BLOB, noise)])
    scanner = PackScanner("sha1")
    forge = Forge()
    kinds = UpdateKinds([Command(A, commits[-1][0], MAIN), Command(ZERO, A, "refs/heads/x")], scanner, forge)
    size = fed_until_settled(data, kinds, scanner)
    assert 0 < size < len(data) - len(noise) + 1024
    assert asyncio.run(kinds.classify()) == (UpdateKind.FAST_FORWARD, UpdateKind.CREATE)
    assert forge.asked == []


def test_settled_at_once_when_commands_say_it_all() -> None:
    kinds = UpdateKinds([Command(ZERO, A, MAIN), Command(A, B, "refs/tags/v1")], PackScanner("sha1"), Forge())
    assert kinds.settled()
    assert UpdateKinds([Command(A, ZERO, MAIN)], None, Forge()).settled()


def test_not_settled_by_a_force_or_one_of_two() -> None:
    commits = line(50, A)
    for command in (Command(B, commits[-1][0], MAIN), Command(A, B, MAIN)):
        scanner = PackScanner("sha1")
        kinds = UpdateKinds([Command(A, commits[-1][0], "refs/heads/x"), command], scanner, Forge())
        assert fed_until_settled(pack(packed(commits)), kinds, scanner) == -1
        assert asyncio.run(kinds.classify()) == (UpdateKind.FAST_FORWARD, UpdateKind.FORCE)


def test_looking_again_and_again_leaves_enough_for_the_last_word() -> None:
    """A pack that dribbles: one commit, one file, one commit, one file, so that each makes it worth looking."""
    commits = line(150, A)
    entries = [part for one in packed(commits) for part in (one, entry(BLOB, b"x"))]
    scanner = PackScanner("sha1")
    kinds = UpdateKinds([Command(A, commits[-1][0], MAIN)], scanner, Forge(), links=2000)
    assert fed_until_settled(pack(entries), kinds, scanner, length=40) == -1
    assert asyncio.run(kinds.classify()) == (UpdateKind.FAST_FORWARD,)


# --- Random histories, with git's word for the truth ----------------------------------------------


def random_parents(draw: random.Random, length: int) -> list[list[int]]:
    """Mostly lines, some merges and octopuses, a second root now and then."""
    parents: list[list[int]] = [[]]
    for number in range(1, length):
        count = draw.choices((0, 1, 2, 3), (1, 14, 5, 1))[0]
        near = range(max(0, number - draw.choice((1, 3, 10))), number)
        parents.append(draw.sample(near, min(count, len(near))))
    return parents


# How dates run: on, backwards, or anyhow. Walks that trust them get the last two wrong.
DATES: dict[str, Callable[[random.Random, int], int]] = {
    "straight": lambda _, number: 1_700_000_000 + 60 * number,
    "backwards": lambda _, number: 1_700_000_000 - 60 * number,
    "skewed": lambda draw, _: draw.randrange(1_000_000_000, 2_000_000_000),
}


@pytest.mark.parametrize("dates", DATES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_random_histories(object_format: ObjectFormat, seed: int, dates: str, tmp_path: Path) -> None:
    draw = random.Random(f"{object_format} {seed} {dates}")
    parents = random_parents(draw, 40)
    local, remote = (History(tmp_path / name, object_format) for name in ("local", "remote"))
    commits = local.grow(parents, [DATES[dates](draw, number) for number in range(len(parents))])
    if seed == 1:
        local.git("-c", "repack.writeBitmaps=false", "repack", "-adfq", "--depth=50", "--window=50")
    # The remote has a few tips; pushes move one branch about.
    known = draw.sample(commits[:20], 3)
    remote.receive(local.pack(known), "refs/heads/0", known[0])
    for number, tip in enumerate(known):
        remote.git("update-ref", f"refs/heads/{number}", tip)
    forge = RealForge(remote)
    seen: set[UpdateKind] = set()
    for _ in range(12):
        old = remote.git("rev-parse", MAIN) if seen else known[0]
        new = draw.choice([one for one in commits if one != old])
        tips = remote.git("for-each-ref", "--format=%(objectname)").split()
        data = local.pack([new], tips, "--thin", *draw.choice((("--delta-base-offset",), ())))
        scanner = PackScanner(object_format)
        cut = draw.randrange(len(data))
        scanner.feed(data[:cut])
        scanner.feed(data[cut:])
        scanner.finish()
        truth = UpdateKind.FAST_FORWARD if local.is_ancestor(old, new) else UpdateKind.FORCE
        assert asyncio.run(classify(Command(old, new, MAIN), scanner, forge)) is truth
        seen.add(truth)
        remote.receive(data, MAIN, new)
    assert seen == {UpdateKind.FAST_FORWARD, UpdateKind.FORCE}
    assert forge.asked < 12 * 5
