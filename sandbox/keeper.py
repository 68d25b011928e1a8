"""Owns CMD's process tree on the host, where no wrap does: starts CMD, passes signals on, kills what is left.

    python -I -S -E -B keeper.py CHANNEL STDERR [PATH…]

It is told the word (see `stub.py`), answers with CMD's wait status (four bytes, big endian), takes single bytes as
signals for CMD, and at the end of the channel, which is also the launcher's death, kills the whole tree and removes
the files and directories at the paths. On Linux orphans come back to it (PR_SET_CHILD_SUBREAPER), so daemons do not
get away; elsewhere what has become a daemon does. It ignores nothing and handles nothing itself: the signals of the
terminal are blocked in it.
"""

import os
import select
import signal
import sys
import time
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import FrameType, ModuleType

# linux/prctl.h
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
# Seconds for killed processes to be gone; what the kernel holds, or another user owns, stays after that.
KILL_DEADLINE = 5.0
# Milliseconds between two looks at the tree while it dies; a death wakes it earlier.
KILL_PAUSE = 50


def load_stub() -> ModuleType:
    """The module beside this file; there is no import path to find it on."""
    loader = SourceFileLoader("stub", os.path.join(os.path.dirname(os.path.abspath(__file__)), "stub.py"))
    spec = spec_from_loader("stub", loader)
    assert spec is not None  # a loader was given
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


def set_process_option(option: int, value: int) -> None:
    """prctl(2); nothing where there is none."""
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def parents() -> dict[int, int]:
    """Every process of the host with its parent."""
    if not os.path.isdir("/proc/self"):
        with os.popen("/bin/ps -A -o pid=,ppid=") as listing:
            return {int(pid): int(parent) for pid, parent in map(str.split, listing)}
    return {int(name): parent_of(name) for name in os.listdir("/proc") if name.isdigit()}


def parent_of(pid: str) -> int:
    """A process's parent from proc_pid_stat(5); 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is a name and may hold anything, also ")": the fields after the last one count.
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def descendants(root: int) -> list[int]:
    """All processes below `root`, children before grandchildren."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    pending = [root]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


class Keeper:
    """The loop. `wake` is readable whenever a child may have died."""

    def __init__(self, channel: int, wake: int, command: int) -> None:
        self._channel = channel
        self._wake = wake
        self._command = command
        self._over = False

    def reap(self) -> bool:
        """Takes the dead in and tells CMD's status; False when there are no children at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._command:
                self._over = True
                try:
                    os.write(self._channel, status.to_bytes(4, "big"))
                except OSError:
                    pass  # the launcher is gone

    def run(self) -> None:
        """Until the channel ends."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                try:
                    data = os.read(descriptor, 64)
                except OSError:
                    data = b""
                if descriptor == self._channel and not data:
                    return
                if descriptor == self._channel:
                    self.pass_on(data)
            self.reap()

    def pass_on(self, numbers: bytes) -> None:
        """Signals for CMD; it is a child not yet waited for, so its number is still its own."""
        for number in numbers:
            if not self._over:
                try:
                    os.kill(self._command, number)
                except OSError:
                    pass

    def kill_all(self) -> None:
        """Kills until nothing is left: processes may be born while others die."""
        end = time.monotonic() + KILL_DEADLINE
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        while self.reap() and time.monotonic() < end:
            for pid in descendants(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            poll.poll(KILL_PAUSE)
            try:
                os.read(self._wake, 64)
            except BlockingIOError:
                pass


def note(number: int, frame: FrameType | None) -> None:
    """SIGCHLD needs a handler for the wake-up descriptor to be written to."""


def start(stub: ModuleType, word: object, stderr: int) -> int:
    """CMD's process. It dies with this one, should somebody kill this one."""
    keeper = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    code = 125
    try:
        set_process_option(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == keeper:
            os.dup2(stderr, 2)
            stub.close_all_but_stdio()
            code = stub.become(word)
    finally:
        os._exit(code)


def remove(path: str) -> None:
    """A file, or a directory with what CMD left in it; what CMD has put in its place is not followed."""
    try:
        os.unlink(path)
        return
    except OSError:
        pass
    if os.path.isdir(path):
        from shutil import rmtree  # slow to import, and mostly not needed

        rmtree(path, ignore_errors=True)


def main(arguments: list[str]) -> int:
    """The keeper's life."""
    channel_number, stderr, *paths = arguments
    stub = load_stub()
    channel = stub.open_channel(int(channel_number))
    set_process_option(PR_SET_CHILD_SUBREAPER, 1)
    wake, wake_end = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(wake_end, False)
    signal.signal(signal.SIGCHLD, note)
    signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
    channel.send(b"K")
    try:
        word = stub.receive(channel)
        if word is not None:
            # Not in the caller's group either: whoever kills that kills this process's only witness of the end.
            stub.stand_apart(word[2])
            keeper = Keeper(channel.fileno(), wake, start(stub, word, int(stderr)))
            keeper.run()
            keeper.kill_all()
    finally:
        for path in paths:
            remove(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
