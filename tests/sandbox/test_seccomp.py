"""The system-call filter: its program read by a small interpreter, and loaded for real in a child."""

import errno
import json
import platform
import struct
import subprocess
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.seccomp import (
    ABSENT,
    DOOR_ABSENT,
    DOOR_JUDGED,
    FORBIDDEN,
    JUDGED,
    NOTIFIED,
    OF_GROUPS,
    build_filter,
)
from sandbox.system_calls import ARCHITECTURES, CALLS, LAST_KNOWN_CALL

ALLOW, ASK = "allow", "ask"
X86, ARM = 0xC000003E, 0xC00000B7  # AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64
FOREIGN = {
    "i386": 0x40000003, "arm": 0x40000028, "x32 has the number of x86-64": 0xC000003F, "none": 0, "riscv": 0xC00000F3,
}  # fmt: skip
PROGRAMS = {X86: build_filter("x86_64"), ARM: build_filter("aarch64")}
DOOR = {X86: build_filter("x86_64", door=True), ARM: build_filter("aarch64", door=True)}
SHARED = {X86: build_filter("x86_64", shares_group=True), ARM: build_filter("aarch64", shares_group=True)}


# --- The interpreter ------------------------------------------------------------------------------


def instructions(program: bytes) -> list[tuple[int, int, int, int]]:
    """struct sock_filter: code, jump if true, jump if false, value."""
    return list(struct.iter_unpack("<HBBI", program))


def run(program: bytes, arch: int, number: int, arguments: tuple[int, ...] = ()) -> str:
    """What the kernel would answer: "allow", or the name of an errno. Knows the instructions of linux/bpf_common.h
    that classic filters of this kind need, and fails on any other."""
    six = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("<IIQ6Q", number & 0xFFFFFFFF, arch, 0, *(value & 0xFFFFFFFFFFFFFFFF for value in six))
    code = instructions(program)
    place = accumulator = 0
    while True:
        operation, then, otherwise, value = code[place]
        place += 1
        match operation:
            case 0x20:  # load a word
                assert value % 4 == 0
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x15:  # jump if equal
                place += then if accumulator == value else otherwise
            case 0x25:  # jump if greater
                place += then if accumulator > value else otherwise
            case 0x54:  # and
                accumulator &= value
            case 0x45:  # jump if any of the bits
                place += then if accumulator & value else otherwise
            case 0x06:
                return answer(value)
            case _:
                raise AssertionError(f"instruction {operation:#x}")


def answer(value: int) -> str:
    """A seccomp return value in words."""
    if value == 0x7FFF0000:
        return ALLOW
    if value == 0x7FC00000:  # SECCOMP_RET_USER_NOTIF
        return ASK
    assert value & 0xFFFF0000 == 0x00050000, hex(value)  # SECCOMP_RET_ERRNO
    return errno.errorcode[value & 0xFFFF]


# --- The shape of the program ---------------------------------------------------------------------


@pytest.mark.parametrize("door", [False, True])
@pytest.mark.parametrize("shares_group", [False, True])
@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_kernel_would_take_it(machine: str, shares_group: bool, door: bool) -> None:
    """Whole instructions, fewer than BPF_MAXINSNS, every jump forward and inside, a return at the end."""
    program = build_filter(machine, shares_group=shares_group, door=door)
    assert len(program) % 8 == 0
    code = instructions(program)
    assert 0 < len(code) <= 4096
    for place, (operation, then, otherwise, _) in enumerate(code):
        if operation in (0x15, 0x25, 0x45):
            assert place + 1 + max(then, otherwise) < len(code)
        else:
            assert (then, otherwise) == (0, 0)
    assert code[-1][0] == 0x06


@pytest.mark.parametrize("machine", ["i686", "armv7l", "riscv64", "ppc64le", "s390x", "X86_64", "amd64"])
def test_no_filter_for_a_machine_without_a_table(machine: str) -> None:
    assert build_filter(machine) == b""


def test_this_machine_by_default() -> None:
    assert build_filter() == build_filter(platform.machine()) != b""


