"""Attends to commands: starts them, passes signals on, tells how they ended, kills what is left.

It lies beside `stub.py`, inside a wrap as on the host, and is loaded by the stub (many commands in a wrap) and by
`keeper.py` (one or many without a wrap); like them it imports nothing of this project.

One command: after the word (see `stub.py`) single bytes that come are signals for it, and its wait status goes back
(four bytes, big endian). The end of the channel, which is also the launcher's death, kills it with its whole tree.

Many commands (SERVE): each is asked for by an X that carries four descriptors (its three streams and a control socket)
and by its word. A process of its own attends to it: over the control socket that one tells its process id before
the command is there (four bytes), takes signals, and tells the status. The end of the control socket kills the command
with its tree, and the status comes when nothing is left; what a command leaves in the background lives on.

On Linux orphans come back to the attendant (PR_SET_CHILD_SUBREAPER), so daemons do not get away while their command
runs; elsewhere what has become a daemon does. It ignores nothing and handles nothing itself: the signals of the
terminal are blocked in it.
"""

import os
import select
import signal
import socket
import sys
import time
from types import FrameType, ModuleType

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
# Milliseconds between two looks at the tree while it dies; a death wakes it earlier.
KILL_PAUSE = 50
# What comes with a request: stdin, stdout, stderr, control.
DESCRIPTORS = 4
# More children than this one process never has; the kernel's own bound is near it.
MOST_CHILDREN = 1 << 16


def set_process_option(option: int, value: int) -> None:
    """prctl(2); nothing where there is none."""
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def parents() -> dict[int, int]:
    """Every process that /proc shows, with its parent."""
    return {int(name): parent_of(name) for name in os.listdir("/proc") if name.isdigit()}


def parent_of(pid: str) -> int:
    """A process's parent from proc_pid_stat(5); 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is a name and may hold anything, also ")": the fields after the last one count.
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def asked_children(parent: int) -> list[int]:
    """The children of a process where there is no /proc: proc_listchildpids of libproc.h (macOS).

    Not by ps: it is a set-id program there, which a process in a Seatbelt sandbox may not execute.
    """
    import ctypes

    numbers = (ctypes.c_int * 4096)()
    size = ctypes.sizeof(numbers)
    while True:
        ctypes.CDLL(None).proc_listchildpids(parent, numbers, size)
        # Entries count, not the result: its unit differs between releases. Unused ones stay 0.
        found = [number for number in numbers if number > 0]
        if len(found) < len(numbers) or len(numbers) >= MOST_CHILDREN:
            return found
        numbers = (ctypes.c_int * (2 * len(numbers)))()
        size = ctypes.sizeof(numbers)


def descendants(root: int, known: "dict[int, int] | None" = None) -> list[int]:
    """All processes below `root`, parents before their children; from a look at all (`parents`) if there was one."""
    children: dict[int, list[int]] = {}
    asks = known is None and not os.path.isdir("/proc/self")
    if not asks:
        for pid, parent in (parents() if known is None else known).items():
            children.setdefault(parent, []).append(pid)
    found: list[int] = []
    pending = [root]
    while pending:
        parent = pending.pop()
        below = asked_children(parent) if asks else children.get(parent, [])
        found += below
        pending += below
    return found


class Attendant:
    """The loop around one command. `wake` is readable whenever a child may have died (see `wake_on_deaths`)."""

    def __init__(self, channel: int, wake: int, command: int) -> None:
        self._channel = channel
        self._wake = wake
        self._command = command
        self._status: int | None = None
        self._told = False

    def reap(self) -> bool:
        """Takes the dead in; False when there are no children at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._command:
                self._status = status

    def tell(self) -> None:
        """How the command ended, once."""
        if self._status is None or self._told:
            return
        self._told = True
        try:
            os.write(self._channel, self._status.to_bytes(4, "big"))
        except OSError:
            pass  # the launcher is gone

    def run(self, stays: bool) -> bool:
        """Until the channel ends (False) or, for one that does not stay, the command is over (True)."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while stays or self._status is None:
            for descriptor, _ in poll.poll():
                try:
                    data = os.read(descriptor, 64)
                except OSError:
                    data = b""
                if descriptor == self._channel and not data:
                    return False
                if descriptor == self._channel:
                    self.pass_on(data)
            self.reap()
            self.tell()
        return True

    def pass_on(self, numbers: bytes) -> None:
        """Signals for the command; it is a child not yet waited for, so its number is still its own."""
        for number in numbers:
            if self._status is None:
                try:
                    os.kill(self._command, number)
                except OSError:
                    pass

    def kill_all(self, deadline: float | None) -> None:
        """Kills until nothing is left, for at most `deadline` seconds: processes may be born while others die."""
        end = None if deadline is None else time.monotonic() + deadline
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        while self.reap() and (end is None or time.monotonic() < end):
            for pid in descendants(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            poll.poll(KILL_PAUSE)
            drain(self._wake)


def note(number: int, frame: FrameType | None) -> None:
    """SIGCHLD needs a handler for the wake-up descriptor to be written to."""


def wake_on_deaths() -> int:
    """A descriptor that becomes readable when a child has died; each process needs its own."""
    wake, wake_end = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_end, False)
    signal.signal(signal.SIGCHLD, note)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    return wake


def drain(wake: int) -> None:
    """Makes the descriptor unreadable again."""
    try:
        os.read(wake, 64)
    except BlockingIOError:
        pass


def start(stub: ModuleType, word: object, streams: tuple[int, ...]) -> int:
    """CMD's process with these as its standard streams. It dies with this one, should somebody kill this one."""
    keeper = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 125
    try:
        set_process_option(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == keeper:
            for number, stream in enumerate(streams):
                if number != stream:
                    os.dup2(stream, number)
            stub.close_all_but_stdio()
            code = stub.become(word)
    finally:
        os._exit(code)


def take_request(stub: ModuleType, channel: socket.socket) -> tuple[list[int], object] | None:
    """The descriptors of a request and its word; None when the launcher is gone, or speaks of something else."""
    data, ancillary, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(DESCRIPTORS * 4))
    numbers: list[int] = []
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            whole = len(content) // 4 * 4
            numbers += [int.from_bytes(content[at : at + 4], sys.byteorder) for at in range(0, whole, 4)]
    word = stub.receive(channel) if data == b"X" and len(numbers) == DESCRIPTORS else None
    return None if word is None else (numbers, word)


