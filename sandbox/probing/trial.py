"""Whether bubblewrap works on this host, found by running it, and what to do where it does not. Linux and WSL2.

One run with everything a wrap uses decides. If it fails, smaller runs follow, each with one thing more; the first that
fails is the step to explain (`obstacles.py`). Exit statuses count, never what a program says.
"""

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from gateway.policy.wording import printable
from sandbox.layout import NAMESPACES
from sandbox.probing.host_files import Host
from sandbox.probing.obstacles import Failure, Step, explain
from sandbox.probing.probe import Probe
from sandbox.seccomp import build_filter
from sandbox.system_calls import ARCHITECTURES

# The distribution's own first: AppArmor profiles name it, and whatever else PATH holds may be the agent's.
SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/sbin", "/run/current-system/sw/bin")
NOTE = "bubblewrap: namespace isolation, no kernel boundary"
# Seconds for a trial run; one takes milliseconds, and a host on its knees some seconds.
TRIAL_DEADLINE = 20.0
# Of what a failed trial says; its first line is quoted.
SAID_LIMIT = 400

# What a host that has no room says: another time it has some. And signals by which others end a trial.
NO_ROOM = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
ENDED_BY_OTHERS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})

# Exits with the errno of unshare(2), or 0: the one step that can be tried without bubblewrap.
UNSHARE_USER = """
import os
try:
    os.unshare(os.CLONE_NEWUSER)
except OSError as error:
    os._exit(error.errno)
os._exit(0)
"""
# Each step's arguments; each run has those of the steps before as well.
STEPS: tuple[tuple[Step, tuple[str, ...]], ...] = (
    (Step.MOUNT, ("--unshare-user", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/tmp")),
    (Step.PROC, ("--unshare-pid", "--proc", "/proc")),
    (Step.NETWORK, ("--unshare-ipc", "--unshare-uts", "--unshare-net")),
)
MOUNTS = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--perms", "1777", "--tmpfs", "/tmp")
# The newest options that a launch uses; with --version after them they are read and nothing is done.
NEWEST_OPTIONS = ("--clearenv", "--perms", "1777", "--tmpfs", "/tmp")


def find_program(name: str) -> str:
    """The absolute path of a system's program; one elsewhere on PATH counts when only root could have put it there.
    Empty when there is none."""
    for folder in SYSTEM_FOLDERS:
        path = f"{folder}/{name}"
        if os.access(path, os.X_OK):
            return path
    found = shutil.which(name)
    if found is None:
        return ""
    real = os.path.realpath(found)
    places = [os.stat(real), os.stat(os.path.dirname(real))]
    safe = all(place.st_uid == 0 and not place.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for place in places)
    return real if safe else ""


def find_bubblewrap() -> str:
    """The absolute path of the system's bwrap; empty when there is none."""
    return find_program("bwrap")


def missing_programs(names: Sequence[str], host: Host) -> Probe:
    """What to say where programs are not there. `names` are those of their packages."""
    verb = "is" if len(names) == 1 else "are"
    hint = f"{' and '.join(names)} {verb} not installed: {host.install(*names)}"
    return Probe(False, requires_install=tuple(names), hint=hint)


@cache
def probe_bubblewrap() -> Probe:
    """Whether a wrap can be made here; tried once per process."""
    return probe_linux(find_bubblewrap(), Host(administrator=os.geteuid() == 0))


def probe_linux(program: str, host: Host) -> Probe:
    """The same for a bubblewrap at `program` (empty: none) on a host whose settings are read from `host`."""
    if not sys.platform.startswith("linux"):
        return Probe(False, hint="not available on this platform: bubblewrap works on Linux and WSL2 only")
    if not build_filter():
        return Probe(
            False,
            hint=f"there is no system-call filter for {os.uname().machine}; there is for {' and '.join(ARCHITECTURES)}",
        )
    if not program:
        return missing_programs(("bubblewrap",), host)
    failure = find_failure(program)
    if failure is None:
        return Probe(True, NOTE)
    return Probe(False, hint=explain(failure, host), is_unsure=failure.is_unsure)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A trial that failed: its exit status, or the errno where it could not be started; the first line of what it said;
    whether that is no answer, since there was no room or no time for one."""

    status: int
    said: str
    is_unsure: bool = False


def find_failure(program: str) -> Failure | None:
    """The first step that fails; None when a wrap can be made."""
    filtering = build_filter()
    whole = _try_wrap(program, (*NAMESPACES, *MOUNTS), filtering)
    if whole is None:
        return None
    for step, command in ((Step.PROGRAM, ()), (Step.OPTIONS, NEWEST_OPTIONS)):
        refused = _try((program, *command, "--version"))
        if refused is not None:
            return Failure(step, program, refused.status, refused.said, refused.is_unsure)
    refused = _try((sys.executable, "-I", "-S", "-E", "-B", "-c", UNSHARE_USER))
    if refused is not None:
        return Failure(Step.USER, program, refused.status, whole.said, refused.is_unsure)
    arguments: tuple[str, ...] = ()
    for step, more in STEPS:
        arguments += more
        refused = _try_wrap(program, arguments)
        if refused is not None:
            return Failure(step, program, 0, refused.said, refused.is_unsure)
    refused = _try_wrap(program, arguments, filtering)
    if refused is not None:
        return Failure(Step.FILTER, program, 0, refused.said, refused.is_unsure)
    # Every part works: what failed was that one run (killed for want of memory, say), unless it fails again.
    whole = _try_wrap(program, (*NAMESPACES, *MOUNTS), filtering)
    if whole is None:
        return None
    return Failure(Step.WHOLE, program, 0, whole.said, whole.is_unsure)


def _try_wrap(program: str, arguments: tuple[str, ...], filtering: bytes = b"") -> _Refusal | None:
    """A run of bubblewrap that wraps its own `--version`, the one command sure to be inside."""
    command = ("--", os.path.realpath(program), "--version")
    if not filtering:
        return _try((program, *arguments, *command))
    descriptor = os.memfd_create("agent-gateway-filter", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, filtering)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return _try((program, *arguments, "--seccomp", str(descriptor), *command), descriptor)
    finally:
        os.close(descriptor)


def _try(command: Sequence[str], *passed: int) -> _Refusal | None:
    """None when the command exits with 0."""
    try:
        done = subprocess.run(
            command,
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TRIAL_DEADLINE,
            check=False,
            pass_fds=passed,
        )
    except OSError as error:
        return _Refusal(error.errno or 0, os.strerror(error.errno or 0), error.errno in NO_ROOM)
    except subprocess.TimeoutExpired:
        return _Refusal(0, f"no end within {TRIAL_DEADLINE:.0f} seconds", True)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr[:SAID_LIMIT].decode(errors="replace").splitlines() if line.strip()]
    said = printable(lines[0]) if lines else f"exit status {done.returncode}"
    return _Refusal(done.returncode, said, -done.returncode in ENDED_BY_OTHERS)