def test_every_call_of_the_table_has_one_answer() -> None:
    answers = (*ABSENT, *JUDGED, *OF_GROUPS, *FORBIDDEN, *NOTIFIED, *DOOR_JUDGED, *DOOR_ABSENT)
    assert sorted(CALLS) == sorted(answers)


# --- Verdicts -------------------------------------------------------------------------------------
# Numbers are written out here, from the kernel's tables, and not taken from the module.

TIOCSTI, TIOCLINUX, TCGETS, TIOCGWINSZ, FIONREAD = 0x5412, 0x541C, 0x5401, 0x5413, 0x541B
HIGH = 1 << 32  # the kernel drops the upper half of these arguments

# (call, x86-64, arm64, arguments, answer)
VERDICTS: list[tuple[str, int | None, int | None, tuple[int, ...], str]] = [
    # ordinary work
    ("read", 0, 63, (), ALLOW),
    ("write", 1, 64, (), ALLOW),
    ("openat", 257, 56, (), ALLOW),
    ("execve", 59, 221, (), ALLOW),
    ("fork", 57, None, (), ALLOW),
    ("vfork", 58, None, (), ALLOW),
    ("kill", 62, 129, (), ALLOW),
    ("setpriority", 141, 140, (1, 0, 19), ALLOW),
    ("ioprio_set", 251, 30, (2, 0, 7), ALLOW),
    ("ptrace", 101, 117, (), ALLOW),
    ("ptrace", 101, 117, (16, 2), ALLOW),  # PTRACE_ATTACH
    ("ptrace", 101, 117, (0x4206, 100), ALLOW),  # PTRACE_SEIZE
    ("ptrace", 101, 117, (3, 1), ALLOW),  # PTRACE_PEEKUSER, of what is traced already
    ("ptrace", 101, 117, (17, 1), ALLOW),  # PTRACE_DETACH
    # the wrap's init
    ("ptrace", 101, 117, (16, 1), "EPERM"),
    ("ptrace", 101, 117, (0x4206, 1), "EPERM"),
    ("ptrace", 101, 117, (16, 1 | HIGH), "EPERM"),
    ("seccomp", 317, 277, (), ALLOW),
    ("socketpair", 53, 199, (1, 1, 0), ALLOW),
    ("connect", 42, 203, (), ALLOW),
    ("openat2", 437, 437, (), ALLOW),
    ("landlock_create_ruleset", 444, 444, (), ALLOW),
    ("the last known", 469, 469, (), ALLOW),
    # the terminal outside
    ("ioctl", 16, 29, (0, TIOCSTI), "EPERM"),
    ("ioctl", 16, 29, (0, TIOCLINUX), "EPERM"),
    ("ioctl", 16, 29, (0, TIOCSTI | HIGH), "EPERM"),
    ("ioctl", 16, 29, (0, TIOCLINUX | HIGH * 0xFFFFFFFF), "EPERM"),
    ("ioctl", 16, 29, (TIOCSTI, TCGETS), ALLOW),
    ("ioctl", 16, 29, (0, TIOCGWINSZ), ALLOW),
    ("ioctl", 16, 29, (0, FIONREAD), ALLOW),
    ("ioctl", 16, 29, (0, TIOCSTI - 1), ALLOW),
    ("ioctl", 16, 29, (0, 0), ALLOW),
    # sockets by family
    ("socket", 41, 198, (1, 1, 0), ALLOW),
    ("socket", 41, 198, (2, 1, 6), ALLOW),
    ("socket", 41, 198, (10, 2, 17), ALLOW),
    ("socket", 41, 198, (16, 3, 0), ALLOW),
    ("socket", 41, 198, (16, 3, 9), "EAFNOSUPPORT"),  # NETLINK_AUDIT
    ("socket", 41, 198, (16, 3, 12), "EAFNOSUPPORT"),  # NETLINK_NETFILTER
    ("socket", 41, 198, (16, 3, 15), "EAFNOSUPPORT"),  # NETLINK_KOBJECT_UEVENT
    ("socket", 41, 198, (40, 1, 0), "EAFNOSUPPORT"),  # AF_VSOCK
    ("socket", 41, 198, (40 | HIGH, 1, 0), "EAFNOSUPPORT"),
    ("socket", 41, 198, (2 | HIGH, 1, 0), ALLOW),
    ("socket", 41, 198, (17, 3, 0), "EAFNOSUPPORT"),  # AF_PACKET
    ("socket", 41, 198, (15, 3, 2), "EAFNOSUPPORT"),  # AF_KEY
    ("socket", 41, 198, (29, 3, 1), "EAFNOSUPPORT"),  # AF_CAN
    ("socket", 41, 198, (30, 2, 0), "EAFNOSUPPORT"),  # AF_TIPC
    ("socket", 41, 198, (31, 3, 0), "EAFNOSUPPORT"),  # AF_BLUETOOTH
    ("socket", 41, 198, (38, 5, 0), "EAFNOSUPPORT"),  # AF_ALG
    ("socket", 41, 198, (44, 3, 0), "EAFNOSUPPORT"),  # AF_XDP
    ("socket", 41, 198, (0, 0, 0), "EAFNOSUPPORT"),
    ("socket", 41, 198, (-1, 0, 0), "EAFNOSUPPORT"),
    # processes and threads, and not namespaces
    ("clone", 56, 220, (17,), ALLOW),  # SIGCHLD
    ("clone", 56, 220, (0x3D0F00,), ALLOW),  # a thread of the C library
    ("clone", 56, 220, (0x4111,), ALLOW),  # posix_spawn: CLONE_VM, CLONE_VFORK, SIGCHLD
    ("clone", 56, 220, (0x10000000 | 17,), "EPERM"),  # CLONE_NEWUSER
    ("clone", 56, 220, (0x00020000 | 17,), "EPERM"),  # CLONE_NEWNS
    ("clone", 56, 220, (0x40000000 | 17,), "EPERM"),  # CLONE_NEWNET
    ("clone", 56, 220, (0x20000000 | 17,), "EPERM"),  # CLONE_NEWPID
    ("clone", 56, 220, (0x08000000 | 17,), "EPERM"),  # CLONE_NEWIPC
    ("clone", 56, 220, (0x04000000 | 17,), "EPERM"),  # CLONE_NEWUTS
    ("clone", 56, 220, (0x02000000 | 17,), "EPERM"),  # CLONE_NEWCGROUP
    ("clone", 56, 220, (0x10000000 | 17 | HIGH,), "EPERM"),
    ("unshare", 272, 97, (0x200,), ALLOW),  # CLONE_FS
    ("unshare", 272, 97, (0x400,), ALLOW),  # CLONE_FILES
    ("unshare", 272, 97, (0x10000000,), "EPERM"),
    ("unshare", 272, 97, (0x00020000,), "EPERM"),
    ("unshare", 272, 97, (0x80,), "EPERM"),  # CLONE_NEWTIME
    ("unshare", 272, 97, (0x10000000 | 0x200,), "EPERM"),
    ("setns", 308, 268, (), "EPERM"),
    ("clone3", 435, 435, (), "ENOSYS"),
    # mounts
    ("mount", 165, 40, (), "EPERM"),
    ("umount2", 166, 39, (), "EPERM"),
    ("pivot_root", 155, 41, (), "EPERM"),
    ("chroot", 161, 51, (), "EPERM"),
    ("open_tree", 428, 428, (), "EPERM"),
    ("move_mount", 429, 429, (), "EPERM"),
    ("fsopen", 430, 430, (), "EPERM"),
    ("fsconfig", 431, 431, (), "EPERM"),
    ("fsmount", 432, 432, (), "EPERM"),
    ("fspick", 433, 433, (), "EPERM"),
    ("mount_setattr", 442, 442, (), "EPERM"),
    ("open_tree_attr", 467, 467, (), "EPERM"),
    # what performs calls unseen, or is most of the kernel's attack surface
    ("io_uring_setup", 425, 425, (), "ENOSYS"),
    ("io_uring_enter", 426, 426, (), "ENOSYS"),
    ("io_uring_register", 427, 427, (), "ENOSYS"),
    ("bpf", 321, 280, (), "EPERM"),
    ("userfaultfd", 323, 282, (), "EPERM"),
    ("perf_event_open", 298, 241, (), "EPERM"),
    ("open_by_handle_at", 304, 265, (), "EPERM"),
    # the host's key rings
    ("add_key", 248, 217, (), "EPERM"),
    ("request_key", 249, 218, (), "EPERM"),
    ("keyctl", 250, 219, (), "EPERM"),
    # the host itself
    ("acct", 163, 89, (), "EPERM"),
    ("swapon", 167, 224, (), "EPERM"),
    ("swapoff", 168, 225, (), "EPERM"),
    ("reboot", 169, 142, (), "EPERM"),
    ("quotactl", 179, 60, (), "EPERM"),
    ("quotactl_fd", 443, 443, (), "EPERM"),
    ("kexec_load", 246, 104, (), "EPERM"),
    ("kexec_file_load", 320, 294, (), "EPERM"),
    ("init_module", 175, 105, (), "EPERM"),
    ("finit_module", 313, 273, (), "EPERM"),
    ("delete_module", 176, 106, (), "EPERM"),
    ("iopl", 172, None, (), "EPERM"),
    ("ioperm", 173, None, (), "EPERM"),
    # numbers that are none, or of a convention of their own
    ("the first unknown", 470, 470, (), "ENOSYS"),
    ("far beyond", 100_000, 100_000, (), "ENOSYS"),
    ("-1", 0xFFFFFFFF, 0xFFFFFFFF, (), "ENOSYS"),
    ("x32 read", 0x40000000, 0x40000000, (), "ENOSYS"),
    ("x32 socket", 0x40000000 | 41, 0x40000000 | 198, (2, 1, 0), "ENOSYS"),
    ("x32 ioctl", 0x40000000 | 514, 0x40000000 | 514, (0, TCGETS), "ENOSYS"),
]


