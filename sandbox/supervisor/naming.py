"""Calls that put a name into a directory: rename, link, symlink, mknod and mkdir, performed on pinned directories.

Both names are judged, then the kernel is given the very strings that were judged, with the directories that were
pinned. What it refuses, it refuses with its own errno.
"""

import errno
import os
import stat
from _collections_abc import Callable, Iterator  # without the rest of `collections`

from sandbox.supervisor import kernel
from sandbox.supervisor.call import Call
from sandbox.supervisor.judgement import CREATE, DOTS, GOVERNED, OWN, PRIVATE, UNLINK, Refused
from sandbox.supervisor.opening import exists, guard_new, is_link
from sandbox.supervisor.resolution import LINK_LIMIT, Place, path_of

AT_EMPTY_PATH, AT_SYMLINK_FOLLOW = 0x1000, 0x400
# RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT (linux/fs.h)
RENAME_FLAGS, RENAME_NOREPLACE, RENAME_EXCHANGE = 7, 1, 2
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Files looked at in a directory that leaves the installed packages; a larger one is refused.
PACKAGE_FILES_LIMIT = 50_000


def rename(call: Call, old_folder: int, old: int, new_folder: int, new: int, flags: int) -> None:
    """rename(2), renameat(2), renameat2(2). `old` and `new` are the arguments that point to the paths."""
    if flags & ~RENAME_FLAGS or (flags & RENAME_EXCHANGE and flags != RENAME_EXCHANGE):
        raise OSError(errno.EINVAL, "")
    source = call.resolver.place(old_folder, call.path(old))
    target = call.resolver.place(new_folder, call.path(new))
    call.confirm()
    judge = call.door.judge
    config = judge.config(target) if flags in (0, RENAME_NOREPLACE) else ""
    # Renamed onto itself by the canary, a name has to be refused before anybody looks whether it is there.
    zones = (judge.check(source, UNLINK), GOVERNED if config else judge.check(target, CREATE))
    if zones == (PRIVATE, PRIVATE):
        call.go_on()
        return
    call.require_shown(zones[0], source.parent)
    call.require_shown(zones[1], target.parent)
    judge.guard(source, UNLINK)
    if config:
        if flags and exists(target):
            raise FileExistsError(errno.EEXIST, "")
        _replace_config(call, source, target, config)
        return
    judge.guard(target, CREATE)
    _guard_folder(call, source, target)
    if flags & RENAME_EXCHANGE:
        judge.check(source, CREATE)
        _guard_folder(call, target, source)
    kernel.rename(source.parent, source.spelled, target.parent, target.spelled, flags & 0xFFFFFFFF)
    call.answer()


def _replace_config(call: Call, source: Place, target: Place, rule: str) -> None:
    """Imported where it is needed: most wraps never change a repository's configuration."""
    from sandbox.supervisor.config_replacement import replace

    replace(call, source, target, rule)


def _guard_folder(call: Call, old: Place, new: Place) -> None:
    """Looks at what a moved directory, or link to one, brings along. Regular files bring nothing but their name."""
    if old.name in DOTS:
        return
    try:
        found = os.stat(old.name, dir_fd=old.parent, follow_symlinks=False).st_mode
    except OSError:
        return  # the kernel will say it
    if stat.S_ISREG(found):
        return
    question = call.door.judge.guard_move(old, new)
    if stat.S_ISLNK(found):
        _refuse_alias(call, os.readlink(old.name, dir_fd=old.parent), new)
    if question is not None and stat.S_ISDIR(found):
        folder = call.resolver.hold(os.open(old.name, _LIST, dir_fd=old.parent))
        rule = _denied_below(folder, question)
        if rule:
            raise Refused(CREATE, new.path, rule)


def _denied_below(folder: int, question: Callable[[bytes, bytes], str]) -> str:
    """The first rule that an entry anywhere in a directory meets; also when not all of it can be looked at.

    Nothing is made in it meanwhile: everything that is made anywhere in the wrap is made here, one after the other.
    """
    try:
        for seen, (below, name) in enumerate(_entries_below(folder)):
            if seen >= PACKAGE_FILES_LIMIT:
                return f"more than {PACKAGE_FILES_LIMIT} files"
            rule = question(below, name)
            if rule:
                return rule
    except OSError as error:
        return f"a directory in it cannot be looked into: {error.strerror}"
    return ""


