"""Receiving, at the socket: what no git of ours would send, and what only shows without one."""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gateway.policy.decision import Verdict
from gateway.policy.rules import RuleSet
from gateway.push import context, receiver
from gateway.push.commands import COMMAND_LIMIT
from gateway.push.pkt import FLUSH
from gateway.push.receiver import Reception
from gateway.push.upstream import UNKNOWN
from gateway.push_authorizer import PushAuthorizer
from tests.fakes.packs import BLOB, COMMIT, TREE, commit, entry, object_id, pack
from tests.fakes.push_gateway import LABEL, NAME, PushWorld, push_rule, push_world
from tests.fakes.raw_push import (
    EMPTY_TREE,
    REFS,
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
from tests.fakes.wire import Wire

RESULT = "application/x-git-receive-pack-result"
DENIED = f"{LABEL} policy: Push to remote is denied for main (new) by config.yaml:3"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PushWorld]:
    with push_world(tmp_path) as opened:
        yield opened


# --- What is asked of a report --------------------------------------------------------------------


def test_the_probe(world: PushWorld) -> None:
    """git's question before a large push: an empty answer, nobody asked, nothing recorded."""
    answer = post(world, b"0000")
    assert (answer.status, answer.field("Content-Type"), answer.body) == (200, RESULT, b"")
    assert world.minted == 0 and world.records() == []


def test_the_bytes_of_a_denial(world: PushWorld) -> None:
    """Exactly what git's own receive-pack would write."""
    new, data = good_pack("one")
    answer = post(world, section((ZERO, new, "refs/heads/main")) + data)
    [reason] = statuses(answer.body).values()
    line = f"ng refs/heads/main {reason}\n".encode()
    inner = b"000eunpack ok\n" + b"%04x" % (len(line) + 4) + line + b"0000"
    assert reason.startswith(DENIED)
    assert answer.field("Content-Type") == RESULT
    assert answer.body == b"%04x\x01" % (len(inner) + 5) + inner + b"0000"


@pytest.mark.parametrize("capabilities", ["report-status", "report-status-v2", "report-status quiet atomic"])
def test_without_sideband(world: PushWorld, capabilities: str) -> None:
    new, data = good_pack("one")
    answer = post(world, section((ZERO, new, "refs/heads/main"), capabilities=capabilities) + data)
    assert answer.body.startswith(b"000eunpack ok\n") and answer.body.endswith(b"0000")
    [reason] = statuses(answer.body, sideband=False).values()
    assert reason.startswith(DENIED)
    answer = post(world, section((ZERO, new, "refs/heads/agent/x"), capabilities=capabilities) + data)
    assert statuses(answer.body, sideband=False) == {"refs/heads/agent/x": "ok"}


@pytest.mark.parametrize("capabilities", ["", "side-band-64k"])
def test_without_a_report(world: PushWorld, capabilities: str) -> None:
    """A client that asked for none takes any 200 for a yes: a no must be a status, and the truth is on record."""
    new, data = good_pack("one")
    answer = post(world, section((ZERO, new, "refs/heads/main"), capabilities=capabilities) + data)
    assert answer.status == 403
    assert DENIED in answer.body.decode()
    answer = post(world, section((ZERO, new, "refs/heads/agent/x"), capabilities=capabilities) + data)
    assert (answer.status, answer.body) == (200, FLUSH if capabilities else b"")
    assert world.pushes()[-1]["refs"][0]["status"] == "ok"
    assert world.refs() == {"refs/heads/agent/x": new}


def test_no_report_and_a_no_of_github(world: PushWorld) -> None:
    new, data = good_pack("one")
    answer = post(world, section((SOME, new, "refs/heads/agent/x"), capabilities="") + data)
    assert answer.status == 403
    assert "refs/heads/agent/x" in answer.body.decode()
    assert world.pushes()[-1]["refs"][0]["status"] != "ok"


def test_a_long_denial_is_announced(world: PushWorld) -> None:
    """While the rest of the body is still under way, which is read to its end."""
    new, data = good_pack("one")
    body = section((ZERO, new, "refs/heads/main")) + data
    with world.wire(body[:-1], headers=[TYPE, f"Content-Length: {len(body)}"]) as wire:
        wire.until(b"this push is refused; what is still being sent is read and thrown away\n")
        wire.send(body[-1:])
        wire.until(b"ng refs/heads/main ")


# --- Bodies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip"])
@pytest.mark.parametrize("size", [0, 300_000], ids=["small", "large"])
def test_compressed(world: PushWorld, encoding: str, size: int) -> None:
    content = commit(message=b"one\n", tree=EMPTY_TREE)
    new, data = (
        object_id(COMMIT, content),
        pack([entry(COMMIT, content), entry(TREE, b""), entry(BLOB, os.urandom(size))]),
    )
    body = gzip.compress(section((ZERO, new, "refs/heads/agent/x")) + data)
    answer = post(world, body, f"Content-Encoding: {encoding}")
    assert statuses(answer.body) == {"refs/heads/agent/x": "ok"}
    assert world.refs() == {"refs/heads/agent/x": new}