@pytest.mark.parametrize(("call", "x86", "arm", "arguments", "expected"), VERDICTS)
def test_verdict(
    call: str, x86: int | None, arm: int | None, arguments: tuple[int, ...], expected: str
) -> None:
    for arch, number in ((X86, x86), (ARM, arm)):
        if number is not None:
            assert run(PROGRAMS[arch], arch, number, arguments) == expected, (call, hex(arch))


# (call, x86-64, arm64, arguments, answer) where the process group has members outside.
OF_THE_GROUP: list[tuple[str, int, int, tuple[int, ...], str]] = [
    ("kill", 62, 129, (0, 9), "EPERM"),
    ("kill", 62, 129, (0, 0), "EPERM"),
    ("kill", 62, 129, (HIGH, 9), "EPERM"),
    ("kill", 62, 129, (2, 9), ALLOW),
    ("kill", 62, 129, (-1, 9), ALLOW),  # everybody in the PID namespace
    ("kill", 62, 129, (-2, 9), ALLOW),  # a group that has a number inside
    ("setpriority", 141, 140, (1, 0, 19), "EPERM"),
    ("setpriority", 141, 140, (1, 5, 19), ALLOW),
    ("setpriority", 141, 140, (0, 0, 19), ALLOW),  # oneself
    ("setpriority", 141, 140, (2, 0, 19), ALLOW),  # a user's processes: the kernel looks at the namespace
    ("setpriority", 141, 140, (1 | HIGH, HIGH, 19), "EPERM"),
    ("ioprio_set", 251, 30, (2, 0, 7), "EPERM"),
    ("ioprio_set", 251, 30, (2, 5, 7), ALLOW),
    ("ioprio_set", 251, 30, (1, 0, 7), ALLOW),
    ("ioprio_set", 251, 30, (3, 0, 7), ALLOW),
]


