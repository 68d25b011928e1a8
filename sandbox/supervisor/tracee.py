"""The process that waits in a call: its memory, working directory, descriptors and umask. Nothing is judged here.

A caller is known by the number the kernel gave (a thread's), which can belong to somebody else a moment later. The
folder `/proc/NUMBER`, once open, stays that thread's: looking anything up in it fails when the thread is gone. So all
is looked up in there, and what is remembered is remembered with it. A folder that was open before the notification
came, and works after it, is the caller's; a new one needs the kernel's word that the notification is still valid
(`kernel.is_valid`), after which it is as good.
"""

import errno
import os

# limits.h: a path with its NUL.
PATH_LIMIT = 4096
# The first look takes this much: nearly every path fits, and less is copied.
_FIRST_LOOK = 256
# Callers remembered at once, each with an open folder; a build farm has fewer at work.
KNOWN_LIMIT = 512
# Of /proc/NUMBER/status: up to the umask and the numbers inside is far less.
_STATUS_LIMIT = 2048

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

    def _open_memory(self) -> int:
        """Opened for each look: whoever executes another program has another memory afterwards.

        Not process_vm_readv(2), which takes a number, and longer (its many arguments cost more than two calls).
        """
        try:
            found = os.open(b"mem", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.folder)
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

    def process_handle(self) -> int:
        """A descriptor of the process (pidfd_open(2)), kept. Stale when the thread is gone."""
        if self.handle < 0:
            if not self.process:
                self.status()
            try:
                handle = os.pidfd_open(self.process)
            except ProcessLookupError as error:
                raise Stale from error
            if not self.is_alive():  # its number may have been somebody else's when it was opened
                os.close(handle)
                raise Stale
            self.handle = handle
        return self.handle

    def close(self) -> None:
        os.close(self.folder)
        if self.handle >= 0:
            os.close(self.handle)


class Tracees:
    """The callers seen lately. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[int, Tracee] = {}
        self._root = -1
        self._root_identity = (0, 0)
        os.umask(0o077)
        self._mask = 0o077  # ours, as it is now
        self._epoch = 0
        self._callers: dict[int, int] = {}  # process -> the thread that called umask; -1: several
        self._last = (0, 0)  # the process that called umask last, and what it asked for

    def find(self, thread: int) -> Tracee:
        """The caller. The first of all says what the wrap's root is; one with another root is refused."""
        known = self._known.get(thread)
        return known if known is not None else self._meet(thread)

    def forget(self, thread: int) -> None:
        """Its number is somebody else's by now."""
        known = self._known.pop(thread, None)
        if known is not None:
            known.close()

    def _meet(self, thread: int) -> Tracee:
        try:
            folder = os.open(b"/proc/%d" % thread, _PIN | os.O_DIRECTORY)
        except (FileNotFoundError, ProcessLookupError) as error:
            raise Stale from error
        tracee = Tracee(thread, folder)
        try:
            self._check_root(tracee)
        except BaseException:
            tracee.close()
            raise
        if len(self._known) >= KNOWN_LIMIT:
            for number in list(self._known)[: KNOWN_LIMIT // 2]:
                self.forget(number)
        self._known[thread] = tracee
        return tracee

    def _check_root(self, tracee: Tracee) -> None:
        """Nothing inside can change its root (the filter forbids the calls); somebody else's caller is refused."""
        try:
            found = os.stat(b"root", dir_fd=tracee.folder)
        except PermissionError as error:
            raise Unreadable(errno.EACCES, "") from error
        except (FileNotFoundError, ProcessLookupError) as error:
            raise Stale from error
        if self._root < 0:
            self._root = os.open(b"root", _PIN | os.O_DIRECTORY, dir_fd=tracee.folder)
            self._root_identity = (found.st_dev, found.st_ino)
        elif self._root_identity != (found.st_dev, found.st_ino):
            raise OSError(errno.EACCES, "")

    @property
    def root(self) -> int:
        """The wrap's root, pinned for good; -1 before the first caller."""
        return self._root

    @property
    def root_identity(self) -> tuple[int, int]:
        """Its device and inode."""
        return self._root_identity

    # --- The umask, which is the process's and decides the modes of what we make for it ---

    def wear_mask(self, tracee: Tracee) -> None:
        """Makes the caller's umask ours. Stale when the caller is gone."""
        if tracee.mask_epoch != self._epoch:
            mask = self._read_mask(tracee)
        elif tracee.is_sure or tracee.is_alive():
            mask = tracee.mask
        else:
            raise Stale
        if mask != self._mask:
            os.umask(mask)
            self._mask = mask

    def _read_mask(self, tracee: Tracee) -> int:
        """From the kernel's text; remembered when no call of umask can be under way that would change it.

        The last call is known by its argument: whoever shows that value already will show it afterwards too.
        """
        mask = int(tracee.status()[b"Umask"], 8)
        process, asked = self._last
        settled = tracee.process != process or mask == asked
        if settled and self._callers.get(tracee.process) != -1:
            tracee.mask, tracee.mask_epoch = mask, self._epoch
        return mask

    def mask_changes(self, tracee: Tracee, mask: int) -> None:
        """The caller is about to set its umask: what is remembered of others is void, of itself is known."""
        self._epoch += 1
        if not tracee.process:
            tracee.status()
        elif not tracee.is_alive():
            raise Stale
        if len(self._callers) >= KNOWN_LIMIT:
            self._callers.clear()
        caller = self._callers.setdefault(tracee.process, tracee.thread)
        if caller != tracee.thread:
            self._callers[tracee.process] = -1
            tracee.mask_epoch = -1
        else:
            tracee.mask, tracee.mask_epoch = mask & 0o777, self._epoch
        self._last = (tracee.process, mask & 0o777)


def _read(memory: int, address: int, size: int) -> bytes:
    """Up to `size` bytes: fewer where the next page is not there."""
    try:
        return os.pread(memory, size, address)
    except (OSError, OverflowError) as error:
        raise OSError(errno.EFAULT, "") from error
