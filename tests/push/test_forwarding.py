"""GitHub failing in every way, at every point of a push: one clear line per ref, no token left, never a hang."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.forge.faults import Fault, Moment, Point, garbage, redirect
from gateway.push.pkt import FLUSH, pkt, sideband
from tests.fakes.forge import Git
from tests.fakes.push_gateway import LABEL, PushWorld, push_world
from tests.fakes.raw_push import ZERO, good_pack, post, push_well, section, shown, statuses

LARGE = 3 << 20
UNKNOWN = "the outcome is unknown, check with git ls-remote"
BROKE = f"{LABEL}: the connection to GitHub broke"
TEXT = {"Content-Type": "text/plain"}


def report(*lines: bytes) -> bytes:
    return b"".join(sideband(1, b"".join(map(pkt, lines)) + FLUSH)) + FLUSH


# Where, what, what git says of the ref (a regular expression), the code on record.
FAULTS: dict[str, tuple[Point, Fault, str, str]] = {
    "no mint": (Point.MINT, Fault(500), f"{LABEL}: GitHub is in trouble", "github_unavailable"),
    "mint forbidden": (Point.MINT, Fault(403), f"{LABEL}: the GitHub App is suspended", "github_unavailable"),
    "mint of nothing": (Point.MINT, Fault(404), f"{LABEL}: the GitHub App is not installed", "github_unavailable"),
    "mint refused": (Point.MINT, Fault(422), f"{LABEL}: a repository is not among", "github_unavailable"),
    "token never known": (
        Point.RECEIVE_REFS, Fault(404), f"{LABEL}: GitHub knows no such repository", "github_unavailable",
    ),
    "token not accepted": (
        Point.RECEIVE_REFS, Fault(401, headers={"WWW-Authenticate": "Basic"}),
        f"{LABEL}: GitHub did not accept the gateway's token", "github_unavailable",
    ),
    "greeted with a redirect": (
        Point.RECEIVE_REFS, redirect("http://evil.test/"),
        f"{LABEL}: GitHub sends this repository's clients elsewhere", "github_unavailable",
    ),
    "greeted with nothing": (
        Point.RECEIVE_REFS, garbage(b"", "application/x-git-receive-pack-advertisement"),
        f"{LABEL}: GitHub's list of refs cannot be read", "github_unavailable",
    ),
    "greeted with garbage": (
        Point.RECEIVE_REFS, garbage(b"zzzz", "application/x-git-receive-pack-advertisement"),
        f"{LABEL}: GitHub's list of refs cannot be read", "github_unavailable",
    ),
    "greeted with a page": (
        Point.RECEIVE_REFS, garbage(b"<html>", "text/html"), f"{LABEL}: GitHub's answer is not one of git's",
        "github_unavailable",
    ),
    "greeting cut": (Point.RECEIVE_REFS, Fault(cut_answer=0), BROKE, "github_unavailable"),
    "401": (Point.RECEIVE, Fault(401), f"{LABEL}: GitHub did not accept the gateway's token", "github_unavailable"),
    "403 with a text": (
        Point.RECEIVE, Fault(403, b"Write access to repository not granted.\nmore", headers=TEXT),
        f"{LABEL}: GitHub refused the push \\(status 403\\): Write access to repository not granted\\.",
        "github_unavailable",
    ),
    "404": (Point.RECEIVE, Fault(404), f"{LABEL}: GitHub knows no such repository", "github_unavailable"),
    "408": (Point.RECEIVE, Fault(408), f"{LABEL}: GitHub gave up waiting", "github_unavailable"),
    "413": (Point.RECEIVE, Fault(413), f"{LABEL}: GitHub says that the push is too large", "github_unavailable"),
    "413 early": (
        Point.RECEIVE, Fault(413, moment=Moment.EARLY), f"{LABEL}: GitHub says that the push is too large",
        "github_unavailable",
    ),
    "422": (Point.RECEIVE, Fault(422), f"{LABEL}: GitHub did not accept the push", "github_unavailable"),
    "429": (Point.RECEIVE, Fault(429), f"{LABEL}: GitHub asks to push less often", "github_unavailable"),
    "500": (Point.RECEIVE, Fault(500), f"{LABEL}: GitHub is in trouble \\(status 500\\): {UNKNOWN}", "outcome_unknown"),
    "502": (Point.RECEIVE, Fault(502), f"{LABEL}: GitHub is in trouble \\(status 502\\): {UNKNOWN}", "outcome_unknown"),
    "418": (Point.RECEIVE, Fault(418), f"{LABEL}: GitHub gave an answer that was not expected", "github_unavailable"),
    "301": (Point.RECEIVE, redirect("http://evil.test/"), f"{LABEL}: GitHub sends this", "github_unavailable"),
    "307": (Point.RECEIVE, redirect("http://evil.test/", 307), f"{LABEL}: GitHub sends this", "github_unavailable"),
    "cut at once": (Point.RECEIVE, Fault(cut_request=1), f"{BROKE}: {UNKNOWN}", "outcome_unknown"),
    "cut before the answer": (Point.RECEIVE, Fault(cut_answer=0), UNKNOWN, "outcome_unknown"),
    "half a report": (Point.RECEIVE, Fault(cut_answer=20), UNKNOWN, "outcome_unknown"),
    "a report that ends early": (Point.RECEIVE, Fault(end_answer=20), "no status from GitHub", "outcome_unknown"),
    "empty": (Point.RECEIVE, garbage(b""), "no status from GitHub", "outcome_unknown"),
    "a page": (
        Point.RECEIVE, garbage(b"<html>", "text/html"), f"{LABEL}: GitHub's answer is not one of git's: {UNKNOWN}",
        "outcome_unknown",
    ),
    "garbage": (Point.RECEIVE, garbage(b"\xff" * 1000), "no status from GitHub", "outcome_unknown"),
    "other refs": (
        Point.RECEIVE, garbage(report(b"unpack ok\n", b"ok refs/heads/main\n")), "no status from GitHub",
        "outcome_unknown",
    ),
    "a fatal band": (
        Point.RECEIVE, garbage(b"".join(sideband(3, b"out of disk\n"))), "no status from GitHub", "outcome_unknown",
    ),
    "not unpacked": (
        Point.RECEIVE, garbage(report(b"unpack index-pack failed\n", b"ok refs/heads/agent/x\n")),
        "GitHub could not unpack the push", "",
    ),
    "a reason that hides itself": (
        Point.RECEIVE, garbage(report(b"unpack ok\n", b"ng refs/heads/agent/x up to date\n")), "GitHub: up to date", "",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushWorld]:
    with push_world(tmp_path_factory.mktemp("world")) as opened:
        yield opened


@pytest.mark.parametrize("size", [10, LARGE], ids=["tiny", "large"])
@pytest.mark.parametrize(("point", "fault", "said", "code"), FAULTS.values(), ids=FAULTS.keys())
def test_faults(world: PushWorld, point: Point, fault: Fault, said: str, code: str, size: int) -> None:
    git = world.worktree()
    git.commit(content=os.urandom(size))
    world.forge.faults.set(point, fault)
    try:
        done = git.try_to("push", "--force", "origin", "HEAD:agent/x")
    finally:
        world.forge.faults.clear()
    assert done.returncode == 1, done
    assert re.search(rf"! \[remote rejected\] HEAD -> agent/x \(.*{said}.*\)\n", done.stderr), done.stderr
    for word in ("RPC failed", "Everything up-to-date", "Username", "Traceback"):
        assert word not in done.stderr
    record = world.pushes()[-1]
    assert record.get("code", "") == code
    assert re.search(said, record["refs"][0]["status"])
    assert all(token.revoked for token in world.forge.tokens.minted if token.kind == "write")
    assert git.try_to("push", "--force", "origin", "HEAD:agent/x").returncode == 0, "the next push works"


def test_a_token_that_github_does_not_know_yet(world: PushWorld) -> None:
    """Asked again after 3 and 9 seconds, before any byte of the push is sent."""
    for status in (401, 404):
        world.forge.faults.lag, world.forge.faults.lag_status = 2, status
        del world.slept[:]
        try:
            push_well(world)
        finally:
            world.forge.faults.clear()
        assert [seconds for seconds in world.slept if seconds < 10] == [3.0, 9.0]


def test_a_token_that_github_never_knows(world: PushWorld) -> None:
    world.forge.faults.lag = 3
    new, data = good_pack("lag")
    before = len(world.written)
    try:
        answer = post(world, section((ZERO, new, "refs/heads/agent/lag")) + data)
    finally:
        world.forge.faults.clear()
    assert "GitHub knows no such repository" in statuses(answer.body)["refs/heads/agent/lag"]
    assert all("info/refs" in path for path in world.written[before:])


def test_a_token_with_other_permissions(world: PushWorld) -> None:
    world.forge.faults.echo_permissions = {"contents": "write", "administration": "write"}
    new, data = good_pack("permissions")
    before = len(world.written)
    try:
        answer = post(world, section((ZERO, new, "refs/heads/agent/permissions")) + data)
    finally:
        world.forge.faults.clear()
    assert "other permissions" in statuses(answer.body)["refs/heads/agent/permissions"]
    assert world.written[before:] == []


def test_a_token_that_cannot_be_revoked(world: PushWorld) -> None:
    """The push is done all the same; what is left over is on record, and tried again at the session's end."""
    world.forge.faults.set(Point.REVOKE, Fault(500))
    try:
        push_well(world)
    finally:
        world.forge.faults.clear()
    assert world.records("token")[-1]["state"] == "revoke_failed"


