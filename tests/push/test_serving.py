"""Pushes by real git through the whole gateway to the forge: what goes through, what does not, and what git says."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gateway.forge.faults import Fault, Moment, Point
from gateway.forge.rules import ruleset
from gateway.policy.modes import Mode
from tests.fakes.forge import Git
from tests.fakes.push_gateway import LABEL, NAME, SECRET, PushWorld, push_world

ZERO = "0" * 40
LARGE = 3 << 20  # above http.postBuffer: git probes first, and sends chunks
DENIED = f"({LABEL} policy: Push to remote is denied for main"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PushWorld]:
    with push_world(tmp_path) as opened:
        yield opened


def rejected(done: subprocess.CompletedProcess[str]) -> None:
    """git says no in its own words, and nothing that a fault would make it say."""
    assert done.returncode == 1, done
    said = done.stdout + done.stderr
    for word in ("Everything up-to-date", "RPC failed", "curl", "unexpected disconnect", "fatal:"):
        assert word not in said, said


# --- Allowed --------------------------------------------------------------------------------------


def test_a_new_branch(world: PushWorld) -> None:
    git = world.worktree()
    commit = git.commit()
    done = git.try_to("push", "origin", "HEAD:agent/one")
    assert done.returncode == 0, done.stderr
    assert " * [new branch]      HEAD -> agent/one" in done.stderr
    assert world.refs() == {"refs/heads/agent/one": commit}
    [record] = world.records()
    [ref] = record["refs"]
    assert record["repository"] == NAME
    assert isinstance(record["bytes"], int) and record["bytes"] > 200
    assert ref == {
        "ref": "refs/heads/agent/one", "old": ZERO, "new": commit, "kind": "create", "verdict": "allow",
        "rule": "config.yaml:4", "reason": "Push to remote is allowed for agent/one (new) by config.yaml:4",
        "status": "ok",
    }  # fmt: skip
    assert world.door.counts("s1").forwarded == 1


def test_tokens_of_an_allowed_push(world: PushWorld) -> None:
    """One write token, for this repository alone, dead when git has its answer; and the records around it."""
    git = world.worktree()
    git.commit()
    git("push", "-q", "origin", "HEAD:agent/one")
    [token] = [token for token in world.forge.tokens.minted if token.kind == "write"]
    assert token.revoked
    assert dict(token.permissions) == {"contents": "write", "metadata": "read"}
    assert token.repositories == frozenset({world.forge.repositories.find(NAME).id})  # type: ignore[union-attr]
    written = [(record["event"], record.get("state"), record.get("kind")) for record in world.every_record()]
    assert written == [
        ("token", "minted", "read"), ("token", "minted", "write"), ("token", "revoked", "write"), ("push", None, None),
    ]  # fmt: skip
    log = world.log.path.read_text()
    assert all(one.value not in log for one in world.forge.tokens.minted)
    assert SECRET not in log


@pytest.mark.parametrize("size", [10, LARGE], ids=["tiny", "large"])
def test_sizes(world: PushWorld, size: int) -> None:
    git = world.worktree()
    commit = git.commit(content=os.urandom(size))
    done = git.try_to("push", "origin", "HEAD:agent/one")
    assert done.returncode == 0, done.stderr
    assert world.refs() == {"refs/heads/agent/one": commit}


def test_gone_forward_and_forced(world: PushWorld) -> None:
    git = world.worktree()
    git.commit()
    git("push", "-q", "origin", "HEAD:steady")
    git.commit("two")
    done = git.try_to("push", "origin", "HEAD:steady")
    assert done.returncode == 0, done.stderr
    git("commit", "-q", "--amend", "-m", "other")
    rejected(done := git.try_to("push", "--force", "origin", "HEAD:steady"))
    assert f"! [remote rejected] HEAD -> steady ({LABEL} policy: Push to remote is denied" in done.stderr
    kinds = [
        (ref["kind"], ref["verdict"], ref["rule"]) for record in world.pushes() for ref in record["refs"]
    ]
    assert kinds == [
        ("create", "allow", "config.yaml:5"),
        ("fast-forward", "allow", "config.yaml:5"),
        ("force", "deny", "config.yaml:6"),
    ]


@pytest.mark.parametrize("size", [10, LARGE], ids=["tiny", "large"])
def test_a_force_that_makes_no_difference_is_on_record(world: PushWorld, size: int) -> None:
    git = world.worktree()
    git.commit()
    git("push", "-q", "origin", "HEAD:agent/one")
    git("commit", "-q", "--amend", "-m", "other")
    git.commit("two", os.urandom(size))
    git("push", "-q", "--force", "origin", "HEAD:agent/one")
    git.commit("three", os.urandom(size))
    git("push", "-q", "origin", "HEAD:agent/one")
    kinds = [ref["kind"] for record in world.pushes() for ref in record["refs"]]
    assert kinds == ["create", "force", "fast-forward"]


def test_an_update_that_only_github_can_prove(world: PushWorld) -> None:
    """No commit is sent: both branches are there, one behind the other. GitHub is asked, with the read token."""
    git = world.worktree()
    git.commit()
    git("push", "-q", "origin", "HEAD:steady")
    new = git.commit("two")
    git("push", "-q", "origin", "HEAD:agent/one")
    done = git.try_to("push", "origin", "HEAD:steady")
    assert done.returncode == 0, done.stderr
    assert world.refs()["refs/heads/steady"] == new
    assert world.pushes()[-1]["refs"][0]["kind"] == "fast-forward"
    rejected(git.try_to("push", "--force", "origin", "HEAD~1:steady"))


@pytest.mark.parametrize("annotated", [True, False])
def test_tags(world: PushWorld, annotated: bool) -> None:
    git = world.worktree()
    git.commit()
    make = ("tag", "-f", *(("-a", "-m", "a release") if annotated else ()), "v1")
    git(*make)
    git("push", "-q", "origin", "v1")
    git.commit("two")
    git(*make)
    assert "[rejected]" in git.try_to("push", "origin", "v1").stderr
    git("push", "-q", "--force", "origin", "v1")
    git("push", "-q", "origin", ":v1")
    kinds = [ref["kind"] for record in world.pushes() for ref in record["refs"]]
    assert kinds == ["create", "tag-move", "delete"]
    assert world.refs() == {}


def test_deletions(world: PushWorld) -> None:
    git = world.worktree()
    git.commit()
    git("push", "-q", "origin", "HEAD:agent/one", "HEAD:steady")
    git("push", "-q", "origin", ":agent/one")
    rejected(git.try_to("push", "origin", ":steady"))
    assert list(world.refs()) == ["refs/heads/steady"]


def test_deletions_go_in_part(world: PushWorld) -> None:
    git = world.worktree()
    git.commit()
    git("push", "-q", "origin", "HEAD:agent/one", "HEAD:steady")
    rejected(done := git.try_to("push", "origin", ":steady", ":agent/one"))
    assert " - [deleted]         agent/one" in done.stderr
    assert f" ! [remote rejected] steady ({LABEL} policy: " in done.stderr
    assert list(world.refs()) == ["refs/heads/steady"]
    rejected(done := git.try_to("push", "--atomic", "origin", ":steady", ":agent/one"))


def test_ids_of_sha256(tmp_path: Path) -> None:
    with push_world(tmp_path, object_format="sha256") as world:
        git = world.worktree(object_format="sha256")
        git.commit()
        git("push", "-q", "origin", "HEAD:steady")
        commit = git.commit("two", os.urandom(LARGE))
        git("push", "-q", "origin", "HEAD:steady")
        assert world.refs() == {"refs/heads/steady": commit}
        assert [ref["kind"] for record in world.pushes() for ref in record["refs"]] == [
            "create",
            "fast-forward",
        ]
        rejected(git.try_to("push", "origin", "HEAD:main"))


def test_a_shallow_clone(world: PushWorld, tmp_path: Path) -> None:
    git = world.worktree()
    for name in ("one", "two", "three"):
        git.commit(name)
    git("push", "-q", "origin", "HEAD:steady")
    subprocess.run(
        ("git", "clone", "-q", "--depth=1", "-b", "steady", f"file://{world.bare()}", str(tmp_path / "shallow")),
        check=True, env=git.variables(),
    )  # fmt: skip
    shallow = Git(tmp_path / "shallow", settings=git.settings)
    commit = shallow.commit("four")
    shallow("push", "-q", world.url(), "HEAD:steady")
    assert world.refs() == {"refs/heads/steady": commit}


def test_nothing_to_do(world: PushWorld) -> None:
    git = world.worktree()
    git.commit()
    git("push", "-q", "origin", "HEAD:agent/one")
    assert "Everything up-to-date" in git.try_to("push", "origin", "HEAD:agent/one").stderr
    assert len(world.records()) == 1


def test_what_a_mirror_would_push(world: PushWorld) -> None:
    """Pull requests are not listed, so none would be deleted."""
    git = world.worktree()
    commit = git.commit()
    git("push", "-q", "origin", "HEAD:agent/one")
    Git(world.bare())("update-ref", "refs/pull/1/head", commit)
    done = git.try_to("push", "--mirror", "--dry-run", "origin")
    assert done.returncode == 0
    assert "agent/one" in done.stderr and "pull" not in done.stderr


def test_negotiation_asks_in_vain(world: PushWorld) -> None:
    git = world.worktree()
    git.commit()
    git("push", "-q", "origin", "HEAD:agent/one")
    git.commit("two")
    done = git.try_to("-c", "push.negotiate=true", "push", "origin", "HEAD:agent/one")
    assert done.returncode == 0, done.stderr


def test_what_github_says_is_shown(world: PushWorld) -> None:
    world.forge.repositories.find(NAME).rules.append(ruleset("refs/heads/agent/*"))  # type: ignore[union-attr]
    git = world.worktree()
    git.commit()
    rejected(done := git.try_to("push", "origin", "HEAD:agent/one"))
    assert "remote: error: GH013: Repository rule violations found for refs/heads/agent/one." in done.stderr
    assert (
        "! [remote rejected] HEAD -> agent/one (push declined due to repository rule violations)"
        in done.stderr
    )
    assert world.pushes()[0]["refs"][0]["status"] == "push declined due to repository rule violations"
    assert world.door.counts("s1").forwarded == 1


# --- Denied ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--porcelain",), ("--atomic",), ("--quiet",)])
@pytest.mark.parametrize("size", [10, LARGE], ids=["tiny", "large"])
def test_a_denied_push(world: PushWorld, size: int, options: tuple[str, ...]) -> None:
    git = world.worktree()
    commit = git.commit(content=os.urandom(size))
    rejected(done := git.try_to("push", *options, "origin", "main"))
    if "--porcelain" in options:
        assert f"!\trefs/heads/main:refs/heads/main\t[remote rejected] {DENIED}" in done.stdout
    else:
        assert f" ! [remote rejected] main -> main {DENIED}" in done.stderr
    assert world.refs() == {}
    assert world.minted == 0 and world.written == []
    assert Git(world.bare()).try_to("cat-file", "-t", commit).returncode != 0
    [record] = world.pushes()
    assert (record["refs"][0]["verdict"], record["refs"][0]["rule"]) == ("deny", "config.yaml:3")
    assert world.door.counts("s1").refused == 1


@pytest.mark.parametrize("options", [(), ("--atomic",)])
def test_one_denied_ref_keeps_all_back(world: PushWorld, options: tuple[str, ...]) -> None:
    git = world.worktree()
    commit = git.commit()
    rejected(done := git.try_to("push", *options, "origin", "main", "HEAD:agent/one"))
    assert f" ! [remote rejected] main -> main {DENIED}" in done.stderr
    innocent = "not pushed because another ref in this push was refused"
    assert f" ! [remote rejected] HEAD -> agent/one ({LABEL} policy: {innocent})" in done.stderr
    assert world.refs() == {} and world.written == []
    assert Git(world.bare()).try_to("cat-file", "-t", commit).returncode != 0
    [record] = world.pushes()
    verdicts = {ref["ref"]: ref["verdict"] for ref in record["refs"]}
    assert verdicts == {"refs/heads/main": "deny", "refs/heads/agent/one": "allow"}


def test_a_question_without_anybody_to_answer(world: PushWorld) -> None:
    git = world.worktree()
    git.commit(content=os.urandom(LARGE))
    rejected(done := git.try_to("push", "origin", "HEAD:other"))
    assert "a person must approve this, and no approver is attached)" in done.stderr
    assert world.written == []
    [question] = world.records("approval")
    assert (question["state"], question["action"]) == ("unattended", "push")
    assert world.pushes()[0]["refs"][0]["verdict"] == "deny"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"linked": ()}, f"{LABEL} policy: {NAME} is not linked to the workspace default"),
        ({"app": False}, f"{LABEL} policy: pushes need a GitHub App: set github.app_id and github.private_key_file"),
        ({"installed": False}, f"{LABEL}: {NAME} cannot be pushed to: the GitHub App is not installed"),
    ],
)  # fmt: skip
def test_refused_before_refs_are_known(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    with push_world(tmp_path, **options) as world:
        git = world.worktree()
        git.commit()
        done = git.try_to("push", "origin", "HEAD:agent/one")
        assert done.returncode == 128
        assert f"remote: {said}" in done.stderr
        [record] = world.records()
        assert (record["repository"], record["refs"]) == (NAME, [])
        assert record["code"] in {"not_linked", "no_app", "github_unavailable"}
        assert world.door.counts("s1").refused == 1


def test_another_session_s_secret(world: PushWorld) -> None:
    git = world.worktree()
    git.commit()
    git.settings["http.extraHeader"] = "X-Agent-Gateway-Session: of-another-session"
    done = git.try_to("push", "origin", "HEAD:agent/one")
    assert f"remote: {LABEL} policy: the secret of this session is missing or wrong" in done.stderr
    assert "Authentication" not in done.stderr and "Username" not in done.stderr
    [record] = world.records()
    assert record["code"] == "wrong_secret"
    assert record["reason"] == "the secret is that of session s2, this is session s1"


def test_a_mode_that_only_reads(tmp_path: Path) -> None:
    with push_world(tmp_path, mode=Mode.PLAN) as world:
        git = world.worktree()
        git.commit()
        rejected(git.try_to("push", "origin", "HEAD:agent/one"))
        assert world.pushes()[0]["refs"][0]["rule"] == "preset:plan"


# --- Ends -----------------------------------------------------------------------------------------


def test_a_client_that_is_killed(world: PushWorld) -> None:
    """In the middle of an upload that is being forwarded: no ref, no token left, one record."""
    git = world.worktree()
    git.commit(content=os.urandom(30 << 20))
    program = subprocess.Popen(
        ("git", "-C", str(git.folder), "push", "-q", "origin", "HEAD:agent/one"),
        env=git.variables(), stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    world.until(lambda: bool(world.written), "the upload")
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    world.until(lambda: bool(world.pushes()), "the record")
    assert world.pushes()[0].get("code", "") in {"client_gone", "outcome_unknown", ""}
    if world.pushes()[0].get("code"):
        assert world.refs() == {}
    assert all(token.revoked for token in world.forge.tokens.minted if token.kind == "write")


@pytest.mark.parametrize("whole", [True, False])
def test_a_session_that_is_closed(tmp_path: Path, whole: bool) -> None:
    """While GitHub works on a push, or still receives it: it ends at once, the write token with it. What GitHub has
    some of may have happened, and the record does not deny it."""
    with push_world(tmp_path) as world:
        git = world.worktree()
        git.commit(content=os.urandom(10 if whole else 20 << 20))
        fault = Fault(stall_answer=0) if whole else Fault(stall=True, moment=Moment.ABRUPT)
        world.forge.faults.set(Point.RECEIVE, fault)
        updated = world.bare() / "refs/heads/agent/one"
        with subprocess.Popen(
            ("git", "-C", str(git.folder), "push", "-q", "origin", "HEAD:agent/one"),
            env=git.variables(), stderr=subprocess.DEVNULL,
        ) as program:  # fmt: skip
            world.until(
                lambda: any(
                    "POST" in seen.method
                    for seen in world.forge.requests
                    if seen.path.endswith("git-receive-pack")
                )
            )
            world.until(lambda: updated.exists() or not whole)
            world.stop()
            assert program.wait() != 0
        [record] = world.pushes()
        assert record["code"] == "outcome_unknown"
        said = record["refs"][0]["status"]
        assert said == "the session was closed: the outcome is unknown, check with git ls-remote"
        counts = world.door.counts("s1")
        assert (counts.forwarded, counts.refused) == (1, 0)
        assert updated.exists() == whole
