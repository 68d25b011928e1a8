"""The system-call filter of the wrap, as an array of struct sock_filter.

It closes what the namespaces leave open: typing into the terminal outside (TIOCSTI, TIOCLINUX), sockets of a
hypervisor (AF_VSOCK has no network namespace), the host's key rings, and new namespaces, which are most of the
kernel's attack surface. It also keeps a process inside off the wrap's init, and off the process group around the wrap
where CMD is part of it.

Without the door `bwrap --seccomp` installs it, just before the stub runs, so that its own mounts are not in the way.
With the door (file rules at creation time) `confine.py` installs it with a listener: every call that puts a name into
a directory or opens a file for writing, and every `connect`, is then answered by the supervisor outside.
"""

import errno
import platform
import struct
from collections.abc import Mapping, Sequence

from sandbox.system_calls import ARCHITECTURES, CALLS, LAST_KNOWN_CALL, numbers

# io_uring would perform filtered calls unseen; clone3's flags lie in memory, where a filter cannot look.
ABSENT = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")
# Calls with an answer of their own below.
JUDGED = ("ioctl", "socket", "clone", "unshare", "ptrace")
# Calls that take a process group, and 0 for one's own, wherever its other members are: judged where it is shared.
OF_GROUPS = ("kill", "setpriority", "ioprio_set")
# With the door: asked for every time. The mask of new files is asked for since the supervisor makes them in place of
# the caller.
NOTIFIED = (
    "creat", "rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "mknod", "mknodat",
    "mkdir", "mkdirat", "truncate", "umask", "connect",
)  # fmt: skip
# With the door: judged by their arguments. Opening comes first, being by far the most frequent of all judged calls.
DOOR_JUDGED = ("openat", "open", "fcntl", "socketpair")
# With the door: openat2's flags lie in memory as well.
DOOR_ABSENT = ("openat2",)
_DOOR = (*NOTIFIED, *DOOR_JUDGED, *DOOR_ABSENT)
# Every other call of the table fails as for somebody without the privilege.
FORBIDDEN = tuple(name for name in CALLS if name not in (*ABSENT, *JUDGED, *OF_GROUPS, *_DOOR))

# asm-generic/fcntl.h, the same on both architectures. O_PATH makes the kernel ignore all the others. Of the access
# mode any bit counts: 3 asks for both rights and gives an ioctl-only descriptor. __O_TMPFILE without O_DIRECTORY.
O_PATH = 0o10000000
WRITING = 0o3 | 0o100 | 0o1000 | 0o20000000  # O_ACCMODE | O_CREAT | O_TRUNC | __O_TMPFILE
# Terminal ioctls that put characters into, or take them from, the terminal outside (asm-generic/ioctls.h, linux/tty).
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
# ioctls of two file systems that make a directory (a subvolume, a snapshot) under a name, past Landlock: by type and
# number, since direction and size are only a convention (linux/btrfs.h: SNAP_CREATE, SUBVOL_CREATE and their second
# versions; fs/bcachefs/bcachefs_ioctl.h: BCH_IOCTL_SUBVOLUME_CREATE).
IOCTL_TYPE_AND_NUMBER = 0xFFFF
NAMING_IOCTLS = (0x9401, 0x940E, 0x9417, 0x9418, 0xBC10)
# linux/fcntl.h: F_SETLEASE, F_SETDELEG. A lease makes everybody else's opening of that file wait for up to 45 seconds;
# the supervisor, which opens in everybody's place, would keep all of them waiting.
LEASES = (1024, 1040)
# linux/ptrace.h: what begins to trace a process; the rest needs one that is traced.
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
# linux/resource.h, linux/ioprio.h
PRIO_PGRP, IOPRIO_WHO_PGRP = 1, 2
# linux/sched.h: every kind of new namespace. CLONE_NEWTIME is only a flag of unshare and clone3.
NEW_NAMESPACES = 0x10000000 | 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
NEW_TIME_NAMESPACE = 0x00000080
# linux/socket.h: AF_UNIX, AF_INET, AF_INET6; of AF_NETLINK only routing (linux/netlink.h), which getifaddrs asks.
AF_UNIX = 1
FAMILIES = (AF_UNIX, 2, 10)
AF_NETLINK, NETLINK_ROUTE = 16, 0
# linux/net.h. With the door a Unix socket has to be connected to reach anything: a datagram could name any path in
# `sendto`, and the kernel takes SOCK_RAW for SOCK_DGRAM. Who asks for a pair of these gets another one (`pairing.py`).
SOCK_TYPE_MASK = 0xF
SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET = 1, 2, 3, 5

