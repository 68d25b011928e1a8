"""The launcher starts where Linux's own calls are missing: in a process from which they were taken away."""

import subprocess
import sys
from pathlib import Path

from tests.sandbox.wrapping import PATIENCE, place_of

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "tests/fakes/sandbox_exec.py"

# What macOS's Python does not have (the Availability lines of the library's documentation), and what an import of the
# standard library itself needs beforehand.
WITHOUT = """
import ctypes, fcntl, fnmatch, os, select, signal, socket, subprocess, sys, tempfile, termios, threading
sys.platform = "darwin"
for module, beginnings in (
    (os, ("O_PATH", "O_TMPFILE", "pidfd_", "P_PIDFD", "memfd_", "MFD_", "unshare", "setns", "CLONE_", "eventfd", "EFD_",
          "splice", "SPLICE_", "sched_", "SCHED_", "getrandom", "GRND_", "prlimit", "copy_file_range", "setresuid",
          "getresuid", "posix_fadvise", "fdatasync", "pipe2", "SCHED", "waitid", "getxattr", "setxattr", "listxattr")),
    (signal, ("pidfd_", "sigtimedwait", "sigwaitinfo", "SIGRTMIN", "SIGRTMAX", "SIGPWR", "SIGSTKFLT", "SIGPOLL")),
    (socket, ("SO_PASSCRED", "SO_PEERCRED", "SCM_CREDENTIALS", "MSG_CMSG_CLOEXEC", "SOCK_CLOEXEC", "SOCK_NONBLOCK",
              "AF_NETLINK", "AF_VSOCK", "AF_PACKET", "AF_ALG", "SO_DOMAIN", "SO_PROTOCOL")),
    (select, ("epoll", "EPOLL")),
):
    for name in [name for name in dir(module) if name.startswith(beginnings)]:
        delattr(module, name)
assert not hasattr(os, "O_PATH") and not hasattr(signal, "pidfd_send_signal")
sys.path.insert(0, sys.argv[1])
"""

IMPORTS = """
import pkgutil, sandbox
# The supervisor is a program of Linux: of it only what the launcher itself imports.
for found in pkgutil.walk_packages(sandbox.__path__, "sandbox."):
    if not found.name.startswith("sandbox.supervisor."):
        __import__(found.name)
from sandbox.backends import BACKENDS
from sandbox.backends.seatbelt import Seatbelt
from sandbox.launch import from_name
assert isinstance(BACKENDS[0], Seatbelt)
assert [backend.name for backend in BACKENDS] == ["native", "microvm", "none"]
assert from_name("docker") is BACKENDS[0] and from_name(None) is BACKENDS[2]
"""

LAUNCHES = """
from sandbox.backends.base import Command
from sandbox.backends.none import Unwrapped
from sandbox.backends.seatbelt import Seatbelt
from sandbox.events import Exit, Stdout
from sandbox.spec import SandboxBindMount, SandboxSpec
program, work, state, home = sys.argv[2:]
spec = SandboxSpec("s", "w", "", (SandboxBindMount(work, work),), home=os.path.join(state, "workspaces/w/home"),
    state_dir=state, user_home=home, search_path="/usr/bin:/bin", git_config="[user]\\n\\tname = x\\n")
for backend in (Seatbelt("darwin", program, ("/bin/sh", "-c", "exit 64")), Unwrapped()):
    running = backend.launch(spec)
    execution = backend.exec(running, Command(("sh", "-c", "echo $0; exit 3"), {"PATH": running.inside.path}))
    events = list(execution)
    assert events[-1] == Exit(3), events
    assert Stdout(b"sh\\n") in events, events
    backend.destroy(running)
    assert not os.path.exists(running.inside.git_config)
"""


def run(script: str, *words: str) -> None:
    done = subprocess.run(
        (sys.executable, "-c", WITHOUT + script, str(ROOT), *words),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr


def test_everything_is_imported() -> None:
    run(IMPORTS)


def test_wraps_on_the_host_work() -> None:
    with place_of("root") as place:
        program = place.root / "sandbox-exec"
        program.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
        program.chmod(0o755)
        run(LAUNCHES, str(program), str(place.worktree), str(place.state), str(place.home))
