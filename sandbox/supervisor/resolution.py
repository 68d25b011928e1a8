"""Paths as the caller would see them, pinned: a path becomes a directory's descriptor and a final name.

The kernel resolves, on the wrap's own root, with magic links forbidden. What that cannot do (links below a working
directory, `/proc/self`, the magic links of a process's own descriptors) is walked here, one pinned step after
another. Nothing is decided; the directory that comes out says itself where it is (`folder`).
"""

import errno
import os
import stat
from _collections_abc import Sequence

from sandbox.supervisor import kernel
from sandbox.supervisor.tracee import Tracee
from sandbox.supervisor.tracees import Tracees

AT_FDCWD = -100
# path_resolution(7): as many links as the kernel follows.
LINK_LIMIT = 40
_PIN = os.O_PATH | os.O_CLOEXEC
_PIN_FOLDER = _PIN | os.O_DIRECTORY
_INSIDE_ROOT = kernel.IN_ROOT | kernel.NO_MAGIC_LINKS
_NO_LINKS = kernel.NO_SYMLINKS | kernel.NO_MAGIC_LINKS
# Errors of the quick ways after which the slow one may still arrive.
_TRY_WALKING = (errno.ELOOP, errno.ENOENT, errno.EXDEV, errno.EAGAIN)
PROTECTED_LINKS = "/proc/sys/fs/protected_symlinks"
# Of a directory in which everybody may make names, and nobody may remove others'.
_ANYBODY_MAY = stat.S_ISVTX | stat.S_IWOTH
# The root of every procfs (include/linux/proc_fs.h).
_PROC_ROOT_INODE = 1


class Place:
    """A pinned directory and a name in it. `slash` says that the path ended in one, which the kernel looks at."""

    __slots__ = ("_folder", "name", "parent", "slash")

    def __init__(self, parent: int, name: bytes, slash: bool = False) -> None:
        self.parent = parent
        self.name = name
        self.slash = slash
        self._folder = b""

    @property
    def folder(self) -> bytes:
        """The real path of the pinned directory, as the wrap's mount namespace shows it."""
        if not self._folder:
            self._folder = os.readlink(b"/proc/self/fd/%d" % self.parent)
        return self._folder

    def believe(self, folder: bytes) -> None:
        """Takes a real path that was read elsewhere."""
        self._folder = folder

    @property
    def path(self) -> bytes:
        """The whole path."""
        folder = self.folder
        return folder + self.name if folder == b"/" else folder + b"/" + self.name

    @property
    def spelled(self) -> bytes:
        """The name as the kernel is to be given it."""
        return self.name + b"/" if self.slash else self.name


def path_of(descriptor: int) -> bytes:
    """The real path of what a descriptor is open on."""
    return os.readlink(b"/proc/self/fd/%d" % descriptor)


