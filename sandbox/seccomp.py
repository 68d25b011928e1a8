"""The system-call filter of the wrap, as the bytes that `bwrap --seccomp` takes: an array of struct sock_filter.

bubblewrap installs it last, just before the stub runs, so its own mounts are not in the way. It closes what the
namespaces leave open: typing into the terminal outside (TIOCSTI, TIOCLINUX), sockets of a hypervisor (AF_VSOCK has no
network namespace), the host's key rings, and new namespaces, which are most of the kernel's attack surface. It also
keeps a process inside off the wrap's init, and off the process group around the wrap where CMD is part of it.
Numbers are from the kernel's tables (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h).
"""

import errno
import platform
import struct
from collections.abc import Mapping, Sequence

# linux/audit.h, by the machine name of uname(2).
ARCHITECTURES: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Whatever is newer than these tables was not looked at: ENOSYS, and libraries fall back. (file_setattr, Linux 6.17.)
LAST_KNOWN_CALL = 469
# x86-64: calls of the x32 convention carry this bit (asm/unistd.h), so they lie above the last known one as well.

# name: (x86-64, arm64); None where the architecture has none. The same numbers from 424 on.
CALLS: Mapping[str, tuple[int | None, int | None]] = {
    "ioctl": (16, 29),
    "socket": (41, 198),
    "clone": (56, 220),
    "unshare": (272, 97),
    "setns": (308, 268),
    "clone3": (435, 435),
    "kill": (62, 129),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "ptrace": (101, 117),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "open_by_handle_at": (304, 265),
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "iopl": (172, None),
    "ioperm": (173, None),
}

# io_uring would perform filtered calls unseen; clone3's flags lie in memory, where a filter cannot look.
ABSENT = ("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register")
# Calls with an answer of their own below.
JUDGED = ("ioctl", "socket", "clone", "unshare", "ptrace")
# Calls that take a process group, and 0 for one's own, wherever its other members are: judged where it is shared.
OF_GROUPS = ("kill", "setpriority", "ioprio_set")
# Every other call of the table fails as for somebody without the privilege.
FORBIDDEN = tuple(name for name in CALLS if name not in (*ABSENT, *JUDGED, *OF_GROUPS))

# Terminal ioctls that put characters into, or take them from, the terminal outside (asm-generic/ioctls.h, linux/tty).
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
# linux/ptrace.h: what begins to trace a process; the rest needs one that is traced.
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
# linux/resource.h, linux/ioprio.h
PRIO_PGRP, IOPRIO_WHO_PGRP = 1, 2
# linux/sched.h: every kind of new namespace. CLONE_NEWTIME is only a flag of unshare and clone3.
NEW_NAMESPACES = 0x10000000 | 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x20000000 | 0x40000000
NEW_TIME_NAMESPACE = 0x00000080
# linux/socket.h: AF_UNIX, AF_INET, AF_INET6; of AF_NETLINK only routing (linux/netlink.h), which getifaddrs asks.
FAMILIES = (1, 2, 10)
AF_NETLINK, NETLINK_ROUTE = 16, 0

# linux/seccomp.h and linux/bpf_common.h
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
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

    def answer(self, name: str, error: int) -> None:
        """A labelled return with an errno."""
        self.label(name)
        self.add(_RETURN, _ERRNO | error)

    def pack(self) -> bytes:
        """The array of struct sock_filter: code, jump if true, jump if false, value."""
        packed = []
        for position, (code, value, then, otherwise) in enumerate(self._instructions):
            jumps = [self._labels[target] - position - 1 if target else 0 for target in (then, otherwise)]
            packed.append(struct.pack("<HBBI", code, *jumps, value))
        return b"".join(packed)


def build_filter(machine: str = "", *, shares_group: bool = False) -> bytes:
    """The filter for a machine as uname(2) names it (this one by default); empty when there is no table for it.
    `shares_group`: CMD's process group has members outside the wrap, and may not be addressed as a whole."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        return b""
    column = 0 if machine == "x86_64" else 1
    numbers = {name: row[column] for name, row in CALLS.items()}
    program = _Program()
    program.add(_LOAD, _ARCHITECTURE)
    program.add(
        _EQUAL, ARCHITECTURES[machine], "", "absent"
    )  # a foreign calling convention has other numbers
    program.add(_LOAD, _NUMBER)
    judged = (*JUDGED, *OF_GROUPS) if shares_group else JUDGED
    for name in judged:
        _jump(program, numbers, (name,), name)
    program.add(_GREATER, LAST_KNOWN_CALL, "absent")
    _jump(program, numbers, ABSENT, "absent")
    _jump(program, numbers, FORBIDDEN, "forbidden")
    program.add(_RETURN, _ALLOW)
    _judge(program)
    if shares_group:
        _judge_groups(program)
    program.answer("absent", errno.ENOSYS)
    program.answer("forbidden", errno.EPERM)
    program.answer("family", errno.EAFNOSUPPORT)
    program.label("allow")
    program.add(_RETURN, _ALLOW)
    return program.pack()


def _jump(program: _Program, numbers: Mapping[str, int | None], names: Sequence[str], target: str) -> None:
    """Jumps to `target` for each of the calls that this architecture has."""
    for name in names:
        number = numbers[name]
        if number is not None:
            program.add(_EQUAL, number, target)


def _judge(program: _Program) -> None:
    """The calls whose arguments decide."""
    program.label("ioctl")
    program.add(_LOAD, _argument(1))
    program.add(_EQUAL, TIOCSTI, "forbidden")
    program.add(_EQUAL, TIOCLINUX, "forbidden", "allow")
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
        program.add(_EQUAL, family, "allow")
    program.add(_EQUAL, AF_NETLINK, "", "family")
    program.add(_LOAD, _argument(2))
    program.add(_EQUAL, NETLINK_ROUTE, "allow", "family")


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
