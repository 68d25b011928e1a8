"""The process that waits in a call: its memory, working directory, descriptors and umask. Nothing is judged here.

A caller is known by the number the kernel gave (a thread's), which can belong to somebody else a moment later. The
folder `/proc/NUMBER`, once open, stays that thread's: looking anything up in it fails when the thread is gone. So all
is looked up in there, and what is remembered is remembered with it. A folder that was open before the notification
came, and works after it, is the caller's; a new one needs the kernel's word that the notification is still valid
(`kernel.is_valid`), after which it is as good.
"""

import _signal  # type: ignore[import-not-found]  # typeshed does not know it; `signal` would bring enum along
import errno
import os

from sandbox.supervisor import kernel

# limits.h: a path with its NUL.
PATH_LIMIT = 4096
# The first look takes this much: nearly every path fits, and less is copied.
_FIRST_LOOK = 256
# Of /proc/NUMBER/status: up to the umask and the numbers inside is far less.
_STATUS_LIMIT = 2048

# Of no limit at all: more than a file can be long.
NO_LIMIT = 1 << 63
# linux/pidfd.h: a descriptor of a single thread (Linux 6.9; EINVAL before).
PIDFD_THREAD = os.O_EXCL

_PIN = os.O_PATH | os.O_CLOEXEC


class Unreadable(OSError):
    """The caller's memory or folder is closed to us: an unreadable or privileged program."""


class Stale(Exception):
    """The thread whose folder this was is gone; its number may be somebody else's."""


