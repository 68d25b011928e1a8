"""Runs inside the wrap, in the stub, before the word: wall, door, and the proof of both.

The *wall* is a Landlock domain that withholds writing, making and moving files everywhere but in the wrap's private
mounts. The *door* is the system-call filter with a listener: what it notifies of, the supervisor outside answers. The
listener goes to the supervisor at once. The *canary* then tries both and leaves nothing behind where they stand.

Only where the door is wanted does the stub get this module, compiled and in front of its orders, since compiling it
takes as long as all it does. Nothing else of this project is there, so it imports what is built into the interpreter,
and `_ctypes` (not `ctypes`, which takes ten times as long). It decides nothing: which calls, which mounts and where to
try stands in the orders. `confinement.py` writes those, and knows what the reasons below mean.

The orders are four-byte big-endian lengths, each before its field: the filter, the canary's name, the directories to
try in (NUL between them; the first that is writable counts), then every private mount.
"""

import _ctypes
import _socket
import errno
import posix
import sys

# What the verdict says; `confinement.REASONS` has the words.
STANDS, ORDERS, PRIVILEGES, NO_LANDLOCK, OLD_LANDLOCK, MOUNT, RESTRICT = range(7)
NESTED, OLD_KERNEL, FILTER_REFUSED, HAND_OVER, WALL_OPEN, DOOR_OPEN, NOT_PERFORMED = range(7, 14)
NOT_FILTERED, NOT_TAKEN = 14, 15

# linux/prctl.h, linux/seccomp.h, linux/landlock.h
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_SET_MODE_FILTER = 1
# The listener; and a caller whose request was taken waits for the answer through every signal that does not kill it.
# Without that a signal handler makes the call begin again, and the supervisor performs it twice.
LISTENER, WAIT_KILLABLE = 1 << 3, 1 << 5
# The first with the right to move files between directories; without it Landlock forbids that everywhere.
LANDLOCK_ABI = 2
LANDLOCK_VERSION, LANDLOCK_PATH_BENEATH = 1, 1
# WRITE_FILE, MAKE_CHAR … MAKE_SYM, REFER. Not TRUNCATE, which would make every opening for reading dearer: what
# truncates is always performed by the supervisor. Not READ_*, EXECUTE, REMOVE_*: nothing is withheld of these.
WALL = 1 << 1 | 0x7F << 6 | 1 << 13
CREATE_RULESET, ADD_RULE, RESTRICT_SELF, IO_URING_SETUP, OPENAT2 = 444, 445, 446, 425, 437
# asm-generic/fcntl.h; posix has the rest
O_PATH, O_TMPFILE = 0o10000000, 0o20000000 | posix.O_DIRECTORY
S_IFIFO = 0o010000


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]  # no such type when it runs
    _type_ = "l"


class _Short(_ctypes._SimpleCData):  # type: ignore[type-arg]  # no such type when it runs
    _type_ = "H"


class _Bytes(_ctypes._SimpleCData):  # type: ignore[type-arg]  # no such type when it runs
    _type_ = "z"


class _Filter(_ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("length", _Short), ("instructions", _Bytes))


class _Function(_ctypes.CFuncPtr):
    """A function of the C library that returns a long and sets errno (FUNCFLAG_CDECL | FUNCFLAG_USE_ERRNO)."""

    _flags_ = 1 | 8
    _restype_ = _Long


class Refused(Exception):
    """Why there is no wall or no door: one of the reasons above, and an errno or 0."""


def call(number: int, *arguments: int | bytes | _Filter) -> int:
    """A system call; OSError when it fails. Integers are passed in full width."""
    itself = _ctypes.dlopen(None, 2)  # type: ignore[arg-type]  # typeshed: None, the program itself, is missing
    function = _Function(_ctypes.dlsym(itself, "syscall"))
    wide = (_Long(argument) if isinstance(argument, int) else argument for argument in (number, *arguments))
    passed = (_ctypes.byref(one) if isinstance(one, _Filter) else one for one in wide)
    result = int(function(*passed))
    if result < 0:
        raise OSError(_ctypes.get_errno(), f"system call {number}")
    return result


def native(value: int, size: int) -> bytes:
    """A number as the kernel has it in memory."""
    return value.to_bytes(size, sys.byteorder)


def read_orders(data: bytes) -> list[bytes]:
    """The fields of the orders."""
    fields = []
    while data:
        size = int.from_bytes(data[:4], "big")
        fields.append(data[4 : 4 + size])
        if len(data) < 4 or len(fields[-1]) != size:
            raise Refused(ORDERS, 0)
        data = data[4 + size :]
    if len(fields) < 3 or not fields[0] or not fields[1]:
        raise Refused(ORDERS, 0)
    return fields


def stop_ignoring() -> None:
    """Default dispositions for the two signals that the C library keeps for itself: its posix_spawn, by which the
    supervisor starts bubblewrap, has them ignored, and it takes none of them from `signal`."""
    sigaction = 13 if posix.uname().machine == "x86_64" else 134
    for number in (32, 33):
        call(sigaction, number, bytes(32), 0, 8)


def build_wall(private: list[bytes]) -> None:
    """Puts this process, and all that come from it, into the domain."""
    try:
        version = call(CREATE_RULESET, 0, 0, LANDLOCK_VERSION)
    except OSError as error:
        raise Refused(NO_LANDLOCK, error.errno) from None
    if version < LANDLOCK_ABI:
        raise Refused(OLD_LANDLOCK, 0)
    try:
        ruleset = call(CREATE_RULESET, native(WALL, 8), 8, 0)
    except OSError as error:
        raise Refused(RESTRICT, error.errno) from None
    for path in private:
        try:
            mount = posix.open(path, O_PATH | posix.O_DIRECTORY | posix.O_CLOEXEC)
            call(ADD_RULE, ruleset, LANDLOCK_PATH_BENEATH, native(WALL, 8) + native(mount, 4), 0)
            posix.close(mount)
        except OSError as error:
            raise Refused(MOUNT, error.errno) from None
    try:
        call(RESTRICT_SELF, ruleset, 0)
    except OSError as error:
        raise Refused(RESTRICT, error.errno) from None
    posix.close(ruleset)


