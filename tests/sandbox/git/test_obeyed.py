"""Hooks, included files and programs that a repository's configuration names."""

import subprocess
from pathlib import Path

import pytest

from sandbox.git.obeyed import obeyed_paths


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path.resolve() / "work"
    subprocess.run(("git", "init", "-q", str(root)), check=True)
    for name in ("tools/clean.sh", "tools/watch"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("#!/bin/sh\n")
    return root


def configure(repository: Path, *settings: tuple[str, str], file: str = ".git/config") -> None:
    for name, value in settings:
        subprocess.run(("git", "config", "--file", str(repository / file), "--add", name, value), check=True)


@pytest.mark.parametrize(
    ("name", "value", "path"),
    [
        ("core.hooksPath", ".husky", ".husky"),
        ("core.hooksPath", "../shared", "../shared"),
        ("core.hooksPath", "~/hooks", "../home/hooks"),
        ("include.path", "../more.cfg", "more.cfg"),
        ("includeIf.gitdir:~/work/.path", "../more.cfg", "more.cfg"),
        ("core.fsmonitor", "tools/watch", "tools/watch"),
        ("filter.x.clean", "tools/clean.sh %f", "tools/clean.sh"),
        ("alias.x", "!tools/clean.sh", "tools/clean.sh"),
        ("core.sshCommand", "'./tools/watch' -x", "tools/watch"),
    ],
)
def test_what_is_obeyed(repository: Path, name: str, value: str, path: str) -> None:
    configure(repository, (name, value))
    home = str(repository.parent / "home")
    assert obeyed_paths(f"{repository}/.git", home) == {str((repository / path).resolve())}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("core.hooksPath", "."),
        ("core.hooksPath", ".git"),
        ("core.fsmonitor", "true"),
        ("core.editor", "vim"),
        ("filter.lfs.clean", "git-lfs clean -- %f"),
        ("core.fsmonitor", "tools/absent"),
        ("branch.main.description", "tools/watch"),
        ("alias.x", "!unbalanced 'quote"),
    ],
)
def test_what_is_not(repository: Path, name: str, value: str) -> None:
    configure(repository, (name, value))
    assert obeyed_paths(f"{repository}/.git") == set()


def test_included_files_are_followed_once(repository: Path) -> None:
    configure(repository, ("include.path", "../a.cfg"))
    configure(repository, ("include.path", "b.cfg"), ("core.hooksPath", "h"), file="a.cfg")
    configure(repository, ("include.path", "a.cfg"), file="b.cfg")
    found = {str(repository / name) for name in ("a.cfg", "b.cfg", "h")}
    assert obeyed_paths(f"{repository}/.git") == found


def test_what_cannot_be_read_names_nothing(repository: Path) -> None:
    (repository / ".git/config").write_bytes(b"[core\n\x00")
    assert obeyed_paths(f"{repository}/.git") == set()
    assert obeyed_paths(f"{repository}/nowhere") == set()


def test_bare_repository(tmp_path: Path) -> None:
    bare = tmp_path.resolve() / "bare.git"
    subprocess.run(("git", "init", "-q", "--bare", str(bare)), check=True)
    configure(bare, ("core.hooksPath", "h"), file="config")
    assert obeyed_paths(str(bare)) == {f"{bare}/h"}
