"""The launcher's end of the hand-over: spawns a process, takes the listeners, sends the word, or many.

`stub.py` and `attendant.py` hold the other end and say what the word and a request look like. What comes from there
is not believed: descriptors are taken once, the listeners, and everything has a size.
"""

import array
import fcntl
import os
import signal
import socket
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from gateway.errors import GatewayError
from gateway.policy.wording import printable
from gateway.session import ProcessGroup

# What the kernel could execute is below 6 MiB (a quarter of the largest stack it counts with); the rest is framing.
WORD_LIMIT = 8 << 20
# Instead of a word: many commands will be asked for.
SERVE = b"SERV"
# Of what a failed start wrote on stderr; enough for a traceback, and a bound for whatever else it may be.
COMPLAINT_LIMIT = 8 << 10

# How the word says where CMD stands; the other two stay where they are.
APART = {ProcessGroup.OWN: "1", ProcessGroup.SESSION: "2"}

# Sent to the whole foreground process group by a terminal or by hand. Neither bubblewrap nor the keeper may die of
# one: their death is CMD's. They are blocked, not ignored, since a mask can be set for one thread and is inherited.
SHIELDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
)


class Child:
    """A process spawned with signals shielded, and the thread that waits for it.

    The thread is also what the child takes for its parent: the kernel's death signal (`--die-with-parent`) is sent
    when the spawning *thread* ends, so it must neither be a pool's nor the caller's. That thread also calls what
    `at_end` was given, when the child is over.
    """

    def __init__(self, argv: Sequence[str], descriptors: Collection[int], stderr: int | None) -> None:
        self.returncode: int | None = None
        self._at_end: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._spawned = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._error: OSError | None = None
        arguments = (tuple(argv), tuple(descriptors), stderr)
        self._thread = threading.Thread(target=self._live, args=arguments, name="sandbox-child", daemon=True)
        self._thread.start()
        self._spawned.wait()
        if self._error is not None:
            raise GatewayError(f"cannot start {argv[0]}: {self._error.strerror}")

    def _live(self, argv: tuple[str, ...], descriptors: tuple[int, ...], stderr: int | None) -> None:
        """The thread: spawn, tell, wait. The shield stays on; this thread handles no signals anyway."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SHIELDED)
        try:
            # An empty environment: nothing of the host's may steer the wrap's own programs.
            self._process = subprocess.Popen(argv, env={}, stderr=stderr, pass_fds=descriptors)
        except OSError as error:
            self._error = error
            return
        finally:
            self._spawned.set()
        self.returncode = self._process.wait()
        with self._lock:
            self._over.set()
            call = self._at_end
        if call is not None:
            call()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid if self._process is not None else 0

    def at_end(self, call: Callable[[], None]) -> None:
        """Has this called once when the child is over, or now if it is."""
        with self._lock:
            self._at_end = call
            over = self._over.is_set()
        if over:
            call()

    def wait(self, timeout: float | None = None) -> int | None:
        """The return code as subprocess gives it (negative: killed by a signal); None when the time is up."""
        return self.returncode if self._over.wait(timeout) else None

    def settle(self, seconds: float) -> None:
        """Waits until the thread of a child that is over has done its last."""
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds)

    def kill(self) -> None:
        """SIGKILL; nothing when it is over."""
        if self._process is not None and not self._over.is_set():
            self._process.kill()


def open_channel() -> tuple[socket.socket, socket.socket]:
    """Our end and theirs. Our end learns the sender's process id, translated by the kernel."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    passcred = getattr(socket, "SO_PASSCRED", None)  # Linux
    if passcred is not None:
        ours.setsockopt(socket.SOL_SOCKET, passcred, 1)
    return ours, theirs


