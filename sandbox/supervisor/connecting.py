"""connect(2) for the caller, on its own socket, with the address that was judged.

The kernel is never asked to go on: it would read the address again, and another thread could have put another socket
under the number. A path is pinned and judged like any other; only sockets in the wrap's own mounts, and those that
are listed, may be connected to. Whoever would wait for a connection waits in the waiting room.
"""

import errno
import fcntl
import os
import stat
import time

from sandbox.supervisor import kernel
from sandbox.supervisor.call import Call, Gone
from sandbox.supervisor.judgement import OUTBOUND, Refused
from sandbox.supervisor.opening import is_link
from sandbox.supervisor.resolution import AT_FDCWD, LINK_LIMIT, path_of

# linux/socket.h
AF_UNIX = b"\1\0"
UNIX_DOMAIN = 1
ADDRESS_LIMIT = 128


def connect(call: Call) -> None:
    """connect(2)."""
    length = call.number(2)
    if not 0 <= length <= ADDRESS_LIMIT:
        raise OSError(errno.EINVAL, "")
    address = call.tracee.read(call.arguments[1], length)
    sock = call.resolver.hold(call.tracee.take(call.number(0)))
    domain = kernel.socket_domain(sock)
    call.confirm()
    if domain == UNIX_DOMAIN and address[:2] == AF_UNIX and address[2:3] not in (b"", b"\0"):
        address = _judged_path(call, address[2:].partition(b"\0")[0])
    _connect(call, sock, address)


def _judged_path(call: Call, path: bytes) -> bytes:
    """The address of the pinned socket at a path. Refused where it may not be connected to."""
    place = call.resolver.place(AT_FDCWD, path)
    for _ in range(LINK_LIMIT + 1):
        if not is_link(place):
            break
        target = call.resolver.follow(place)
        if isinstance(target, int):
            raise ConnectionRefusedError(errno.ECONNREFUSED, "")
        place = target
    else:
        raise OSError(errno.ELOOP, "")
    pinned = call.resolver.hold(
        os.open(place.spelled, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place.parent)
    )
    path = path_of(pinned)
    if not call.door.judge.check_socket(path) and not call.is_shown(pinned):
        raise Refused(OUTBOUND, path, "unix-socket")
    if not stat.S_ISSOCK(os.fstat(pinned).st_mode):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "")
    return AF_UNIX + b"/proc/self/fd/%d\0" % pinned


def _connect(call: Call, sock: int, address: bytes) -> None:
    """Connects without blocking; for a caller that would have waited the answer comes when it is known."""
    status = fcntl.fcntl(sock, fcntl.F_GETFL)
    if status & os.O_NONBLOCK:
        kernel.connect(sock, address)
        call.answer()
        return
    if _connect_at_once(sock, status, address):
        call.answer()
    else:
        _wait(call, sock, status, address)


def _connect_at_once(sock: int, status: int, address: bytes) -> bool:
    """Whether it is connected. The flag belongs to the caller's socket too, so it is set for this moment alone."""
    fcntl.fcntl(sock, fcntl.F_SETFL, status | os.O_NONBLOCK)
    try:
        return kernel.is_connected_by(sock, address)
    finally:
        fcntl.fcntl(sock, fcntl.F_SETFL, status)


def _wait(call: Call, sock: int, status: int, address: bytes) -> None:
    room = call.door.waiting
    if room.is_full:
        raise OSError(errno.EAGAIN, "")
    # The path's pin has to stay as well: the address names it.
    held, call.resolver.held = call.resolver.held, []

    def attempt() -> bool:
        try:
            call.require_valid()
            if not _connect_at_once(sock, status, address):
                return False
            call.answer()
        except Gone:
            return True
        except OSError as error:
            return call.fail(error)
        return True

    def leave() -> None:
        for descriptor in held:
            os.close(descriptor)

    room.add(attempt, leave, time.monotonic())
