"""The part that every wrap has."""

import marshal
import os
import stat
from importlib.util import MAGIC_NUMBER
from itertools import pairwise
from pathlib import Path

import pytest

from sandbox.layout import (
    CONNECT,
    CREDENTIAL,
    GH_CONFIG,
    GIT_CONFIG,
    NAMESPACES,
    STUB,
    base_arguments,
    forge_arguments,
    own_files,
    system_folders,
)
from tests.sandbox.wrapping import SOURCES


def test_links_of_the_root_stay_links() -> None:
    """Merged /usr is derived from what stands there, never assumed."""
    arguments = list(base_arguments())
    for path in system_folders():
        place = arguments.index(path)
        if os.path.islink(path):
            assert arguments[place - 2 : place] == ["--symlink", os.readlink(path)]
        else:
            assert arguments[place - 1 : place + 2] == ["--ro-bind", path, path]


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ("usr/", True),
        ("bin/", True),
        ("sbin -> usr/sbin", True),
        ("lib -> usr/lib", True),
        ("lib64/", True),
        ("libx32/", True),
        ("nix/", True),
        ("gnu/", True),
        # somebody's own, although it begins alike
        ("library/", False),
        ("libvirt-images/", False),
        ("users/", False),
        ("bin.old/", False),
        # a link shows nothing by itself, and others may lead through it
        ("home -> var/home", True),
        ("dangling -> missing", True),
        ("home/", False),
        ("root/", False),
        ("opt/", False),
        ("srv/", False),
        ("mnt/", False),
        ("boot/", False),
        ("swapfile", False),
        # the wrap has its own
        ("etc/", False),
        ("run/", False),
        ("var -> elsewhere", False),
        ("tmp -> elsewhere", False),
        ("proc/", False),
    ],
)
def test_entries_of_a_root(tmp_path: Path, entry: str, shown: bool) -> None:
    name, arrow, target = entry.partition(" -> ")
    path = tmp_path / name.rstrip("/")
    if arrow:
        path.symlink_to(target)
    elif name.endswith("/"):
        path.mkdir()
    else:
        path.touch()
    assert list(system_folders(str(tmp_path))) == ([str(path)] if shown else [])


def test_everything_that_can_be_separate_is() -> None:
    for kind in ("user", "pid", "net", "ipc", "uts"):
        assert f"--unshare-{kind}" in NAMESPACES
    assert {"--die-with-parent", "--clearenv", "--cap-drop"} <= set(NAMESPACES)
    assert NAMESPACES[NAMESPACES.index("--cap-drop") + 1] == "ALL"
    # Job control and Ctrl-C would not work with it, and the system-call filter makes it superfluous.
    assert "--new-session" not in NAMESPACES


def test_nothing_of_the_base_is_writable_but_temporary_files() -> None:
    arguments = list(base_arguments())
    assert "--bind" not in arguments
    assert "--dev-bind" not in arguments
    places = [arguments[place + 1] for place, word in enumerate(arguments) if word == "--tmpfs"]
    assert places == ["/tmp", "/var/tmp"]
    assert all(
        arguments[arguments.index(place) - 3 :][:3] == ["--perms", "1777", "--tmpfs"] for place in places
    )


def test_what_proc_lets_its_owner_write_is_covered() -> None:
    """Root inside is root outside to it: core_pattern runs programs on the host, sysrq-trigger ends it."""
    arguments = list(base_arguments())
    for entry in os.scandir("/proc"):
        mode = entry.stat(follow_symlinks=False).st_mode
        if entry.name.isdigit() or stat.S_ISLNK(mode):
            continue
        if stat.S_ISDIR(mode):
            assert ("--ro-bind", entry.path, entry.path) in zip(
                arguments, arguments[1:], arguments[2:], strict=False
            )
        elif mode & stat.S_IWUSR or not mode & stat.S_IROTH:
            assert ("/dev/null", entry.path) in pairwise(arguments), entry.path


def test_homes_and_services_are_not_system() -> None:
    for name in (
        "/home",
        "/root",
        "/run",
        "/var",
        "/etc",
        "/tmp",
        "/proc",
        "/sys",
        "/dev",
        "/srv",
        "/mnt",
        "/opt",
    ):
        assert name not in set(system_folders()) or os.path.islink(name)


@pytest.mark.parametrize("root", [True, False])
def test_kernel_settings_are_covered(root: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """From root; nobody else could do anything there."""
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    arguments = list(base_arguments())
    assert (("/proc/sys", "/proc/sys") in pairwise(arguments)) is root
    if root:
        assert arguments.index("--proc") < arguments.index("/proc/sys")
        assert arguments[arguments.index("/proc/sys") - 1] == "--ro-bind"
    else:
        assert not [argument for argument in arguments if argument.startswith("/proc/")]


def test_own_files() -> None:
    files = {file.path: file.content for file in own_files("/home/inside", "[user]\n\tname = \udcff\n")}
    assert files[STUB][:4] == MAGIC_NUMBER
    assert (marshal.loads(files[STUB][16:]).co_filename, STUB.endswith(".pyc")) == (STUB, True)
    assert files[CONNECT] == (SOURCES / "sandbox/connect.py").read_bytes()
    assert files[CREDENTIAL] == (SOURCES / "sandbox/credential.py").read_bytes()
    assert files[GIT_CONFIG] == b"[user]\n\tname = \xff\n"
    account = next(line for line in files["/etc/passwd"].decode().splitlines() if f":{os.getuid()}:" in line)
    assert account.split(":")[5] == "/home/inside"
    assert files["/etc/hosts"].startswith(b"127.0.0.1 localhost")
    assert b"nameserver" not in files["/etc/resolv.conf"]
    assert GIT_CONFIG not in {file.path for file in own_files("/home/inside", "")}


def test_directory_of_gh_is_its_own() -> None:
    assert list(forge_arguments()) == ["--perms", "0700", "--tmpfs", GH_CONFIG]
    assert GH_CONFIG not in {STUB, CONNECT, CREDENTIAL, GIT_CONFIG}
