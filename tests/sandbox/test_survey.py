"""Programs installed in a home directory run inside, and nothing else of the home is shown for it."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from sandbox.survey import Survey
from tests.sandbox.wrapping import Place


def interpreter(path: Path) -> None:
    """A program that interprets scripts: the system's shell under another name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy("/bin/sh", path)
    path.chmod(0o755)


def link(path: Path, target: str | Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def install_pyenv(place: Place) -> list[str]:
    """Shims are shell scripts that know the root by heart; a version has its programs and their library."""
    root = place.home / ".pyenv"
    interpreter(root / "versions/3.1/bin/python3.1")
    link(root / "versions/3.1/bin/python", "python3.1")
    place.write(root / "versions/3.1/lib/python3.1/word", "pyenv\n")
    script = f"#!{root}/versions/3.1/bin/python\ncat {root}/versions/3.1/lib/python3.1/word\n"
    place.write(root / "versions/3.1/bin/tool", script, 0o755)
    place.write(root / "libexec/pyenv", f'#!/bin/sh\nshift; exec "{root}/versions/3.1/bin/$1"\n', 0o755)
    place.write(
        root / "shims/tool", f'#!/usr/bin/env sh\nexec "{root}/libexec/pyenv" exec "${{0##*/}}"\n', 0o755
    )
    return [str(root / "shims")]


def install_nvm(place: Place) -> list[str]:
    """The program is a link into lib/node_modules, its interpreter is looked up on PATH."""
    prefix = place.home / ".nvm/versions/node/v1"
    interpreter(prefix / "bin/node")
    place.write(prefix / "lib/node_modules/@scope/tool/word", "nvm\n")
    script = '#!/usr/bin/env node\ncat "$(dirname "$(readlink -f "$0")")/word"\n'
    place.write(prefix / "lib/node_modules/@scope/tool/cli.js", script, 0o755)
    link(prefix / "bin/tool", "../lib/node_modules/@scope/tool/cli.js")
    return [str(prefix / "bin")]


def install_uv(place: Place) -> list[str]:
    """A link in ~/.local/bin to a virtual environment on a standalone Python."""
    base = place.home / ".local/share/uv/python/cpython-3.1"
    interpreter(base / "bin/python3.1")
    place.write(base / "lib/python3.1/word", "uv\n")
    tool = place.home / ".local/share/uv/tools/tool"
    link(tool / "bin/python", base / "bin/python3.1")
    place.write(tool / "pyvenv.cfg", f"home = {base}/bin\nuv = 1\n")
    place.write(tool / "bin/tool", f"#!{tool}/bin/python\ncat {base}/lib/python3.1/word\n", 0o755)
    link(place.home / ".local/bin/tool", tool / "bin/tool")
    return [str(place.home / ".local/bin")]


def install_single_file(place: Place) -> list[str]:
    """A link in ~/.local/bin to one file among its versions."""
    place.write(place.home / ".local/share/tool/versions/1.0", "#!/bin/sh\necho single\n", 0o755)
    link(place.home / ".local/bin/tool", "../share/tool/versions/1.0")
    return [str(place.home / ".local/bin")]


def install_cargo(place: Place) -> list[str]:
    """Programs that are links to rustup, which finds its toolchains through RUSTUP_HOME; a login lies beside them."""
    place.write(place.home / ".rustup/word", "cargo\n")
    script = '#!/bin/sh\ncat "$RUSTUP_HOME/word" "$(dirname "$0")/../credentials.toml" 2>/dev/null; true\n'
    place.write(place.home / ".cargo/bin/rustup", script, 0o755)
    link(place.home / ".cargo/bin/tool", "rustup")
    place.write(place.home / ".cargo/credentials.toml", "the login\n")
    return [str(place.home / ".cargo/bin")]


def install_script(place: Place) -> list[str]:
    """A file of one's own in ~/bin."""
    place.write(place.home / "bin/tool", "#!/bin/sh\necho script\n", 0o755)
    return [str(place.home / "bin")]


def install_linked_home(place: Place) -> list[str]:
    """The version manager's folder is a link to another disk."""
    prefix = place.root / "disk/nvm/v1"
    place.write(prefix / "bin/tool", "#!/bin/sh\necho linked\n", 0o755)
    link(place.home / ".nvm", place.root / "disk/nvm")
    return [str(place.home / ".nvm/v1/bin")]


INSTALLATIONS = (
    (install_pyenv, "pyenv"),
    (install_nvm, "nvm"),
    (install_uv, "uv"),
    (install_single_file, "single"),
    (install_cargo, "cargo"),
    (install_script, "script"),
    (install_linked_home, "linked"),
)


@pytest.mark.parametrize(("install", "word"), INSTALLATIONS)
def test_installed_program_runs(place: Place, install, word: str) -> None:  # type: ignore[no-untyped-def]  # a table of functions
    """As CMD, and from a shell that is CMD; the home's other files are not there."""
    place.write(place.home / "notes", "private")
    place.write(place.home / ".local/share/other/file", "private")
    folders = install(place)
    place.environment["PATH"] = ":".join((*folders, "/usr/bin", "/bin"))
    for done in (place.run("tool"), place.sh("tool")):
        assert (done.returncode, done.stdout, done.stderr) == (0, f"{word}\n", "")
    done = place.sh(
        f"cat {place.home}/notes {place.home}/.local/share/other/file {place.home}/.ssh/id_ed25519; true"
    )
    assert done.stdout == ""
    script = "tool=$(command -v tool); touch $tool || rm -f $tool; ls $tool"
    assert place.sh(script + " 2>/dev/null").stdout.strip() == f"{folders[0]}/tool"


def test_virtual_environment_in_the_worktree(place: Place) -> None:
    folders = install_pyenv(place)
    base = place.home / ".pyenv/versions/3.1/bin"
    link(place.worktree / ".venv/bin/python", base / "python3.1")
    place.write(place.worktree / ".venv/pyvenv.cfg", f"home = {base}\n")
    script = f"#!{place.worktree}/.venv/bin/python\necho venv\n"
    place.write(place.worktree / ".venv/bin/tool", script, 0o755)
    assert place.run(".venv/bin/tool").stdout == "venv\n"
    place.environment["PATH"] = f"{place.worktree}/.venv/bin:/usr/bin:/bin"
    assert place.run("tool").stdout == "venv\n"
    assert folders


def test_what_the_worktree_points_to_is_not_shown(place: Place) -> None:
    """An earlier session leaves links, first lines and settings that name a private directory."""
    private = place.home / "clients/bin"
    place.write(private / "tool", "#!/bin/sh\ncat ../secret\n", 0o755)
    place.write(place.home / "clients/release", "")
    place.write(place.home / "clients/secret", "private")
    link(place.worktree / "bin/one", private / "tool")
    place.write(place.worktree / "bin/two", f"#!{private}/tool\n", 0o755)
    place.write(place.worktree / "pyvenv.cfg", f"home = {private}\n")
    place.write(private / "python3", "", 0o755)
    link(place.worktree / "bin/deep", place.home / "clients")
    place.environment["PATH"] = f"{place.worktree}/bin:{place.worktree}/bin/deep/bin:/usr/bin:/bin"
    for command in ("one", "two", "./bin/one", "./bin/two", "./bin/deep/bin/tool"):
        assert place.run(command).returncode in (126, 127)
    done = place.sh(f"cat {place.home}/clients/secret {private}/tool; true")
    assert done.stdout == ""


PLANTED: dict[str, Callable[[Place, Path], object]] = {
    # how the worktree leads to it
    "a link": lambda place, tool: link(place.worktree / ".venv/bin/zz", tool),
    "a first line": lambda place, tool: place.write(place.worktree / ".venv/bin/zz", f"#!{tool}\n", 0o755),
    "a settings file": lambda place, tool: place.write(
        place.worktree / ".venv/pyvenv.cfg", f"home = {tool.parent}\n"
    ),
    "a folder": lambda place, tool: link(place.worktree / ".venv/bin/deep", tool.parent.parent),
}


@pytest.mark.parametrize("way", PLANTED)
@pytest.mark.parametrize("mark", ["pyvenv.cfg", "lib/python3.13/os.py", "lib/node_modules/x/package.json"])
def test_another_project_is_not_shown(place: Place, way: str, mark: str) -> None:
    """People make virtual environments in the midst of a project, and repositories of anything."""
    project = place.home / "project"
    for name in ("notes", "src/secret", "docs/plan", mark):
        place.write(project / name, "private\n")
    if mark == "pyvenv.cfg":
        place.write(project / mark, f"home = {project}/bin\n")
    is_toolchain = mark.startswith("lib/node_modules")
    if is_toolchain:
        place.write(project / ".git/config", "private\n")
    for name in ("python3", "t"):
        place.write(project / "bin" / name, "#!/bin/sh\n", 0o755)
    place.write(place.worktree / ".venv/bin/other", "", 0o755)
    PLANTED[way](place, project / "bin/t")
    place.environment["PATH"] = (
        f"{place.worktree}/.venv/bin:{place.worktree}/.venv/bin/deep/bin:/usr/bin:/bin"
    )
    done = place.sh(
        f"cd {project} 2>/dev/null && cat notes src/secret docs/plan .git/config; ls -A {project}"
    )
    assert "private" not in done.stdout
    assert set(done.stdout.split()) <= {"bin", "lib", "pyvenv.cfg"}
    assert not (is_toolchain and done.stdout)


def test_path_inside_holds_what_is_there(place: Place) -> None:
    folders = install_nvm(place)
    (place.home / "gone").mkdir()
    place.environment["PATH"] = ":".join((*folders, str(place.home), "relative", "", "/nowhere", "/usr/bin"))
    path = place.sh('echo "$PATH"').stdout.strip().split(":")
    assert path[:2] == [folders[0], "/usr/bin"]
    assert str(place.home) not in path


def test_endless_links_end(tmp_path: Path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        os.symlink(tmp_path / other, tmp_path / one)
    os.symlink(tmp_path / "folder/x", tmp_path / "folder")
    survey = Survey(
        "", f"{tmp_path}:{tmp_path}/folder", lambda path: False, lambda path: False, lambda path: False
    )
    survey.command(str(tmp_path / "a"), "/")
    survey.command(str(tmp_path / "folder/x"), "/")
    survey.search_folders()
    assert survey.tools.binds == []
