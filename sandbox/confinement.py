"""The launcher's end of `confine.py`: what it is told to do inside the wrap, and what its verdict means.

Whatever is missing ends the launch: there is no weaker run that nobody asked for.
"""

import errno
import marshal
import os
import socket
from collections.abc import Mapping, Sequence
from functools import cache

from gateway.errors import GatewayError
from sandbox import confine

# What the supervisor has to have seen of the canary; of the wall only where a directory could be written.
WALL_REQUESTS = len(confine.MAKERS)
DOOR_REQUESTS = len(confine.MAKERS) + len(confine.MOVERS)
VERDICT_SIZE = 3
# 0 and 1 let a process look into those it has started (the kernel's documentation, admin-guide/LSM/Yama).
PTRACE_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
# Reasons behind which there may be a supervisor that cannot look into the wrapped process.
_BLIND = frozenset({confine.NOT_PERFORMED, confine.DOOR_OPEN, confine.NOT_TAKEN})

WAYS_OUT = (
    "or decide for less: `file_rules: existing-only` in the configuration protects only what exists at launch,"
    " `--sandbox off` nothing"
)
_KERNEL = "it takes Linux 5.19 or newer"
_LANDLOCK = f"{_KERNEL} with landlock among the security modules (lsm= on the kernel's command line)"
_FILTERED = "some outer filter (a container's seccomp profile, AppArmor) changes it: allow it there"

# Reason -> (what is missing, what to do about it)
REASONS: Mapping[int, tuple[str, str]] = {
    confine.ORDERS: ("the orders of the file rules did not arrive", ""),
    confine.PRIVILEGES: ("no_new_privs cannot be set", _FILTERED),
    confine.NO_LANDLOCK: ("this kernel has no Landlock", _LANDLOCK),
    confine.OLD_LANDLOCK: ("this kernel's Landlock cannot yet tell moving from making (ABI 2)", _KERNEL),
    confine.MOUNT: ("a private mount of the wrap cannot be told to Landlock", ""),
    confine.RESTRICT: (
        "Landlock takes no further domain",
        "it stacks 16 of them: run with fewer sandboxes around",
    ),
    confine.NESTED: (
        "some sandbox around this one listens to its system calls already, and the kernel allows one listener",
        "run outside of it",
    ),
    confine.OLD_KERNEL: ("this kernel cannot hold a notified system call through signals", _KERNEL),
    confine.FILTER_REFUSED: (
        "a system-call filter with a listener is refused here",
        "a container's seccomp profile or AppArmor forbids seccomp(2): allow it there",
    ),
    confine.HAND_OVER: ("the supervisor of the file rules did not take the listener", ""),
    confine.WALL_OPEN: ("Landlock does not hold: a file could be made past the file rules", _LANDLOCK),
    confine.DOOR_OPEN: ("a denied name was not refused as the file rules refuse", _FILTERED),
    confine.NOT_PERFORMED: (
        "the supervisor of the file rules could not open a file in place of the wrapped process",
        _FILTERED,
    ),
    confine.NOT_TAKEN: (
        "the supervisor of the file rules could not take over a socket of the wrapped process (pidfd_getfd)",
        _FILTERED,
    ),
    confine.NOT_FILTERED: ("a system call that has to be absent inside is there", _FILTERED),
}


def encode_orders(calls: bytes, private: Sequence[str], roots: Sequence[str], canary: str) -> bytes:
    """What the stub reads: `confine.py` itself, compiled (both ends run on the same interpreter), the filter, the
    canary's name, directories (any of them) that it may be tried in, the private mounts."""
    folders = b"\0".join(os.fsencode(root) for root in roots)
    fields = (_program(), calls, canary.encode("ascii"), folders, *(os.fsencode(path) for path in private))
    return b"".join(len(field).to_bytes(4, "big") + field for field in fields)


@cache
def _program() -> bytes:
    """`confine.py` as the interpreter has it compiled already."""
    get_code = getattr(confine.__spec__.loader, "get_code")  # noqa: B009  # not in the protocol of loaders
    return marshal.dumps(get_code(confine.__name__))


def take_verdict(channel: socket.socket, deadline: float) -> int:
    """Waits for the verdict of `confine.py`, at most `deadline` seconds. The number of `.wall` requests it made.
    GatewayError names what is missing; EOFError when the other end is gone, TimeoutError when it says nothing."""
    channel.settimeout(deadline)
    verdict = b""
    while len(verdict) < VERDICT_SIZE:
        part = channel.recv(VERDICT_SIZE - len(verdict))
        if not part:
            raise EOFError
        verdict += part
    word, reason, number = verdict
    if word != ord("C"):
        raise GatewayError("the wrap spoke out of turn")
    if reason == confine.STANDS:
        return number
    raise GatewayError(*explain(reason, number))


def explain(reason: int, number: int) -> tuple[str, str]:
    """What is missing, and the ways out."""
    missing, remedy = REASONS.get(reason, (f"the wrap gave an unknown reason, {reason}", ""))
    if reason in _BLIND:
        missing, remedy = _yama() or (missing, remedy)
    return _say(missing, remedy, number)


def explain_missing(call: str, number: int) -> tuple[str, str]:
    """The same for a system call outside of the wrap that is not to be had."""
    return _say(f"there is no {call}(2) here", f"{_KERNEL}; where the kernel has it, {_FILTERED}", number)


def explain_unseen(seen: Mapping[str, int], expected: Mapping[str, int]) -> tuple[str, str]:
    """The same where the supervisor saw another number of requests than the canary made."""
    told = f"the supervisor was not asked for what was tried ({dict(seen)} instead of {dict(expected)})"
    return _say(*(_yama() or (told, "")), 0)


def _yama() -> tuple[str, str] | None:
    """What is missing where Yama lets nobody, or only an administrator, look into a process (its scopes 2 and 3)."""
    try:
        with open(PTRACE_SCOPE) as file:
            scope = file.read(2).strip()
    except OSError:
        return None
    if scope not in ("2", "3"):
        return None
    remedy = "set it to 1, which lets a process look into those it has started"
    again = "; from 3 only a restart of the system leads back" if scope == "3" else ""
    return (
        "the supervisor of the file rules may not look into the processes it answers: kernel.yama.ptrace_scope is"
        f" {scope}",
        f"{remedy} (sysctl kernel.yama.ptrace_scope=1{again})",
    )


def _say(missing: str, remedy: str, number: int) -> tuple[str, str]:
    error = f" ({errno.errorcode.get(number, str(number))})" if number else ""
    ways = WAYS_OUT if remedy else WAYS_OUT.removeprefix("or ")
    return (
        f"the file rules cannot hold at creation time: {missing}{error}",
        f"{remedy}; {ways}" if remedy else ways,
    )
