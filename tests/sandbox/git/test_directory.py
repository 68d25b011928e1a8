"""Where a worktree's git directory is: with real git, and with pointers that somebody hostile wrote."""

import os
import subprocess
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from sandbox.git.directory import POINTER_LIMIT, find_git_directory, is_git_directory

SETTINGS = (
    "-c", "user.name=A U Thor", "-c", "user.email=author@example.test", "-c", "init.defaultBranch=main",
    "-c", "protocol.file.allow=always", "-c", "gc.auto=0",
)  # fmt: skip


def git(cwd: Path, *arguments: str) -> None:
    """Runs git in a directory, with nothing of this machine's configuration."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    subprocess.run(("git", *SETTINGS, *arguments), cwd=cwd, env=environment, check=True, capture_output=True)


def repository(path: Path) -> Path:
    """A repository with one commit."""
    path.mkdir(parents=True)
    git(path, "init", "-q")
    git(path, "commit", "-q", "--allow-empty", "-m", "first")
    return path


def linked(main: Path, path: Path) -> Path:
    """A linked worktree of a repository."""
    git(main, "worktree", "add", "-q", str(path))
    return path


def find(worktree: Path, *bound: Path) -> str:
    """The git directory outside, with the worktree itself bound as it always is."""
    return find_git_directory(str(worktree), (str(worktree), *map(str, bound)))


def refused(worktree: Path, *bound: Path) -> str:
    """The message of a pointer that is not followed."""
    with pytest.raises(GatewayError) as caught:
        find(worktree, *bound)
    assert str(worktree / ".git") in caught.value.message
    assert "--bind" in caught.value.hint
    return caught.value.message


# --- Real git -------------------------------------------------------------------------------------


def test_ordinary_repository_needs_nothing_outside(tmp_path: Path) -> None:
    assert find(repository(tmp_path / "repo")) == ""


def test_no_repository(tmp_path: Path) -> None:
    assert find(tmp_path) == ""
    (tmp_path / "file").touch()
    assert find(tmp_path / "file") == ""
    assert find(tmp_path / "missing") == ""


def test_linked_worktree_needs_the_common_directory(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    assert find(linked(main, tmp_path / "linked")) == str(main / ".git")


def test_linked_worktree_of_a_bare_repository(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    git(tmp_path, "clone", "-q", "--bare", "main", "bare.git")
    assert find(linked(tmp_path / "bare.git", tmp_path / "linked")) == str(tmp_path / "bare.git")
    assert find(main) == ""


def test_linked_worktree_below_its_own_repository(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    inside = linked(main, main / "trees/one")
    assert find(inside) == str(main / ".git")
    assert find(inside, main) == ""


def test_linked_worktree_with_relative_pointers(tmp_path: Path) -> None:
    """As git 2.48 writes them with worktree.useRelativePaths."""
    main = repository(tmp_path / "main")
    tree = linked(main, tmp_path / "linked")
    entry = main / ".git/worktrees/linked"
    (tree / ".git").write_text("gitdir: ../main/.git/worktrees/linked\n")
    (entry / "gitdir").write_text("../../../../linked/.git\n")
    git(tree, "status")
    assert find(tree) == str(main / ".git")


def test_linked_worktree_that_was_moved_without_repair(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    linked(main, tmp_path / "linked").rename(tmp_path / "moved")
    assert "does not point back" in refused(tmp_path / "moved")
    git(tmp_path / "moved", "worktree", "repair")
    assert find(tmp_path / "moved") == str(main / ".git")


def test_linked_worktree_of_a_deleted_repository(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    tree = linked(main, tmp_path / "linked")
    subprocess.run(("rm", "-rf", str(main)), check=True)
    refused(tree)


def superproject(tmp_path: Path) -> Path:
    """A repository with the submodule `lib/part`."""
    part = repository(tmp_path / "part")
    top = repository(tmp_path / "top")
    git(top, "submodule", "--quiet", "add", str(part), "lib/part")
    return top


def test_submodule_needs_its_own_directory(tmp_path: Path) -> None:
    top = superproject(tmp_path)
    assert find(top / "lib/part") == str(top / ".git/modules/lib/part")
    assert find(top / "lib/part", top) == ""
    assert find(top) == ""


def test_linked_worktree_of_a_submodule(tmp_path: Path) -> None:
    top = superproject(tmp_path)
    tree = linked(top / "lib/part", tmp_path / "linked")
    assert find(tree) == str(top / ".git/modules/lib/part")


def test_separate_git_directory(tmp_path: Path) -> None:
    """`git init --separate-git-dir` leaves no way back, so it takes a --bind."""
    tree = tmp_path / "tree"
    tree.mkdir()
    git(tree, "init", "-q", "--separate-git-dir", str(tmp_path / "aside.git"))
    assert str(tmp_path / "aside.git") in refused(tree)
    assert find(tree, tmp_path / "aside.git") == ""
    git(tree, "config", "core.worktree", str(tree))
    assert find(tree) == str(tmp_path / "aside.git")


@pytest.mark.parametrize(
    "name", ["with space", "semi;colon", "hash#tag", "ünïcode", "a'b", "-dash", "new\nline"]
)
def test_unusual_names(tmp_path: Path, name: str) -> None:
    main = repository(tmp_path / name / "main")
    found = find(linked(main, tmp_path / name / "linked"))
    assert found == str(main / ".git")


@pytest.mark.parametrize("name", ["with space", "semi;colon", "hash#tag", "ünïcode", "a'b"])
def test_unusual_names_of_submodules(tmp_path: Path, name: str) -> None:
    top = superproject(tmp_path / name)
    assert find(top / "lib/part") == str(top / ".git/modules/lib/part")


# --- Hostile pointers -----------------------------------------------------------------------------
# Whoever works in the worktree can write `.git`. What it names must not be shown for that.


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The worktree in which somebody hostile works."""
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