class Resolver:
    """Resolves for one caller during one notification, and owns every descriptor that comes out of it."""

    __slots__ = ("_links", "_tracees", "held", "tracee")

    def __init__(self, tracees: Tracees, tracee: Tracee) -> None:
        self._tracees = tracees
        self.tracee = tracee
        self.held: list[int] = []
        self._links = 0

    def close(self) -> None:
        """Closes everything that was pinned."""
        for descriptor in self.held:
            os.close(descriptor)
        self.held.clear()

    def hold(self, descriptor: int) -> int:
        """Takes a descriptor over."""
        self.held.append(descriptor)
        return descriptor

    def release(self, descriptor: int) -> int:
        """Gives one away: it outlives the notification."""
        self.held.remove(descriptor)
        return descriptor

    def base(self, folder: int) -> int:
        """Where a relative path begins: the working directory, or the caller's descriptor `folder`."""
        if folder == AT_FDCWD:
            return self.hold(self.tracee.working_directory())
        return self.hold(self.tracee.descriptor(folder))

    def place(self, folder: int, path: bytes) -> Place:
        """Where `path`'s last name is, without following it. The name may be "." or ".."."""
        if not path:
            raise OSError(errno.ENOENT, "")
        bare = path.rstrip(b"/")
        slash = len(bare) != len(path)
        if not bare:
            return Place(self._tracees.root, b".", True)
        cut = bare.rfind(b"/")
        if cut < 0:
            return Place(self.base(folder), bare, slash)
        start = self._tracees.root if bare[:1] == b"/" else self.base(folder)
        return Place(self._folder(start, bare[:cut] or b"/"), bare[cut + 1 :], slash)

    def whole(self, folder: int, path: bytes) -> int:
        """The directory at `path`, every link followed."""
        if not path:
            raise OSError(errno.ENOENT, "")
        start = self._tracees.root if path[:1] == b"/" else self.base(folder)
        return self._folder(start, path)

    def follow(self, place: Place) -> "Place | int":
        """Where the link at a place leads: another place, or the pinned target of a magic link."""
        target = self._read_link(place.parent, place.name)
        if isinstance(target, bytes):
            _refuse_foreign_link(place)
        return target if isinstance(target, int) else self.follow_text(target, place.parent, place.slash)

    def follow_text(self, target: bytes, folder: int, slash: bool = False) -> Place:
        """Where a link with this text, in the pinned `folder`, leads."""
        bare = target.rstrip(b"/")
        if not bare:
            return Place(self._tracees.root, b".", True)
        slash = slash or len(bare) != len(target)
        cut = bare.rfind(b"/")
        if cut < 0:
            return Place(folder, bare, slash)
        start = self._tracees.root if target[:1] == b"/" else folder
        return Place(self._folder(start, bare[:cut] or b"/"), bare[cut + 1 :], slash)

    def _folder(self, start: int, path: bytes) -> int:
        """The directory at `path`, from `start` (or the root, when it is absolute)."""
        absolute = path[:1] == b"/"
        try:
            if absolute:
                return self.hold(kernel.openat2(self._tracees.root, path, _PIN_FOLDER, _INSIDE_ROOT))
            return self.hold(kernel.openat2(start, path, _PIN_FOLDER, _NO_LINKS))
        except OSError as error:
            if error.errno not in _TRY_WALKING:
                raise
        return self._walk(self._tracees.root if absolute else start, path)

    def _walk(self, start: int, path: bytes) -> int:
        """Name by name. Each step is pinned, so whatever changes meanwhile, the result is one real directory."""
        current = start
        parts = _reversed_parts(path)
        while parts:
            part = parts.pop()
            if part == b"..":
                current = self._up(current)
                continue
            try:
                current = self.hold(os.open(part, _PIN_FOLDER | os.O_NOFOLLOW, dir_fd=current))
                continue
            except NotADirectoryError:
                target = self._read_link(current, part)
            if isinstance(target, bytes):
                parts += _reversed_parts(target)
                current = self._tracees.root if target[:1] == b"/" else current
            else:
                os.stat(b".", dir_fd=target)  # a file on the way is ENOTDIR
                current = target
        return current

    def _up(self, current: int) -> int:
        """The directory above; the root's is itself."""
        found = os.fstat(current)
        if (found.st_dev, found.st_ino) == self._tracees.root_identity:
            return current
        return self.hold(os.open(b"..", _PIN_FOLDER, dir_fd=current))

    def _read_link(self, folder: int, name: bytes) -> bytes | int:
        """A link's text, or the pinned target of a magic link. ENOTDIR where there is no link."""
        self._links += 1
        if self._links > LINK_LIMIT:
            raise OSError(errno.ELOOP, "")
        if kernel.is_process_file_system(folder):
            return self._read_process_link(folder, name)
        try:
            target = os.readlink(name, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise NotADirectoryError(errno.ENOTDIR, "") from error
            raise
        if not target:
            raise FileNotFoundError(errno.ENOENT, "")
        return target

    def _read_process_link(self, folder: int, name: bytes) -> bytes | int:
        """In procfs: "self" is the caller, not us; a process's magic links only when it is the caller itself.

        Others' are not followed for it: the kernel would look at more than we can (is the other one traceable?).
        An instance that is not the wrap's own is none of the caller's business: ours would show us as "self".
        """
        found = os.fstat(folder)
        own = os.stat(b"proc", dir_fd=self._tracees.root)
        if found.st_dev != own.st_dev:
            raise PermissionError(errno.EACCES, "")
        self.tracee.status()
        process, thread = self.tracee.inside
        if found.st_ino == _PROC_ROOT_INODE:
            if name == b"self":
                return b"%d" % process
            if name == b"thread-self":
                return b"%d/task/%d" % (process, thread)
            return os.readlink(name, dir_fd=folder)
        if not _is_own(path_of(folder), process):
            raise PermissionError(errno.EACCES, "")
        try:
            return self.hold(os.open(name, _PIN, dir_fd=folder))
        except OSError as error:
            if error.errno == errno.ENXIO:
                raise FileNotFoundError(errno.ENOENT, "") from error
            raise


def _refuse_foreign_link(place: Place) -> None:
    """EACCES where the kernel would not follow the last link of a path: one that somebody else has put into a directory
    in which everybody may (proc_sys_fs(5), protected_symlinks)."""
    owner = os.stat(place.name, dir_fd=place.parent, follow_symlinks=False).st_uid
    if owner == os.geteuid() or not _protects_links():
        return
    folder = os.fstat(place.parent)
    if folder.st_mode & _ANYBODY_MAY == _ANYBODY_MAY and folder.st_uid != owner:
        raise PermissionError(errno.EACCES, "")


def _protects_links() -> bool:
    with open(PROTECTED_LINKS, "rb") as setting:
        return setting.read(1) != b"0"


def _reversed_parts(path: bytes) -> list[bytes]:
    return [part for part in reversed(path.split(b"/")) if part not in (b"", b".")]


def _is_own(folder: bytes, process: int) -> bool:
    """Whether a folder of procfs is the process's own, or one of its threads'."""
    parts: Sequence[bytes] = folder.split(b"/")
    return len(parts) > 2 and parts[1] == b"proc" and parts[2] == b"%d" % process
