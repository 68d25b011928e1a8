"""open(2) and truncate(2) for the caller: judged, performed on a pinned directory, handed in.

What is handed in is a regular file, a directory's nameless file or a pipe, never a device or a process's entry: the
kernel opens those itself, behind the wall. Nothing here blocks: a pipe that nobody reads is tried again later.
"""

import errno
import fcntl
import os
import stat
import time

from sandbox.supervisor import kernel
from sandbox.supervisor.call import Call, Gone
from sandbox.supervisor.judgement import CREATE, DATA, DOTS, PRIVATE
from sandbox.supervisor.resolution import AT_FDCWD, LINK_LIMIT, Place, path_of
from sandbox.supervisor.tracee import Stale

TMPFILE = os.O_TMPFILE & ~os.O_DIRECTORY
EXCLUSIVE = os.O_CREAT | os.O_EXCL
# Of a file that exists: what an open for the caller must not carry along. A terminal would become ours.
_ALWAYS = os.O_CLOEXEC | os.O_NOCTTY
# Devices that everything writes to; no need to look whether the name is a link.
COMMON_DEVICES = (b"/dev/null", b"/dev/tty")
# File systems that were found to be none of procfs, by device.
_ordinary: set[int] = set()
_ORDINARY_LIMIT = 1024


def is_walled(flags: int) -> bool:
    """Whether the wall would stop this open wherever it may not be: what is left to the kernel can be led elsewhere
    meanwhile. The wall goes by the right to write that is asked for. It does not know truncating, and the access mode
    3 asks for no right at all."""
    mode = flags & os.O_ACCMODE
    return mode in (os.O_WRONLY, os.O_RDWR) or (mode == os.O_RDONLY and not flags & os.O_TRUNC)


def open_file(call: Call, folder: int, path: bytes, flags: int, mode: int) -> None:
    """open(2), openat(2), creat(2). `flags` are the caller's, as a signed number."""
    door, resolver = call.door, call.resolver
    if flags & TMPFILE:
        open_nameless(call, folder, path, flags, mode)
        return
    may_go_on = is_walled(flags)
    if path in COMMON_DEVICES and may_go_on and door.judge.ground(b"/dev").zone == PRIVATE:
        call.go_on()
        return
    follows = not flags & os.O_NOFOLLOW and flags & EXCLUSIVE != EXCLUSIVE
    action = CREATE if flags & os.O_CREAT else DATA
    place = resolver.place(folder, path)
    call.confirm()
    for _ in range(LINK_LIMIT + 1):
        zone = door.judge.check(place, action)
        if zone == PRIVATE and may_go_on:
            if not (follows and is_link(place)):
                call.go_on()
                return
        elif _perform(call, place, flags, mode, follows):
            return
        target = resolver.follow(place)
        if isinstance(target, int):
            reopen(call, target, place, flags)
            return
        place = target
    raise OSError(errno.ELOOP, "")


