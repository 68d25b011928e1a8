"""System calls that Python has no name for, and the constants of seccomp's notifications. No decision is made here.

Everything raises OSError with the call's errno. Numbers are from the kernel's tables, structures from linux/seccomp.h,
linux/openat2.h, linux/capability.h; all of both architectures is little-endian with 64-bit pointers.
"""

import _signal  # type: ignore[import-not-found]  # typeshed does not know it; `signal` would bring enum along
import ctypes
import errno
import fcntl
import os
import struct

# name: (x86-64, arm64)
NUMBERS = {
    "capset": (126, 91),
    "renameat2": (316, 276),
    "pidfd_getfd": (438, 438),
    "openat2": (437, 437),
}
_COLUMN = 0 if os.uname().machine == "x86_64" else 1

# linux/seccomp.h: the ioctls of a listener.
RECEIVE, SEND, ID_VALID, ADD_DESCRIPTOR, SET_FLAGS = (
    0xC0502100,
    0xC0182101,
    0x40082102,
    0x40182103,
    0x40082104,
)
SYNC_WAKE_UP = 1
CONTINUE = 1
# struct seccomp_notif: id, pid, flags, then struct seccomp_data: number, architecture, instruction, six arguments.
NOTIFICATION = struct.Struct("<QIIiIQ6Q")
_EMPTY = bytes(NOTIFICATION.size)  # the kernel refuses a buffer that is not zero
_RESPONSE = struct.Struct("<QqiI")
_ADDITION = struct.Struct("<QIIII")
_addition = bytearray(_ADDITION.size)
_ID = struct.Struct("<Q")

# linux/openat2.h
NO_MAGIC_LINKS, NO_SYMLINKS, IN_ROOT = 0x02, 0x04, 0x10
_HOW = struct.Struct("<QQQ")
# openat2 refuses what open ignores; these are the flags it knows (linux/fcntl.h).
OPEN_FLAGS = 0o37777703
# Renames race with resolution inside the pinned root: the kernel says EAGAIN, and means it.
_AGAIN_LIMIT = 100

# sys/prctl.h, linux/capability.h, statfs(2)
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_PR_SET_CHILD_SUBREAPER = 36
_CAPABILITY_VERSION = 0x20080522
_LAST_CAPABILITY = 63
_PROC_SUPER_MAGIC = 0x9FA0
# asm-generic/socket.h
_SOL_SOCKET, _SO_DOMAIN = 1, 39
# Of a connection: neither made nor refused.
_UNDER_WAY = frozenset({errno.EINPROGRESS, errno.EALREADY, errno.EAGAIN})
# Seconds after which a connect(2) that should not wait is interrupted, and again until it returns.
CONNECT_LIMIT = 0.01

# Descriptors given away before the supervisor looks again where it had better be.
_STAY = 64
# Descriptors that a thread takes before it is moved for them, and threads that are counted at a time.
_MANY = 8
_THREADS = 256

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_connect = _libc.connect
_connect.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
_connect.restype = ctypes.c_int
_getsockopt = _libc.getsockopt
_getsockopt.restype = ctypes.c_int
_fstatfs = _libc.fstatfs
_fstatfs.argtypes = [ctypes.c_int, ctypes.c_char_p]
_fstatfs.restype = ctypes.c_int
_prctl = _libc.prctl
_prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
_prctl.restype = ctypes.c_int
_get_processor = _libc.sched_getcpu
_get_processor.restype = ctypes.c_int
_how = ctypes.create_string_buffer(_HOW.size)
_how_pointer = ctypes.c_void_p(ctypes.addressof(_how))
_openat2 = NUMBERS["openat2"][_COLUMN]
_pidfd_getfd = NUMBERS["pidfd_getfd"][_COLUMN]
_domain, _domain_size = ctypes.c_int(0), ctypes.c_uint(4)
_domain_pointers = ctypes.byref(_domain), ctypes.byref(_domain_size)


def _failed() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


# --- The listener ---------------------------------------------------------------------------------


def receive(listener: int) -> tuple[int, ...]:
    """The next notification: id, pid, flags, call, architecture, instruction, six arguments. ENOENT: it is gone."""
    return NOTIFICATION.unpack(fcntl.ioctl(listener, RECEIVE, _EMPTY))


