"""Random calls that name and open files, run inside a wrap: `python fuzzed.py SEED COUNT`, in a directory of its own.

Prints a JSON list: for each call what it was and what came of it, then every entry of the resulting tree. With and
without the door, as the same person, both have to be the same.
"""

import ctypes
import errno
import json
import os
import random
import stat
import sys

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, AT_EMPTY_PATH, AT_SYMLINK_FOLLOW = -100, 0x1000, 0x400
RENAMEAT2 = {"x86_64": 316, "aarch64": 276}[os.uname().machine]
HOME = os.getcwd().encode()
NAMES = (
    b"a", b"b", b"c", b"d", b"e", b"d/a", b"d/b", b"d/e", b"e/a", b"d/e/a", b"l", b"m", b"d/l", b"l/a", b"p", b"d/p",
)  # fmt: skip
FLAGS = (
    os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_EXCL,
    os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.O_WRONLY | os.O_TRUNC, os.O_RDONLY | os.O_TRUNC, os.O_RDWR | os.O_APPEND,
    os.O_RDONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, os.O_WRONLY | os.O_DIRECTORY, 3,
    os.O_RDWR | os.O_TMPFILE, os.O_WRONLY | os.O_TMPFILE | os.O_EXCL, os.O_RDONLY | os.O_TMPFILE,
    os.O_WRONLY | os.O_CREAT | os.O_DIRECTORY, os.O_WRONLY | os.O_CREAT | os.O_NOATIME,
    os.O_WRONLY | os.O_CREAT | os.O_SYNC,
)  # fmt: skip
MODES = (0o644, 0o600, 0o777, 0o666, 0o755, 0o4755, 0o2711, 0o1777, 0, 0o400)