@pytest.mark.parametrize(("call", "x86", "arm", "arguments", "expected"), OF_THE_GROUP)
def test_verdict_in_a_shared_group(
    call: str, x86: int, arm: int, arguments: tuple[int, ...], expected: str
) -> None:
    for arch, number in ((X86, x86), (ARM, arm)):
        assert run(SHARED[arch], arch, number, arguments) == expected, (call, hex(arch))


@pytest.mark.parametrize(("call", "x86", "arm", "arguments", "expected"), VERDICTS)
def test_everything_else_is_the_same_in_a_shared_group(
    call: str, x86: int | None, arm: int | None, arguments: tuple[int, ...], expected: str
) -> None:
    for arch, number in ((X86, x86), (ARM, arm)):
        if number is not None and call not in OF_GROUPS:
            assert run(SHARED[arch], arch, number, arguments) == expected, (call, hex(arch))


# --- With the door --------------------------------------------------------------------------------

READ, WRITE, BOTH, CREATE, TRUNCATE = 0, 1, 2, 0o100, 0o1000
EXCLUSIVE, APPEND, NONBLOCK, CLOEXEC, PATH, NAMELESS = (
    0o200,
    0o2000,
    0o4000,
    0o2000000,
    0o10000000,
    0o20000000,
)
# O_DIRECTORY, O_NOFOLLOW, O_DIRECT, O_LARGEFILE: other bits on arm64, in other order; none of them writes.
OTHERS = 0o200000 | 0o400000 | 0o40000 | 0o100000
BTRFS_SNAPSHOT, BTRFS_SUBVOLUME, FICLONE, FICLONERANGE = 0x50009401, 0x5000940E, 0x40049409, 0x4020940D