def send(listener: int, identity: int, value: int = 0, error: int = 0, flags: int = 0) -> None:
    """Lets the caller go on with a value, an errno, or (CONTINUE) the call itself. ENOENT: it is gone."""
    fcntl.ioctl(listener, SEND, _RESPONSE.pack(identity, value, -error, flags))


def is_valid(listener: int, identity: int) -> bool:
    """Whether the caller still waits, so that its number still means it."""
    try:
        fcntl.ioctl(listener, ID_VALID, _ID.pack(identity))
    except OSError:
        return False
    return True


def add_descriptor(listener: int, identity: int, descriptor: int, close_on_exec: bool) -> int:
    """Puts a copy of our descriptor into the waiting caller and returns its number there.

    Never with the flag that answers as well: the caller would run on while we still hold the file open for writing,
    and executing it would fail (ETXTBSY).
    """
    _ADDITION.pack_into(_addition, 0, identity, 0, descriptor, 0, os.O_CLOEXEC if close_on_exec else 0)
    # Only for a buffer that can be written does `fcntl.ioctl` return what the ioctl does.
    number: int = fcntl.ioctl(listener, ADD_DESCRIPTOR, _addition, True)
    return number


def wake_in_place(listener: int) -> bool:
    """Asks for wake-ups on the caller's own processor (Linux 6.6); False where the kernel cannot."""
    try:
        fcntl.ioctl(listener, SET_FLAGS, SYNC_WAKE_UP)
    except OSError:
        return False
    return True


class Processor:
    """Keeps a caller on our processor for the moment in which it takes a descriptor.

    The caller is woken for that, takes it, and wakes us. The kernel would put each of us on whatever processor is
    idle, and waking an idle one costs more than all the rest (three times as much, measured). Answers need nothing of
    the kind: `wake_in_place` does it. Where the kernel does not let us, it is only slower.

    Only a thread that makes many files gains by it. One that makes a few (a compiler) would be left on a processor that
    is busy while another idles, and so would we.
    """

    def __init__(self) -> None:
        self._all = os.sched_getaffinity(0)
        self._here = self._all
        self._left = 0
        self._taken: dict[int, int] = {}  # by thread

    def lend(self, listener: int, identity: int, thread: int, descriptor: int, close_on_exec: bool) -> int:
        """`add_descriptor`, with the caller on our processor where it has taken some before."""
        if not self._is_busy(thread):
            self._leave()
            return add_descriptor(listener, identity, descriptor, close_on_exec)
        if not self._left:
            self._stay()
        self._left -= 1
        try:
            theirs = os.sched_getaffinity(thread)
            os.sched_setaffinity(thread, self._here)
        except OSError:
            return add_descriptor(listener, identity, descriptor, close_on_exec)
        try:
            return add_descriptor(listener, identity, descriptor, close_on_exec)
        finally:
            _move(thread, theirs)
            if not self._left:
                _move(0, self._all)  # the next caller may wake us where it runs

    def _is_busy(self, thread: int) -> bool:
        """Whether this thread has taken as many descriptors as make it worth while; counts them."""
        taken = self._taken.get(thread, 0)
        if taken >= _MANY:
            return True
        if len(self._taken) >= _THREADS:
            self._taken.clear()
        self._taken[thread] = taken + 1
        return False

    def _leave(self) -> None:
        if self._left:
            self._left = 0
            _move(0, self._all)

    def _stay(self) -> None:
        self._here = {_get_processor()}
        _move(0, self._here)
        self._left = _STAY


def _move(thread: int, processors: set[int]) -> None:
    try:
        os.sched_setaffinity(thread, processors)
    except OSError:
        pass  # it is gone, or none of these is there any more


# --- Another process ------------------------------------------------------------------------------


def take_descriptor(process: int, number: int) -> int:
    """A copy of a process's descriptor (pidfd_getfd(2)); `process` is a descriptor of it. Ours is close-on-exec."""
    found: int = _syscall(_pidfd_getfd, process, number, 0)
    if found < 0:
        raise _failed()
    return found


# --- Files ----------------------------------------------------------------------------------------