def point(tree: Path, target: Path | str, text: str = "gitdir: {}\n") -> None:
    (tree / ".git").write_text(text.format(target))


def pretend(path: Path) -> Path:
    """What git takes for a git directory."""
    for folder in ("objects", "refs"):
        (path / folder).mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/main\n")
    return path


def test_pointer_to_somebody_elses_repository(tmp_path: Path, tree: Path) -> None:
    point(tree, repository(tmp_path / "other") / ".git")
    assert str(tmp_path / "other/.git") in refused(tree)


def test_pointer_to_somebody_elses_linked_worktree(tmp_path: Path, tree: Path) -> None:
    main = repository(tmp_path / "main")
    linked(main, tmp_path / "linked")
    point(tree, main / ".git/worktrees/linked")
    refused(tree)


@pytest.mark.parametrize(
    "target", ["/", "/etc", "/proc/self", "/dev/null", "/missing/.git", "..", "../..", ""]
)
def test_pointer_to_anything(tree: Path, target: str) -> None:
    point(tree, target)
    # An empty path is the worktree itself, which git refuses as well; nothing more is shown for it.
    assert find(tree) == "" if not target else refused(tree)


def test_pointer_to_a_home_with_a_repository_in_it(tmp_path: Path, tree: Path) -> None:
    home = repository(tmp_path / "home")
    (home / ".ssh").mkdir()
    point(tree, home)
    refused(tree)


def test_pointer_through_a_link_in_the_worktree(tmp_path: Path, tree: Path) -> None:
    other = repository(tmp_path / "other")
    (tree / "way").symlink_to(other)
    point(tree, "way/.git")
    assert str(other / ".git") in refused(tree)


def test_entry_that_is_a_link_to_elsewhere(tmp_path: Path, tree: Path) -> None:
    """A directory `worktrees` of one's own, whose entry is a link out: the resolved place counts."""
    other = pretend(tmp_path / "other")
    fake = pretend(tree / "fake")
    (fake / "worktrees").mkdir()
    (fake / "worktrees/x").symlink_to(other)
    point(tree, "fake/worktrees/x")
    refused(tree)


def test_entry_of_ones_own_shows_nothing_more(tree: Path) -> None:
    fake = pretend(tree / "fake")
    (fake / "worktrees/x").mkdir(parents=True)
    (fake / "worktrees/x/gitdir").write_text(f"{tree}/.git\n")
    (fake / "worktrees/x/commondir").write_text("../..\n")
    point(tree, "fake/worktrees/x")
    assert find(tree) == ""


