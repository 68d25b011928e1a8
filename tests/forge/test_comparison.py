"""How commits stand to each other: git's own truth, in GitHub's words."""

from pathlib import Path

import pytest

from gateway.forge.comparison import ChangedFile, Comparison, Status, changed_files, compare
from gateway.forge.repositories import Repositories, find_git
from tests.fakes.forge import new_worktree


def test_history(tmp_path: Path) -> None:
    """
    root ── left ── newer     (other: no common root)
       └── right
    """
    program = find_git(tmp_path)
    repository = Repositories(tmp_path, program).create("acme/widget")
    git = new_worktree(tmp_path / "w", str(repository.path))
    root = git.commit(content=b"root")
    left = git.commit(content=b"left")
    newer = git.commit(content=b"newer")
    git("checkout", "-q", "-b", "right", root)
    right = git.commit(content=b"right")
    git("checkout", "-q", "--orphan", "other")
    other = git.commit(content=b"other")
    git("tag", "-a", "-m", "annotated", "v1", left)
    git("push", "-q", "origin", "main", "right", "other", "v1")
    table = [
        (left, left, Status.IDENTICAL, 0, 0, left),
        (left, newer, Status.AHEAD, 1, 0, left),
        (root, newer, Status.AHEAD, 2, 0, root),
        (newer, root, Status.BEHIND, 0, 2, root),
        (right, newer, Status.DIVERGED, 2, 1, root),
        ("right", "main", Status.DIVERGED, 2, 1, root),
        ("v1", "main", Status.AHEAD, 1, 0, left),
        ("refs/tags/v1", left, Status.IDENTICAL, 0, 0, left),
    ]
    for base, head, status, ahead, behind, merge_base in table:
        found = compare(program, repository, base, head)
        assert found is not None, (base, head)
        assert (found.status, found.ahead_by, found.behind_by) == (status, ahead, behind)
        assert found.merge_base == merge_base
    assert compare(program, repository, left, other) is None


def test_changed_files(tmp_path: Path) -> None:
    program = find_git(tmp_path)
    repository = Repositories(tmp_path, program).create("acme/widget")
    git = new_worktree(tmp_path / "w", str(repository.path))
    for name in ("kept", "gone", "old name"):
        git.commit(name, content=name.encode())
    base = git("rev-parse", "HEAD")
    git("mv", "old name", "näher")
    git("rm", "-q", "gone")
    (tmp_path / "w/kept").write_text("changed")
    (tmp_path / "w/new").write_text("new")
    git("add", ".")
    git("commit", "-q", "-m", "all kinds")
    git("push", "-q", "origin", "main")
    found = compare(program, repository, base, "main")
    assert found is not None
    assert changed_files(program, repository, found, "main") == (
        ChangedFile("gone", "removed"),
        ChangedFile("kept", "modified"),
        ChangedFile("new", "added"),
        ChangedFile("näher", "renamed", "old name"),
    )
    assert changed_files(program, repository, found, base) == ()
    assert changed_files(program, repository, found, "0" * 40) == ()


@pytest.mark.parametrize(
    "revision",
    ["", "0" * 40, "nothing", "--all", "-1", "HEAD..HEAD", "HEAD@{0}", "HEAD:file", "HEAD^", "HEAD~0", "../x", "a b",
     "x" * 201],
)  # fmt: skip
def test_what_is_no_commit(tmp_path: Path, revision: str) -> None:
    program = find_git(tmp_path)
    repository = Repositories(tmp_path, program).create("acme/widget")
    git = new_worktree(tmp_path / "w", str(repository.path))
    git.commit()
    git("push", "-q", "origin", "main")
    assert compare(program, repository, "HEAD", "HEAD") is not None
    assert compare(program, repository, revision, "HEAD") is None
    assert compare(program, repository, "HEAD", revision) is None


def test_one_word_for_two_counts() -> None:
    assert [Comparison("", "", ahead, behind).status for ahead in (0, 1) for behind in (0, 1)] == [
        Status.IDENTICAL, Status.BEHIND, Status.AHEAD, Status.DIVERGED,
    ]  # fmt: skip