def openat2(folder: int, path: bytes, flags: int, resolve: int, mode: int = 0) -> int:
    """openat2(2), tried again where the kernel asks for that. Else EAGAIN means a lease."""
    again = (errno.EINTR, errno.EAGAIN) if resolve & IN_ROOT else (errno.EINTR,)
    _HOW.pack_into(_how, 0, flags, mode, resolve)
    for _ in range(_AGAIN_LIMIT):
        # Plain numbers and bytes: declared or wrapped arguments cost more than the call.
        descriptor: int = _syscall(_openat2, folder, path, _how_pointer, _HOW.size)
        if descriptor >= 0:
            return descriptor
        if ctypes.get_errno() not in again:
            break
    raise _failed()


def rename(old_folder: int, old: bytes, new_folder: int, new: bytes, flags: int) -> None:
    """renameat2(2)."""
    arguments = (
        ctypes.c_int(old_folder),
        ctypes.c_char_p(old),
        ctypes.c_int(new_folder),
        ctypes.c_char_p(new),
    )
    _call("renameat2", *arguments, ctypes.c_uint(flags))


def is_process_file_system(descriptor: int) -> bool:
    """Whether a descriptor is of procfs, of whichever instance."""
    buffer = ctypes.create_string_buffer(256)
    if _fstatfs(descriptor, buffer) < 0:
        raise _failed()
    return int.from_bytes(buffer.raw[:8], "little") == _PROC_SUPER_MAGIC


def connect(descriptor: int, address: bytes) -> None:
    """connect(2) with a raw socket address, on a socket that does not block. EINTR when it did all the same.

    The flag that keeps it from blocking is the caller's as well, who may take it away at any moment. So an alarm goes
    with the call (`life.py` has a handler for it, or it would end us).
    """
    _signal.setitimer(_signal.ITIMER_REAL, CONNECT_LIMIT, CONNECT_LIMIT)
    try:
        if _connect(descriptor, address, len(address)) < 0:
            raise _failed()
    finally:
        _signal.setitimer(_signal.ITIMER_REAL, 0)


def is_connected_by(descriptor: int, address: bytes) -> bool:
    """The same, tried once more where the first call only began it: on loopback the answer came while that returned.
    False when it is still under way (EINPROGRESS, EALREADY), or could not begin (EAGAIN)."""
    for _ in range(2):
        try:
            connect(descriptor, address)
        except OSError as error:
            if error.errno not in _UNDER_WAY:
                raise
        else:
            return True
    return False


def socket_domain(descriptor: int) -> int:
    """The family of a socket (SO_DOMAIN); ENOTSOCK for anything else."""
    if _getsockopt(descriptor, _SOL_SOCKET, _SO_DOMAIN, *_domain_pointers) < 0:
        raise _failed()
    return _domain.value


def _call(name: str, *arguments: object) -> int:
    result: int = _syscall(ctypes.c_long(NUMBERS[name][_COLUMN]), *arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}(2): {os.strerror(number)}")
    return result


# --- Ourselves ------------------------------------------------------------------------------------


def die_with(signal_number: int) -> None:
    """Asks for a signal when the thread that started us ends."""
    if _prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0) < 0:
        raise _failed()


def find_missing() -> tuple[str, int] | None:
    """A call that later work rests on and this kernel has not, or some outer filter takes away: its name and the errno.
    Tried on ourselves, with arguments that do nothing."""
    process = -1
    name = ""
    try:
        name = "pidfd_open"
        process = os.pidfd_open(os.getpid())
        name = "pidfd_getfd"
        os.close(take_descriptor(process, process))
        name = "openat2"
        os.close(openat2(-100, b"/", os.O_PATH | os.O_CLOEXEC, IN_ROOT))
        name = "renameat2"
        rename(-100, b"", -100, b"", 0)
    except OSError as error:
        # A name that is empty is none: the call is there.
        return None if error.errno == errno.ENOENT else (name, error.errno or 0)
    finally:
        if process >= 0:
            os.close(process)
    return None


def take_orphans_in() -> None:
    """Makes this process the parent of what its children leave behind."""
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0:
        raise _failed()


def drop_capabilities() -> None:
    """Gives up every capability for good, root's too: what the kernel refuses CMD it then refuses us."""
    for capability in range(_LAST_CAPABILITY + 1):
        # EPERM: we had none to begin with; EINVAL: this kernel has fewer.
        _prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = struct.pack("<Ii", _CAPABILITY_VERSION, 0)
    _call("capset", ctypes.c_char_p(header), ctypes.c_char_p(bytes(24)))
    if _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0:
        raise _failed()
