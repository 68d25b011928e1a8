"""Packs and bodies made to hurt, at the socket: bounded work and memory, nothing proven, and the next push works."""

import gzip
import resource
import sys
import zlib
from collections.abc import Callable, Iterator

import pytest

from tests.fakes.packs import (
    BLOB,
    COMMIT,
    OFFSET_DELTA,
    REFERENCE_DELTA,
    TREE,
    append,
    commit,
    distance,
    entry,
    header,
    object_id,
    pack,
)
from tests.fakes.push_gateway import LABEL, PushWorld, push_world
from tests.fakes.raw_push import (
    EMPTY_TREE,
    SOME,
    TYPE,
    ZERO,
    Untouched,
    chunked,
    good_pack,
    post,
    push_well,
    section,
    statuses,
)

STEADY = "refs/heads/steady"
# What a bomb may take of memory at most, in bytes: far below what it would inflate to.
ROOM = 96 << 20


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushWorld]:
    with push_world(tmp_path_factory.mktemp("world")) as opened:
        yield opened


@pytest.fixture(scope="module")
def old(world: PushWorld) -> str:
    """A branch of which only a fast-forward is allowed: every update of it has to be proven."""
    commit_id, data = good_pack("old")
    assert statuses(post(world, section((ZERO, commit_id, STEADY)) + data).body) == {STEADY: "ok"}
    return commit_id


@pytest.fixture
def flat() -> Iterator[None]:
    """Fails a test in which this process grew by more than a bomb may take."""
    before = peak()
    yield
    assert peak() - before < ROOM


def peak() -> int:
    """The most memory this process ever had, in bytes; Linux counts in kibibytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def zeros(size: int) -> bytes:
    """So many zero bytes, deflated as an object, without having them all in memory."""
    deflater, left, data = zlib.compressobj(9), size, bytearray(header(BLOB, size))
    while left:
        piece = min(left, 1 << 20)
        data += deflater.compress(bytes(piece))
        left -= piece
    return bytes(data) + deflater.flush()


def proving(old_id: str) -> tuple[str, bytes]:
    content = commit(old_id, message=b"new\n", tree=EMPTY_TREE)
    return object_id(COMMIT, content), content


def forced(world: PushWorld, old_id: str, new: str, data: bytes) -> None:
    """An update of a branch with this pack is refused as forced."""
    with Untouched(world) as untouched:
        answer = post(world, section((old_id, new, STEADY)) + data)
        assert "is denied for steady (forced) by config.yaml:6" in statuses(answer.body)[STEADY]
    assert untouched.record["refs"][0]["kind"] == "force"
    push_well(world)


def test_32_a_gzip_bomb(world: PushWorld, flat: None) -> None:
    """A megabyte that inflates to a gigabyte: broken off when it shows. What GitHub makes of the pack before it is
    GitHub's to say."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, 31)
    new, data = good_pack("bomb")
    body = bytearray(deflater.compress(section((ZERO, new, "refs/heads/agent/bomb")) + data))
    for _ in range(1 << 10):
        body += deflater.compress(bytes(1 << 20))
    body += deflater.flush()
    assert len(body) < 2 << 20
    answer = post(world, bytes(body), "Content-Encoding: gzip")
    assert statuses(answer.body)["refs/heads/agent/bomb"].startswith(
        f"{LABEL}: the gzip body of a push may inflate"
    )
    assert world.pushes()[-1]["code"] == "outcome_unknown"
    push_well(world)


def test_32_a_bomb_of_commands(world: PushWorld, flat: None) -> None:
    with Untouched(world):
        answer = post(world, gzip.compress(b"0032" + bytes(64 << 20)), "Content-Encoding: gzip")
        assert answer.status in {400, 413}
    push_well(world)


@pytest.mark.parametrize(
    "body", [b"", gzip.compress(b"")[:5], gzip.compress(b"0000") + b"surplus", b"\x1f\x8b" + bytes(50)],
    ids=["empty", "cut", "surplus", "garbage"],
)  # fmt: skip
def test_gzip_that_is_none(world: PushWorld, body: bytes) -> None:
    with Untouched(world):
        assert post(world, body, "Content-Encoding: gzip").status == 400
    push_well(world)


def test_33_an_object_that_claims_to_be_huge(world: PushWorld, old: str, flat: None) -> None:
    new, content = proving(old)
    lie = header(BLOB, 64 << 30) + zlib.compress(b"tiny")
    forced(world, old, new[::-1], pack([entry(COMMIT, content), lie]))


def test_33_a_commit_that_claims_to_be_huge(world: PushWorld, old: str, flat: None) -> None:
    new, content = proving(old)
    forced(world, old, new, pack([header(COMMIT, 64 << 30) + zlib.compress(content)]))


