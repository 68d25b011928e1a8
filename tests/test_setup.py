"""The set-up scripts on machines made up of a PATH with stand-ins for programs."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.source_tree import ROOT

# What the scripts themselves run.
TOOLS = ("sh", "sed", "tr", "dirname", "cat", "env", "printf", "id", "uname")
DEBIAN_12 = 'ID=debian\nVERSION_ID="12"\n'
DEBIAN_13 = 'ID=debian\nVERSION_ID="13"\n'
UBUNTU_24 = 'ID=ubuntu\nVERSION_ID="24.04"\nID_LIKE=debian\n'
UV_BY_PIPX = "pipx install uv && ~/.local/bin/uv python install 3.13"
FEDORA = "ID=fedora\nVERSION_ID=42\n"


@dataclass
class Machine:
    """A machine with nothing but what a test puts on it. Changes as the test fills it."""

    folder: Path
    os_release: str = DEBIAN_13
    variables: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.bin.mkdir()
        self.home.mkdir()
        for tool in TOOLS:
            where = shutil.which(tool)
            assert where, tool
            (self.bin / tool).symlink_to(where)
        self.program(self.bin / "id", "echo 1000")
        self.program(self.bin / "uname", "echo Linux")

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def program(self, path: Path, body: str) -> Path:
        """Puts a shell script at `path`."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    def python(self, path: Path) -> Path:
        """Puts a Python that serves at `path`."""
        return self.program(path, f'exec "{sys.executable}" "$@"')

    def run(self, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "os-release").write_text(self.os_release)
        environment = {
            "PATH": str(self.bin),
            "HOME": str(self.home),
            "OS_RELEASE": str(self.folder / "os-release"),
            **self.variables,
        }
        command = [str(self.bin / "sh"), str(ROOT / "setup" / script), *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def find_python(self) -> subprocess.CompletedProcess[str]:
        return self.run("find-python.sh")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


THIS = os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def found(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return os.path.realpath(result.stdout.strip())


SHIM = "echo 'pyenv: this version is not selected' >&2; exit 127"


@pytest.mark.parametrize("name", ["python3.14", "python3.13", "python3.12", "python3", "python"])
def test_finds_python_on_path(machine: Machine, name: str) -> None:
    machine.python(machine.bin / name)
    assert found(machine.find_python()) == THIS


@pytest.mark.parametrize(
    "place",
    [
        ".pyenv/versions/3.12.1/bin/python",
        ".pyenv/versions/3.13.0/bin/python",
        ".local/share/uv/python/cpython-3.12.7-linux-x86_64-gnu/bin/python3.12",
        ".local/share/uv/python/cpython-3.13-macos-aarch64-none/bin/python3.13",
    ],
)
def test_finds_python_that_is_not_on_path(machine: Machine, place: str) -> None:
    machine.python(machine.home / place)
    assert found(machine.find_python()) == THIS


def test_finds_python_where_the_variables_say(machine: Machine) -> None:
    machine.variables["PYENV_ROOT"] = str(machine.folder / "with a space")
    machine.python(machine.folder / "with a space" / "versions" / "3.12.1" / "bin" / "python")
    assert found(machine.find_python()) == THIS


@pytest.mark.parametrize(
    "broken",
    [SHIM, "exit 0", "echo nonsense", "echo 'bare 3.13'", "echo 'old 3.11'", "echo 'odd 3.12 (pypy)'"],
    ids=["shim", "silent", "nonsense", "bare", "old", "odd"],
)
def test_believes_no_candidate_unseen(machine: Machine, broken: str) -> None:
    """One that does not serve is passed over: on PATH before the good one, and in another place than it."""
    shims = machine.folder / "shims"
    for name in ("python3.13", "python3.12", "python3", "python"):
        machine.program(shims / name, broken)
    machine.variables["PATH"] = f"{shims}:{machine.bin}"
    machine.python(machine.bin / "python3.12")
    assert found(machine.find_python()) == THIS


def test_takes_the_named_python_or_none(machine: Machine) -> None:
    machine.python(machine.bin / "python3.13")
    machine.variables["PYTHON"] = str(machine.program(machine.folder / "mine", "echo 'old 3.9'"))
    result = machine.find_python()
    assert (result.returncode, result.stdout) == (1, "")
    assert "mine: 3.9 is too old" in result.stderr


@pytest.mark.parametrize(
    ("os_release", "programs", "command"),
    [
        (
            DEBIAN_12,
            ["apt-get"],
            "sudo apt-get install -y pipx && pipx install uv && ~/.local/bin/uv python install 3.13",
        ),
        (DEBIAN_12, ["apt-get", "uv", "pyenv"], "uv python install 3.13"),
        (DEBIAN_12, ["apt-get", "pyenv"], "pyenv install 3.13"),
        (DEBIAN_13, ["apt-get"], "sudo apt-get install -y python3 python3-venv"),
        (UBUNTU_24, ["apt-get"], "sudo apt-get install -y python3 python3-venv"),
        (FEDORA, ["dnf"], "sudo dnf install -y python3.12"),
        ("ID=arch\n", ["pacman"], "sudo pacman -S --needed python"),
    ],
    ids=["debian12", "debian12-uv", "debian12-pyenv", "debian13", "ubuntu24.04", "fedora", "arch"],
)
def test_names_the_command_that_brings_python(
    machine: Machine, os_release: str, programs: list[str], command: str
) -> None:
    machine.os_release = os_release
    for name in programs:
        machine.program(machine.bin / name, "exit 1")
    machine.program(machine.bin / "python3", "echo 'old 3.11'")
    result = machine.find_python()
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-1] == f"    {command}"
    assert f"{machine.bin}/python3: 3.11 is too old" in result.stderr


@pytest.mark.parametrize(("os_release", "version"), [(DEBIAN_13, "3.13"), (UBUNTU_24, "3.12")])
def test_names_the_missing_half_of_a_python(machine: Machine, os_release: str, version: str) -> None:
    machine.os_release = os_release
    machine.program(machine.bin / "apt-get", "exit 1")
    machine.program(machine.bin / "python3", f"echo 'bare {version}'")
    result = machine.find_python()
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1] == f"    sudo apt-get install -y python{version}-venv"


