"""The part of a wrap that every session has: system, devices, processes, /etc, and the product's own few files."""

import marshal
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.util import MAGIC_NUMBER

from sandbox.agents.claude import ClaudeHook, managed_files
from sandbox.etc import accounts, hosts

# Where the product's own few files stand inside.
OWN_FOLDER = "/run/agent-gateway"
STUB = f"{OWN_FOLDER}/stub.pyc"
ATTENDANT = f"{OWN_FOLDER}/attendant.py"
CONNECT = f"{OWN_FOLDER}/connect.py"
CREDENTIAL = f"{OWN_FOLDER}/credential.py"
HOOK = f"{OWN_FOLDER}/hook.pyc"
GIT_CONFIG = f"{OWN_FOLDER}/gitconfig"
# A directory that `gh` finds empty. It is writable, and gone with the wrap: gh refuses to work where it cannot
# write its configuration.
GH_CONFIG = f"{OWN_FOLDER}/gh"

# Folders of the root with the system's programs; the rest (home, opt, srv, root, …) is not shown.
SYSTEM_FOLDERS = frozenset({"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "nix", "gnu"})
# Root entries that the wrap has its own of; a link under such a name is not copied.
OWN_ENTRIES = frozenset({"dev", "etc", "proc", "run", "sys", "tmp", "var"})

# Everything that can be separate is. --cap-drop: bubblewrap leaves root its capabilities otherwise.
NAMESPACES = (
    "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
    "--die-with-parent", "--clearenv", "--cap-drop", "ALL",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file inside whose content comes from the launcher's memory."""

    path: str
    content: bytes


def system_folders(root: str = "/") -> Iterator[str]:
    """The root's entries that hold the system: folders to bind, and every link (merged /usr, /home on some systems)."""
    for entry in sorted(os.scandir(root), key=lambda entry: entry.name):
        if entry.name in OWN_ENTRIES:
            continue
        if entry.is_symlink() or entry.name in SYSTEM_FOLDERS:
            yield entry.path


def base_arguments() -> Iterator[str]:
    """The root: system folders, devices, processes, temporary files."""
    for path in system_folders():
        yield from (
            ("--symlink", os.readlink(path), path) if os.path.islink(path) else ("--ro-bind", path, path)
        )
    yield from ("--dev", "/dev", "--proc", "/proc", *kernel_covers())
    for path in ("/tmp", "/var/tmp"):
        yield from ("--perms", "1777", "--tmpfs", path)
    # Where certificates are on some systems, by links from /etc.
    yield from ("--ro-bind-try", "/var/lib/ca-certificates", "/var/lib/ca-certificates")


def kernel_covers() -> Iterator[str]:
    """Covers what /proc lets its owner do. Root inside is root outside to most of /proc/sys (core_pattern runs a
    program of one's choice as root on the host), and bubblewrap covers it only when it may write it itself. Nobody else
    owns anything there. Nothing on a system without /proc, where this is only looked at."""
    if os.geteuid() != 0 or not os.path.isdir("/proc"):
        return
    for entry in sorted(os.scandir("/proc"), key=lambda entry: entry.name):
        if entry.name.isdigit() or entry.is_symlink():
            continue
        mode = entry.stat().st_mode
        if stat.S_ISDIR(mode):
            yield from ("--ro-bind", entry.path, entry.path)
        elif stat.S_ISREG(mode) and (mode & stat.S_IWUSR or not mode & stat.S_IROTH):
            yield from ("--ro-bind", "/dev/null", entry.path)


def forge_arguments() -> Iterator[str]:
    """What programs that speak to the forge find besides."""
    yield from ("--perms", "0700", "--tmpfs", GH_CONFIG)


@cache
def _program(name: str) -> bytes:
    """One of the programs that run inside, as it lies beside this module."""
    return (resources.files("sandbox") / f"{name}.py").read_bytes()


@cache
def _compiled(name: str, place: str) -> bytes:
    """The same as this interpreter has it after reading it, which takes it as long as all the rest of a start. The
    interpreter inside is the one that runs here (`mounts.own_interpreter`)."""
    code = compile(_program(name), place, "exec", dont_inherit=True)
    return MAGIC_NUMBER + bytes(12) + marshal.dumps(code)


def own_files(home: str, git_config: str) -> Iterator[DataFile]:
    """What the wrap brings itself: programs of its own, accounts, names."""
    uid, gid = os.getuid(), os.getgid()
    try:
        account = pwd.getpwuid(uid)
        name, shell = account.pw_name, account.pw_shell or "/bin/sh"
    except KeyError:
        name, shell = "user", "/bin/sh"
    people, groups = accounts(uid, gid, name, home, shell)
    yield DataFile("/etc/passwd", people.encode())
    yield DataFile("/etc/group", groups.encode())
    yield DataFile("/etc/hosts", hosts(os.uname().nodename).encode())
    yield DataFile("/etc/resolv.conf", b"# names are resolved by the proxies\n")
    yield DataFile(STUB, _compiled("stub", STUB))
    yield DataFile(ATTENDANT, _program("attendant"))
    yield DataFile(CONNECT, _program("connect"))
    yield DataFile(CREDENTIAL, _program("credential"))
    if git_config:
        yield DataFile(GIT_CONFIG, git_config.encode(errors="surrogateescape"))


def hook_files(hook: ClaudeHook | None, command: str) -> Iterator[DataFile]:
    """The hook, and Claude Code's managed settings that have it run for every tool; nothing without one."""
    if hook is not None:
        yield DataFile(HOOK, _compiled("hook", HOOK))
        yield from (DataFile(path, content) for path, content in managed_files(command, hook))
