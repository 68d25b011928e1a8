"""The attack program where there is no compiler: the same routes as attack.c by the same names, fewer spellings.

    python attack.py --list
    python attack.py ROOT SCRATCH ROUNDS [ROUTE...]

It speaks to the kernel by number where Python has no function, since what a library refuses was not tried.
"""

import ctypes
import errno
import os
import platform
import signal
import socket
import stat
import sys
import threading
import traceback
from collections.abc import Callable

Route = Callable[[], None]
ROUTES: dict[str, Route] = {}
NEW = os.O_CREAT | os.O_WRONLY
HERE = -100  # AT_FDCWD
EMPTY_PATH, FOLLOW = 0x1000, 0x400
NO_REPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
COLUMN = 0 if platform.machine() == "x86_64" else 1
NUMBERS = {
    "openat": (257, 56), "renameat2": (316, 276), "linkat": (265, 37), "mkdirat": (258, 34), "openat2": (437, 437),
    "symlinkat": (266, 36), "unshare": (272, 97), "mount": (165, 40), "chroot": (161, 51), "setns": (308, 268),
    "io_uring_setup": (425, 425), "clone3": (435, 435), "open_tree": (428, 428), "mknodat": (259, 33),
}  # fmt: skip

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
tree, scratch, rounds, route_name = "", "", 1000, ""


def call(name: str, *arguments: object) -> int:
    """A system call by number; -1 when it failed."""
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return int(libc.syscall(ctypes.c_long(NUMBERS[name][COLUMN]), *words))


def attempt(what: Callable[..., object], *arguments: object, **more: object) -> bool:
    """Does it, if it may be done. A descriptor that comes of it gets the word, and is closed."""
    try:
        result = what(*arguments, **more)
    except OSError:
        return False
    if type(result) is int and result > 2 and what in (os.open, os.dup):
        put(result)
    return True


def put(descriptor: int) -> None:
    if descriptor >= 0:
        try:
            os.write(descriptor, b"evil")
        except OSError:
            pass
        os.close(descriptor)


def make(path: str) -> None:
    attempt(os.open, path, NEW, 0o644)


def breach(text: str) -> None:
    os.write(1, f"BREACH {route_name}: {text}\n".encode("utf-8", "backslashreplace"))
    os.write(counted[1], b"!")


def route(name: str) -> Callable[[Route], Route]:
    def add(run: Route) -> Route:
        ROUTES[name] = run
        return run

    return add


@route("creates")
def creates() -> None:
    for number, flags in enumerate(
        (NEW, NEW | os.O_EXCL, os.O_CREAT, NEW | os.O_TRUNC, os.O_CREAT | 3, NEW | os.O_DIRECTORY)
    ):
        attempt(os.open, f"a{number}.key", flags, 0o644)
    put(call("openat", HERE, b"b1.key", NEW | 1 << 32, 0o644))
    put(call("openat", HERE | 0x7F << 32, b"b2.key", NEW, 0o644))


@route("writes")
def writes() -> None:
    for flags in (os.O_WRONLY, os.O_RDWR | os.O_APPEND, os.O_RDONLY | os.O_TRUNC, os.O_CREAT | os.O_RDWR):
        attempt(os.open, ".env", flags)
        attempt(os.open, "sub/.env", flags)


@route("truncates")
def truncates() -> None:
    attempt(os.truncate, ".env", 0)
    attempt(os.truncate, os.path.join(tree, "old.pem"), 100)


@route("makes-directories")
def makes_directories() -> None:
    for name in ("a1.key", "a2.key/", "./sub/../a3.key", ".env.d"):
        attempt(os.mkdir, name)


@route("makes-nodes")
def makes_nodes() -> None:
    for number, kind in enumerate((stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR)):
        attempt(os.mknod, f"a{number}.key", kind | 0o644)


@route("makes-links")
def makes_links() -> None:
    attempt(os.link, "ok.txt", "a1.key")
    call("linkat", HERE, b"ok.txt", HERE, b"a2.key", FOLLOW)