# (call, x86-64, arm64, arguments, answer) where it differs from the table above.
OF_THE_DOOR: list[tuple[str, int | None, int | None, tuple[int, ...], str]] = [
    # opening: whatever writes, makes or cuts
    ("openat", 257, 56, (0, 0, READ), ALLOW),
    ("openat", 257, 56, (0, 0, READ | CLOEXEC | NONBLOCK | APPEND | OTHERS), ALLOW),
    ("openat", 257, 56, (0, 0, READ | EXCLUSIVE), ALLOW),
    ("openat", 257, 56, (0, 0, READ, 0o666), ALLOW),
    ("openat", 257, 56, (0, 0, WRITE), ASK),
    ("openat", 257, 56, (0, 0, BOTH), ASK),
    ("openat", 257, 56, (0, 0, 3), ASK),  # asks for both rights, gives neither
    ("openat", 257, 56, (0, 0, CREATE), ASK),
    ("openat", 257, 56, (0, 0, TRUNCATE), ASK),
    ("openat", 257, 56, (0, 0, NAMELESS), ASK),
    ("openat", 257, 56, (0, 0, NAMELESS | BOTH | 0o200000), ASK),
    ("openat", 257, 56, (0, 0, WRITE | CREATE | EXCLUSIVE | CLOEXEC | OTHERS), ASK),
    ("openat", 257, 56, (0, 0, WRITE | HIGH), ASK),
    ("openat", 257, 56, (0, 0, READ | HIGH * 0xFFFFFFFF), ALLOW),
    ("openat", 257, 56, (WRITE, WRITE, READ, WRITE), ALLOW),  # of the flags alone
    ("openat", 257, 56, (0, 0, PATH), ALLOW),
    ("openat", 257, 56, (0, 0, PATH | BOTH | CREATE | TRUNCATE | NAMELESS), ALLOW),  # the kernel drops all but O_PATH
    ("openat", 257, 56, (0, 0, BOTH | PATH * HIGH), ASK),
    ("open", 2, None, (0, READ), ALLOW),
    ("open", 2, None, (0, READ, WRITE), ALLOW),
    ("open", 2, None, (0, PATH | WRITE), ALLOW),
    ("open", 2, None, (0, WRITE), ASK),
    ("open", 2, None, (0, CREATE), ASK),
    ("open", 2, None, (0, TRUNCATE), ASK),
    ("open", 2, None, (0, NAMELESS), ASK),
    ("open", 2, None, (0, BOTH | HIGH), ASK),
    ("fcntl", 72, 25, (0, 1024, 1), "EAGAIN"),  # F_SETLEASE
    ("fcntl", 72, 25, (0, 1024 | HIGH, 1), "EAGAIN"),
    ("fcntl", 72, 25, (0, 1040, 0), "EAGAIN"),  # F_SETDELEG
    ("fcntl", 72, 25, (0, 1025), ALLOW),  # F_GETLEASE
    ("fcntl", 72, 25, (1024, 4, 1024), ALLOW),  # F_SETFL
    ("fcntl", 72, 25, (0, 1030, 0), ALLOW),  # F_DUPFD_CLOEXEC
    ("openat2", 437, 437, (), "ENOSYS"),
    ("creat", 85, None, (), ASK),
    # names
    ("rename", 82, None, (), ASK),
    ("renameat", 264, 38, (), ASK),
    ("renameat2", 316, 276, (), ASK),
    ("link", 86, None, (), ASK),
    ("linkat", 265, 37, (), ASK),
    ("symlink", 88, None, (), ASK),
    ("symlinkat", 266, 36, (), ASK),
    ("mknod", 133, None, (), ASK),
    ("mknodat", 259, 33, (), ASK),
    ("mkdir", 83, None, (), ASK),
    ("mkdirat", 258, 34, (), ASK),
    ("truncate", 76, 45, (), ASK),
    ("umask", 95, 166, (), ASK),
    # sockets
    ("connect", 42, 203, (), ASK),
    ("socket", 41, 198, (1, 1, 0), ALLOW),
    ("socket", 41, 198, (1, 5, 0), ALLOW),  # SOCK_SEQPACKET
    ("socket", 41, 198, (1, 1 | 0x800 | 0x80000, 0), ALLOW),  # SOCK_NONBLOCK, SOCK_CLOEXEC
    ("socket", 41, 198, (1, 2, 0), "EPROTONOSUPPORT"),
    ("socket", 41, 198, (1, 2 | 0x800 | 0x80000, 0), "EPROTONOSUPPORT"),
    ("socket", 41, 198, (1, 2 | HIGH, 0), "EPROTONOSUPPORT"),
    ("socket", 41, 198, (1, 3, 0), "EPROTONOSUPPORT"),  # SOCK_RAW, which is SOCK_DGRAM to the kernel
    ("socket", 41, 198, (1, 0, 0), "EPROTONOSUPPORT"),
    ("socket", 41, 198, (2, 2, 0), ALLOW),
    ("socketpair", 53, 199, (1, 1, 0), ALLOW),
    ("socketpair", 53, 199, (1, 5 | 0x80000, 0), ALLOW),
    ("socketpair", 53, 199, (1, 2, 0), ASK),
    ("socketpair", 53, 199, (1, 3 | 0x800, 0), ASK),
    ("socketpair", 53, 199, (1, 4, 0), "EPROTONOSUPPORT"),
    ("socketpair", 53, 199, (30, 5, 0), "EAFNOSUPPORT"),  # AF_TIPC
    # directories made by an ioctl
    ("ioctl", 16, 29, (0, BTRFS_SNAPSHOT), "EPERM"),
    ("ioctl", 16, 29, (0, BTRFS_SUBVOLUME), "EPERM"),
    ("ioctl", 16, 29, (0, 0x50009417), "EPERM"),  # BTRFS_IOC_SNAP_CREATE_V2
    ("ioctl", 16, 29, (0, 0x50009418), "EPERM"),  # BTRFS_IOC_SUBVOL_CREATE_V2
    ("ioctl", 16, 29, (0, 0x4020BC10), "EPERM"),  # BCH_IOCTL_SUBVOLUME_CREATE
    ("ioctl", 16, 29, (0, FICLONE), ALLOW),
    ("ioctl", 16, 29, (0, FICLONERANGE), ALLOW),
    ("ioctl", 16, 29, (0, 0xC0189436), ALLOW),  # FIDEDUPERANGE
    ("ioctl", 16, 29, (0, 0x5000940F), ALLOW),  # BTRFS_IOC_SNAP_DESTROY
]  # fmt: skip
CHANGED = {"openat", "openat2", "connect"}


