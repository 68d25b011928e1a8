"""open(2) for the caller: judged, performed on a pinned directory, handed in.

What is handed in is a regular file, a directory's nameless file or a pipe, never a device or a process's entry: the
kernel opens those itself, behind the wall. What exists is opened by `existing.py`, what is open already by
`reopening.py`.
"""

import errno
import os
import stat
from _collections_abc import Callable  # what `collections.abc` is, without the rest of `collections`

from sandbox.supervisor.call import Call
from sandbox.supervisor.existing import ALWAYS, EXCLUSIVE, open_named
from sandbox.supervisor.judgement import CREATE, DATA, DOTS, PRIVATE, Refused
from sandbox.supervisor.reopening import is_walled, reopen
from sandbox.supervisor.resolution import LINK_LIMIT, Place, path_of

TMPFILE = os.O_TMPFILE & ~os.O_DIRECTORY
# Devices that everything writes to; no need to look whether the name is a link.
COMMON_DEVICES = (b"/dev/null", b"/dev/tty")


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
        else:
            call.require_shown(zone, place.parent)
            if _perform(call, place, flags, mode, follows):
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


def exists(place: Place) -> bool:
    """Whether anything bears the name."""
    try:
        os.stat(place.name, dir_fd=place.parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def guard_new(place: Place, guard: Callable[[Place], None]) -> None:
    """Has `guard` say whether something may be made here, unless something bears the name: then FileExistsError."""
    try:
        guard(place)
    except Refused:
        if exists(place):
            raise FileExistsError(errno.EEXIST, "") from None
        raise


def _perform(call: Call, place: Place, flags: int, mode: int, follows: bool) -> bool:
    """Opens what bears the name, or makes it. False: it is a link, to be followed."""
    for _ in range(LINK_LIMIT):
        if flags & os.O_CREAT:
            try:
                guard_new(place, call.door.judge.guard_create)
                call.wear_mask()
                made = os.open(place.spelled, flags | os.O_EXCL | ALWAYS, mode, dir_fd=place.parent)
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
        if stat.S_ISCHR(found) or stat.S_ISBLK(found):
            raise PermissionError(errno.EACCES, "")
        if open_named(call, place, flags, mode, stat.S_ISFIFO(found)):
            return True
    raise OSError(errno.ELOOP, "")


def open_nameless(call: Call, folder: int, path: bytes, flags: int, mode: int) -> None:
    """O_TMPFILE: a file in a directory, without a name. Its name is judged when it gets one (linkat)."""
    if not flags & os.O_DIRECTORY or not flags & os.O_ACCMODE:
        raise OSError(errno.EINVAL, "")
    pinned = call.resolver.whole(folder, path)
    call.confirm()
    judge = call.door.judge
    zone = judge.check_folder(path_of(pinned), CREATE)
    if zone == PRIVATE:
        call.go_on()
        return
    call.require_shown(zone, pinned)
    if judge.canary:
        judge.seen["nameless"] = judge.seen.get("nameless", 0) + 1
    call.wear_mask()
    call.inject(os.open(b".", flags | ALWAYS, mode, dir_fd=pinned), flags)
