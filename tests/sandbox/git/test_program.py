"""The host's git, or what stands in its place: found where it should be, and bounded."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from sandbox.git.program import find_git, git_output
from tests.sandbox.processes import many_descriptors

PATH = {"PATH": "/usr/bin:/bin"}
LONG = 60.0


def output(script: str, seconds: float = LONG, limit: int = 1 << 20, **more: Any) -> bytes | None:
    """What a shell script in the place of git gives."""
    return git_output(("/bin/sh", "-c", script), PATH, "/", seconds, limit=limit, **more)


@pytest.mark.parametrize(
    ("script", "more", "given"),
    [
        ("printf 'a\\0b'", {}, b"a\0b"),
        ("true", {}, b""),
        ("printf a; exit 1", {}, None),
        ("printf a; exit 1", {"accepted": (0, 1)}, b"a"),
        ("printf a; exit 2", {"accepted": (0, 1)}, None),
        ("printf a; kill -9 $$", {}, None),
        ("printf 'aXYb'", {"stop": b"XY"}, b"aXY"),
        ("printf 'aX'; printf 'Yb'; exec sleep 1000", {"stop": b"XY"}, b"aXY"),
        ("printf 'aXYb'; exit 3", {"stop": b"XY"}, b"aXY"),
        ("pwd; echo $HOME", {}, b"/\n\n"),
        ("cat", {}, b""),
    ],
)
def test_what_is_given(script: str, more: dict[str, Any], given: bytes | None) -> None:
    assert output(script, **more) == given


def test_no_program() -> None:
    assert git_output(("/no/such/program",), PATH, "/", LONG, limit=1) is None
    assert git_output(("/bin/true",), PATH, "/no/such/folder", LONG, limit=1) is None


def test_endless_output_is_cut() -> None:
    found = output("exec cat /dev/zero", limit=1 << 20)
    assert found is not None
    assert 1 << 20 < len(found) < 2 << 20


@pytest.mark.parametrize("script", ["exec sleep 1000", "exec >&-; exec sleep 1000"])
def test_end_is_not_waited_for_longer_than_told(script: str) -> None:
    assert output(script, seconds=0.2) is None


def test_stdin_is_the_source() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"told")
        file.seek(0)
        assert output("cat", source=file.fileno()) == b"told"


def test_descriptors_beyond_the_first_thousand() -> None:
    with many_descriptors():
        assert output("echo here") == b"here\n"
        assert output("exec sleep 1000", seconds=0.2) is None


def test_git_of_the_worktree_is_none(tmp_path: Path) -> None:
    planted = tmp_path / "tree/bin/git"
    planted.parent.mkdir(parents=True)
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    (tmp_path / "link").symlink_to(tmp_path / "tree/bin")
    for folder in (f"{tmp_path}/tree/bin", f"{tmp_path}/link"):
        assert find_git({"PATH": folder}, str(tmp_path / "tree")) == ""
        assert find_git({"PATH": folder}) == f"{folder}/git"
    real = find_git({"PATH": f"{tmp_path}/link:/usr/bin:/bin"}, str(tmp_path / "tree"))
    assert subprocess.run((real, "--version"), capture_output=True, check=True).stdout.startswith(b"git ")
    assert find_git({}) == find_git({"PATH": ""}) == ""