def test_text_before_the_report(world: PushWorld) -> None:
    """GitHub sends a packet with a lone NUL; that is nobody's text."""
    world.forge.faults.set(
        Point.RECEIVE, Fault(before_answer=b"0006\2\0" + b"".join(sideband(2, b"\x1b[31mred\n")))
    )
    new, data = good_pack("text")
    try:
        answer = post(world, section((ZERO, new, "refs/heads/agent/text")) + data)
    finally:
        world.forge.faults.clear()
    assert statuses(answer.body) == {"refs/heads/agent/text": "ok"}
    assert shown(answer.body) == "\\x1b[31mred\n"


def test_text_without_end(world: PushWorld) -> None:
    """Five megabytes of it: shown in part, and the report that never comes is no yes."""
    band = b"".join(sideband(2, b"noise " * 10_000))
    world.forge.faults.set(
        Point.RECEIVE,
        Fault(200, band, 400, headers={"Content-Type": "application/x-git-receive-pack-result"}),
    )
    new, data = good_pack("noise")
    try:
        answer = post(world, section((ZERO, new, "refs/heads/agent/noise")) + data)
    finally:
        world.forge.faults.clear()
    assert statuses(answer.body) == {"refs/heads/agent/noise": "no status from GitHub"}
    assert len(shown(answer.body)) < 100_000


def test_atomic_needs_a_github_that_knows_it(tmp_path: Path) -> None:
    with push_world(tmp_path) as world:
        Git(world.bare())("config", "receive.advertiseAtomic", "false")
        git = world.worktree()
        git.commit()
        done = git.try_to("push", "--atomic", "origin", "HEAD:agent/x", "HEAD:agent/y")
        assert f"({LABEL}: this GitHub does not know atomic pushes)" in done.stderr
        assert world.refs() == {}
        assert git.try_to("push", "origin", "HEAD:agent/x").returncode == 0


def test_many_refs_are_a_long_greeting(tmp_path: Path) -> None:
    """Only its beginning is read."""
    with push_world(tmp_path) as world:
        new = push_well(world)
        lines = "".join(f"create refs/heads/many/{number:05} {new}\n" for number in range(8000))
        Git(world.bare())("update-ref", "--stdin", text=lines)
        push_well(world)