def install_door(calls: bytes) -> int:
    """Installs the filter; the listener's descriptor."""
    seccomp = 317 if posix.uname().machine == "x86_64" else 277
    try:
        program = _Filter(len(calls) // 8, calls)
        return call(seccomp, SECCOMP_SET_MODE_FILTER, LISTENER | WAIT_KILLABLE, program)
    except OSError as error:
        # One task tree has at most one listener; flags are from 5.0 and 5.19.
        reasons = {errno.EBUSY: NESTED, errno.EINVAL: OLD_KERNEL}
        raise Refused(reasons.get(error.errno or 0, FILTER_REFUSED), error.errno) from None


def hand_over(supervisor: _socket.socket, listener: int) -> None:
    """The listener goes outside and stays nowhere in here."""
    try:
        supervisor.sendmsg([b"N"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, native(listener, 4))])
    except OSError as error:
        raise Refused(HAND_OVER, error.errno) from None
    finally:
        posix.close(listener)


def create(path: bytes) -> None:
    """Makes a file that is not there."""
    posix.close(posix.open(path, posix.O_CREAT | posix.O_EXCL | posix.O_WRONLY | posix.O_CLOEXEC, 0o600))


# What makes a name, as (makes it, takes it away again should it have been let through).
MAKERS = (
    (create, posix.unlink),
    (lambda path: posix.mkdir(path, 0o700), posix.rmdir),
    (lambda path: posix.symlink(b"x", path), posix.unlink),
    (lambda path: posix.mknod(path, S_IFIFO | 0o600), posix.unlink),
)
# What needs a name that is not there: the name itself has to be refused first.
MOVERS = (lambda path: posix.link(path, path), lambda path: posix.rename(path, path))


def must_be_refused(path: bytes, moves: bool, reason: int) -> None:
    """Tries to make `path` in every way; Refused unless each one is refused as the wall and the door refuse."""
    ways = (*MAKERS, *((mover, None) for mover in MOVERS)) if moves else MAKERS
    for make, undo in ways:
        try:
            make(path)
        except OSError as error:
            if error.errno == errno.EACCES:
                continue
            raise Refused(reason, error.errno) from None
        if undo:
            undo(path)
        raise Refused(reason, 0)


def must_be_performed(folder: bytes) -> None:
    """A nameless file in `folder`: with the wall in the way, only the supervisor can open one."""
    try:
        posix.close(posix.open(folder, O_TMPFILE | posix.O_RDWR | posix.O_CLOEXEC, 0o600))
    except OSError as error:
        # File systems that have no such files; a full one is not ours to judge.
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOSPC, errno.EDQUOT):
            raise Refused(NOT_PERFORMED, error.errno) from None


def must_be_taken(path: bytes) -> None:
    """A socket that would connect to a path where nothing is: only the supervisor, who has to have the socket for that,
    answers so."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        sock.connect(path)
    except OSError as error:
        if error.errno == errno.ENOENT:
            return
        raise Refused(NOT_TAKEN, error.errno) from None
    finally:
        sock.close()
    raise Refused(NOT_TAKEN, 0)


def must_be_absent(number: int) -> None:
    """A call that the filter answers by itself."""
    try:
        call(number, 0, 0, 0, 0)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return
        raise Refused(NOT_FILTERED, error.errno) from None
    raise Refused(NOT_FILTERED, 0)


def try_out(canary: bytes, folders: list[bytes]) -> int:
    """The canary. The supervisor lets its `.wall` through to the kernel and refuses its `.door`. How many `.wall`
    there were: none where no directory can be written, since a refusal there says nothing of the wall."""
    writable = [folder for folder in folders if folder and posix.access(folder, posix.W_OK | posix.X_OK)]
    for folder in writable[:1]:
        must_be_refused(folder + b"/" + canary + b".wall", False, WALL_OPEN)
        must_be_performed(folder)
    must_be_refused((writable or [b""])[0] + b"/" + canary + b".door", True, DOOR_OPEN)
    must_be_taken(b"/" + canary)
    must_be_absent(IO_URING_SETUP)
    must_be_absent(OPENAT2)
    posix.umask(posix.umask(0o077))
    return len(MAKERS) if writable else 0


def confine(supervisor_number: int, orders: bytes) -> bytes:
    """All of it. The verdict: b"C", the reason, and the errno or 0; where all stands, the number of `.wall` requests.
    Closes the descriptor."""
    supervisor = _socket.socket(fileno=supervisor_number)
    try:
        calls, canary, folders, *private = read_orders(orders)
        try:
            call(157 if posix.uname().machine == "x86_64" else 167, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        except OSError as error:
            raise Refused(PRIVILEGES, error.errno) from None
        stop_ignoring()
        build_wall(private)
        hand_over(supervisor, install_door(calls))
        reason, number = STANDS, try_out(canary, folders.split(b"\0"))
        supervisor.sendall(b"D")
    except Refused as refused:
        reason, number = refused.args
    except OSError as error:
        reason, number = HAND_OVER, error.errno or 0
    supervisor.close()
    return bytes((67, reason, min(number, 255)))
