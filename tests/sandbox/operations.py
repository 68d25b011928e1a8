"""Random work on a tree, reproducible: `python operations.py SEED COUNT TREE`. One JSON line for each operation:
what it was, and what came of it. Runs inside a wrap, with nothing of this project around it.

Whatever it does depends on the seed and on earlier results alone, so two runs part only where one operation does.
"""

import ctypes
import errno
import fcntl
import json
import os
import random
import stat
import sys
from collections.abc import Callable

# What is done, and what does it.
Operation = tuple[list[object], Callable[[], object]]
NAMES = (
    "a",
    "b",
    "c",
    "folder",
    "folder/x",
    "folder/y",
    "folder/deep",
    "folder/deep/z",
    "link",
    "pipe",
    "new",
    "other",
    # directories of another group, of which one may remove only one's own; with a list of what new files allow
    "shared",
    "shared/x",
    "shared/deep",
    "listed",
    "listed/x",
    "listed/deep",
)
ODD = (
    "",
    ".",
    "..",
    "/",
    "a/",
    "folder/",
    "folder/.",
    "folder/..",
    "./a",
    "folder//x",
    "missing/x",
    "a/x",
    "link/",
    "loop",
)
OPEN_FLAGS = (
    os.O_CREAT,
    os.O_EXCL,
    os.O_TRUNC,
    os.O_APPEND,
    os.O_NOFOLLOW,
    os.O_DIRECTORY,
    os.O_CLOEXEC,
    os.O_PATH,
)
MODES = (*[0o644, 0o600, 0o666, 0o755, 0o777] * 3, 0o400, 0o4755, 0o2755, 0o1777, 0)
MASKS = (*[0, 0o22, 0o2, 0o27, 0o77] * 3, 0o777)
HERE, EMPTY_PATH, FOLLOW = -100, 0x1000, 0x400
NO_REPLACE, EXCHANGE = 1, 2
X86 = os.uname().machine == "x86_64"
RENAMEAT2, LINKAT = (316, 265) if X86 else (276, 37)
# What F_GETFL tells of an open file; O_NOFOLLOW may be the supervisor's own.
TOLD = os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_DIRECTORY

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def call(number: int, *arguments: int | str) -> int:
    """A system call by number; OSError when it fails."""
    words = [
        ctypes.c_long(one) if isinstance(one, int) else ctypes.c_char_p(os.fsencode(one)) for one in arguments
    ]
    result = int(libc.syscall(ctypes.c_long(number), *words))
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def reason(error: OSError) -> str:
    """The name of its errno."""
    return errno.errorcode.get(error.errno or 0, "?")