@route("links-away")
def links_away() -> None:
    attempt(os.link, ".env", "innocent1")
    attempt(os.symlink, ".env", "pointer")
    call("linkat", HERE, b"pointer", HERE, b"innocent2", FOLLOW)
    pinned = os.open("old.pem", os.O_PATH)
    call("linkat", HERE, b"/proc/self/fd/%d" % pinned, HERE, b"innocent3", FOLLOW)
    for number in (1, 2, 3):
        attempt(os.open, f"innocent{number}", os.O_WRONLY)


@route("makes-symbolic-links")
def makes_symbolic_links() -> None:
    attempt(os.symlink, "ok.txt", "a1.key")
    attempt(os.symlink, "/etc/passwd", "sub/.env.x")


@route("writes-through-links")
def writes_through_links() -> None:
    for name, target in (
        ("p", "a1.key"),
        ("q", ".env"),
        ("r", os.path.join(tree, "a2.key")),
        ("sub/s", "../a3.key"),
    ):
        attempt(os.symlink, target, name)
        attempt(os.open, name, NEW, 0o644)
        attempt(os.truncate, name, 0)
    attempt(os.symlink, "sub", "folder")
    attempt(os.open, "folder/a4.key", NEW, 0o644)


@route("renames")
def renames() -> None:
    for number, name in enumerate(("a1.key", ".env", "sub/.env", "./a2.key")):
        make(f"b{number}")
        attempt(os.rename, f"b{number}", name)
    make("b9")
    call("renameat2", HERE, b"b9", HERE, b"a3.key", NO_REPLACE)
    os.mkdir("c")
    attempt(os.rename, "c", "a4.key")


@route("exchanges")
def exchanges() -> None:
    make("b1")
    call("renameat2", HERE, b"b1", HERE, b".env", EXCHANGE)
    attempt(os.open, "b1", os.O_WRONLY | os.O_TRUNC)


@route("whiteouts")
def whiteouts() -> None:
    make("b1")
    call("renameat2", HERE, b"b1", HERE, b"a1.key", WHITEOUT)
    call("renameat2", HERE, b".env", HERE, b"b2", WHITEOUT)


@route("renames-away")
def renames_away() -> None:
    if attempt(os.rename, ".env", "innocent"):
        attempt(os.open, "innocent", os.O_WRONLY | os.O_TRUNC)
        attempt(os.rename, "innocent", ".env")


@route("replaces-directories")
def replaces_directories() -> None:
    os.mkdir("c")
    make("c/settings.json")
    attempt(os.rename, "c", ".claude")
    attempt(os.mkdir, ".claude")
    make("d")
    attempt(os.rename, "d", ".claude/settings.json")


@route("publishes")
def publishes() -> None:
    try:
        file = os.open(".", os.O_TMPFILE | os.O_RDWR, 0o644)
    except OSError:
        return
    os.write(file, b"evil")
    call("linkat", file, b"", HERE, b"a1.key", EMPTY_PATH)
    call("linkat", HERE, b"/proc/self/fd/%d" % file, HERE, b"a2.key", FOLLOW)
    call("linkat", HERE, b"/dev/fd/%d" % file, HERE, b"sub/a3.key", FOLLOW)


@route("odd-directories")
def odd_directories() -> None:
    folder, path = os.open(".", os.O_RDONLY), os.open(".", os.O_PATH)
    for number, start in enumerate((folder, path)):
        attempt(os.open, f"a{number}.key", NEW, 0o644, dir_fd=start)
        attempt(os.mkdir, f"b{number}.key", dir_fd=start)
        attempt(os.symlink, "x", f"c{number}.key", dir_fd=start)
    attempt(os.rename, "ok.txt", "d.key", src_dir_fd=path, dst_dir_fd=folder)
    put(call("openat", path | 1 << 40, b"e.key", NEW, 0o644))


@route("spellings")
def spellings() -> None:
    for name in ("./a1.key", ".//sub/..//./a2.key", f"/{tree}/a3.key", f"/..{tree}/sub/../a4.key"):
        make(name)
    attempt(os.open, f"{tree}/../{os.path.basename(tree)}/.env", os.O_WRONLY)


@route("letters")
def letters() -> None:
    for name in (
        b".ENV",
        b"x.KEY",
        b"\xff.key",
        b"a\n.pem",
        b".key",
        ".e\u200bnv".encode(),
        "x.\u212aey".encode(),
    ):
        attempt(os.open, name, NEW, 0o644)


