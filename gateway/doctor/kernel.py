"""Checks of the interpreter and of what the kernel offers. System calls that change nothing, and one small process."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from gateway.doctor.findings import Finding, failed, ok, warning
from gateway.doctor.place import Place
from gateway.session import FileRules
from sandbox import confine, confinement
from sandbox.probing.obstacles import Failure, Step, explain
from sandbox.probing.trial import TRIAL_DEADLINE, UNSHARE_USER
from sandbox.seccomp import build_filter

# As pyproject.toml says.
OLDEST_PYTHON: Final = (3, 12)
# linux/seccomp.h: the operation that says which actions there are, and the action that asks a supervisor.
_ACTION_AVAILABLE: Final = 2
_USER_NOTIFICATION: Final = 0x7FC00000
_SECCOMP: Final = {"x86_64": 317, "aarch64": 277}
_WEAKER: Final = (
    "file_rules: existing-only in the config does without, and protects only what exists at the start"
)


def look_at_python(place: Place, name: str) -> Iterator[Finding]:
    """The interpreter that runs this."""
    version = ".".join(map(str, place.python))
    if place.python[:2] < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        yield failed(
            name, f"Python {version} is too old", f"install Python {wanted} or newer, then make setup"
        )
    else:
        yield ok(name, f"Python {version} at {sys.executable}")


def look_at_namespaces(place: Place, name: str) -> Iterator[Finding]:
    """Whether this user may make a user namespace: tried in a process of its own."""
    command = (sys.executable, "-I", "-S", "-E", "-B", "-c", UNSHARE_USER)
    done = subprocess.run(
        command, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL_DEADLINE, check=False
    )
    if done.returncode == 0:
        most = place.host.read("/proc/sys/user/max_user_namespaces").strip()
        yield ok(name, f"can be made{f'; at most {most}' if most else ''}")
        return
    failure = Failure(Step.USER, place.find("bwrap") or "this process", done.returncode)
    reason, _, cure = explain(failure, place.host).partition(": ")
    yield failed(name, f"cannot be made ({os.strerror(done.returncode)}): {reason}", cure)


def look_at_landlock(place: Place, name: str) -> Iterator[Finding]:
    """The version of Landlock, which the wall of the file rules is built of."""
    try:
        version = confine.call(confine.CREATE_RULESET, 0, 0, confine.LANDLOCK_VERSION)
    except OSError as error:
        yield _without(place, name, confine.NO_LANDLOCK, error.errno or 0)
        return
    if version < confine.LANDLOCK_ABI:
        yield _without(place, name, confine.OLD_LANDLOCK, 0)
    else:
        yield ok(name, f"ABI {version}; {confine.LANDLOCK_ABI} or newer is needed")


def look_at_seccomp(place: Place, name: str) -> Iterator[Finding]:
    """System-call filters, and what the door of the file rules needs of them: a listener, and callers that wait for it
    through signals (Linux 5.19)."""
    machine = os.uname().machine
    if not build_filter() or machine not in _SECCOMP:
        yield failed(name, f"there is no system-call filter for {machine}", "use x86-64 or arm64")
        return
    number = _SECCOMP[machine]
    try:
        confine.call(number, _ACTION_AVAILABLE, 0, _USER_NOTIFICATION.to_bytes(4, sys.byteorder))
    except OSError as error:
        yield _without(place, name, confine.FILTER_REFUSED, error.errno or 0)
        return
    try:
        # No program: a kernel that knows the flags looks for it and says EFAULT, any other says EINVAL first.
        confine.call(number, confine.SECCOMP_SET_MODE_FILTER, confine.LISTENER | confine.WAIT_KILLABLE, 0)
    except OSError as error:
        if error.errno != errno.EFAULT:
            reason = confine.OLD_KERNEL if error.errno == errno.EINVAL else confine.FILTER_REFUSED
            yield _without(place, name, reason, error.errno or 0)
            return
    yield ok(name, f"filters, and listeners that wait through signals (kernel {os.uname().release})")


def _without(place: Place, name: str, reason: int, number: int) -> Finding:
    """What the file rules at creation time lack. Whoever has chosen the weaker ones loses nothing by it."""
    missing, remedy = confinement.REASONS[reason]
    error = f" ({errno.errorcode.get(number, str(number))})" if number else ""
    if place.config.file_rules is FileRules.EXISTING_ONLY:
        return warning(
            name, f"{missing}{error}; the config asks for existing-only file rules, which do without"
        )
    return failed(name, f"{missing}{error}", f"{remedy}; or {_WEAKER}" if remedy else _WEAKER)