def test_33_a_gigabyte_of_zeros(world: PushWorld, old: str, flat: None) -> None:
    new, content = proving(old)
    forced(world, old, new[::-1], pack([entry(COMMIT, content), zeros(1 << 30)]))


def test_34_what_follows_a_pack(world: PushWorld, old: str) -> None:
    """The proof stands before it; that the rest is no pack is GitHub's to say, and it says so."""
    new, content = proving(old)
    whole = pack([entry(COMMIT, content), entry(TREE, b"")])
    answer = post(world, section((old, new, STEADY)) + whole[:-1] + bytes([whole[-1] ^ 1]))
    assert answer.status == 200
    assert b"ng refs/heads/steady" in answer.body
    assert world.refs()[STEADY] == old


def test_34_no_pack_for_a_new_branch(world: PushWorld) -> None:
    answer = post(world, section((ZERO, SOME, "refs/heads/agent/nothing")))
    assert b"ng refs/heads/agent/nothing" in answer.body
    assert "refs/heads/agent/nothing" not in world.refs()
    push_well(world)


# From a commit that is not sent, and the id the delta on it would have: the pack's entries.
DELTAS: dict[str, Callable[[bytes, str], list[bytes]]] = {
    "a base that is not here": lambda base, new: [entry(REFERENCE_DELTA, append(base, b"x"), base=bytes.fromhex(SOME))],
    "a base behind it": lambda base, new: [
        entry(REFERENCE_DELTA, append(base, b"x"), base=bytes.fromhex(object_id(COMMIT, base))), entry(COMMIT, base),
    ],
    "itself": lambda base, new: [entry(OFFSET_DELTA, append(base, b"x"), base=distance(1))],
    "before the pack": lambda base, new: [entry(OFFSET_DELTA, append(base, b"x"), base=distance(1 << 40))],
    "itself by name": lambda base, new: [entry(REFERENCE_DELTA, append(base, b"x"), base=bytes.fromhex(new))],
}  # fmt: skip


@pytest.mark.parametrize("made", DELTAS.values(), ids=DELTAS.keys())
def test_35_deltas_that_lead_nowhere(
    world: PushWorld, old: str, made: Callable[[bytes, str], list[bytes]]
) -> None:
    base = commit(SOME, message=b"base\n", tree=EMPTY_TREE)
    new = object_id(COMMIT, base + b"x")
    forced(world, old, new, pack(made(base, new)))


def test_36_more_commits_than_anybody_counts(world: PushWorld, old: str, flat: None) -> None:
    """None of them leads back to the old one within the bound, so nothing is proven."""
    previous, entries = SOME, []
    for number in range(110_000):
        content = commit(previous, message=b"%d\n" % number)
        previous = object_id(COMMIT, content)
        entries.append(header(COMMIT, len(content)) + zlib.compress(content, 1))
    forced(world, old, previous, pack(entries))


def test_37_a_body_byte_by_byte(world: PushWorld) -> None:
    """Slow, and read all the same; others are served meanwhile."""
    new, data = good_pack("slow")
    body = section((ZERO, new, "refs/heads/main")) + data
    with world.wire(b"", headers=[TYPE, "Transfer-Encoding: chunked"]) as wire:
        for byte in chunked(body, 1)[:-5][:600]:
            wire.send(bytes([byte]))
        push_well(world)


@pytest.mark.parametrize(
    "sent",
    [0, 3, 60, -30, -1],
    ids=["nothing", "a length", "half a command", "half a pack", "all but a byte"],
)
@pytest.mark.parametrize("ref", ["refs/heads/agent/gone", "refs/heads/main"], ids=["allowed", "denied"])
def test_38_a_client_that_breaks_off(world: PushWorld, ref: str, sent: int) -> None:
    new, data = good_pack("gone")
    body = section((ZERO, new, ref)) + data
    before = len(world.records())
    with world.wire(body[:sent], headers=[TYPE, f"Content-Length: {len(body)}"]) as wire:
        world.until(lambda: bool(world.gateway._tasks), "the request")
        wire.reset()
    world.until(lambda: len(world.records()) > before, "the record")
    [record] = world.records()[before:]
    assert record["code"] == "client_gone"
    assert ref not in world.refs()
    assert all(token.revoked for token in world.forge.tokens.minted if token.kind == "write")
    push_well(world)


def test_47_the_read_token_does_not_push(world: PushWorld) -> None:
    """What the session holds, taken straight to GitHub: refused there."""
    import httpx

    [token] = [token for token in world.forge.tokens.minted if token.kind == "read"]
    url = f"{world.forge.url}/acme/widget.git/info/refs?service=git-receive-pack"
    answer = httpx.get(url, auth=("x-access-token", token.value), trust_env=False)
    assert (answer.status_code, answer.text) == (403, "Write access to repository not granted.")