def test_names_homebrew_on_macos(machine: Machine) -> None:
    machine.program(machine.bin / "uname", "echo Darwin")
    assert machine.find_python().stderr.splitlines()[-1] == "    brew install python@3.13"


def packages(machine: Machine) -> subprocess.CompletedProcess[str]:
    return machine.run("system-packages.sh", "bwrap:bubblewrap", "socat:socat")


def apt_get(machine: Machine, *, stale: bool) -> Path:
    """Puts an apt-get that writes down its calls; a stale one knows no package before `update`."""
    log = machine.folder / "apt.log"
    fresh = machine.folder / "fresh"
    machine.program(
        machine.bin / "apt-get",
        f'echo "$*" >>"{log}"\ncase $1 in update) : >"{fresh}" ;; *) [ -e "{fresh}" ] ;; esac',
    )
    if not stale:
        fresh.touch()
    return log


def test_says_nothing_when_all_is_there(machine: Machine) -> None:
    machine.program(machine.bin / "bwrap", "exit 0")
    machine.program(machine.bin / "socat", "exit 0")
    result = packages(machine)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("apt-get", "sudo apt-get install -y bubblewrap socat"),
        ("dnf", "sudo dnf install -y bubblewrap socat"),
        ("pacman", "sudo pacman -S --needed bubblewrap socat"),
        ("zypper", "sudo zypper install -y bubblewrap socat"),
        ("apk", "sudo apk add bubblewrap socat"),
    ],
)
def test_prints_the_command_for_an_ordinary_user(machine: Machine, manager: str, command: str) -> None:
    machine.program(machine.bin / manager, "exit 1")
    result = packages(machine)
    assert result.returncode == 0
    assert result.stderr.splitlines()[-1] == f"    {command}"


@pytest.mark.parametrize(("stale", "calls"), [(False, ["install"]), (True, ["install", "update", "install"])])
def test_root_installs_what_is_missing(machine: Machine, stale: bool, calls: list[str]) -> None:
    log = apt_get(machine, stale=stale)
    machine.program(machine.bin / "id", "echo 0")
    machine.program(machine.bin / "socat", "exit 0")
    result = packages(machine)
    assert result.returncode == 0
    lines = log.read_text().splitlines()
    assert [line.split()[0] for line in lines] == calls
    assert lines[-1].endswith(" bubblewrap")


def test_macos_needs_no_system_package(machine: Machine) -> None:
    machine.program(machine.bin / "uname", "echo Darwin")
    result = packages(machine)
    assert (result.returncode, result.stderr) == (0, "")