@route("long-paths")
def long_paths() -> None:
    attempt(os.open, "n" * 251 + ".key", NEW, 0o644)
    attempt(os.open, "./" * 2040 + "a.key", NEW, 0o644)


@route("through-private")
def through_private() -> None:
    attempt(os.symlink, tree, f"{scratch}/folder")
    make(f"{scratch}/folder/a1.key")
    attempt(os.open, f"{scratch}/folder/.env", os.O_RDONLY | os.O_TRUNC)
    attempt(os.mkdir, f"{scratch}/folder/a2.key")
    attempt(os.rename, f"{scratch}/folder/ok.txt", f"{scratch}/folder/a3.key")
    os.unlink(f"{scratch}/folder")


@route("proc-directories")
def proc_directories() -> None:
    folder = os.open(".", os.O_RDONLY)
    places = (
        "/proc/self/cwd", f"/proc/{os.getpid()}/cwd", f"/proc/self/root{tree}", f"/proc/self/fd/{folder}",
        f"/dev/fd/{folder}", f"/proc/{os.getppid()}/cwd", f"/proc/thread-self/root{tree}", "//proc/./self//cwd",
    )  # fmt: skip
    for number, place in enumerate(places):
        make(f"{place}/a{number}.key")
        attempt(os.open, f"{place}/.env", os.O_WRONLY)
        attempt(os.mkdir, f"{place}/b{number}.key")
        attempt(os.rename, "ok.txt", f"{place}/c{number}.key")


@route("proc-reopens")
def proc_reopens() -> None:
    for flags in (os.O_RDONLY, os.O_PATH):
        file = os.open(".env", flags)
        names = (
            f"/proc/self/fd/{file}",
            f"/dev/fd/{file}",
            f"/proc/thread-self/fd/{file}",
            f"/proc/{os.getpid()}/fd/{file}",
        )
        for name in names:
            attempt(os.open, name, os.O_WRONLY)
            attempt(os.open, name, os.O_RDONLY | os.O_TRUNC)
            attempt(os.truncate, name, 0)


@route("git-direct")
def git_direct() -> None:
    for name in (".git/config", ".git/hooks/pre-commit", ".git/commondir"):
        attempt(os.open, name, NEW | os.O_APPEND, 0o755)
        make("b")
        attempt(os.rename, "b", name)
        attempt(os.link, "b", name)
        attempt(os.symlink, "../b", name)


@route("git-ancestors")
def git_ancestors() -> None:
    os.makedirs("c/hooks")
    make("c/hooks/pre-commit")
    if attempt(os.rename, ".git", "d"):
        attempt(os.rename, "c", ".git")
    call("renameat2", HERE, b"c/hooks", HERE, b".git/hooks", EXCHANGE)


@route("newer-calls")
def newer_calls() -> None:
    how = NEW.to_bytes(8, "little") + (0o644).to_bytes(8, "little") + bytes(8)
    put(call("openat2", HERE, b"a1.key", how, 24))
    if call("io_uring_setup", 4, bytes(256)) >= 0:
        breach("io_uring is there")
    if call("clone3", 0, 0) < 0 and ctypes.get_errno() != errno.ENOSYS:
        breach("clone3 is there")


@route("privileges")
def privileges() -> None:
    for name, arguments in (
        ("unshare", (0x10000000,)), ("chroot", (b"sub",)), ("mount", (b"x", b"sub", b"tmpfs", 0, 0)),
        ("setns", (os.open("/proc/self/ns/mnt", os.O_RDONLY), 0)), ("open_tree", (HERE, b".", 1)),
    ):  # fmt: skip
        if call(name, *arguments) >= 0:
            breach(f"{name} was done")


@route("unix-sockets")
def unix_sockets() -> None:
    for kind, name in ((socket.SOCK_STREAM, "host.sock"), (socket.SOCK_DGRAM, "host.dgram")):
        try:
            one = socket.socket(socket.AF_UNIX, kind)
        except OSError:
            continue
        if attempt(one.connect, name):
            attempt(one.send, b"evil")
            breach(f"connected to {name}")
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    other.setblocking(False)
    # What the other end has got did not go anywhere else.
    if attempt(one.sendto, b"evil", "host.dgram") and not attempt(other.recv, 4):
        breach("sent to host.dgram")


