"""The numbers of the system calls that the wrap's filter and the supervisor of the file rules speak about.

From the kernel's tables (arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h). Data only.
"""

from _collections_abc import Mapping  # what `collections.abc` is, without the rest of `collections`

# linux/audit.h, by the machine name of uname(2).
ARCHITECTURES: Mapping[str, int] = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Whatever is newer than these tables was not looked at: ENOSYS, and libraries fall back. (file_setattr, Linux 6.17.)
LAST_KNOWN_CALL = 469
# x86-64: calls of the x32 convention carry this bit (asm/unistd.h), so they lie above the last known one as well.

# name: (x86-64, arm64); None where the architecture has none. The same numbers from 424 on.
CALLS: Mapping[str, tuple[int | None, int | None]] = {
    # what puts a name into a directory, or opens a file for writing
    "open": (2, None),
    "openat": (257, 56),
    "openat2": (437, 437),
    "creat": (85, None),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "truncate": (76, 45),
    "umask": (95, 166),
    # devices, sockets, processes
    "fcntl": (72, 25),
    "ioctl": (16, 29),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
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
    # what the host itself is made of
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


def numbers(machine: str) -> dict[str, int]:
    """Name to number on a machine as uname(2) names it; empty when there is no table for it."""
    if machine not in ARCHITECTURES:
        return {}
    column = list(ARCHITECTURES).index(machine)
    return {name: number for name, row in CALLS.items() if (number := row[column]) is not None}