# linux/seccomp.h and linux/bpf_common.h
_ALLOW, _NOTIFY, _ERRNO = 0x7FFF0000, 0x7FC00000, 0x00050000
_LOAD, _AND, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x45, 0x06
# offsetof(struct seccomp_data, …); arguments are 64 bits, little endian on both architectures. Of each only the low
# half is looked at: the kernel takes these arguments as 32-bit numbers and drops the rest.
_NUMBER, _ARCHITECTURE = 0, 4


def _argument(index: int) -> int:
    return 16 + 8 * index


class _Program:
    """Collects instructions with named jump targets; targets lie ahead, as the kernel demands."""

    def __init__(self) -> None:
        self._instructions: list[tuple[int, int, str, str]] = []
        self._labels: dict[str, int] = {}

    def add(self, code: int, value: int, then: str = "", otherwise: str = "") -> None:
        """One instruction; an empty target is the next one."""
        self._instructions.append((code, value, then, otherwise))

    def label(self, name: str) -> None:
        """Names the place where the next instruction goes."""
        self._labels[name] = len(self._instructions)

    def answer(self, name: str, value: int) -> None:
        """A labelled return."""
        self.label(name)
        self.add(_RETURN, value)

    def pack(self) -> bytes:
        """The array of struct sock_filter: code, jump if true, jump if false, value."""
        packed = []
        for position, (code, value, then, otherwise) in enumerate(self._instructions):
            jumps = [self._labels[target] - position - 1 if target else 0 for target in (then, otherwise)]
            packed.append(struct.pack("<HBBI", code, *jumps, value))
        return b"".join(packed)


def build_filter(machine: str = "", *, shares_group: bool = False, door: bool = False) -> bytes:
    """The filter for a machine as uname(2) names it (this one by default); empty when there is no table for it.
    `shares_group`: CMD's process group has members outside the wrap, and may not be addressed as a whole.
    `door`: needs a listener; a filter that notifies without one makes those calls fail with ENOSYS."""
    machine = machine or platform.machine()
    known = numbers(machine)
    if not known:
        return b""
    program = _Program()
    program.add(_LOAD, _ARCHITECTURE)
    # A foreign calling convention has other numbers.
    program.add(_EQUAL, ARCHITECTURES[machine], "", "absent")
    program.add(_LOAD, _NUMBER)
    judged = (*(DOOR_JUDGED if door else ()), *JUDGED, *(OF_GROUPS if shares_group else ()))
    for name in judged:
        _jump(program, known, (name,), name)
    program.add(_GREATER, LAST_KNOWN_CALL, "absent")
    if door:
        _jump(program, known, NOTIFIED, "notify")
    _jump(program, known, (*ABSENT, *(DOOR_ABSENT if door else ())), "absent")
    _jump(program, known, FORBIDDEN, "forbidden")
    program.add(_RETURN, _ALLOW)
    _judge(program, door)
    if door:
        _judge_opening(program)
    if shares_group:
        _judge_groups(program)
    program.answer("notify", _NOTIFY)
    program.answer("absent", _ERRNO | errno.ENOSYS)
    program.answer("forbidden", _ERRNO | errno.EPERM)
    program.answer("family", _ERRNO | errno.EAFNOSUPPORT)
    program.answer("type", _ERRNO | errno.EPROTONOSUPPORT)
    program.answer("lease", _ERRNO | errno.EAGAIN)
    program.answer("allow", _ALLOW)
    return program.pack()