@pytest.mark.parametrize(("call", "x86", "arm", "arguments", "expected"), OF_THE_DOOR)
def test_verdict_with_the_door(
    call: str, x86: int | None, arm: int | None, arguments: tuple[int, ...], expected: str
) -> None:
    for arch, number in ((X86, x86), (ARM, arm)):
        if number is not None:
            assert run(DOOR[arch], arch, number, arguments) == expected, (call, hex(arch))


@pytest.mark.parametrize(("call", "x86", "arm", "arguments", "expected"), VERDICTS)
def test_everything_else_is_the_same_with_the_door(
    call: str, x86: int | None, arm: int | None, arguments: tuple[int, ...], expected: str
) -> None:
    for arch, number in ((X86, x86), (ARM, arm)):
        if number is not None and (call not in CHANGED or arguments):
            assert run(DOOR[arch], arch, number, arguments) == expected, (call, hex(arch))


def test_every_call_of_the_table_has_a_row_above() -> None:
    rows = {(name, x86, arm) for name, x86, arm, _, _ in (*VERDICTS, *OF_THE_DOOR)}
    assert {(name, *numbers) for name, numbers in CALLS.items()} <= rows


FLAGS = st.integers(0, 2**64 - 1) | st.integers(0, 2**25)


@given(FLAGS)
def test_opening_is_asked_for_unless_it_only_reads(flags: int) -> None:
    """In other words than the filter's: what may pass unasked is O_PATH, or reads an existing file as it is."""
    low = flags & 0xFFFFFFFF
    reads = low & 3 == READ and not low & CREATE and not low & TRUNCATE and not low & NAMELESS
    expected = ALLOW if low & PATH or reads else ASK
    assert run(DOOR[X86], X86, 2, (0, flags)) == expected
    assert run(DOOR[X86], X86, 257, (0, 0, flags)) == expected
    assert run(DOOR[ARM], ARM, 56, (0, 0, flags)) == expected


