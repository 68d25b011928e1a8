"""The copy of the user's git configuration."""

import os
import subprocess
import tracemalloc
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from sandbox.git import settings as gitconfig
from sandbox.git.settings import (
    SETTINGS_LIMIT,
    Setting,
    git_config_text,
    is_kept,
    parse_listing,
    read_user_settings,
)


@pytest.mark.parametrize(
    ("name", "value", "kept"),
    [
        ("user.name", "A U Thor", True),
        ("user.email", "a@example.test", True),
        ("core.autocrlf", "input", True),
        ("init.defaultbranch", "main", True),
        ("pull.rebase", None, True),
        ("color.diff.meta", "yellow bold", True),
        ("branch.main.remote", "origin", True),
        ("safe.directory", "/srv/repo", True),
        ("protocol.version", "2", True),
        ("alias.co", "checkout", True),
        ("alias.evil", "!sh -c evil", False),
        ("alias.evil", "  !sh", False),
        ("submodule.x.update", "!evil", False),
        ("credential.helper", "store", False),
        ("credential.https://git.test.username", "me", False),
        ("http.proxy", "http://p.test", False),
        ("http.https://git.test/.extraheader", "Authorization: x", False),
        ("url.git@git.test:.insteadof", "https://git.test/", False),
        ("include.path", "~/more", False),
        ("includeif.gitdir:~/work/.path", "~/work.inc", False),
        ("core.sshcommand", "ssh -i key", False),
        ("core.hookspath", "/hooks", False),
        ("core.fsmonitor", "/bin/watch", False),
        ("core.editor", "vim", False),
        ("core.pager", "delta", False),
        ("core.askpass", "/bin/ask", False),
        ("diff.external", "/bin/diff", False),
        ("diff.bin.textconv", "xxd", False),
        ("diff.bin.command", "xxd", False),
        ("merge.ours.driver", "true", False),
        ("filter.lfs.clean", "git-lfs clean", False),
        ("filter.lfs.required", "true", False),
        ("gpg.program", "gpg2", False),
        ("gpg.ssh.defaultkeycommand", "ssh-add -L", False),
        ("commit.gpgsign", "true", False),
        ("push.gpgsign", "if-asked", False),
        ("push.negotiate", "true", False),
        ("push.pushoption", "ci.skip", False),
        ("push.default", "current", True),
        ("sequence.editor", "x", False),
        ("pager.log", "less", False),
        ("remote.x.uploadpack", "/bin/x", False),
        ("remote.x.url", "https://me:word@git.test/x", False),
        ("sendemail.smtppass", "word", False),
        ("github.oauth-token", "word", False),
        ("protocol.ext.allow", "always", False),
        ("trailer.sign.cmd", "evil", False),
        ("hook.x.command", "evil", False),
        ("user.note", "ghp_" + "a" * 36, False),
        ("bad name.key", "x", False),
        ("section", "x", False),
    ],
)
def test_what_is_copied(name: str, value: str | None, kept: bool) -> None:
    assert is_kept(Setting(name, value)) is kept


