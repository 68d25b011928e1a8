"""Opening what exists, for the caller: a regular file or a pipe with a name. Nothing here blocks.

A lease that a process of the host holds makes everybody else's opening wait, for 45 seconds at most, and a pipe that
nobody reads makes its writer wait for ever. So both are opened without blocking, and who would have waited waits in the
waiting room, with the file itself pinned: its name may be another one's by then.
"""

import errno
import fcntl
import os
import stat
import time

from sandbox.supervisor import kernel
from sandbox.supervisor.call import Call, Gone
from sandbox.supervisor.resolution import Place
from sandbox.supervisor.waiting import Attempt

EXCLUSIVE = os.O_CREAT | os.O_EXCL
# What an open for the caller must not carry along. A terminal would become ours.
ALWAYS = os.O_CLOEXEC | os.O_NOCTTY
# What F_SETFL sets: the caller's own, without the flag that kept us from blocking.
_STATUS = os.O_APPEND | os.O_DIRECT | os.O_NOATIME
# Of an open that would have had to wait: a pipe without a reader, a file with a lease.
_WOULD_WAIT = (errno.ENXIO, errno.EAGAIN)
# File systems that were found to be none of procfs, by device.
_ordinary: set[int] = set()
_ORDINARY_LIMIT = 1024


def open_named(call: Call, place: Place, flags: int, mode: int, is_pipe: bool) -> bool:
    """Opens a file that is there. False when it has become a link meanwhile."""
    mode = mode & 0o7777 if flags & os.O_CREAT else 0
    # O_CREAT stays: in others' sticky directories the kernel refuses more to who says it (proc_sys_fs(5),
    # protected_regular and protected_fifos).
    wanted = (flags | ALWAYS | os.O_NONBLOCK) & kernel.OPEN_FLAGS
    try:
        opened = kernel.openat2(place.parent, place.spelled, wanted, kernel.NO_SYMLINKS, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        if flags & os.O_NONBLOCK or error.errno != (errno.ENXIO if is_pipe else errno.EAGAIN):
            raise
        pin = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        _wait(call, os.open(place.spelled, pin, dir_fd=place.parent), flags)
    else:
        _hand_in(call, opened, flags)
    return True


def open_pinned(call: Call, pinned: int, flags: int) -> None:
    """The same by a magic link of our own."""
    try:
        opened = _reopen(pinned, flags)
    except OSError as error:
        if flags & os.O_NONBLOCK or error.errno not in _WOULD_WAIT:
            raise
        _wait(call, os.dup(pinned), flags)
    else:
        _hand_in(call, opened, flags)


def _reopen(pinned: int, flags: int) -> int:
    return os.open(
        b"/proc/self/fd/%d" % pinned, (flags & ~(EXCLUSIVE | os.O_NOFOLLOW)) | ALWAYS | os.O_NONBLOCK
    )


def _wait(call: Call, pinned: int, flags: int) -> None:
    """Tries again later, for as long as the caller waits; takes the descriptor over."""

    def attempt() -> bool:
        try:
            call.require_valid()
            _hand_in(call, _reopen(pinned, flags), flags)
        except Gone:
            return True
        except OSError as error:
            return error.errno not in _WOULD_WAIT and call.fail(error)
        return True

    wait_in_room(call, attempt, [pinned])


def wait_in_room(call: Call, attempt: Attempt, held: list[int]) -> None:
    """Has `attempt` made again and again (`waiting.py`); `held` is closed when it is over. EAGAIN when the room is
    full."""

    def leave() -> None:
        for descriptor in held:
            os.close(descriptor)

    room = call.door.waiting
    if room.is_full:
        leave()
        raise OSError(errno.EAGAIN, "")
    room.add(attempt, leave, time.monotonic())


def _hand_in(call: Call, opened: int, flags: int) -> None:
    """Hands it in as the caller would have it; takes the descriptor over."""
    try:
        require_file(opened, or_pipe=True)
        if not flags & os.O_NONBLOCK:
            fcntl.fcntl(opened, fcntl.F_SETFL, flags & _STATUS)
    except BaseException:
        os.close(opened)
        raise
    call.inject(opened, flags)


def require_file(descriptor: int, or_pipe: bool = False) -> None:
    """EACCES unless it is a regular file, and none of procfs: there our own memory could be had."""
    found = os.fstat(descriptor)
    if or_pipe and stat.S_ISFIFO(found.st_mode):
        return
    if not stat.S_ISREG(found.st_mode):
        raise PermissionError(errno.EACCES, "")
    if found.st_dev not in _ordinary:
        if kernel.is_process_file_system(descriptor):
            raise PermissionError(errno.EACCES, "")
        if len(_ordinary) >= _ORDINARY_LIMIT:
            _ordinary.clear()
        _ordinary.add(found.st_dev)