def test_in_chunks(world: PushWorld) -> None:
    new, data = good_pack("one")
    body = section((ZERO, new, "refs/heads/agent/x")) + data
    with world.wire(chunked(body, 7), headers=[TYPE, "Transfer-Encoding: chunked"]) as wire:
        assert statuses(wire.message().body) == {"refs/heads/agent/x": "ok"}


def test_a_client_that_waits_for_a_sign(world: PushWorld) -> None:
    """Expect: 100-continue, as git sends it where it authenticates by GSS."""
    new, data = good_pack("one")
    body = section((ZERO, new, "refs/heads/agent/x")) + data
    with world.wire(b"", headers=[TYPE, f"Content-Length: {len(body)}", "Expect: 100-continue"]) as wire:
        assert wire.message().status == 100
        wire.send(body)
        assert wire.message().status == 200


def test_several_on_one_connection(world: PushWorld) -> None:
    with world.wire(b"0000", headers=[TYPE, "Content-Length: 4"]) as wire:
        assert wire.message().status == 200
        new, data = good_pack("one")
        body = section((ZERO, new, "refs/heads/main")) + data
        wire.send(
            world.head(f"/git/github.com/{NAME}.git/git-receive-pack", [TYPE, f"Content-Length: {len(body)}"])
            + body
        )
        assert list(statuses(wire.message().body)) == ["refs/heads/main"]


# --- Kinds ----------------------------------------------------------------------------------------


def chain(world: PushWorld, ref: str) -> tuple[str, str, bytes]:
    """A branch that is there, and a pack with a commit behind it: old, new, pack."""
    old, data = good_pack("old")
    assert statuses(post(world, section((ZERO, old, ref)) + data).body) == {ref: "ok"}
    new, data = good_pack("new", old)
    return old, new, data


def test_a_proof_lets_the_rest_flow(world: PushWorld) -> None:
    """Where only a fast-forward is allowed, the push is forwarded as soon as it is proven to be one: while its end is
    still missing."""
    old, new, _ = chain(world, "refs/heads/steady")
    content = commit(old, message=b"new\n", tree=EMPTY_TREE)
    data = pack(
        [entry(COMMIT, content), entry(TREE, b""), *(entry(BLOB, os.urandom(100_000)) for _ in range(10))]
    )
    new = object_id(COMMIT, content)
    body = section((old, new, "refs/heads/steady")) + data
    before = world.minted
    with world.wire(body[:500_000], headers=[TYPE, f"Content-Length: {len(body)}"]) as wire:
        world.until(lambda: world.minted > before, "the token")
        wire.send(body[500_000:])
        assert statuses(wire.message().body) == {"refs/heads/steady": "ok"}
    assert world.pushes()[-1]["refs"][0]["kind"] == "fast-forward"


def test_a_lie_about_the_old_id_is_found_by_github(world: PushWorld) -> None:
    """A forced update dressed up as a fast-forward: the claimed old id is not what stands there."""
    old, new, data = chain(world, "refs/heads/steady")
    assert (
        statuses(post(world, section((old, new, "refs/heads/steady")) + data).body)["refs/heads/steady"]
        == "ok"
    )
    third, data = good_pack("third", old)
    answer = post(world, section((old, third, "refs/heads/steady")) + data)
    [reason] = statuses(answer.body).values()
    assert reason != "ok"
    assert world.refs()["refs/heads/steady"] == new


@pytest.mark.parametrize("what", ["unrelated", "garbage", "nothing", "bad trailer"])
def test_what_is_not_proven_is_a_force(world: PushWorld, what: str) -> None:
    old, _, _ = chain(world, "refs/heads/steady")
    new, data = good_pack("unrelated")
    data = {"unrelated": data, "garbage": b"no pack", "nothing": b"", "bad trailer": data[:-1] + b"x"}[what]
    with Untouched(world) as untouched:
        answer = post(world, section((old, new, "refs/heads/steady")) + data)
        assert "is denied for steady (forced) by config.yaml:6" in statuses(answer.body)["refs/heads/steady"]
    assert untouched.record["refs"][0]["kind"] == "force"
    push_well(world)


def test_mixed_kinds_sink_together(world: PushWorld) -> None:
    """One ref of two turns out to be forced when the pack is over."""
    old, new, data = chain(world, "refs/heads/steady")
    answer = post(
        world, section((ZERO, new, "refs/heads/agent/x"), (old, old[::-1], "refs/heads/steady")) + data
    )
    reasons = statuses(answer.body)
    assert "(forced)" in reasons["refs/heads/steady"]
    assert reasons["refs/heads/agent/x"].endswith("not pushed because another ref in this push was refused")
    assert "refs/heads/agent/x" not in world.refs()