def take_listeners(channel: socket.socket, count: int, deadline: float) -> tuple[list[socket.socket], int]:
    """The listeners the stub hands out, and its process id as seen here.

    EOFError when the other end is gone, TimeoutError at the deadline (seconds), GatewayError for anything else than
    exactly `count` listening sockets.
    """
    channel.settimeout(deadline)
    size = socket.CMSG_SPACE(count * 4) + socket.CMSG_SPACE(struct.calcsize("3i"))
    data, ancillary, flags, _ = channel.recvmsg(1, size, socket.MSG_CMSG_CLOEXEC)
    sockets: list[socket.socket] = []
    pid = 0
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers = array.array("i", content[: len(content) // 4 * 4])
            sockets += [socket.socket(fileno=number) for number in numbers]
        elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            pid = struct.unpack("3i", content)[0]
    if not data:
        raise EOFError
    listening = [sock for sock in sockets if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)]
    if flags & socket.MSG_CTRUNC or len(listening) != count or len(sockets) != count or pid <= 0:
        for sock in sockets:
            sock.close()
        raise GatewayError("the wrap handed over something other than its listeners")
    for sock in sockets:
        sock.setblocking(False)
    return sockets, pid


def ask_for_command(channel: socket.socket, word: bytes, descriptors: Collection[int]) -> None:
    """Asks whoever serves at the other end for one of many commands; `descriptors` are its standard streams and a
    control socket. OSError when nobody does."""
    sent = array.array("i", descriptors)
    channel.sendmsg([b"X"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, sent)])
    channel.sendall(word)


def take_attendant(control: socket.socket) -> int:
    """The process that attends to the command, as seen here. OSError when it does not tell in time or is gone.

    Where the kernel tells who sent it (Linux), that counts. Descriptors that came along are not taken.
    """
    size = socket.CMSG_SPACE(struct.calcsize("3i"))
    data, ancillary, _, _ = control.recvmsg(4, size)
    if len(data) != 4:
        raise ConnectionResetError("the command's attendant is gone")
    pid = int.from_bytes(data, "big")
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, getattr(socket, "SCM_CREDENTIALS", None)):
            pid = struct.unpack("3i", content)[0]
        elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            for number in array.array("i", content[: len(content) // 4 * 4]):
                os.close(number)
    return pid


def still_open(channel: socket.socket) -> bool:
    """Whether the other end is there and silent: it waits for the word."""
    channel.setblocking(False)
    try:
        channel.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def encode_word(
    argv: Sequence[str],
    environment: Mapping[str, str],
    workdir: str,
    ignored: Collection[int],
    group: ProcessGroup = ProcessGroup.SHARED,
) -> bytes:
    """The word with its length. GatewayError when it cannot be said: no command, a NUL byte, too long."""
    if not argv:  # an empty name is one that is not found
        raise GatewayError("no command to run")
    variables = [f"{name}={value}" for name, value in environment.items()]
    numbers = ",".join(str(int(number)) for number in sorted(ignored))
    told = (workdir, numbers, APART.get(group, "0"), str(len(argv)), *argv, *variables)
    try:
        fields = [os.fsencode(field) for field in told]
    except UnicodeEncodeError as error:  # half a character: it has no bytes
        raise GatewayError("the command or its environment holds what is no text") from error
    if any(b"\0" in field for field in fields):
        raise GatewayError("a NUL byte in the command or its environment")
    if any("=" in name or not name for name in environment):
        raise GatewayError("a variable's name is empty or holds '='")
    word = b"\0".join(fields)
    if len(word) > WORD_LIMIT:
        raise GatewayError(f"command and environment are longer than {WORD_LIMIT >> 20} MiB")
    return len(word).to_bytes(4, "big") + word


def has_complaint(descriptor: int) -> bool:
    """Whether something was written there; the end of the pipe is nothing."""
    return fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)) != bytes(4)


def read_complaint(descriptor: int) -> str:
    """What a failed start wrote on its stderr, last lines first cut, as one line of printable text."""
    os.set_blocking(descriptor, False)
    try:
        data = os.read(descriptor, COMPLAINT_LIMIT)
    except BlockingIOError:
        data = b""
    lines = [line.strip() for line in data.decode(errors="replace").splitlines() if line.strip()]
    return printable(lines[-1]) if lines else "no message"