class Fuzz:
    """One run."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.open: list[int] = []
        self.folders: list[int] = [os.open(b".", os.O_RDONLY | os.O_DIRECTORY)]

    def path(self) -> bytes:
        """A path, sometimes oddly spelled."""
        name = self.random.choice(NAMES)
        match self.random.randrange(16):
            case 0:
                return name + b"/"
            case 1:
                return b"./" + name
            case 2:
                return HOME + b"/" + name
            case 3:
                return b"d/../" + name
            case 4:
                return b"../" + os.path.basename(HOME) + b"//" + name
            case 5:
                return b"/proc/self/cwd/" + name
            case 6:
                return b"/proc/thread-self/root" + HOME + b"/" + name
            case 7:
                return self.random.choice(
                    (b"", b".", b"..", b"/", b"d/.", b"d/..", b"no/thing", b"n" * 256, b"x/" * 2100)
                )
            case 8 if self.open:
                return b"/proc/self/fd/%d" % self.random.choice(self.open)
            case 9 if self.open:
                return b"/dev/fd/%d" % self.random.choice(self.open)
            case _:
                return name

    def folder(self) -> int:
        return self.random.choice((AT_FDCWD, AT_FDCWD, AT_FDCWD, *self.folders, 999))

    # --- The calls. Each returns something to compare, or raises OSError -------------------------------

    def opens(self) -> object:
        flags = self.random.choice(FLAGS) | self.random.choice((0, os.O_NONBLOCK)) | os.O_CLOEXEC
        folder, path, mode = self.folder(), self.path(), self.random.choice(MODES)
        if _is_pipe(folder, path):
            flags |= os.O_NONBLOCK  # it would be waited for
        opened = _call(libc.openat, folder, path, flags, mode)
        if len(self.open) < 8:
            self.open.append(opened)
        else:
            os.close(self.open.pop(0))
            self.open.append(opened)
        found = os.fstat(opened)
        if stat.S_ISREG(found.st_mode) and flags & 3 in (1, 2):
            os.write(opened, b"w%d" % self.random.randrange(1000))
        told = _call(libc.fcntl, opened, 3)  # F_GETFL
        return [stat.filemode(found.st_mode), opened, told, os.get_inheritable(opened)]

    def creats(self) -> object:
        path = self.path()
        if _is_pipe(AT_FDCWD, path):
            return ""
        os.close(_call(libc.creat, path, self.random.choice(MODES)))
        return ""

    def renames(self) -> object:
        flags = self.random.choice((0, 0, 0, 1, 2, 3, 8))
        arguments = (self.folder(), self.path(), self.folder(), self.path(), flags)
        _call(libc.syscall, RENAMEAT2, *arguments)
        return ""

    def renames_plainly(self) -> object:
        os.rename(self.path(), self.path())
        return ""

    def links(self) -> object:
        flags = self.random.choice((0, 0, AT_SYMLINK_FOLLOW, 0x8000))
        _call(libc.linkat, self.folder(), self.path(), self.folder(), self.path(), flags)
        return ""

    def publishes(self) -> object:
        if not self.open:
            return ""
        chosen = b"/proc/self/fd/%d" % self.random.choice(self.open)
        _call(libc.linkat, AT_FDCWD, chosen, self.folder(), self.path(), AT_SYMLINK_FOLLOW)
        return ""

    def symlinks(self) -> object:
        target = self.random.choice(
            (b"a", b"d", b"d/a", b"../d", HOME + b"/b", b"no", b"l", b"m", b".", b"/proc/self/cwd/d", b"p")
        )
        _call(libc.symlinkat, target, self.folder(), self.path())
        return ""

    def nodes(self) -> object:
        kind = self.random.choice((stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, 0, stat.S_IFDIR))
        device = os.makedev(1, 3) if kind == stat.S_IFCHR else 0
        _call(libc.mknodat, self.folder(), self.path(), kind | self.random.choice(MODES), device)
        return ""

    def directories(self) -> object:
        _call(libc.mkdirat, self.folder(), self.path(), self.random.choice(MODES) | 0o700)
        return ""

    def truncates(self) -> object:
        length = self.random.choice((0, 1, 100, 5000, -1))
        _call(libc.truncate, self.path(), ctypes.c_long(length))
        return ""

    def removes(self) -> object:
        path = self.path()
        try:
            os.unlink(path)
        except OSError:
            os.rmdir(path)
        return ""

    def masks(self) -> object:
        return os.umask(self.random.choice((0, 0o22, 0o77, 0o27, 0o777)))

    def changes(self) -> object:
        os.chdir(self.random.choice((HOME, HOME, b"d", b".")))
        return os.getcwd().removeprefix(os.fsdecode(HOME))

    def chmods(self) -> object:
        os.chmod(self.path(), self.random.choice(MODES) | 0o600)
        return ""

    def step(self) -> list[object]:
        """One call and what came of it."""
        call = self.random.choice(CALLS)
        try:
            return [call.__name__, "ok", call(self)]
        except OSError as error:
            return [call.__name__, errno.errorcode.get(error.errno or 0, "?")]


CALLS = (
    Fuzz.opens, Fuzz.opens, Fuzz.opens, Fuzz.opens, Fuzz.creats, Fuzz.renames, Fuzz.renames, Fuzz.renames_plainly,
    Fuzz.links, Fuzz.publishes, Fuzz.symlinks, Fuzz.nodes, Fuzz.directories, Fuzz.directories, Fuzz.truncates,
    Fuzz.removes, Fuzz.masks, Fuzz.changes, Fuzz.chmods,
)  # fmt: skip


def _is_pipe(folder: int, path: bytes) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path, dir_fd=None if folder == AT_FDCWD else folder).st_mode)
    except OSError:
        return False


def _call(function: object, *arguments: object) -> int:
    result = int(function(*arguments))  # type: ignore[operator]  # a function of the C library
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def tree() -> list[list[object]]:
    """Every entry below, with everything that two runs can have in common."""
    found: list[list[object]] = []
    for folder, folders, files in os.walk(HOME):
        for name in sorted((*folders, *files)):
            path = os.path.join(folder, name)
            try:
                status = os.lstat(path)
            except PermissionError:
                found.append([os.fsdecode(path[len(HOME) :]), "closed"])
                continue
            content = ""
            if stat.S_ISLNK(status.st_mode):
                content = os.fsdecode(os.readlink(path).replace(HOME, b"HOME"))
            elif stat.S_ISREG(status.st_mode):
                content = str(status.st_size)
            entry = [os.fsdecode(path[len(HOME) :]), stat.filemode(status.st_mode), status.st_nlink, content]
            found.append([*entry, status.st_uid, status.st_gid] if stat.S_ISREG(status.st_mode) else [*entry])
    return sorted(found, key=str)


def main(seed: int, count: int) -> None:
    """Prints what came of it."""
    fuzz = Fuzz(seed)
    steps = [fuzz.step() for _ in range(count)]
    for descriptor in (*fuzz.open, *fuzz.folders):
        os.close(descriptor)
    os.write(1, json.dumps([steps, tree()]).encode())


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