class Tracee:
    """One thread. `process` is its thread group as seen here, `inside` the group's and its own number in the wrap."""

    __slots__ = ("folder", "handle", "inside", "is_new", "is_sure", "mask", "mask_epoch", "process", "thread")

    def __init__(self, thread: int, folder: int) -> None:
        self.thread = thread
        self.folder = folder
        self.mask = -1
        self.mask_epoch = -1
        self.process = 0
        self.handle = -1  # a descriptor of the process, once it was asked for
        self.inside = (0, 0)
        self.is_new = True  # not yet known to be the caller of a valid notification
        self.is_sure = False  # a look-up worked during this notification

    def working_directory(self) -> int:
        """A pinned descriptor of it. Stale when the thread is gone, which this shows like `is_alive`."""
        try:
            found = self._pin(b"cwd", os.O_DIRECTORY)
            self.is_sure = True
            return found
        except (FileNotFoundError, ProcessLookupError) as error:
            raise Stale from error

    def descriptor(self, number: int) -> int:
        """What a descriptor of the caller is open on, pinned."""
        if number < 0:
            raise OSError(errno.EBADF, "")
        try:
            found = self._pin(b"fd/%d" % number, 0)
            self.is_sure = True
            return found
        except (FileNotFoundError, ProcessLookupError) as error:
            if not self.is_alive():
                raise Stale from error
            raise OSError(errno.EBADF, "") from None

    def _pin(self, name: bytes, flags: int) -> int:
        try:
            return os.open(name, _PIN | flags, dir_fd=self.folder)
        except PermissionError as error:
            raise Unreadable(errno.EACCES, "") from error

    def read_path(self, address: int) -> bytes:
        """The NUL-terminated path at an address, copied once and never read again.

        EFAULT where there is no memory, ENAMETOOLONG above `PATH_LIMIT`.
        """
        memory = self._open_memory()
        try:
            found = _read(memory, address, _FIRST_LOOK)
            end = found.find(b"\0")
            if end < 0:
                found = _read(memory, address, PATH_LIMIT)
                end = found.find(b"\0")
        finally:
            os.close(memory)
        if end >= 0:
            return found[:end]
        raise OSError(errno.ENAMETOOLONG if len(found) == PATH_LIMIT else errno.EFAULT, "")

    def read(self, address: int, size: int) -> bytes:
        """Exactly `size` bytes; EFAULT where there is no memory."""
        memory = self._open_memory()
        try:
            found = _read(memory, address, size)
        finally:
            os.close(memory)
        if len(found) != size:
            raise OSError(errno.EFAULT, "")
        return found

    def write(self, address: int, data: bytes) -> None:
        """Puts a call's result where the caller wants it; EFAULT where there is no memory."""
        memory = self._open_memory(os.O_WRONLY)
        try:
            if os.pwrite(memory, data, address) != len(data):
                raise OSError(errno.EFAULT, "")
        except (OSError, OverflowError) as error:
            raise OSError(errno.EFAULT, "") from error
        finally:
            os.close(memory)

    def _open_memory(self, mode: int = os.O_RDONLY) -> int:
        """Opened for each look: whoever executes another program has another memory afterwards.

        Not process_vm_readv(2), which takes a number, and longer (its many arguments cost more than two calls).
        """
        try:
            found = os.open(b"mem", mode | os.O_CLOEXEC, dir_fd=self.folder)
        except PermissionError as error:
            raise Unreadable(errno.EACCES, "") from error
        except (FileNotFoundError, ProcessLookupError) as error:
            raise Stale from error
        self.is_sure = True
        return found

    def is_alive(self) -> bool:
        """Whether this thread is still there."""
        self.is_sure = os.access(b"fd", os.F_OK, dir_fd=self.folder)
        return self.is_sure

    def status(self) -> dict[bytes, bytes]:
        """Some lines of /proc/NUMBER/status (proc_pid_status(5)); sets the numbers as well."""
        try:
            descriptor = os.open(b"status", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.folder)
            try:
                data = os.read(descriptor, _STATUS_LIMIT)
            finally:
                os.close(descriptor)
        except (FileNotFoundError, ProcessLookupError) as error:
            raise Stale from error
        fields = dict(line.split(b":\t", 1) for line in data.split(b"\n") if b":\t" in line)
        self.process = int(fields[b"Tgid"])
        self.inside = (int(fields[b"NStgid"].split()[-1]), int(fields[b"NSpid"].split()[-1]))
        return fields

    def handle_of_files(self) -> int:
        """A descriptor (pidfd_open(2)) through which this thread's descriptors can be taken, kept. Stale when it is
        gone.

        The thread's own, since it may have left its process's descriptors (unshare(2), CLONE_FILES), or the first
        thread may be gone and its descriptors with it. Before Linux 6.9 only the process's can be had: see `take`.
        """
        if self.handle < 0:
            if not self.process:
                self.status()
            try:
                handle = _open_handle(self.thread, self.process)
            except ProcessLookupError as error:
                raise Stale from error
            if not self.is_alive():  # its number may have been somebody else's when it was opened
                os.close(handle)
                raise Stale
            self.handle = handle
        return self.handle

    def take(self, number: int) -> int:
        """A copy of one of the caller's descriptors. EBADF when there is none, or when it cannot be had."""
        copy = kernel.take_descriptor(self.handle_of_files(), number)
        try:
            found, taken = os.stat(b"fd/%d" % number, dir_fd=self.folder), os.fstat(copy)
            if (found.st_dev, found.st_ino) == (taken.st_dev, taken.st_ino):
                self.is_sure = True
                return copy
        except (FileNotFoundError, ProcessLookupError) as error:
            if not self.is_alive():
                os.close(copy)
                raise Stale from error
        except BaseException:
            os.close(copy)
            raise
        os.close(copy)
        raise OSError(errno.EBADF, "")

    def file_size_limit(self) -> int:
        """RLIMIT_FSIZE, the soft one; `NO_LIMIT` when there is none."""
        try:
            with open(os.open(b"limits", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.folder), "rb") as limits:
                for line in limits:
                    if line.startswith(b"Max file size"):
                        soft = line.split()[3]
                        return NO_LIMIT if soft == b"unlimited" else int(soft)
        except PermissionError as error:
            raise Unreadable(errno.EACCES, "") from error
        except (FileNotFoundError, ProcessLookupError) as error:
            raise Stale from error
        return NO_LIMIT

    def exceed_file_size(self) -> None:
        """What the kernel does to who would make a file larger than that."""
        try:
            _signal.pidfd_send_signal(self.handle_of_files(), _signal.SIGXFSZ)
        except OSError:
            pass  # it is gone

    def close(self) -> None:
        os.close(self.folder)
        if self.handle >= 0:
            os.close(self.handle)


def _open_handle(thread: int, process: int) -> int:
    try:
        return os.pidfd_open(thread, PIDFD_THREAD)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    return os.pidfd_open(process)


def _read(memory: int, address: int, size: int) -> bytes:
    """Up to `size` bytes: fewer where the next page is not there."""
    try:
        return os.pread(memory, size, address)
    except (OSError, OverflowError) as error:
        raise OSError(errno.EFAULT, "") from error