def race(
    first: bytes, second: bytes, what: Callable[[ctypes.Array[ctypes.c_char]], None], count: int
) -> None:
    """Calls with a path that another thread changes: while the kernel has the call, Python runs the other."""
    shared = ctypes.create_string_buffer(max(first, second, key=len), 4096)
    over = threading.Event()

    def flip() -> None:
        while not over.is_set():
            ctypes.memmove(shared, second + b"\0", len(second) + 1)
            ctypes.memmove(shared, first + b"\0", len(first) + 1)

    thread = threading.Thread(target=flip)
    thread.start()
    for _ in range(count):
        what(shared)
    over.set()
    thread.join()


@route("flips-names")
def flips_names() -> None:
    def opening(path: ctypes.Array[ctypes.c_char]) -> None:
        put(call("openat", HERE, path, NEW, 0o644))

    def moving(path: ctypes.Array[ctypes.c_char]) -> None:
        make("from")
        call("renameat2", HERE, b"from", HERE, path, 0)

    race(b"a1.txt", b"a1.key", opening, rounds)
    race(b"a2.txt", b"a2.key", moving, rounds)


@route("flips-private")
def flips_private() -> None:
    def opening(path: ctypes.Array[ctypes.c_char]) -> None:
        put(call("openat", HERE, path, NEW, 0o644))

    def cutting(path: ctypes.Array[ctypes.c_char]) -> None:
        put(call("openat", HERE, path, os.O_WRONLY, 0))

    inside = os.fsencode(f"{scratch}/file")
    race(inside, os.fsencode(f"{tree}/a1.key"), opening, rounds)
    race(b"/dev/null", os.fsencode(f"{tree}/.env"), cutting, rounds)


# --- The judge ------------------------------------------------------------------------------------


def is_denied(name: str) -> bool:
    plain = "".join(one for one in name.lower() if one.isascii() and one.isprintable())
    odd = name in ("x.\u212aey",)
    return odd or plain == ".env" or plain.startswith(".env.") or plain.endswith((".key", ".pem"))


def names_there() -> dict[int, str]:
    """Denied names by inode."""
    found = {}
    for folder, folders, files in os.walk(tree):
        for name in (*folders, *files):
            if is_denied(name):
                path = os.path.join(folder, name)
                found[os.lstat(path).st_ino] = path
    return found


def judge(before: dict[int, str]) -> None:
    for inode, path in names_there().items():
        found = os.lstat(path)
        if inode not in before:
            breach(f"{path} exists")
        elif stat.S_ISREG(found.st_mode) and (found.st_size != 6 or found.st_nlink != 1):
            breach(f"{path} was written or has another name")
        elif stat.S_ISREG(found.st_mode):
            with open(path, "rb") as file:
                if b"evil" in file.read():
                    breach(f"{path} was written")
    for name in (".git/hooks/pre-commit", ".git/commondir", ".claude/settings.json"):
        if os.path.exists(os.path.join(tree, name)):
            breach(f"{name} exists")
    with open(os.path.join(tree, ".git/config"), "rb") as file:
        if b"evil" in file.read():
            breach(".git/config was written")


def try_route(root: str, name: str) -> None:
    global tree, route_name
    route_name = name
    tree = os.path.join(root, route_name)
    os.chdir(tree)
    before = names_there()
    child = os.fork()
    if not child:
        signal.alarm(120)  # a patience: whatever takes longer hangs
        try:
            ROUTES[route_name]()
        except OSError:
            traceback.print_exc()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        breach("hangs, or crashed")
    try:
        judge(before)
    except OSError as error:
        breach(f"the tree is gone: {error}")


def main(arguments: list[str]) -> int:
    global scratch, rounds
    if arguments == ["--list"]:
        sys.stdout.write("\n".join(ROUTES) + "\n")
        return 0
    root, scratch, number, *wanted = arguments
    rounds = int(number)
    for name in wanted or ROUTES:
        try_route(root, name)
    os.close(counted[1])
    count = 0
    while part := os.read(counted[0], 4096):
        count += len(part)
    return min(count, 100)


counted = os.pipe2(os.O_NONBLOCK)
if __name__ == "__main__":
    os.set_blocking(counted[0], True)
    sys.exit(main(sys.argv[1:]))
