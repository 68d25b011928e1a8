"""What is open already, opened again through `/proc/self/fd`, `/dev/fd` or another magic link.

Judged by the real path it has now, opened through a magic link of our own. A descriptor that CMD was given may lead to
a file that the wrap does not show: of that one nobody gets more than the descriptor itself allows.
"""

import errno
import fcntl
import os
import stat

from sandbox.supervisor.call import Call
from sandbox.supervisor.existing import open_pinned, require_file
from sandbox.supervisor.judgement import DATA, GOVERNED, PRIVATE
from sandbox.supervisor.resolution import Place, path_of

# By access mode (O_ACCMODE): may it be read, written? 3 is for ioctls and asks for both.
_READ, _WRITE = 1, 2
_RIGHTS = (_READ, _WRITE, _READ | _WRITE, _READ | _WRITE)


def is_walled(flags: int) -> bool:
    """Whether the wall would stop this open wherever it may not be: what is left to the kernel can be led elsewhere
    meanwhile. The wall goes by the right to write that is asked for. It does not know truncating, and the access mode
    3 asks for no right at all."""
    mode = flags & os.O_ACCMODE
    return mode in (os.O_WRONLY, os.O_RDWR) or (mode == os.O_RDONLY and not flags & os.O_TRUNC)


def reopen(call: Call, pinned: int, link: Place, flags: int) -> None:
    """Opens the target of a magic link. `link` is the link itself."""
    found = os.fstat(pinned).st_mode
    path = path_of(pinned)
    if stat.S_ISREG(found):
        check_file(call, pinned, link, flags)
        flags &= ~(os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
        open_pinned(call, pinned, flags)
    elif stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, "")
    elif stat.S_ISFIFO(found) and path[:1] == b"/" and call.door.judge.check_path(path, DATA) != PRIVATE:
        _require_rights(call, pinned, path, link, flags)
        open_pinned(call, pinned, flags)
    elif stat.S_ISCHR(found) and _hand_back(call, pinned, link, flags):
        pass
    elif is_walled(flags):
        call.go_on()
    else:
        raise PermissionError(errno.EACCES, "")


def check_file(call: Call, pinned: int, link: Place, flags: int) -> None:
    """Refused, or EACCES, where a regular file behind a magic link may not be opened so."""
    path = path_of(pinned)
    if os.fstat(pinned).st_nlink:  # what has no name any more cannot be published under one by writing to it
        call.door.judge.check_path(path, DATA)
    require_file(pinned)
    _require_rights(call, pinned, path, link, flags)


def _require_rights(call: Call, pinned: int, path: bytes, link: Place, flags: int) -> None:
    """EACCES where a file that the wrap does not show would be opened for more than its descriptor is."""
    if call.door.judge.ground(path.rpartition(b"/")[0] or b"/").zone == GOVERNED or call.is_shown(pinned):
        return
    copy = _taken(call, pinned, link)
    if copy < 0:
        raise PermissionError(errno.EACCES, "")
    has = _RIGHTS[fcntl.fcntl(copy, fcntl.F_GETFL) & os.O_ACCMODE]
    os.close(copy)
    wants = _RIGHTS[flags & os.O_ACCMODE] | (_WRITE if flags & os.O_TRUNC else 0)
    if wants & ~has:
        raise PermissionError(errno.EACCES, "")


def _hand_back(call: Call, pinned: int, link: Place, flags: int) -> bool:
    """A terminal or device that the caller has open: a copy of its own descriptor, if that can do what is asked.

    The standard streams may lead to a device of the host that is not mounted inside, which the wall does not know.
    """
    copy = _taken(call, pinned, link)
    if copy < 0:
        return False
    has, wants = fcntl.fcntl(copy, fcntl.F_GETFL) & os.O_ACCMODE, flags & os.O_ACCMODE
    if has not in (os.O_RDWR, wants):
        os.close(copy)
        return False
    call.inject(copy, flags)
    return True


def _taken(call: Call, pinned: int, link: Place) -> int:
    """A copy of the caller's descriptor that the link stands for; -1 when it stands for none, or for another file by
    now."""
    if not link.name.isdigit() or not link.folder.endswith(b"/fd"):
        return -1
    try:
        copy = call.tracee.take(int(link.name))
    except OSError:
        return -1
    if not os.path.samestat(os.fstat(copy), os.fstat(pinned)):
        os.close(copy)
        return -1
    return copy