def _entries_below(folder: int) -> Iterator[tuple[bytes, bytes]]:
    """Every entry below a directory, with the path of what holds it ("" or "/a/b"); OSError where that cannot be
    listed. A directory's entries are never held all at once."""
    pending = [b""]
    while pending:
        below = pending.pop()
        current = os.open(b"." + below, _LIST, dir_fd=folder)
        try:
            with os.scandir(current) as listing:
                for entry in listing:
                    name = os.fsencode(entry.name)
                    pending += [below + b"/" + name] if entry.is_dir(follow_symlinks=False) else []
                    yield below, name
        finally:
            os.close(current)


def link(call: Call, old_folder: int, old: int, new_folder: int, new: int, flags: int) -> None:
    """link(2), linkat(2). A second name of what may not be written could be: it is refused."""
    if flags & ~(AT_EMPTY_PATH | AT_SYMLINK_FOLLOW):
        raise OSError(errno.EINVAL, "")
    path = call.path(old)
    if not path and flags & AT_EMPTY_PATH:
        source: Place | int = call.resolver.base(old_folder)
    else:
        source = call.resolver.place(old_folder, path)
    target = call.resolver.place(new_folder, call.path(new))
    call.confirm()
    judge = call.door.judge
    if flags & AT_SYMLINK_FOLLOW:
        source = _followed(call, source)
    zone = judge.check(target, CREATE)
    guard_new(target, judge.guard_create)
    if isinstance(source, int):
        if os.fstat(source).st_nlink:  # without a name it was made for the caller (O_TMPFILE)
            judge.check_path(path_of(source), CREATE)
        call.require_shown(zone, target.parent)
        os.link(b"/proc/self/fd/%d" % source, target.spelled, dst_dir_fd=target.parent, follow_symlinks=True)
    elif judge.check(source, CREATE) == zone == PRIVATE:
        call.go_on()
        return
    else:
        call.require_shown(zone, target.parent)
        if is_link(source):  # another name of a link is a new link
            guard_new(target, judge.guard_link)
            _refuse_alias(call, os.readlink(source.name, dir_fd=source.parent), target)
        os.link(
            source.spelled,
            target.spelled,
            src_dir_fd=source.parent,
            dst_dir_fd=target.parent,
            follow_symlinks=False,
        )
    call.answer()


def _followed(call: Call, place: Place | int) -> Place | int:
    for _ in range(LINK_LIMIT + 1):
        if isinstance(place, int) or not is_link(place):
            return place
        place = call.resolver.follow(place)
    raise OSError(errno.ELOOP, "")


def symlink(call: Call, text: int, folder: int, path: int) -> None:
    """symlink(2), symlinkat(2). What is opened through a link is judged where it leads, whenever that is; so a link
    needs no more than its own name, and must not stand for a directory with rules by path."""
    content = call.path(text)
    place = call.resolver.place(folder, call.path(path))
    call.confirm()
    zone = call.door.judge.check(place, CREATE)
    if zone == PRIVATE:
        call.go_on()
        return
    call.require_shown(zone, place.parent)
    guard_new(place, call.door.judge.guard_link)
    if zone != OWN:  # nobody outside sees it there
        _refuse_alias(call, content, place)
    os.symlink(content, place.spelled, dir_fd=place.parent)
    call.answer()


def _refuse_alias(call: Call, content: bytes, place: Place) -> None:
    """A link to a file that may not be written: programs outside would write through it."""
    try:
        target = call.resolver.follow_text(content, place.parent)
        if exists(target):
            call.door.judge.check_alias(target)
    except OSError:
        pass  # there is nothing that could be reached


def mknod(call: Call, folder: int, path: int, mode: int, device: int) -> None:
    """mknod(2), mknodat(2). Without capabilities the kernel lets us make what it lets the caller make."""
    place = call.resolver.place(folder, call.path(path))
    call.confirm()
    zone = call.door.judge.check(place, CREATE)
    if zone == PRIVATE:
        call.go_on()
        return
    call.require_shown(zone, place.parent)
    guard_new(place, call.door.judge.guard_create)
    call.wear_mask()
    os.mknod(place.spelled, mode & 0o177777, device & 0xFFFFFFFF, dir_fd=place.parent)
    call.answer()


def mkdir(call: Call, folder: int, path: int, mode: int) -> None:
    """mkdir(2), mkdirat(2)."""
    place = call.resolver.place(folder, call.path(path))
    call.confirm()
    zone = call.door.judge.check(place, CREATE)
    if zone == PRIVATE:
        call.go_on()
        return
    call.require_shown(zone, place.parent)
    call.wear_mask()
    os.mkdir(place.spelled, mode & 0o7777, dir_fd=place.parent)
    call.answer()