def test_what_a_filter_notifies_of_without_the_door() -> None:
    """Nothing: without a listener such calls would fail."""
    assert all(
        run(program, arch, number, (2, 2, 2, 2)) != ASK
        for programs in (PROGRAMS, SHARED) for arch, program in programs.items() for number in range(500)
    )  # fmt: skip


# --- Every convention, every number ---------------------------------------------------------------


@pytest.mark.parametrize("arch", [*FOREIGN.values(), X86, ARM], ids=[*FOREIGN, "x86-64", "arm64"])
@pytest.mark.parametrize("own", PROGRAMS)
@pytest.mark.parametrize("programs", [PROGRAMS, DOOR], ids=["plain", "door"])
def test_foreign_convention_has_no_calls(programs: dict[int, bytes], own: int, arch: int) -> None:
    """The same number means another call there: not one is looked at."""
    if arch != own:
        assert {run(programs[own], arch, number) for number in range(LAST_KNOWN_CALL + 2)} == {"ENOSYS"}


WORDS = st.integers(0, 2**64 - 1)


@given(st.sampled_from([X86, ARM]), st.integers(0, 2**32 - 1) | st.integers(0, 500), st.tuples(*[WORDS] * 6))
def test_always_an_answer_and_never_yes_to_the_unknown(
    arch: int, number: int, arguments: tuple[int, ...]
) -> None:
    for programs in (PROGRAMS, DOOR, SHARED):
        found = run(programs[arch], arch, number, arguments)
        assert found in {ALLOW, ASK, "ENOSYS", "EPERM", "EAFNOSUPPORT", "EPROTONOSUPPORT", "EAGAIN"}
        assert number <= LAST_KNOWN_CALL or found == "ENOSYS"


@given(st.sampled_from([X86, ARM]), st.integers(0, 500), st.tuples(*[WORDS] * 6), st.tuples(*[WORDS] * 6))
def test_upper_halves_of_arguments_change_nothing(
    arch: int, number: int, arguments: tuple[int, ...], others: tuple[int, ...]
) -> None:
    mixed = tuple(
        (high & ~0xFFFFFFFF) | (low & 0xFFFFFFFF) for high, low in zip(others, arguments, strict=True)
    )
    for programs in (PROGRAMS, DOOR, SHARED):
        assert run(programs[arch], arch, number, arguments) == run(programs[arch], arch, number, mixed)


