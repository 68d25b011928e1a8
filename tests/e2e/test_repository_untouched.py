"""Nothing appears, vanishes or changes in the user's repository because of the wrap: not even for a moment, not even
when everything is killed."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.fakes.product import Product
from tests.fakes.watching import watching

# Names that the file rules deny, there and not there: what is there is protected, and what is not must not appear.
DENIED = (
    ".env",
    "certs/server.key",
    ".vscode/tasks.json",
    ".claude/settings.json",
    ".mcp.json",
    "deep/er/.gitmodules",
)


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ("git", "-C", str(folder), "-c", "user.name=A", "-c", "user.email=a@example.test", *words),
        check=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"},
    )


@pytest.fixture(params=("bare of them", "full of them"))
def repository(request: pytest.FixtureRequest, wrapped: Product) -> Path:
    """A repository with a linked worktree and a submodule-like repository inside; with and without denied names."""
    root = wrapped.work
    git(root, "init", "--quiet", "--initial-branch=main")
    (root / "source.txt").write_text("text\n")
    if request.param == "full of them":
        for name in DENIED:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text("secret\n")
        (root / ".envrc").symlink_to("nowhere")
        (root / "link.pem").symlink_to("certs/server.key")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "one")
    git(root, "worktree", "add", "--quiet", str(root.parent / "linked"))
    (root / "nested").mkdir()
    git(root / "nested", "init", "--quiet")
    return root


def test_a_run_leaves_no_trace(wrapped: Product, repository: Path) -> None:
    with watching(repository) as watch:
        done = wrapped.run(
            "sh", "-c", "cat source.txt; ls -A >/dev/null; git --no-optional-locks log --oneline"
        )
        assert done.lines[0] == "text"
        assert watch.look() == []


def test_not_in_a_linked_worktree_either(wrapped: Product, repository: Path) -> None:
    linked = repository.parent / "linked"
    with watching(repository) as watch, watching(linked) as there:
        assert wrapped.run("true", options=("--repo", str(linked))).status == 0
        assert (watch.look(), there.look()) == ([], [])


def test_not_when_all_is_killed(wrapped: Product, repository: Path) -> None:
    with watching(repository) as watch:
        with wrapped.start("sh", "-c", "echo up; read line") as running:
            assert running.hear() == "up"
            running.process.send_signal(signal.SIGKILL)
            running.process.wait(timeout=60)
            running.process.communicate(timeout=60)  # the end of the streams: nobody is left who holds them
        assert watch.look() == []


def test_the_watch_sees_what_is_made(wrapped: Product, repository: Path) -> None:
    """Or the tests above could not fail."""
    with watching(repository) as watch:
        assert wrapped.run("sh", "-c", "echo new > new.txt && rm new.txt").status == 0
        assert f"{repository}/new.txt: made" in watch.look()
        assert f"{repository}/new.txt: removed" in watch.seen


@pytest.mark.parametrize("tidy", ["git worktree prune", "git gc -q --prune=now"])
@pytest.mark.parametrize("rules", ["create-time", "existing-only"])
def test_git_tidies_nobody_elses_worktree_away(
    wrapped: Product, repository: Path, tidy: str, rules: str
) -> None:
    """Inside the linked worktree is not there, so git takes what belongs to it for stale."""
    wrapped.settings["file_rules"] = rules
    wrapped.violates = True
    entry = repository / ".git/worktrees/linked"
    long_ago = 1_000_000_000
    for path in (*entry.rglob("*"), entry):
        os.utime(path, (long_ago, long_ago), follow_symlinks=False)
    before = sorted(str(path) for path in entry.rglob("*"))
    subprocess.run(
        wrapped.command(("sh", "-c", tidy)), cwd=wrapped.work, env=wrapped.environment, capture_output=True
    )
    assert sorted(str(path) for path in entry.rglob("*")) == before
    git(repository.parent / "linked", "status")


@pytest.mark.parametrize("above", [False, True], ids=["itself", "a directory above"])
def test_a_worktree_cannot_be_moved_from_under_its_rules(wrapped: Product, above: bool) -> None:
    """Also in the wrap's own /tmp, which can be written: under another path nothing would be denied."""
    wrapped.violates = True
    moved = wrapped.folder if above else wrapped.work
    below = wrapped.work.relative_to(moved)
    done = wrapped.run(
        "sh", "-c", f"mv {moved} {moved}-2 && echo K=1 > {moved}-2/{below}/.env; mv {moved}-2 {moved}; true"
    )
    assert done.violations >= 1 or "Read-only" in done.stderr, done.stderr
    assert not (wrapped.work / ".env").exists()
