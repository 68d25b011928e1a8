"""Starts supervisor processes, and keeps one in reserve for a launcher that launches again and again.

Its interpreter and modules take longer to come up than bubblewrap does. So whoever has launched once, and so may again,
finds the next one up and waiting. It waits for a while only, and never outlives the launcher.
"""

import marshal
import os
import resource
import socket
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import MAGIC_NUMBER
from typing import Final

from gateway.errors import GatewayError
from sandbox.confinement import explain_missing
from sandbox.handover import Child
from sandbox.supervisor import program

# Isolated, no site, no environment. Its bytecode is kept: compiling it each time would double a launch.
PYTHON_FLAGS = ("-I", "-S", "-E")
# Where the supervisor finds this package.
SOURCES = program.__file__.rsplit("/", 3)[0]
# Seconds that one waits: launches that belong together follow each other faster, and nobody wants it for nothing.
RESERVE: Final = 30.0
# Seconds for one that is sent home to be gone.
TEARDOWN_DEADLINE: Final = 10.0
# What a process is born with, and its own children after it, besides what is set for each.
_LIMITS: Final = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))


@dataclass(frozen=True, slots=True)
class Started:
    """A supervisor that waits for its orders at the other end of `channel`."""

    child: Child
    channel: socket.socket

    def close(self) -> None:
        """Sends it home."""
        self.channel.close()


@cache
def _program() -> bytes:
    """`program.py` as this interpreter has it compiled already; the supervisor runs on the same one."""
    get_code = getattr(program.__spec__.loader, "get_code")  # noqa: B009  # not in the protocol of loaders
    return MAGIC_NUMBER + bytes(12) + marshal.dumps(get_code(program.__name__))


def start(python: str, stderr: int | None, *, early: bool = False) -> Started:
    """Starts one. It complains to `stderr` until its orders name another; `early` has it import everything before."""
    try:
        compiled = os.memfd_create("supervisor", os.MFD_CLOEXEC)
    except OSError as error:
        raise GatewayError(*explain_missing("memfd_create", error.errno or 0)) from error
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.write(compiled, _program())
        argv = (python, *PYTHON_FLAGS, f"/proc/self/fd/{compiled}", str(theirs.fileno()), SOURCES)
        child = Child((*argv, *((program.EARLY,) if early else ())), (theirs.fileno(), compiled), stderr)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
        os.close(compiled)
    return Started(child, ours)


class Reserve:
    """At most one supervisor, for whoever comes next. Used from any thread.

    `inherited` says what a process would be born with now: one that was born with something else is of no use.
    """

    def __init__(self, seconds: float = RESERVE, inherited: Callable[[], object] | None = None) -> None:
        self._seconds = seconds
        self._inherited = inherited or what_is_inherited
        self._lock = threading.Lock()
        self._launches = 0
        self._kept: Started | None = None
        self._timer: threading.Timer | None = None
        self._born: tuple[str, object] | None = None
        os.register_at_fork(after_in_child=self._forget)

    def take(self, python: str) -> Started | None:
        """The one that waits, if it would be what a new one is."""
        with self._lock:
            self._launches += 1
            kept, self._kept = self._kept, None
            if self._timer is not None:
                self._timer.cancel()
            fits = self._born == (python, self._inherited())
        if kept is None:
            return None
        if fits and kept.child.returncode is None:
            return kept
        kept.close()
        return None

    def fill(self, python: str) -> None:
        """Starts the next one, unless one waits or nothing was launched but once. That it cannot be is no harm."""
        with self._lock:
            if self._kept is not None or self._launches < 2:
                return
            self._born = (python, self._inherited())
            try:
                self._kept = kept = start(python, subprocess.DEVNULL, early=True)
            except (OSError, GatewayError):  # the next launch says it
                return
            self._timer = threading.Timer(self._seconds, self._dismiss, (kept,))
            self._timer.daemon = True
            self._timer.start()

    def empty(self) -> None:
        """Sends home who waits, for a caller that has launched its last; nothing of it is left then."""
        with self._lock:
            kept, self._kept = self._kept, None
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            timer.join()
        if kept is not None:
            kept.close()
            kept.child.settle(TEARDOWN_DEADLINE)

    def _dismiss(self, kept: Started) -> None:
        """Sends it home if it still waits."""
        with self._lock:
            if self._kept is not kept:
                return
            self._kept = None
        kept.close()

    def _forget(self) -> None:
        """In a child of this process: the one that waits is the parent's."""
        self._lock = threading.Lock()
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()


def _root() -> tuple[int, int]:
    found = os.stat("/")
    return found.st_dev, found.st_ino


def what_is_inherited() -> object:
    """What this process would pass on: user, mask of file modes, filters, group, priority, limits, root."""
    with open("/proc/self/status", "rb") as status:
        lines = [
            line
            for line in status
            if line.startswith((b"Umask:", b"Uid:", b"Gid:", b"NoNewPrivs:", b"Seccomp"))
        ]
    limits = tuple(resource.getrlimit(limit) for limit in _LIMITS)
    return (*lines, os.getpgrp(), os.getsid(0), os.getpriority(os.PRIO_PROCESS, 0), limits, *_root())