def attend(stub: ModuleType, word: object, numbers: list[int]) -> None:
    """The life of the process that attends to one of many commands."""
    set_process_option(PR_SET_CHILD_SUBREAPER, 1)
    wake = wake_on_deaths()
    *streams, control = numbers
    # Before there is a command, which may kill this process in its first moment.
    os.write(control, os.getpid().to_bytes(4, "big"))
    command = start(stub, word, tuple(streams))
    for stream in streams:
        os.close(stream)  # who reads them shall see their end when the command's own are closed
    attendant = Attendant(control, wake, command)
    if not attendant.run(stays=False):
        # Without a deadline: whoever asked is not told that it is over before it is.
        attendant.kill_all(None)
        attendant.tell()


def live(stub: ModuleType, channel: socket.socket, word: object, numbers: list[int], server: int) -> None:
    """An attendant from its first to its last moment; it dies with the server."""
    try:
        channel.close()
        set_process_option(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == server:
            attend(stub, word, numbers)
    finally:
        os._exit(0)


def serve(stub: ModuleType, channel: socket.socket) -> None:
    """Starts a command for each request, until the channel ends. Nothing is killed here: the wrap does, or `keeper.py`.

    This process and its attendants cannot be traced, nor their memory and descriptors be reached, by the commands,
    which are of the same user.
    """
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    # From here on it opens nothing for writing: whoever judges that would have to look into its memory.
    set_process_option(PR_SET_DUMPABLE, 0)
    wake = wake_on_deaths()
    server = os.getpid()
    poll = select.poll()
    poll.register(channel.fileno(), select.POLLIN)
    poll.register(wake, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == wake:
                drain(wake)
                reap_children()
                continue
            request = take_request(stub, channel)
            if request is None:
                return
            numbers, word = request
            if os.fork() == 0:
                live(stub, channel, word, numbers, server)
            for number in numbers:
                os.close(number)


def reap_children() -> None:
    """Takes in attendants that are over."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