class Work:
    """The tree, and what was drawn so far."""

    def __init__(self, seed: int, tree: str) -> None:
        self.draw = random.Random(seed)
        self.tree = tree
        self.kept: list[int] = []  # descriptors that stay open

    def path(self) -> str:
        """A path in one of many spellings."""
        kind = self.draw.random()
        name = self.draw.choice(NAMES)
        if kind < 0.6:
            return name
        if kind < 0.72:
            return self.draw.choice(ODD)
        if kind < 0.8:
            return os.path.join(self.tree, name)
        if kind < 0.85:
            return "/proc/self/cwd/" + name
        if kind < 0.88:
            return "/proc/self/root" + os.path.join(self.tree, name)
        if kind < 0.93:
            return f"/proc/self/fd/{self.kept_one()}" + self.draw.choice(("", "/x", "/" + name))
        if kind < 0.96:
            return "folder/../" * self.draw.randrange(1, 5) + name
        if kind < 0.98:
            return "n" * self.draw.choice((200, 255, 256)) + self.draw.choice(("", "/x"))
        return f"/dev/fd/{self.kept_one()}"

    def start(self) -> int | None:
        """What a relative path begins at: the working directory, or some descriptor."""
        return None if self.draw.random() < 0.8 else self.kept_one()

    def kept_one(self) -> int:
        return self.draw.choice(self.kept) if self.kept else 99

    def do_open(self) -> Operation:
        path, start = self.path(), self.start()
        flags = self.draw.choice((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR))
        for flag in OPEN_FLAGS:
            if self.draw.random() < (0.5 if flag == os.O_CREAT else 0.12):
                flags |= flag
        mode = self.draw.choice(MODES)
        keep, content = self.draw.random() < 0.4, b"%d" % self.draw.randrange(1000)
        if may_block(path, start):
            flags |= os.O_NONBLOCK
        return ["open", path, start, flags, mode], lambda: self.opened(
            os.open(path, flags, mode, dir_fd=start), content, keep
        )

    def do_nameless(self) -> Operation:
        path, flags = (
            self.path(),
            os.O_TMPFILE | self.draw.choice((os.O_RDWR, os.O_WRONLY, os.O_RDWR | os.O_EXCL)),
        )
        mode = self.draw.choice(MODES)
        return ["nameless", path, flags, mode], lambda: self.opened(
            os.open(path, flags, mode), b"nameless", True
        )

    def opened(self, descriptor: int, content: bytes, keep: bool) -> list[object]:
        """What can be told of a descriptor, and it is written to."""
        found = os.fstat(descriptor)
        told: list[object] = [
            descriptor,
            fcntl.fcntl(descriptor, fcntl.F_GETFL) & TOLD,
            fcntl.fcntl(descriptor, fcntl.F_GETFD),
        ]
        told += [oct(found.st_mode), found.st_nlink, found.st_size if stat.S_ISREG(found.st_mode) else 0]
        if stat.S_ISREG(found.st_mode):
            try:
                told.append(os.write(descriptor, content))
            except OSError as error:
                told.append(reason(error))
        if not keep:
            os.close(descriptor)
        elif len(self.kept) < 6:
            self.kept.append(descriptor)
        else:
            os.close(self.kept[0])
            self.kept[0] = descriptor
        return told

    def do_rename(self) -> Operation:
        old, new, first, second = self.path(), self.path(), self.start(), self.start()
        return ["rename", old, new, first, second], lambda: os.rename(
            old, new, src_dir_fd=first, dst_dir_fd=second
        )

    def do_rename2(self) -> Operation:
        old, new = self.path(), self.path()
        flags = self.draw.choice((0, NO_REPLACE, EXCHANGE, EXCHANGE, EXCHANGE | NO_REPLACE, 64))
        return ["renameat2", old, new, flags], lambda: call(RENAMEAT2, HERE, old, HERE, new, flags)

    def do_link(self) -> Operation:
        old, new, first = self.path(), self.path(), self.start()
        flags = self.draw.choice((0, 0, FOLLOW, EMPTY_PATH, 2))
        return ["link", old, new, first, flags], lambda: call(
            LINKAT, HERE if first is None else first, old, HERE, new, flags
        )

    def do_publish(self) -> Operation:
        start, new = self.kept_one(), self.path()
        way = self.draw.random() < 0.5
        old, flags = ("", EMPTY_PATH) if way else (f"/proc/self/fd/{start}", FOLLOW)
        return ["publish", start, new, way], lambda: call(
            LINKAT, start if way else HERE, old, HERE, new, flags
        )

    def do_symlink(self) -> Operation:
        target = self.draw.choice(
            (*NAMES, "..", "../a", "/proc/self/cwd/a", os.path.join(self.tree, "b"), "loop", "a/")
        )
        name, start = self.draw.choice((self.path(), "link", "loop")), self.start()
        return ["symlink", target, name, start], lambda: os.symlink(target, name, dir_fd=start)

    def do_mknod(self) -> Operation:
        path, start = self.path(), self.start()
        kind, mode = (
            self.draw.choice((stat.S_IFREG, 0, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFDIR)),
            self.draw.choice(MODES),
        )
        return ["mknod", path, start, kind, mode], lambda: os.mknod(path, kind | mode, dir_fd=start)

    def do_mkdir(self) -> Operation:
        path, start = self.draw.choice((self.path(), "folder", "folder/deep")), self.start()
        mode = self.draw.choice(MODES)
        return ["mkdir", path, start, mode], lambda: os.mkdir(path, mode, dir_fd=start)

    def do_truncate(self) -> Operation:
        path, size = self.path(), self.draw.choice((0, 1, 5, 4096, -1))
        return ["truncate", path, size], lambda: os.truncate(path, size)

    def do_umask(self) -> Operation:
        mask = self.draw.choice(MASKS)
        return ["umask", mask], lambda: os.umask(mask)

    def do_chdir(self) -> Operation:
        path = self.draw.choice(("folder", "..", self.tree, "folder/deep", self.tree))
        # Never above the tree: what is there is not ours.
        return ["chdir", path], lambda: os.chdir(
            path if path != ".." or os.getcwd() != self.tree else self.tree
        )

    def do_unlink(self) -> Operation:
        path = self.path()
        return ["unlink", path], lambda: os.unlink(path)

    def do_rmdir(self) -> Operation:
        path = self.path()
        return ["rmdir", path], lambda: os.rmdir(path)

    def do_chmod(self) -> Operation:
        path, mode = self.draw.choice(NAMES), self.draw.choice(MODES)
        return ["chmod", path, mode], lambda: os.chmod(path, mode)

    def do_repair(self) -> Operation:
        """Modes that let work go on."""

        def repair() -> None:
            os.umask(0o22)
            for folder in ("folder", "folder/deep"):
                os.chmod(folder, 0o755)

        return ["repair"], repair

    def do_write(self) -> Operation:
        descriptor = self.kept_one()
        return ["write", descriptor], lambda: os.write(descriptor, b"more")

    def do_close(self) -> Operation:
        descriptor = self.kept_one()
        if descriptor in self.kept:
            self.kept.remove(descriptor)
        return ["close", descriptor], lambda: os.close(descriptor)

    def step(self) -> tuple[list[object], object]:
        """One operation: what it is, how it went."""
        kind = self.draw.choices(KINDS, WEIGHTS)[0]
        what, do = getattr(self, "do_" + kind)()
        try:
            return what, do()
        except OSError as error:
            return what, reason(error)
        except ValueError:
            return what, "ValueError"


WEIGHTED = {
    "open": 30, "nameless": 3, "rename": 10, "rename2": 6, "link": 7, "publish": 4, "symlink": 7, "mknod": 5,
    "mkdir": 8, "truncate": 5, "umask": 3, "chdir": 4, "unlink": 5, "rmdir": 2, "chmod": 4, "repair": 4,
    "write": 3, "close": 2,
}  # fmt: skip
KINDS, WEIGHTS = list(WEIGHTED), list(WEIGHTED.values())


def may_block(path: str, start: int | None) -> bool:
    """Whether opening would wait for somebody at the other end of a pipe."""
    try:
        return stat.S_ISFIFO(os.stat(path, dir_fd=start).st_mode)
    except OSError:
        return False


def main(arguments: list[str]) -> None:
    seed, count, tree = int(arguments[0]), int(arguments[1]), arguments[2]
    os.chdir(tree)
    work = Work(seed, tree)
    for _ in range(count):
        sys.stdout.write(json.dumps(work.step()) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