def test_deletions_leave_a_pack_behind(world: PushWorld) -> None:
    """What comes after a section that needs no pack is not forwarded."""
    old, _, data = chain(world, "refs/heads/agent/x")
    answer = post(world, section((old, ZERO, "refs/heads/agent/x")) + data)
    assert statuses(answer.body) == {"refs/heads/agent/x": "ok"}
    assert world.refs() == {}


def test_a_surplus_behind_the_pack_is_githubs_matter(world: PushWorld) -> None:
    new, data = good_pack("one")
    answer = post(world, section((ZERO, new, "refs/heads/agent/x")) + data + b"surplus")
    assert answer.status == 200
    [record] = world.pushes()
    assert record["refs"][0]["status"] == statuses(answer.body)["refs/heads/agent/x"]


def posts(world: PushWorld) -> list[str]:
    """What was asked of GitHub by POST."""
    return [one.path for one in world.forge.requests if one.method == "POST"]


# Of a push whose pack is over, but whose body is not: how it ends, and what is said of it then.
CUT: dict[str, str] = {
    "the client leaves": "the client left before the push was over",
    "the session is closed": "the session was closed",
    "no gzip any more": "the gzip body of the push is damaged, or something follows it",
}


@pytest.mark.parametrize("end", CUT)
def test_what_github_has_done_before_the_body_ends(tmp_path: Path, end: str) -> None:
    """A pack says itself where it ends, and git does not wait for more. No record may deny that."""
    ref = "refs/heads/agent/x"
    deflate = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)

    def packed(content: bytes) -> bytes:
        piece = deflate.compress(content) + deflate.flush(zlib.Z_FULL_FLUSH)
        return b"%x\r\n%b\r\n" % (len(piece), piece)

    with push_world(tmp_path) as world:
        new, data = good_pack("one")
        headers = [TYPE, "Transfer-Encoding: chunked", "Content-Encoding: gzip"]
        with world.wire(packed(section((ZERO, new, ref)) + data), headers=headers) as wire:
            world.until(lambda: any(one.endswith("git-receive-pack") for one in posts(world)), "the upload")
            wire.send(packed(b"surplus"))
            world.until(lambda: (world.bare() / ref).exists(), "the branch")
            if end == "no gzip any more":
                wire.send(b"4\r\nnone\r\n0\r\n\r\n")
                assert statuses(wire.message().body)[ref].startswith(f"{LABEL}: {CUT[end]}: {UNKNOWN}")
            elif end == "the session is closed":
                world.stop()
        if end == "the client leaves":
            world.until(lambda: bool(world.pushes()), "the record")
        [record] = world.pushes()
        assert (record["code"], record["reason"]) == ("outcome_unknown", f"{CUT[end]}: {UNKNOWN}")
        assert record["refs"][0]["status"].endswith(f"{CUT[end]}: {UNKNOWN}")
        assert world.door.counts("s1").forwarded == 1


def test_all_refs_of_the_largest_push_are_on_record(world: PushWorld) -> None:
    new, data = good_pack("one")
    names = [f"refs/heads/agent/{number}" for number in range(COMMAND_LIMIT - 1)]
    names.append("refs/heads/main")  # denied, so that git need not make them all
    post(world, section(*((ZERO, new, name) for name in names)) + data)
    [record] = world.pushes()
    assert [ref["ref"] for ref in record["refs"]] == names
    assert "truncated" not in record


@pytest.mark.parametrize("meanwhile", [Verdict.DENY, None], ids=["denied", "asked"])
def test_a_rule_that_ends_while_the_push_comes_in(
    world: PushWorld, monkeypatch: pytest.MonkeyPatch, meanwhile: Verdict | None
) -> None:
    """A push that is held until its kind is known may take as long as its client likes."""
    old, new, data = chain(world, "refs/heads/steady")
    later = [push_rule(meanwhile, "steady", place="config.yaml:99")] if meanwhile else []
    find = Reception._find_kinds

    async def slowly(reception: Reception, *rest: Any) -> None:
        await find(reception, *rest)
        object.__setattr__(world.session, "rules", RuleSet(rules=tuple(later)))

    monkeypatch.setattr(Reception, "_find_kinds", slowly)
    written = len(world.written)
    answer = post(world, section((old, new, "refs/heads/steady")) + data)
    [reason] = statuses(answer.body).values()
    assert ("by config.yaml:99" if meanwhile else "has ended meanwhile, so push again") in reason
    assert (world.refs()["refs/heads/steady"], world.written[written:]) == (old, [])
    assert world.pushes()[-1]["refs"][0]["verdict"] == "deny"