def _jump(program: _Program, known: Mapping[str, int], names: Sequence[str], target: str) -> None:
    """Jumps to `target` for each of the calls that this architecture has."""
    for name in names:
        if name in known:
            program.add(_EQUAL, known[name], target)


def _judge(program: _Program, door: bool) -> None:
    """The calls whose arguments decide."""
    program.label("ioctl")
    program.add(_LOAD, _argument(1))
    program.add(_EQUAL, TIOCSTI, "forbidden")
    program.add(_EQUAL, TIOCLINUX, "forbidden", "" if door else "allow")
    if door:
        program.add(_AND, IOCTL_TYPE_AND_NUMBER)
        for number in NAMING_IOCTLS:
            program.add(_EQUAL, number, "forbidden")
        program.add(_RETURN, _ALLOW)
    program.label("unshare")
    program.add(_LOAD, _argument(0))
    program.add(_ANY_BIT, NEW_NAMESPACES | NEW_TIME_NAMESPACE, "forbidden", "allow")
    program.label("clone")
    program.add(_LOAD, _argument(0))
    program.add(_ANY_BIT, NEW_NAMESPACES, "forbidden", "allow")
    program.label("ptrace")
    program.add(_LOAD, _argument(0))
    program.add(_EQUAL, PTRACE_ATTACH, "pid 1")
    program.add(_EQUAL, PTRACE_SEIZE, "", "allow")
    program.label("pid 1")
    program.add(_LOAD, _argument(1))
    program.add(_EQUAL, 1, "forbidden", "allow")
    program.label("socket")
    program.add(_LOAD, _argument(0))
    for family in FAMILIES:
        program.add(_EQUAL, family, "socket type" if door and family == AF_UNIX else "allow")
    program.add(_EQUAL, AF_NETLINK, "", "family")
    program.add(_LOAD, _argument(2))
    program.add(_EQUAL, NETLINK_ROUTE, "allow", "family")


def _judge_opening(program: _Program) -> None:
    """With the door: what opens a file or a Unix socket, or keeps others from it."""
    for name, index in (("open", 1), ("openat", 2)):
        program.label(name)
        program.add(_LOAD, _argument(index))
        program.add(_ANY_BIT, O_PATH, "allow")
        program.add(_ANY_BIT, WRITING, "notify", "allow")
    program.label("fcntl")
    program.add(_LOAD, _argument(1))
    for command in LEASES:
        program.add(_EQUAL, command, "lease")
    program.add(_RETURN, _ALLOW)
    program.label("socketpair")
    program.add(_LOAD, _argument(0))
    program.add(_EQUAL, AF_UNIX, "", "family")
    program.add(_LOAD, _argument(1))
    program.add(_AND, SOCK_TYPE_MASK)
    program.add(_EQUAL, SOCK_DGRAM, "notify")
    program.add(_EQUAL, SOCK_RAW, "notify")
    program.label("socket type")
    program.add(_LOAD, _argument(1))
    program.add(_AND, SOCK_TYPE_MASK)
    program.add(_EQUAL, SOCK_STREAM, "allow")
    program.add(_EQUAL, SOCK_SEQPACKET, "allow", "type")


def _judge_groups(program: _Program) -> None:
    """The calls that would reach the whole process group."""
    for name, kind in (("setpriority", PRIO_PGRP), ("ioprio_set", IOPRIO_WHO_PGRP)):
        program.label(name)
        program.add(_LOAD, _argument(0))
        program.add(_EQUAL, kind, "", "allow")
        program.add(_LOAD, _argument(1))
        program.add(_EQUAL, 0, "forbidden", "allow")
    program.label("kill")
    program.add(_LOAD, _argument(0))
    program.add(_EQUAL, 0, "forbidden", "allow")
