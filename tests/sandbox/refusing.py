"""Runs a command under a system-call filter that refuses some calls, as container runtimes and units of systemd do:
`python refusing.py WHAT CMD…`. It stands for no filter of ours."""

import ctypes
import errno
import os
import platform
import struct
import sys

from sandbox.system_calls import ARCHITECTURES, numbers

# linux/prctl.h, linux/seccomp.h, linux/bpf_common.h
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NEW_USER = 0x10000000
PRCTL = {"x86_64": 157, "aarch64": 167}
SECCOMP = {"x86_64": 317, "aarch64": 277}
ACTION_AVAILABLE, LANDLOCK = 2, 444
# What the supervisor of the file rules needs, by name: (x86-64, arm64).
NEEDED = {
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "openat2": (437, 437), "memfd_create": (319, 279),
    "renameat2": (316, 276), "capset": (126, 91), "sched_setaffinity": (203, 122),
}  # fmt: skip

Instruction = tuple[int, int, int, int]


def refuse(number: int, error: int) -> list[Instruction]:
    """The call with this number fails."""
    return [(LOAD, 0, 0, 0), (EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | error)]


def refuse_where(number: int, test: int, value: int, error: int) -> list[Instruction]:
    """It fails where its first argument has this value, or one of these bits."""
    judged = [(LOAD, 0, 0, 16), (test, 0, 1, value), (RETURN, 0, 0, ERRNO | error)]
    return [(LOAD, 0, 0, 0), (EQUAL, 0, len(judged), number), *judged]


def program(what: str) -> list[Instruction]:
    """The filter that keeps a step of the probe from working."""
    machine = platform.machine()
    assert machine in ARCHITECTURES
    calls = numbers(machine)
    clone, unshare, clone3, mount = (calls[name] for name in ("clone", "unshare", "clone3", "mount"))
    assert clone is not None and unshare is not None and clone3 is not None and mount is not None
    table = {
        "user": [
            *refuse(unshare, errno.EPERM),
            *refuse(clone3, errno.ENOSYS),
            *refuse_where(clone, ANY_BIT, NEW_USER, errno.EPERM),
        ],
        "mount": refuse(mount, errno.EPERM),
        "filter": refuse_where(PRCTL[machine], EQUAL, PR_SET_SECCOMP, errno.EINVAL),
        "none": [],
        "landlock": refuse(LANDLOCK, errno.ENOSYS),
        # An older kernel: it knows neither the action that asks a supervisor nor the flags of one.
        "notification": [
            *refuse_where(SECCOMP[machine], EQUAL, ACTION_AVAILABLE, errno.EOPNOTSUPP),
            *refuse_where(SECCOMP[machine], EQUAL, SECCOMP_MODE_FILTER - 1, errno.EINVAL),
        ],
        **{name: refuse(row[machine != "x86_64"], errno.ENOSYS) for name, row in NEEDED.items()},
        # As container runtimes say it.
        "pidfd_getfd denied": refuse(NEEDED["pidfd_getfd"][machine != "x86_64"], errno.EPERM),
    }
    return [*table[what], (RETURN, 0, 0, ALLOW)]


def main(what: str, *command: str) -> None:
    """Installs the filter and becomes the command."""
    instructions = program(what)
    packed = ctypes.create_string_buffer(
        b"".join(
            struct.pack("<HBBI", code, then, otherwise, value)
            for code, then, otherwise, value in instructions
        )
    )
    head = struct.pack("HxxxxxxQ", len(instructions), ctypes.addressof(packed))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    result = libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.create_string_buffer(head), 0, 0)
    assert result == 0, os.strerror(ctypes.get_errno())
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