# --- Bounds ---------------------------------------------------------------------------------------


def test_slow_readers_of_lists_leave_connections_for_pushes(world: PushWorld) -> None:
    """More of them than there are connections to GitHub, each with more to read than fits on the way."""
    new = push_well(world)
    lines = "".join(f"{new} refs/heads/{'long' * 40}/{number:06}\n" for number in range(40_000))
    (world.bare() / "packed-refs").write_text(f"# pack-refs with: peeled fully-peeled sorted \n{lines}")
    with ExitStack() as stack:
        for _ in range(70):
            wire = stack.enter_context(Wire.to(world.port, receive_buffer=4096))
            wire.send(world.head(REFS, method="GET"))
        world.until(lambda: len(world.gateway._tasks) == 70, "all of them")
        push_well(world)


def test_pushes_at_once(world: PushWorld) -> None:
    """As many as are allowed may wait; one more is told so, and the place is free again afterwards."""
    new, data = good_pack("one")
    body = section((ZERO, new, "refs/heads/agent/x")) + data
    wires = [
        world.wire(body[:-1], headers=[TYPE, f"Content-Length: {len(body)}"])
        for _ in range(context.PUSHES_AT_ONCE)
    ]
    world.until(lambda: world.gateway._context.running == context.PUSHES_AT_ONCE, "all of them")
    answer = post(world, body)
    [reason] = statuses(answer.body).values()
    assert reason.startswith(f"{LABEL}: {context.PUSHES_AT_ONCE} pushes of this session are under way")
    assert world.pushes()[-1]["code"] == "limit"
    for wire in wires:
        wire.close()
    world.until(lambda: world.gateway._context.running == 0, "the end of all")
    push_well(world)


def test_no_room_to_hold_a_push(tmp_path: Path) -> None:
    with push_world(tmp_path) as world:
        old, new, data = chain(world, "refs/heads/steady")
        world.gateway._context.spool_folder = tmp_path / "missing"
        answer = post(world, section((old, new, "refs/heads/steady")) + data)
        [reason] = statuses(answer.body).values()
        assert reason == f"{LABEL}: the gateway has no room on its disk for a push that has to wait"
        assert world.refs()["refs/heads/steady"] == old


def test_a_client_that_stalls(world: PushWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.push.inbound.Inbound.__init__.__kwdefaults__", {"idle": 0.05})
    new, data = good_pack("one")
    body = section((ZERO, new, "refs/heads/main")) + data
    for sent in (b"", body[:10], body[:-1]):
        with world.wire(sent, headers=[TYPE, f"Content-Length: {len(body)}"]) as wire:
            wire.rest()
    world.until(lambda: len(world.records()) == 3, "three records")
    assert {record["code"] for record in world.records()} == {"timeout"}
    assert world.minted == 0


# --- Faults of our own ----------------------------------------------------------------------------


def test_a_fault_is_a_refusal(world: PushWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bool:
        raise ZeroDivisionError

    new, data = good_pack("one")
    monkeypatch.setattr(receiver, "sinks", broken)
    answer = post(world, section((ZERO, new, "refs/heads/agent/x")) + data)
    [reason] = statuses(answer.body).values()
    assert reason == f"{LABEL}: the gateway failed; what became of the push shows git ls-remote"
    assert [record["code"] for record in world.pushes()] == ["internal"]
    assert world.minted == 0
    assert "ZeroDivisionError" in world.take_errors()[0]
    monkeypatch.undo()
    push_well(world)


def test_an_outcome_that_cannot_be_recorded(world: PushWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The push went through, but nobody hears a yes that is not on record."""
    record = PushAuthorizer.record

    def closing(door: PushAuthorizer, *rest: Any) -> bool:
        world.log.close()
        return record(door, *rest)

    monkeypatch.setattr(PushAuthorizer, "record", closing)
    new, data = good_pack("one")
    answer = post(world, section((ZERO, new, "refs/heads/agent/x")) + data)
    assert statuses(answer.body) == {
        "refs/heads/agent/x": f"{LABEL}: it was pushed, but the gateway could not record that"
    }
    world.stop()
    assert any("records of pushes are lost" in error for error in world.take_errors())


def test_a_token_that_cannot_be_recorded(tmp_path: Path) -> None:
    """An unwritable log: nothing is forwarded, since the record of its token comes first."""
    with push_world(tmp_path) as world:
        new, data = good_pack("log")
        world.call(lambda: world.log.close())
        answer = post(world, section((ZERO, new, "refs/heads/agent/log")) + data)
        [reason] = statuses(answer.body).values()
        assert (
            reason == f"{LABEL}: the gateway could not record the token for this push, so nothing was pushed"
        )
        assert world.refs() == {} and world.written == []
        world.stop()
        assert any("records of pushes are lost" in error for error in world.take_errors())