def is_link(place: Place) -> bool:
    """Whether a symbolic link bears the name."""
    if place.name in DOTS:
        return False
    try:
        return stat.S_ISLNK(os.stat(place.name, dir_fd=place.parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _perform(call: Call, place: Place, flags: int, mode: int, follows: bool) -> bool:
    """Opens what bears the name, or makes it. False: it is a link, to be followed."""
    for _ in range(LINK_LIMIT):
        if flags & os.O_CREAT:
            call.door.judge.guard(place, CREATE)
            call.wear_mask()
            try:
                made = os.open(place.spelled, flags | os.O_EXCL | _ALWAYS, mode, dir_fd=place.parent)
            except FileExistsError:
                if flags & os.O_EXCL:
                    raise
            else:
                call.inject(made, flags)
                return True
        try:
            found = os.stat(place.name, dir_fd=place.parent, follow_symlinks=False).st_mode
        except FileNotFoundError:
            if flags & os.O_CREAT:
                continue  # somebody removed it in between
            raise
        if stat.S_ISLNK(found):
            if not follows:
                raise OSError(errno.ELOOP, "")
            return False
        if stat.S_ISFIFO(found):
            _open_pipe(call, place.parent, place.spelled, flags)
            return True
        if stat.S_ISCHR(found) or stat.S_ISBLK(found):
            raise PermissionError(errno.EACCES, "")
        if _open_existing(call, place, flags, mode):
            return True
    raise OSError(errno.ELOOP, "")


def _open_existing(call: Call, place: Place, flags: int, mode: int) -> bool:
    """A file that is there. False when it has become a link meanwhile."""
    mode = mode & 0o7777 if flags & os.O_CREAT else 0
    wanted = (flags | _ALWAYS) & kernel.OPEN_FLAGS
    try:
        opened = kernel.openat2(place.parent, place.spelled, wanted, kernel.NO_SYMLINKS, mode)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise
    hand_in_file(call, opened, flags)
    return True


def hand_in_file(call: Call, opened: int, flags: int) -> None:
    """Hands a regular file in, takes the descriptor over; EACCES for anything else."""
    try:
        require_file(opened)
    except BaseException:
        os.close(opened)
        raise
    call.inject(opened, flags)


def require_file(descriptor: int) -> None:
    """EACCES unless it is a regular file, and none of procfs: there our own memory could be had."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise PermissionError(errno.EACCES, "")
    if found.st_dev not in _ordinary:
        if kernel.is_process_file_system(descriptor):
            raise PermissionError(errno.EACCES, "")
        if len(_ordinary) >= _ORDINARY_LIMIT:
            _ordinary.clear()
        _ordinary.add(found.st_dev)


def open_nameless(call: Call, folder: int, path: bytes, flags: int, mode: int) -> None:
    """O_TMPFILE: a file in a directory, without a name. Its name is judged when it gets one (linkat)."""
    if not flags & os.O_DIRECTORY or not flags & os.O_ACCMODE:
        raise OSError(errno.EINVAL, "")
    pinned = call.resolver.whole(folder, path)
    call.confirm()
    judge = call.door.judge
    if judge.check_folder(path_of(pinned), CREATE) == PRIVATE:
        call.go_on()
        return
    if judge.canary:
        judge.seen["nameless"] = judge.seen.get("nameless", 0) + 1
    call.wear_mask()
    call.inject(os.open(b".", flags | _ALWAYS, mode, dir_fd=pinned), flags)


# --- What is open already, opened again through /proc/self/fd or /dev/fd -----------------------------


def reopen(call: Call, pinned: int, link: Place, flags: int) -> None:
    """The target of a magic link. Judged by the real path it has now, opened through a magic link of our own."""
    found = os.fstat(pinned).st_mode
    path = path_of(pinned)
    if stat.S_ISREG(found):
        if os.fstat(
            pinned
        ).st_nlink:  # what has no name any more cannot be published under one by writing to it
            call.door.judge.check_path(path, DATA)
        require_file(pinned)
        flags &= ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
        call.inject(os.open(b"/proc/self/fd/%d" % pinned, flags | _ALWAYS), flags)
    elif stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, "")
    elif stat.S_ISFIFO(found) and path[:1] == b"/" and call.door.judge.check_path(path, DATA) != PRIVATE:
        _open_pipe(call, -1, b"/proc/self/fd/%d" % call.resolver.hold(os.dup(pinned)), flags)
    elif stat.S_ISCHR(found) and _hand_back(call, link, flags):
        pass
    elif is_walled(flags):
        call.go_on()
    else:
        raise PermissionError(errno.EACCES, "")


def _hand_back(call: Call, link: Place, flags: int) -> bool:
    """A terminal or device that the caller has open: a copy of its own descriptor, if that can do what is asked.

    The standard streams may lead to a device of the host that is not mounted inside, which the wall does not know.
    """
    if not link.name.isdigit() or not link.folder.endswith(b"/fd"):
        return False
    process = os.pidfd_open(call.tracee.process)
    try:
        copy = kernel.take_descriptor(process, int(link.name))
    except OSError:
        return False
    finally:
        os.close(process)
    if not call.tracee.is_alive():
        os.close(copy)
        raise Stale
    has, wants = fcntl.fcntl(copy, fcntl.F_GETFL) & os.O_ACCMODE, flags & os.O_ACCMODE
    if has not in (os.O_RDWR, wants):
        os.close(copy)
        return False
    call.inject(copy, flags)
    return True


# --- Pipes with a name ------------------------------------------------------------------------------


def _open_pipe(call: Call, parent: int, name: bytes, flags: int) -> None:
    """Opens one without blocking: by its name in `parent`, or (-1) by a magic link. Who would wait has to wait."""
    wanted = _pipe_flags(flags)
    try:
        if parent < 0:
            opened = os.open(name, wanted)
        else:
            opened = kernel.openat2(parent, name, wanted & kernel.OPEN_FLAGS, kernel.NO_SYMLINKS)
    except OSError as error:
        if error.errno != errno.ENXIO or flags & os.O_NONBLOCK:
            raise
    else:
        _hand_in_pipe(call, opened, flags)
        return
    room = call.door.waiting
    if room.is_full:
        raise OSError(errno.EAGAIN, "")
    # The pipe itself, not the name: that may be another one's by then.
    if parent < 0:
        pinned = os.open(name, os.O_PATH | os.O_CLOEXEC)
    else:
        pinned = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    room.add(lambda: _try_pipe(call, pinned, flags), lambda: os.close(pinned), time.monotonic())


def _pipe_flags(flags: int) -> int:
    return (flags & ~EXCLUSIVE) | _ALWAYS | os.O_NONBLOCK


def _try_pipe(call: Call, pinned: int, flags: int) -> bool:
    """Whether it is over: opened, failed, or nobody waits for it."""
    try:
        call.require_valid()
        opened = os.open(b"/proc/self/fd/%d" % pinned, _pipe_flags(flags & ~os.O_NOFOLLOW))
        _hand_in_pipe(call, opened, flags)
    except Gone:
        return True
    except OSError as error:
        if error.errno == errno.ENXIO:
            return False
        return call.fail(error)
    return True


def _hand_in_pipe(call: Call, opened: int, flags: int) -> None:
    if not stat.S_ISFIFO(os.fstat(opened).st_mode):
        os.close(opened)
        raise PermissionError(errno.EACCES, "")
    if not flags & os.O_NONBLOCK:
        fcntl.fcntl(opened, fcntl.F_SETFL, flags & (os.O_APPEND | os.O_DIRECT))
    call.inject(opened, flags)


# --- truncate ---------------------------------------------------------------------------------------


def truncate(call: Call) -> None:
    """truncate(2): always performed, since the wall does not know it."""
    length = call.arguments[1]
    if length >> 63:
        raise OSError(errno.EINVAL, "")
    place = call.resolver.place(AT_FDCWD, call.path(0))
    call.confirm()
    for _ in range(LINK_LIMIT + 1):
        call.door.judge.check(place, DATA)
        if not is_link(place):
            break
        target = call.resolver.follow(place)
        if isinstance(target, int):
            _truncate_pinned(call, target, length)
            return
        place = target
    else:
        raise OSError(errno.ELOOP, "")
    wanted = os.O_WRONLY | os.O_NONBLOCK | _ALWAYS
    try:
        opened = kernel.openat2(place.parent, place.spelled, wanted, kernel.NO_SYMLINKS)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe or a socket
            raise OSError(errno.EINVAL, "") from error
        raise
    _truncate(call, opened, length)


def _truncate_pinned(call: Call, pinned: int, length: int) -> None:
    if os.fstat(pinned).st_nlink:
        call.door.judge.check_path(path_of(pinned), DATA)
    require_file(pinned)
    _truncate(call, os.open(b"/proc/self/fd/%d" % pinned, os.O_WRONLY | _ALWAYS), length)


def _truncate(call: Call, opened: int, length: int) -> None:
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "")
        require_file(opened)
        os.truncate(opened, length)
    finally:
        os.close(opened)
    call.answer()
