"""Which repositories a session may push to, under which name, and what GitHub knows of their commits."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.forge.faults import Fault, Point
from tests.fakes.push_gateway import LABEL, NAME, PushWorld, push_world
from tests.fakes.raw_push import RECEIVE, REFS, ZERO, get, good_pack, post, push_well, section, statuses


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PushWorld]:
    with push_world(tmp_path, names=(NAME, "acme/other")) as opened:
        yield opened


def test_the_spelling_does_not_matter(world: PushWorld) -> None:
    path = RECEIVE.replace("acme/widget", "ACME/Widget").replace(".git/", "/")
    new, data = good_pack("one")
    answer = post(world, section((ZERO, new, "refs/heads/agent/x")) + data, path=path)
    assert statuses(answer.body) == {"refs/heads/agent/x": "ok"}
    assert world.pushes()[0]["repository"] == NAME
    assert get(world, REFS.replace("acme/widget.git", "Acme/WIDGET.GIT")).status == 200


def test_a_repository_of_the_same_app_that_is_not_linked(world: PushWorld) -> None:
    new, data = good_pack("one")
    body = section((ZERO, new, "refs/heads/agent/x")) + data
    for answer in (
        get(world, REFS.replace("widget", "other")),
        post(world, body, path=RECEIVE.replace("widget", "other")),
    ):
        assert answer.status == 403
        assert answer.field("Content-Type") == "text/plain; charset=utf-8"
        assert answer.body.decode().startswith(
            f"{LABEL} policy: acme/other is not linked to the workspace default, so nothing can be pushed there"
        )
    assert [record["code"] for record in world.records()] == ["not_linked"] * 2
    assert world.minted == 0


def test_a_renamed_repository(world: PushWorld) -> None:
    """Its refs are listed under the new name; the next push is judged under it; the record has it."""
    git = world.worktree()
    git.commit()
    world.forge.repositories.rename(NAME, "acme/gadget")
    done = git.try_to("push", "origin", "HEAD:agent/x")
    assert done.returncode == 0, done.stderr
    assert list(world.refs("acme/gadget")) == ["refs/heads/agent/x"]
    assert world.pushes()[-1]["repository"] == "acme/gadget"


def test_a_repository_that_is_renamed_between_list_and_push(world: PushWorld) -> None:
    push_well(world)
    world.forge.repositories.rename(NAME, "acme/gadget")
    new, data = good_pack("one")
    body = section((ZERO, new, "refs/heads/agent/x")) + data
    answer = post(world, body)
    assert statuses(answer.body)["refs/heads/agent/x"] == (
        f"{LABEL}: {NAME} is called acme/gadget by now: push again"
    )
    answer = post(world, body)
    assert statuses(answer.body) == {"refs/heads/agent/x": "ok"}


def test_a_renamed_repository_whose_format_was_known(world: PushWorld) -> None:
    assert get(world).status == 200
    world.forge.repositories.rename(NAME, "acme/gadget")
    assert get(world).status == 200


def test_a_repository_that_went_to_another_owner(world: PushWorld) -> None:
    world.forge.repositories.rename(NAME, "evil/widget")
    for _ in range(2):
        answer = get(world)
        assert answer.status in {403, 503}
    new, data = good_pack("one")
    answer = post(world, section((ZERO, new, "refs/heads/agent/x")) + data)
    assert answer.status in {403, 503}
    assert world.written == [] and world.refs("evil/widget") == {}


def test_github_cannot_be_reached(tmp_path: Path) -> None:
    """When the session opens, and not yet when it pushes; afterwards all is well."""
    with push_world(tmp_path, open_credentials=False) as world:
        answer = get(world)
        assert answer.status == 503
        assert f"{LABEL}: {NAME} cannot be pushed to: " in answer.body.decode()
        assert world.records()[0]["code"] == "github_unavailable"


@pytest.mark.parametrize("point", [Point.UPLOAD_REFS, Point.UPLOAD])
@pytest.mark.parametrize(
    "fault",
    [
        Fault(500), Fault(401), Fault(403), Fault(200, b"<html>", headers={"Content-Type": "text/html"}),
        Fault(cut_answer=0), Fault(cut_answer=30), Fault(end_answer=30),
        Fault(301, headers={"Location": "http://evil.test/"}),
    ],
    ids=["500", "401", "403", "a page", "cut", "half", "short", "redirect"],
)  # fmt: skip
def test_refs_that_cannot_be_had(world: PushWorld, point: Point, fault: Fault) -> None:
    """A sentence, or a connection that ends: never half a list that looks whole."""
    push_well(world)
    world.gateway._context.access._formats.clear()
    world.forge.faults.set(point, fault)
    git = world.worktree()
    git.commit()
    done = git.try_to("push", "origin", "HEAD:agent/x")
    assert done.returncode == 128, done
    assert "Username" not in done.stderr
    assert world.records()[-1]["code"] == "github_unavailable"
    world.forge.faults.clear()
    assert git.try_to("push", "origin", "HEAD:agent/x").returncode == 0


def test_the_credential_of_fetches(world: PushWorld) -> None:
    import asyncio

    from gateway.policy.repositories import parse_repository

    def ask(name: str) -> tuple[str, str] | None:
        work = world.gateway.read_credential(parse_repository(name))
        return asyncio.run_coroutine_threadsafe(work, world._loop).result()

    found = ask(NAME)
    assert found is not None and found[0] == "x-access-token"
    assert [token.kind for token in world.forge.tokens.minted if token.value == found[1]] == ["read"]
    assert ask("acme/other") is None
