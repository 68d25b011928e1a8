"""The probe, where it works and where something real is in the way: as root and as an ordinary user."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from sandbox.probing.host_files import Host
from sandbox.probing.obstacles import Step
from sandbox.probing.trial import (
    NOTE,
    find_bubblewrap,
    find_failure,
    find_program,
    probe_bubblewrap,
    probe_linux,
)
from tests.sandbox.hosts import DEBIAN, host_with
from tests.sandbox.wrapping import HERE, PATIENCE, PEOPLE, PYTHON, SOURCES, Place, as_ordinary

# Tells the failed step, and what the probe says of a host whose files lie below the argument.
LOOK = """
import json, sys
from sandbox.probing.host_files import Host
from sandbox.probing.trial import find_bubblewrap, find_failure, probe_linux
program = find_bubblewrap()
failure = find_failure(program)
probe = probe_linux(program, Host(sys.argv[1]))
print(json.dumps([failure.step.name if failure else "", failure.error if failure else 0,
                  probe.available, list(probe.requires_install), probe.hint]))
"""
Answer = tuple[str, int, bool, list[str], str]


def look(person: str, before: Sequence[str], host: str = "/") -> Answer:
    """What the probe finds in a process that `before` starts."""
    command = [*before, PYTHON, "-B", "-c", LOOK, host]
    done = subprocess.run(
        as_ordinary(command) if person == "ordinary" else command,
        capture_output=True, text=True, cwd=SOURCES, timeout=PATIENCE, check=False,
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    step, error, available, packages, hint = json.loads(done.stdout)
    return step, error, available, packages, hint


def limited(name: str) -> tuple[str, ...]:
    """In a user namespace with no further namespaces of this kind."""
    setting = f"echo 0 > /proc/sys/user/max_{name}_namespaces"
    return "unshare", "--user", "--map-root-user", "sh", "-c", f'{setting} && exec "$@"', "sh"


def refusing(what: str) -> tuple[str, ...]:
    """Under a filter that refuses the step."""
    return PYTHON, "-B", str(HERE / "refusing.py"), what


MASKED_PROC = (
    "unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
    'mount -t tmpfs none /proc/bus && exec "$@"', "sh",
)  # fmt: skip
IN_CHROOT = (
    "unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
    """mount -t tmpfs none /mnt && mkdir /mnt/tree && cd /mnt/tree || exit 1
    for entry in /*; do
        if [ -L "$entry" ]; then ln -s "$(readlink "$entry")" ".$entry"
        elif [ -d "$entry" ] && [ "$entry" != /mnt ]; then mkdir ".$entry" && mount --rbind "$entry" ".$entry"
        fi
    done
    exec chroot . "$@" """,
    "sh",
)  # fmt: skip


@pytest.mark.parametrize("person", PEOPLE)
@pytest.mark.parametrize(
    ("before", "step", "words"),
    [
        ((), "", ""),
        (limited("user"), "USER", "sysctl -w user.max_user_namespaces=16384"),
        (limited("mnt"), "MOUNT", "sysctl -w user.max_mnt_namespaces=16384"),
        (limited("pid"), "PROC", "sysctl -w user.max_pid_namespaces=16384"),
        (limited("net"), "NETWORK", "sysctl -w user.max_net_namespaces=16384"),
        (limited("ipc"), "NETWORK", "sysctl -w user.max_ipc_namespaces=16384"),
        (limited("uts"), "NETWORK", "sysctl -w user.max_uts_namespaces=16384"),
        (MASKED_PROC, "PROC", "mount /proc"),
        (IN_CHROOT, "USER", "in a chroot"),
        (refusing("none"), "", ""),
        (refusing("user"), "USER", "make a user namespace"),
        (refusing("mount"), "MOUNT", "set mounts up"),
        (refusing("filter"), "FILTER", "install a system-call filter"),
        (("setpriv", "--no-new-privs", "--bounding-set=-all,+setfcap"), "", ""),
    ],
    ids=(
        "plain", "no user", "no mnt", "no pid", "no net", "no ipc", "no uts", "masked proc", "chroot",
        "filter of others", "users refused", "mounts refused", "filters refused", "no privileges",
    ),
)  # fmt: skip
def test_failing_step_is_found(person: str, before: tuple[str, ...], step: str, words: str) -> None:
    found, _, available, packages, hint = look(person, before)
    assert (found, available, packages) == (step, step == "", [])
    assert words in hint
    assert "\n" not in hint


@pytest.mark.parametrize(
    ("before", "files", "words"),
    [
        (refusing("user"), {"/.dockerenv": ""}, "docker run"),
        (refusing("mount"), {"/run/.containerenv": ""}, "podman run"),
        (MASKED_PROC, {"/.dockerenv": ""}, "docker run --security-opt systempaths=unconfined"),
        (
            refusing("user"),
            {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"},
            "apparmor_parser",
        ),
        (refusing("user"), {"/proc/sys/kernel/unprivileged_userns_clone": "0\n"}, "userns_clone=1"),
    ],
)
def test_cure_follows_from_the_hosts_files(
    tmp_path: Path, before: tuple[str, ...], files: dict[str, str], words: str
) -> None:
    *_, available, _, hint = look(PEOPLE[0], before, host_with(tmp_path, files).root)
    assert not available
    assert words in hint


def test_root_without_capabilities() -> None:
    """What bubblewrap needs of root, and of nobody else."""
    found, _, available, *_ = look(PEOPLE[0], ("setpriv", "--no-new-privs", "--bounding-set=-all"))
    assert (found, available) == (("MOUNT", False) if os.geteuid() == 0 else ("", True))


def test_no_process_left() -> None:
    found, _, available, _, hint = look("ordinary", ("prlimit", "--nproc=1"))
    assert (found, available) == ("PROGRAM", False)
    assert "no further process can be started here" in hint


def test_inside_a_wrap(place: Place) -> None:
    """The product's own wrap forbids another one, and the probe says which it is."""
    done = place.run(
        PYTHON, "-B", "-c", LOOK, "/",
        bind_mounts=[[str(SOURCES / "sandbox"), True], [str(SOURCES / "gateway"), True]],
        _workdir=str(SOURCES), _set={"PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    step, _, available, _, hint = json.loads(done.stdout)
    assert (step, available) == ("USER", False)
    assert "already runs in a wrap of agent-gateway" in hint


# --- The program ----------------------------------------------------------------------------------


def test_missing_program_is_named_with_its_command(tmp_path: Path) -> None:
    probe = probe_linux("", host_with(tmp_path, {"/etc/os-release": DEBIAN, "/usr/bin/sudo*": ""}))
    assert (probe.available, probe.requires_install) == (False, ("bubblewrap",))
    assert probe.hint == "bubblewrap is not installed: sudo apt-get install bubblewrap"


@pytest.mark.parametrize(
    ("text", "mode", "step", "words"),
    [
        ("#!/bin/sh\nexit 3\n", 0o755, Step.PROGRAM, "cannot run here (exit status 3)"),
        ("#!/bin/sh\necho first >&2; echo second >&2; exit 1\n", 0o755, Step.PROGRAM, "cannot run here (first)"),
        ("#!/nowhere/sh\n", 0o755, Step.PROGRAM, "No such file or directory"),
        ("#!/bin/sh\n", 0o644, Step.PROGRAM, "Permission denied"),
        # What bubblewrap 0.4 does with an option of 0.5.
        ('#!/bin/sh\ncase "$*" in *--perms*) echo "Unknown option --perms" >&2; exit 1;; esac\nexec BWRAP "$@"\n',
         0o755, Step.OPTIONS, "is too old, version 0.5.0 or later is needed: apt-get install bubblewrap"),
    ],
    ids=("status", "words", "interpreter", "mode", "old"),
)  # fmt: skip
def test_program_that_does_not_work(tmp_path: Path, text: str, mode: int, step: Step, words: str) -> None:
    program = tmp_path / "bwrap"
    program.write_text(text.replace("BWRAP", find_bubblewrap()))
    program.chmod(mode)
    failure = find_failure(str(program))
    assert failure is not None and failure.step is step
    probe = probe_linux(
        str(program), host_with(tmp_path / "host", {"/etc/os-release": DEBIAN}, administrator=True)
    )
    assert (probe.available, probe.requires_install, probe.note) == (False, (), "")
    assert words in probe.hint


@pytest.mark.parametrize(
    ("text", "is_unsure"),
    [
        ("kill -KILL $$", True),
        ("kill -TERM $$", True),
        ("exec sleep 1000", True),
        ("kill -SYS $$", False),
        ("exit 1", False),
    ],
)
def test_no_answer_is_no_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, is_unsure: bool
) -> None:
    """What others ended, or what takes too long, says nothing about the host."""
    monkeypatch.setattr("sandbox.probing.trial.TRIAL_DEADLINE", 0.5)
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    probe = probe_linux(str(program), host_with(tmp_path / "host", {}))
    assert (probe.available, probe.is_unsure) == (False, is_unsure)


def test_no_room_is_no_refusal() -> None:
    """As an ordinary user, who may start no further process."""
    look = LOOK.replace("probe.available", "probe.is_unsure")
    command = ["prlimit", "--nproc=1", PYTHON, "-B", "-c", look, "/"]
    done = subprocess.run(
        as_ordinary(command), capture_output=True, text=True, cwd=SOURCES, timeout=PATIENCE, check=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    assert json.loads(done.stdout)[:3] == ["PROGRAM", 11, True]


def test_system_program_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "true"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert find_program("true") in ("/usr/bin/true", "/bin/true")


@pytest.mark.parametrize(
    ("folder", "mode", "counts"), [(0o755, 0o755, True), (0o777, 0o755, False), (0o755, 0o775, False)]
)
def test_program_elsewhere_must_be_roots_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: int, mode: int, counts: bool
) -> None:
    own = tmp_path / "agent-gateway-test"
    own.write_text("#!/bin/sh\n")
    own.chmod(mode)
    tmp_path.chmod(folder)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    expected = str(own) if counts and os.geteuid() == 0 else ""
    assert find_program("agent-gateway-test") == expected


def test_program_that_is_nowhere() -> None:
    assert find_program("agent-gateway-nothing") == ""


# --- The whole ------------------------------------------------------------------------------------


def test_here_it_works_and_is_tried_once() -> None:
    probe = probe_bubblewrap()
    assert (probe.available, probe.note, probe.requires_install, probe.hint) == (True, NOTE, (), "")
    assert probe_bubblewrap() is probe


def test_other_platforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    probe = probe_linux(find_bubblewrap(), Host())
    assert (probe.available, probe.requires_install) == (False, ())
    assert "not available on this platform" in probe.hint