# --- Loaded ---------------------------------------------------------------------------------------

CHILD = """
import ctypes, errno, json, os, subprocess, sys, threading

libc = ctypes.CDLL(None, use_errno=True)
program = bytes.fromhex(sys.argv[1])
if program:
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    whole = Program(len(program) // 8, program)
    assert libc.prctl(22, 2, ctypes.byref(whole)) == 0, os.strerror(ctypes.get_errno())  # SECCOMP_MODE_FILTER

def call(number, *arguments):
    words = [ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0, 0, 0)][:6]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *words)
    return "done" if result >= 0 else errno.errorcode[ctypes.get_errno()]

answers = [call(number, *arguments) for number, arguments in json.loads(sys.argv[2])]
done = []
thread = threading.Thread(target=done.append, args=("thread",))
thread.start()
thread.join()
done.append(subprocess.run(("echo", "process"), capture_output=True, text=True).stdout.strip())
pid = os.fork()
if not pid:
    os._exit(7)
done.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(json.dumps([answers, done]))
"""

# (call, arguments, answer); no call in here changes anything, should it be let through.
LOADED: list[tuple[str, tuple[int, ...], str]] = [
    ("ioctl", (0, TIOCSTI, 0), "EPERM"),
    ("ioctl", (0, TIOCLINUX, 0), "EPERM"),
    ("ioctl", (0, TIOCSTI | HIGH, 0), "EPERM"),
    ("ioctl", (0, TCGETS, 0), "ENOTTY"),  # the kernel's own answer for no terminal
    ("socket", (2, 1, 0), "done"),
    ("socket", (1, 1, 0), "done"),
    ("socket", (16, 3, 0), "done"),
    ("socket", (16, 3, 15), "EAFNOSUPPORT"),
    ("socket", (40, 1, 0), "EAFNOSUPPORT"),
    ("socket", (38, 5, 0), "EAFNOSUPPORT"),
    ("clone3", (0, 0), "ENOSYS"),
    ("io_uring_setup", (1, 0), "ENOSYS"),
    ("unshare", (0x200,), "done"),
    ("unshare", (0x10000000,), "EPERM"),
    ("setns", (2**32 - 1, 0), "EPERM"),
    ("mount", (0, 0, 0, 0, 0), "EPERM"),
    ("chroot", (0,), "EPERM"),
    ("keyctl", (2**32 - 1,), "EPERM"),
    ("bpf", (2**32 - 1, 0, 0), "EPERM"),
]


def loaded(program: bytes, calls: Sequence[tuple[int, tuple[int, ...]]]) -> tuple[list[str], list[object]]:
    """The answers of the kernel in a child with this filter, and what ordinary work in it came to."""
    done = subprocess.run(
        (sys.executable, "-I", "-c", CHILD, program.hex(), json.dumps(calls)),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
    )  # fmt: skip
    answers, work = json.loads(done.stdout)
    return answers, work


def number_here(call: str) -> int:
    """A call's number on this machine."""
    number = CALLS[call][list(ARCHITECTURES).index(platform.machine())]
    assert number is not None
    return number


def test_loaded_for_real() -> None:
    calls = [(number_here(name), arguments) for name, arguments, _ in LOADED]
    unknown: list[tuple[int, tuple[int, ...]]] = [(470, ()), (0x40000000 | 39, ()), (100_000, ())]
    answers, work = loaded(build_filter(), [*calls, *unknown])
    assert answers == [expected for _, _, expected in LOADED] + ["ENOSYS"] * len(unknown)
    assert work == ["thread", "process", 7]


def test_without_it_the_kernel_answers_otherwise() -> None:
    """What shows that the answers above are the filter's."""
    calls = [(number_here("ioctl"), (0, TIOCSTI, 0)), (number_here("socket"), (16, 3, 15))]
    assert loaded(b"", calls) == (["ENOTTY", "done"], ["thread", "process", 7])