def test_common_directory_that_the_entry_names_elsewhere(tmp_path: Path, tree: Path) -> None:
    """The entry's `commondir` names somebody else's repository: it is not the directory around the entry."""
    victim = repository(tmp_path / "victim")
    fake = pretend(tmp_path / "fake")
    (fake / "worktrees/x").mkdir(parents=True)
    (fake / "worktrees/x/gitdir").write_text(f"{tree}/.git\n")
    (fake / "worktrees/x/commondir").write_text(f"{victim}/.git\n")
    point(tree, fake / "worktrees/x")
    refused(tree)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("gitdir", ""),
        ("gitdir", "/elsewhere/.git\n"),
        ("gitdir", "x" * (POINTER_LIMIT + 1)),
        ("gitdir", None),
        ("commondir", ""),
        ("commondir", ".\n"),
        ("commondir", "../../..\n"),
        ("commondir", None),
    ],
)
def test_entry_that_does_not_hold(tmp_path: Path, tree: Path, file: str, text: str | None) -> None:
    main = repository(tmp_path / "main")
    good = linked(main, tmp_path / "linked")
    assert find(good) == str(main / ".git")
    part = main / ".git/worktrees/linked" / file
    part.unlink()
    if text is not None:
        part.write_text(text)
    refused(good)


def test_repository_around_the_entry_that_is_none(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    good = linked(main, tmp_path / "linked")
    (main / ".git/HEAD").unlink()
    refused(good)


@pytest.mark.parametrize(
    ("config", "followed"),
    [
        ("[core]\n\tworktree = {}\n", True),
        ("[CORE]\n\tWorkTree={}\n", True),
        ('[core]\n\tworktree = "{}"\n', True),
        ("[core]\n\tbare = false\n\tworktree = {}\n[remote]\n\turl = x\n", True),
        ("[core]\n\tworktree = {}/below\n", False),
        ("[core]\n\tworktree = {}/..\n", False),
        ('[core "worktree"]\n\tworktree = {}\n', False),
        ("[other]\n\tworktree = {}\n", False),
        ("[core]\n[other]\n\tworktree = {}\n", False),
        ("# [core]\n# worktree = {}\n", False),
        ("worktree = {}\n", False),
        ("[core]\n\tworktree\n", False),
        ("[core]\n\tworktree = /elsewhere\n\tworktree = {}\n", False),
        ("", False),
    ],
)
def test_what_a_submodules_directory_must_say(
    tmp_path: Path, tree: Path, config: str, followed: bool
) -> None:
    target = pretend(tmp_path / "target")
    (target / "config").write_text(config.format(tree))
    point(tree, target)
    assert find(tree) == str(target) if followed else refused(tree)


@pytest.mark.parametrize(
    "text", ["", "gitdir {}\n", "GITDIR: {}\n", "# gitdir: {}\n", "x\ngitdir: {}\n", "{}"]
)
def test_pointer_that_is_none(tmp_path: Path, tree: Path, text: str) -> None:
    point(tree, repository(tmp_path / "other") / ".git", text)
    assert find(tree) == ""


def test_pointer_longer_than_any_path(tmp_path: Path, tree: Path) -> None:
    point(tree, str(repository(tmp_path / "other") / ".git") + " " * POINTER_LIMIT)
    assert find(tree) == ""


@pytest.mark.parametrize("target", ["missing", ".git", "tree/kept"])
def test_pointer_that_is_a_link(tmp_path: Path, tree: Path, target: str) -> None:
    (tree / "kept").mkdir()
    (tree / ".git").symlink_to(target if target == ".git" else tmp_path / target)
    assert find(tree) == ""


@pytest.mark.parametrize("target", ["other/.git", "file", "/etc"])
def test_link_to_a_directory_that_is_not_shown(tmp_path: Path, tree: Path, target: str) -> None:
    other = repository(tmp_path / "other")
    (tmp_path / "file").touch()
    (tree / ".git").symlink_to(target if target.startswith("/") else tmp_path / target)
    assert os.path.realpath(tree / ".git") in refused(tree)
    if target.startswith("other"):
        assert find(tree, other) == find(tree, other / ".git") == ""


def test_pointer_that_is_a_pipe(tree: Path) -> None:
    os.mkfifo(tree / ".git")
    assert find(tree) == ""


# --- What is a repository -------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["", "HEAD", "objects", "refs"])
def test_git_directory(tmp_path: Path, missing: str) -> None:
    made = pretend(tmp_path / "made")
    if missing:
        (made / missing).rename(tmp_path / missing)
    assert is_git_directory(str(made)) is (missing == "")


def test_real_git_directories(tmp_path: Path) -> None:
    main = repository(tmp_path / "main")
    assert is_git_directory(str(main / ".git"))
    assert not is_git_directory(str(main))
    assert not is_git_directory(str(tmp_path / "missing"))
