"""What a push deletes of protected files: flagged in the record and to the client, in the way of nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from gateway.credentials.answers import GoneNames
from gateway.forge.faults import Fault, Point
from gateway.policy.push import UpdateKind
from gateway.push import deletions
from gateway.push.access import Comparison
from gateway.push.commands import Command
from gateway.push.deletions import MOST_BRANCHES, MOST_NAMES, MOST_TOLD, Deletions, find_deletions
from tests.fakes.forge import Git
from tests.fakes.push_gateway import LABEL, PushWorld, push_world

OLD, NEW, ZERO = "1" * 40, "2" * 40, "0" * 40


def is_protected(path: str) -> bool:
    return path.rpartition("/")[2] == ".env" or path.endswith(".key")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PushWorld]:
    with push_world(tmp_path) as opened:
        opened.gateway._context.is_protected = is_protected
        yield opened


@pytest.fixture
def git(world: PushWorld) -> Git:
    """A worktree whose protected files are on the default branch."""
    found = world.worktree()
    for name in (".env", "b.key", "plain"):
        found.commit(name, content=name.encode())
    found("push", "-q", str(world.bare()), "HEAD:main")
    found("push", "-q", "origin", "HEAD:agent/x")
    return found


def remove(git: Git, *names: str) -> None:
    git("rm", "-q", *names)
    git("commit", "-q", "-m", "away")


def flags(world: PushWorld) -> tuple[object, object]:
    """Of the newest record."""
    record = world.pushes()[-1]
    return record.get("deleted_protected"), record.get("deleted_unknown")


def test_a_deleted_file_is_flagged_and_the_push_goes_through(world: PushWorld, git: Git) -> None:
    remove(git, ".env", "plain")
    done = git.try_to("push", "origin", "HEAD:agent/x")
    assert done.returncode == 0
    assert f"remote: {LABEL}: this push deletes protected files: .env; " in done.stderr
    assert world.refs()["refs/heads/agent/x"] == git("rev-parse", "HEAD")
    assert flags(world) == ([".env"], None)


def test_nothing_is_said_where_nothing_is_deleted(world: PushWorld, git: Git) -> None:
    git.commit(".env", content=b"changed")
    remove(git, "plain")
    done = git.try_to("push", "origin", "HEAD:agent/x")
    assert done.returncode == 0
    assert "protected" not in done.stderr
    assert flags(world) == (None, None)


def test_a_new_branch_is_held_against_the_default_branch(world: PushWorld, git: Git) -> None:
    remove(git, "b.key")
    assert "protected files: b.key; " in git.try_to("push", "origin", "HEAD:agent/new").stderr
    assert flags(world) == (["b.key"], None)


def test_a_renamed_file_is_gone(world: PushWorld, git: Git) -> None:
    git("mv", ".env", "env.txt")
    git("commit", "-q", "-m", "renamed")
    assert "protected files: .env; " in git.try_to("push", "origin", "HEAD:agent/x").stderr


def test_a_force_is_held_against_where_it_parted(world: PushWorld, git: Git) -> None:
    remove(git, ".env")
    git("push", "-q", "origin", "HEAD:agent/x")
    git("reset", "-q", "--hard", "HEAD~1")
    git.commit("more")
    assert "protected" not in git.try_to("push", "--force", "origin", "HEAD:agent/x").stderr


def test_tags_and_deleted_branches_are_not_looked_at(world: PushWorld, git: Git) -> None:
    before = sum("/compare/" in seen.path for seen in world.forge.requests)
    git("tag", "v1")
    git("push", "-q", "origin", "v1")
    git("push", "-q", "origin", ":agent/x")
    assert sum("/compare/" in seen.path for seen in world.forge.requests) == before
    assert flags(world) == (None, None)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(500, b"{}"),
        Fault(404, b"{}"),
        Fault(200, b"no json"),
        Fault(200, b'{"files": 7}'),
        Fault(200, b'{"status": "ahead", "files": "' + b"x" * (1 << 20) + b'"}'),
    ],
)
def test_what_github_does_not_tell_is_unknown(world: PushWorld, git: Git, fault: Fault) -> None:
    remove(git, ".env")
    world.forge.faults.set(Point.COMPARE, fault)
    done = git.try_to("push", "origin", "HEAD:agent/new")
    assert done.returncode == 0
    assert flags(world) == (None, True)


def test_a_denied_push_is_not_looked_at(world: PushWorld, git: Git) -> None:
    remove(git, ".env")
    assert git.try_to("push", "origin", "HEAD:main").returncode == 1
    assert flags(world) == (None, None)


def test_without_file_rules_nobody_is_asked(world: PushWorld, git: Git) -> None:
    world.gateway._context.is_protected = None
    remove(git, ".env")
    before = sum("/compare/" in seen.path for seen in world.forge.requests)
    git("push", "-q", "origin", "HEAD:agent/new")
    assert sum("/compare/" in seen.path for seen in world.forge.requests) == before
    assert flags(world) == (None, None)


# --- Bounds ---------------------------------------------------------------------------------------


class Answers:
    """Stands for GitHub: an answer per question."""

    def __init__(self, *answers: GoneNames | None) -> None:
        self.asked: list[tuple[str, str]] = []
        self._answers = answers

    async def gone_names(self, old: str, new: str) -> GoneNames | None:
        self.asked.append((old, new))
        if not self._answers:
            await asyncio.Event().wait()
        return self._answers[min(len(self.asked), len(self._answers)) - 1]


def found(answers: Answers, *refs: str, old: str = OLD, kind: UpdateKind = UpdateKind.FORCE) -> Deletions:
    pushed = [(Command(old, NEW, ref), kind) for ref in refs]
    return asyncio.run(find_deletions(cast(Comparison, answers), pushed, is_protected))


def test_each_name_once_and_fit_to_be_shown() -> None:
    answers = Answers(GoneNames(("a\x1b\ud800.key", "x"), True), GoneNames(("a\x1b\ud800.key", ".env"), True))
    assert found(answers, "refs/heads/a", "refs/heads/b") == Deletions(("a\\x1b\\ud800.key", ".env"))


def test_a_new_branch_has_no_old_commit() -> None:
    answers = Answers(GoneNames((), True))
    assert found(answers, "refs/heads/a", old=ZERO, kind=UpdateKind.CREATE) == Deletions()
    assert answers.asked == [("", NEW)]


def test_few_branches_are_looked_at() -> None:
    answers = Answers(GoneNames((), True))
    assert found(answers, *(f"refs/heads/{number}" for number in range(MOST_BRANCHES + 1))) == Deletions(
        unknown=True
    )
    assert len(answers.asked) == MOST_BRANCHES


def test_an_incomplete_list_leaves_more_unknown() -> None:
    assert found(Answers(GoneNames((".env",), False)), "refs/heads/a") == Deletions((".env",), True)
    assert found(Answers(None, GoneNames((".env",), True)), "refs/heads/a", "refs/heads/b") == Deletions(
        (".env",), True
    )


def test_names_are_counted() -> None:
    names = tuple(f"{number}{'x' * 500}.key" for number in range(MOST_NAMES + 1))
    many = found(Answers(GoneNames(names, True)), "refs/heads/a")
    assert (len(many.names), many.unknown) == (MOST_NAMES, True)
    assert f" and {MOST_NAMES - MOST_TOLD} more; " in many.told
    assert len(many.told) < 2000


def test_silence_is_waited_for_no_longer_than_it_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletions, "SECONDS", 0.01)
    assert found(Answers(), "refs/heads/a") == Deletions(unknown=True)
