"""Where a run takes place: directories of the product, repositories that count, the shell of a person."""

import os
import pwd
import subprocess
from pathlib import Path

import pytest

from gateway.errors import GatewayError, UsageError
from gateway.places import (
    existing,
    is_repository,
    user_shell,
    workspace_folder,
)


def test_repository_of_somebody_else(tmp_path: Path) -> None:
    subprocess.run(("git", "init", "-q"), cwd=tmp_path, check=True)
    (tmp_path / "pointer").write_text("gitdir: elsewhere\n")
    for name in (".git", "pointer"):
        assert is_repository(str(tmp_path / name), {os.geteuid()})
        assert not is_repository(str(tmp_path / name), {os.geteuid() + 1})


def test_workspace_folder() -> None:
    state = Path("/state")
    assert str(workspace_folder(state, "team", "/a")) == "/state/workspaces/team"
    first, second = (workspace_folder(state, "default", root) for root in ("/a/repo", "/b/repo"))
    assert first != second
    assert {first.parent, second.parent} == {Path("/state/workspaces/default/worktrees")}


def test_existing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert existing("--x", str(tmp_path / "link")) == str(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="--x names no path"):
        existing("--x", "")
    with pytest.raises(GatewayError, match="no such directory"):
        existing("--x", str(tmp_path / "file"), directory=True)
    with pytest.raises(GatewayError, match="no such file or directory"):
        existing("--x", str(tmp_path / "absent"))


def test_shell_of_a_person(tmp_path: Path) -> None:
    (tmp_path / "text").touch()
    assert user_shell({"SHELL": "/bin/sh"}) == "/bin/sh"
    own = pwd.getpwuid(os.getuid()).pw_shell
    for useless in ("", "sh", "/nowhere/sh", str(tmp_path), str(tmp_path / "text")):
        assert user_shell({"SHELL": useless}) == own
