"""truncate(2) for the caller: always performed, since the wall does not know it."""

import errno
import os
import stat

from sandbox.supervisor import kernel
from sandbox.supervisor.call import Call, Gone
from sandbox.supervisor.existing import ALWAYS, require_file, wait_in_room
from sandbox.supervisor.judgement import DATA
from sandbox.supervisor.opening import is_link
from sandbox.supervisor.reopening import check_file
from sandbox.supervisor.resolution import AT_FDCWD, LINK_LIMIT
from sandbox.supervisor.tracee import Stale

_WANTED = os.O_WRONLY | os.O_NONBLOCK | ALWAYS


def truncate(call: Call) -> None:
    """truncate(2)."""
    length = call.arguments[1]
    if length >> 63:
        raise OSError(errno.EINVAL, "")
    place = call.resolver.place(AT_FDCWD, call.path(0))
    call.confirm()
    for _ in range(LINK_LIMIT + 1):
        zone = call.door.judge.check(place, DATA)
        if not is_link(place):
            break
        target = call.resolver.follow(place)
        if isinstance(target, int):
            check_file(call, target, place, _WANTED)
            _truncate_pinned(call, target, length)
            return
        place = target
    else:
        raise OSError(errno.ELOOP, "")
    call.require_shown(zone, place.parent)
    try:
        opened = kernel.openat2(place.parent, place.spelled, _WANTED, kernel.NO_SYMLINKS)
    except BlockingIOError:
        pin = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        pinned = call.resolver.hold(os.open(place.spelled, pin, dir_fd=place.parent))
        _truncate_pinned(call, pinned, length)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe or a socket
            raise OSError(errno.EINVAL, "") from error
        raise
    else:
        _truncate(call, opened, length)


def _truncate_pinned(call: Call, pinned: int, length: int) -> None:
    """By a magic link of our own; who meets a lease waits for its end."""
    kept = os.dup(pinned)

    def attempt() -> bool:
        try:
            call.require_valid()
            _truncate(call, os.open(b"/proc/self/fd/%d" % kept, _WANTED), length)
        except (Gone, Stale):
            return True
        except OSError as error:
            return error.errno != errno.EAGAIN and call.fail(error)
        return True

    if attempt():
        os.close(kept)
    else:
        wait_in_room(call, attempt, [kept])


def _truncate(call: Call, opened: int, length: int) -> None:
    """Takes the descriptor over."""
    try:
        found = os.fstat(opened)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "")
        require_file(opened)
        if length > found.st_size and length > call.tracee.file_size_limit():
            call.tracee.exceed_file_size()
            raise OSError(errno.EFBIG, "")
        os.truncate(opened, length)
    finally:
        os.close(opened)
    call.answer()
