"""The callers seen lately, the wrap's root, and the mask of file modes that is worn for each of them."""

import errno
import os

from sandbox.supervisor import kernel
from sandbox.supervisor.tracee import Stale, Tracee, Unreadable

# Callers remembered at once, each with an open folder; a build farm has fewer at work.
KNOWN_LIMIT = 512
_PIN = os.O_PATH | os.O_CLOEXEC


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

    def device(self, path: bytes) -> int:
        """The file system at an absolute path of the wrap."""
        pinned = kernel.openat2(self._root, path, _PIN, kernel.IN_ROOT | kernel.NO_MAGIC_LINKS)
        try:
            return os.fstat(pinned).st_dev
        finally:
            os.close(pinned)

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