def test_text_means_the_same_to_git(tmp_path: Path) -> None:
    settings = (
        Setting("user.name", 'A "quoted" # name; with \\ and\ttab\nand line '),
        Setting("user.email", ""),
        Setting("pull.rebase", None),
        Setting('branch.we"ird\\ [branch].remote', "origin"),
        Setting("user.name", "second"),
        Setting("core.pager", "evil"),
    )
    file = tmp_path / "config"
    file.write_text(git_config_text(settings))
    environment = {"PATH": "/usr/bin:/bin", "GIT_CONFIG_GLOBAL": str(file), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ("git", "config", "--show-scope", "--list", "-z")
    listed = subprocess.run(command, capture_output=True, check=True, env=environment, cwd="/")
    assert parse_listing(listed.stdout) == settings[:-1]


def test_nothing_to_copy_is_no_text() -> None:
    assert git_config_text([Setting("core.pager", "x")]) == ""


def test_user_settings_are_read_outside_any_repository(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/config").write_text("[user]\n\tname = xdg\n\temail = xdg@example.test\n")
    (home / ".gitconfig").write_text("[user]\n\tname = home\n[include]\n\tpath = more\n")
    (home / "more").write_text("[alias]\n\tst = status\n")
    environment = {
        "HOME": str(home), "PATH": "/usr/bin:/bin",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "injected",
    }  # fmt: skip
    found = read_user_settings(environment)
    names = [setting.value for setting in found if setting.name == "user.name"]
    assert names[-1] == "home"
    assert "injected" not in names
    assert Setting("user.email", "xdg@example.test") in found
    assert Setting("alias.st", "status") in found


def test_settings_for_this_worktree_alone(tmp_path: Path) -> None:
    worktree = tmp_path / "work"
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    subprocess.run(("git", "init", "-q", str(worktree)), check=True, env=environment)
    subprocess.run(("git", "config", "user.name", "its own"), check=True, env=environment, cwd=worktree)
    (tmp_path / ".gitconfig").write_text(f'[includeIf "gitdir:{worktree}/"]\n\tpath = {tmp_path}/for-work\n')
    (tmp_path / "for-work").write_text("[user]\n\temail = work@example.test\n")
    found = read_user_settings(environment, worktree=str(worktree))
    assert Setting("user.email", "work@example.test") in found
    assert "user.name" not in {setting.name for setting in found}
    (worktree / ".git/config").write_text("[broken")
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = mine\n")
    assert Setting("user.name", "mine") in read_user_settings(environment, worktree=str(worktree))


@pytest.mark.parametrize("content", ["[broken", "\0\0"])
def test_broken_user_file_is_no_settings(tmp_path: Path, content: str) -> None:
    (tmp_path / ".gitconfig").write_text(content)
    found = read_user_settings({"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert [setting for setting in found if setting.name.startswith("broken")] == []


def test_git_of_the_worktree_is_not_run(tmp_path: Path) -> None:
    planted = tmp_path / "bin/git"
    planted.parent.mkdir()
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    planted.chmod(0o755)
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    read_user_settings(environment, worktree=str(tmp_path))
    assert not (tmp_path / "ran").exists()
    assert (
        read_user_settings({"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin"}, worktree=str(tmp_path)) == ()
    )


def test_endless_listing_is_refused() -> None:
    with pytest.raises(GatewayError):
        parse_listing(b"global\0a.b\nc\0" * (SETTINGS_LIMIT // 4))


@pytest.mark.parametrize("where", ["configuration", "included"])
def test_repository_with_an_endless_configuration(tmp_path: Path, where: str) -> None:
    """What the repository's own files hold is not kept in memory, and does not keep a launch from starting."""
    worktree = tmp_path / "work"
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(("git", "init", "-q", str(worktree)), env=environment, check=True)
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = mine\n")
    long = worktree / (".git/config" if where == "configuration" else "long")
    if where == "included":
        (worktree / ".git/config").open("a").write("[include]\n\tpath = ../long\n")
    with long.open("a") as file:
        file.write("[a]\n" + f"\tb = {'c' * 1000}\n" * 40_000)
    tracemalloc.start()
    try:
        found = read_user_settings(environment, worktree=str(worktree))
        assert tracemalloc.get_traced_memory()[1] < 4 * SETTINGS_LIMIT
    finally:
        tracemalloc.stop()
    assert Setting("user.name", "mine") in found
    assert "a.b" not in {setting.name for setting in found}


def test_repository_whose_configuration_never_ends_to_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gitconfig, "WORKTREE_DEADLINE", 0.3)
    worktree = tmp_path / "work"
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    subprocess.run(("git", "init", "-q", str(worktree)), env=environment, check=True)
    (tmp_path / ".gitconfig").write_text("[user]\n\tname = mine\n")
    os.mkfifo(worktree / "pipe")
    (worktree / ".git/config").open("a").write("[include]\n\tpath = ../pipe\n")
    assert Setting("user.name", "mine") in read_user_settings(environment, worktree=str(worktree))


def test_users_own_endless_configuration_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[a]\n" + f"\tb = {'c' * 1000}\n" * 2000)
    with pytest.raises(GatewayError, match="longer than"):
        read_user_settings({"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}, worktree=str(tmp_path))
