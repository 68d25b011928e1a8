"""The HTTP side: secrets, addresses, methods, LFS, and answers that nobody takes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.push_gateway import LABEL, NAME, PushWorld, push_world
from tests.fakes.raw_push import RECEIVE, REFS, TYPE, ZERO, get, good_pack, post, push_well, section
from tests.fakes.wire import Wire

PLAIN = "text/plain; charset=utf-8"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushWorld]:
    with push_world(tmp_path_factory.mktemp("world")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        ("", "the secret of the session is wrong"),
        ("wrong", "the secret of the session is wrong"),
        ("A-SECRET-OF-THE-SESSION", "the secret of the session is wrong"),
        ("of-another-session", "the secret is that of session s2, this is session s1"),
    ],
)
def test_secrets(world: PushWorld, secret: str, reason: str) -> None:
    before = len(world.records())
    for answer in (get(world, secret=secret), post(world, b"0000", secret=secret)):
        assert (answer.status, answer.field("WWW-Authenticate")) == (403, None), "401 would make git ask"
        assert answer.body.decode() == f"{LABEL} policy: the secret of this session is missing or wrong\n"
    assert [(one["code"], one["reason"]) for one in world.records()[before:]] == [
        ("wrong_secret", reason)
    ] * 2


def test_two_secrets_are_none(world: PushWorld) -> None:
    answer = get(world, REFS, "X-Agent-Gateway-Session: a-secret-of-the-session")
    assert answer.status == 403


def test_a_large_body_without_the_secret_is_not_read(world: PushWorld) -> None:
    with world.wire(b"", headers=[TYPE, "Content-Length: 1000000000"], secret="wrong") as wire:
        assert wire.message().status == 403


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", REFS.replace("receive", "upload"), 403, "unsupported"),
        ("POST", RECEIVE.replace("receive", "upload"), 403, "unsupported"),
        ("POST", REFS, 405, "malformed_request"),
        ("GET", RECEIVE, 405, "malformed_request"),
        ("PUT", RECEIVE, 405, "malformed_request"),
        ("BREW", RECEIVE, 405, "malformed_request"),
        ("GET", f"/git/github.com/{NAME}/HEAD", 404, "malformed_request"),
        ("GET", "/git/", 404, "malformed_request"),
        ("POST", RECEIVE.replace("github.com", "evil.test"), 404, "malformed_request"),
    ],
)
def test_addresses_and_methods(world: PushWorld, method: str, path: str, status: int, code: str) -> None:
    before = len(world.records())
    answer = get(world, path, "Content-Length: 0", method=method)
    assert (answer.status, answer.field("Content-Type")) == (status, PLAIN)
    [record] = world.records()[before:]
    assert record["code"] == code and path.partition("?")[0] in record["reason"]


def test_a_method_that_may_be_used_is_named(world: PushWorld) -> None:
    assert get(world, RECEIVE).field("Allow") == "POST"


@pytest.mark.parametrize(
    "path", ["info/lfs/objects/batch", "info/lfs/locks/verify", "info/lfs/locks?limit=1"]
)
def test_lfs(world: PushWorld, path: str) -> None:
    before = len(world.records())
    answer = post(
        world, b'{"ref": {"name": "refs/heads/main"}}', "Content-Type: application/vnd.git-lfs+json",
        path=f"/git/github.com/{NAME}.git/{path}",
    )  # fmt: skip
    assert (answer.status, answer.field("Content-Type")) == (403, "application/vnd.git-lfs+json")
    assert str(answer.json()["message"]).startswith(f"{LABEL} policy: Git LFS uploads are not supported")
    [record] = world.records()[before:]
    assert (record["repository"], record["code"]) == (NAME, "unsupported")


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Content-Type: application/json", 415),
        ("Content-Type: -", 415),
        ("Content-Type: application/x-git-upload-pack-request", 415),
        ("Content-Encoding: deflate", 415),
        ("Content-Encoding: br", 415),
        ("Content-Encoding: gzip, gzip", 415),
    ],
)
def test_types_and_codings(world: PushWorld, header: str, status: int) -> None:
    new, data = good_pack("one")
    before = len(world.records())
    answer = post(world, section((ZERO, new, "refs/heads/main")) + data, header)
    assert answer.status == status
    assert [record["code"] for record in world.records()[before:]] == ["malformed_request"]


def test_answers_say_little(world: PushWorld) -> None:
    answer = get(world)
    assert answer.field("Server") == "agent-gateway"
    assert answer.field("Cache-Control") == "no-store"
    assert answer.field("Etag") is None


def test_a_client_that_takes_no_answer(world: PushWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is cut off, and others are served."""
    monkeypatch.setattr("gateway.push.handlers._TAKING", 0.05)
    from tests.fakes.forge import Git

    new = push_well(world)
    lines = "".join(f"create refs/heads/many/{number:06}-{'x' * 100} {new}\n" for number in range(30_000))
    bare = Git(world.bare())
    bare("update-ref", "--stdin", text=lines)
    with Wire.to(world.port, receive_buffer=4096) as wire:
        wire.send(world.head(REFS, method="GET"))
        world.until(lambda: bool(world.gateway._tasks), "the request")
        world.until(lambda: not world.gateway._tasks, "its end")
    bare("update-ref", "--stdin", text=lines.replace(f" {new}", "").replace("create", "delete"))
    push_well(world)


@pytest.mark.parametrize("path", [REFS, f"/git/github.com/{NAME}/info/lfs/locks", "/git/nowhere"])
@pytest.mark.parametrize("body", ["Content-Length: 10000000", "Transfer-Encoding: chunked"])
def test_a_body_that_nobody_reads(tmp_path: Path, path: str, body: str) -> None:
    """It is thrown away, and keeps neither the connection nor the session from ending."""
    with push_world(tmp_path) as world, Wire.to(world.port) as wire:
        wire.send(world.head(path, [body], method="GET"))
        piece = bytes(1 << 20) if "Length" in body else b"100000\r\n%b\r\n" % bytes(1 << 20)
        for _ in range(9):
            wire.send(piece)
        world.stop()


def test_many_at_once(world: PushWorld) -> None:
    """Connections that do nothing keep nobody else from pushing."""
    idle = [world.wire(os.urandom(0), headers=[TYPE, "Content-Length: 100"]) for _ in range(64)]
    push_well(world)
    for wire in idle:
        wire.close()
    world.until(lambda: not world.gateway._tasks, "their end")
