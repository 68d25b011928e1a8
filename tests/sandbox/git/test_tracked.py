"""Tracked files with denied names: found in real repositories, where nothing of the repository runs."""

import os
import subprocess
from pathlib import Path

import pytest

from sandbox.filerules import FileRules, NameRules
from sandbox.git import tracked
from sandbox.git.tracked import NAMED, SHOWN, ProtectedPaths, denied_among, find_tracked, tracked_note

RULES = NameRules(FileRules(deny_write=("*/plans/*",), allow_write=("public.pem",)))
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@a.test", *words],
        cwd=folder, check=True, capture_output=True, env={**ENVIRONMENT, "HOME": str(folder)},
    )  # fmt: skip


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    """A repository with every kind of name, all of it tracked."""
    for name in (
        ".env", ".env.example", "keys", "a/b/Server.KEY", ".vscode/settings.json", "public.pem", "plans/one", "monkey",
        ".claude/hooks/x", "node_modules/a/cacert.pem", "two\nlines.pem", "README.md",
    ):  # fmt: skip
        file = tmp_path / "work" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text")
    git(tmp_path / "work", "init", "-q")
    git(tmp_path / "work", "add", "-f", ".")
    return tmp_path / "work"


def test_finds_what_may_not_be_written(worktree: Path) -> None:
    expected = {
        ".claude/hooks/x",
        ".env",
        ".vscode/settings.json",
        "a/b/Server.KEY",
        "plans/one",
        "two\nlines.pem",
    }
    assert set(find_tracked(ENVIRONMENT, str(worktree), RULES)) == expected


def test_below_a_directory_of_the_repository(worktree: Path) -> None:
    assert find_tracked(ENVIRONMENT, str(worktree / "a"), RULES) == ("b/Server.KEY",)


def test_through_a_link_and_in_a_linked_worktree(worktree: Path) -> None:
    git(worktree, "commit", "-qm", "first")
    git(worktree, "worktree", "add", "-q", "../linked")
    (worktree.parent / "link").symlink_to("linked")
    assert ".env" in find_tracked(ENVIRONMENT, str(worktree.parent / "link"), RULES)


@pytest.mark.parametrize(
    "name", ["core.fsmonitor", "core.hooksPath", "core.pager", "core.sshCommand", "core.editor"]
)
def test_nothing_of_the_repository_runs(worktree: Path, name: str) -> None:
    script = worktree.parent / "run/post-index-change"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\necho >> {worktree.parent}/ran\n")
    script.chmod(0o755)
    git(worktree, "config", name, str(script.parent if name == "core.hooksPath" else script))
    assert ".env" in find_tracked(ENVIRONMENT, str(worktree), RULES)
    assert not (worktree.parent / "ran").exists()


def test_nothing_is_fetched_for_a_sparse_index(worktree: Path) -> None:
    """A tree that is missing would be asked for at an address that is a command."""
    git(worktree, "commit", "-qm", "first")
    git(worktree, "sparse-checkout", "set", "--cone", "--sparse-index", "a")
    git(worktree, "remote", "add", "origin", f"ext::sh -c echo%>>{worktree.parent}/ran")
    for name, value in (
        ("core.repositoryFormatVersion", "1"), ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"), ("protocol.ext.allow", "always"),
    ):  # fmt: skip
        git(worktree, "config", name, value)
    tree = subprocess.run(
        ["git", "rev-parse", "HEAD:plans"], cwd=worktree, capture_output=True, text=True, check=True
    ).stdout.strip()
    (worktree / ".git/objects" / tree[:2] / tree[2:]).unlink()
    find_tracked(ENVIRONMENT, str(worktree), RULES)
    assert not (worktree.parent / "ran").exists()


def test_empty_where_it_cannot_be_told(worktree: Path, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    assert find_tracked(ENVIRONMENT, str(tmp_path / "none"), RULES) == ()
    assert find_tracked(ENVIRONMENT, str(tmp_path / "absent"), RULES) == ()
    assert find_tracked({"PATH": "/nowhere"}, str(worktree), RULES) == ()
    assert find_tracked(ENVIRONMENT, "", RULES) == ()
    (worktree / ".git/index").write_bytes(b"junk")
    assert find_tracked(ENVIRONMENT, str(worktree), RULES) == ()


def test_a_configuration_that_never_ends_is_given_up(worktree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracked, "TRACKED_DEADLINE", 0.2)
    os.mkfifo(worktree.parent / "pipe")
    git(worktree, "config", "include.path", str(worktree.parent / "pipe"))
    assert find_tracked(ENVIRONMENT, str(worktree), RULES) == ()


@pytest.mark.parametrize(
    ("listing", "expected"),
    [
        (b"", ()),
        (b".env\0", (".env",)),
        (b".env\0a.pem", (".env",)),
        (b".env\0.env\0.env\0", (".env",)),
        (b"\0/\0a/\0", ()),
        (b"\xff/.env\0", ("\udcff/.env",)),
        (b"plans/x\0xplans/x\0", ("plans/x",)),
    ],
)
def test_denied_among(listing: bytes, expected: tuple[str, ...]) -> None:
    assert denied_among(listing, "/srv/work", RULES) == expected
    assert denied_among(listing, "/", RULES) == expected


def test_the_note_is_one_line_and_short() -> None:
    assert tracked_note(()) == ""
    assert tracked_note((".env",)).startswith("tracked files that cannot be written inside: .env; ")
    many = tuple(f"{number}\n\x1b{'x' * 500}.pem" for number in range(NAMED + 7))
    note = tracked_note(many)
    assert " and 7 more;" in note
    assert note.isprintable()
    assert len(note) < NAMED * (SHOWN + 20) + 300


def test_paths_of_a_repository(worktree: Path) -> None:
    (worktree.parent / "link").symlink_to("work")
    paths = ProtectedPaths(str(worktree.parent / "link"), FileRules(deny_write=(f"{worktree}/plans/*",)))
    asked = (
        ".env",
        "a/b/x.KEY",
        "plans/one",
        ".claude/hooks/x",
        "monkey",
        "a/plans/one",
        "a/\ud800.pem",
        "",
        "a/",
    )
    assert [paths(path) for path in asked] == [True, True, True, True, False, False, True, False, False]
    assert ".env" in paths.note(ENVIRONMENT["PATH"])
    assert paths.note("/nowhere") == ""
