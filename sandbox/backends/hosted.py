"""Wraps whose processes live on the host: the listeners are the launcher's own, on free ports of the host's loopback,
and a keeper owns the tree. A backend puts what wraps (or nothing) in front of the keeper.

    launcher ─ thread ─► [wrapping program, which becomes] keeper ─► CMD
                                                           keeper ─► attendant ─► command, …

Works wherever there are Unix sockets: no pidfd, no credentials of senders, no /proc.
"""

import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from gateway.errors import GatewayError
from gateway.session import Profile
from sandbox.backends.base import LAUNCH_DEADLINE, TEARDOWN_DEADLINE, Command, Endpoints, Execution, Inside
from sandbox.backends.life import Life
from sandbox.backends.wrap import Parts, Wrap
from sandbox.git.session import config_text
from sandbox.handover import Child, open_channel, read_complaint
from sandbox.spec import SandboxSpec

PYTHON_FLAGS = ("-I", "-S", "-E", "-B")
# The gateway accepts at once; the queue only has to hold a burst.
BACKLOG = 1024
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@dataclass(frozen=True, slots=True)
class Places:
    """What a launch has made before anything runs: the ports, and the paths of the generated git configuration and of
    gh's empty directory (empty: none)."""

    endpoints: Endpoints
    git_config: str
    gh_config: str


@dataclass(frozen=True, slots=True)
class Front:
    """What stands before the keeper's own command line (it has to become the keeper, in the same process), or before
    each command's (`dress`); temporary files and directories of it, which are removed when the wrap is over; and what
    else is to be done then (`over`, when nothing runs any more)."""

    argv: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    dress: Callable[[Command], Command] = lambda command: command
    over: Callable[[], None] = lambda: None


def no_front(spec: SandboxSpec, places: Places, undo: ExitStack) -> Front:
    """Nothing wraps."""
    return Front()


@dataclass(frozen=True, slots=True)
class Hosting:
    """What a backend decides: what the environment is told, and what stands in front.

    `front` is called before anything runs, with the stack that undoes what it makes if the launch fails. `wrapped`:
    something is really wrapped, so what stderr calls forbidden is a violation.
    """

    inside: Callable[[SandboxSpec, Places], Inside]
    wrapped: bool
    front: Callable[[SandboxSpec, Places, ExitStack], Front] = no_front


def launch_hosted(spec: SandboxSpec, life: Life, hosting: Hosting) -> "Hosted":
    """Opens the listeners and starts the keeper, which waits for commands. GatewayError says what failed."""
    with ExitStack() as undo:
        listeners = []
        for _ in range(3):
            if spec.profile is Profile.TERMINAL:
                listener = socket.socket()  # nobody listens, and nobody asks
            else:
                listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
            undo.callback(listener.close)
            listener.setblocking(False)
            listeners.append(listener)
        endpoints = Endpoints(*(listener.getsockname()[1] for listener in listeners))
        git_config = temporary_file(
            config_text(spec.git, endpoints.gateway_port, spec.git_config), ".gitconfig", undo
        )
        gh_config = temporary_folder(".gh", undo) if spec.git else ""
        places = Places(endpoints, git_config, gh_config)
        front = hosting.front(spec, places, undo)
        files = tuple(path for path in (git_config, gh_config, *front.files) if path)
        child, channel, complaint = _spawn(front, files, undo)
        parts = Parts(listeners, endpoints, hosting.inside(spec, places), child, channel)
        hosted = Hosted(spec, life, parts, hosting.wrapped, front, files, complaint)
        undo.pop_all()
    hosted.up()
    return hosted


def temporary_file(text: str, suffix: str, undo: ExitStack) -> str:
    """A file of this user alone with this text; no file and an empty path when there is no text."""
    if not text:
        return ""
    descriptor, path = tempfile.mkstemp(prefix="agent-gateway-", suffix=suffix)  # 0600
    undo.callback(_remove, path)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode(errors="surrogateescape"))
    return path


def temporary_folder(suffix: str, undo: ExitStack) -> str:
    """An empty directory of this user alone."""
    path = tempfile.mkdtemp(prefix="agent-gateway-", suffix=suffix)  # 0700
    undo.callback(_remove, path)
    return path


def _spawn(front: Front, files: tuple[str, ...], undo: ExitStack) -> tuple[Child, socket.socket, int]:
    """Starts the keeper and waits until it is ready: its process, our end of its channel, and what it complains of."""
    ours, theirs = open_channel()
    undo.callback(ours.close)
    complaint, complaint_end = os.pipe()
    undo.callback(os.close, complaint)
    stderr = os.dup(2)
    try:
        keeper = (sys.executable, *PYTHON_FLAGS, os.path.join(PACKAGE, "keeper.py"))
        arguments = (*front.argv, *keeper, str(theirs.fileno()), str(stderr), *files)
        child = Child(arguments, (theirs.fileno(), stderr), complaint_end)
    finally:
        theirs.close()
        os.close(complaint_end)
        os.close(stderr)
    undo.callback(child.kill)
    ours.settimeout(LAUNCH_DEADLINE)
    try:
        ready = ours.recv(1)
    except OSError:
        ready = b""
    if not ready:
        child.kill()
        child.wait(TEARDOWN_DEADLINE)
        raise GatewayError(f"the command's keeper did not start: {read_complaint(complaint)}")
    return child, ours, complaint


class Hosted(Wrap):
    """A wrap that a keeper owns."""

    def __init__(
        self,
        spec: SandboxSpec,
        life: Life,
        parts: Parts,
        wrapped: bool,
        front: Front,
        temporary: tuple[str, ...],
        complaint: int,
    ) -> None:
        super().__init__(spec, life, parts)
        self.wrapped = wrapped
        self._front = front
        self._temporary = temporary
        self._complaint = complaint
        self._lock = threading.RLock()  # a signal handler may call `signal` in the middle of anything here
        self._answer = threading.Lock()
        self._code: int | None = None
        self._heard = False
        self._told = False  # the word is out: what follows it on the channel is a signal

    def exec(self, command: Command) -> Execution:
        """See `base.Backend`."""
        return super().exec(self._front.dress(command))

    def _start_foreground(self, word: bytes) -> None:
        """The keeper starts the command."""
        self._channel.sendall(word)
        with self._lock:
            self._channel.settimeout(None)
            self._told = True

    def _signal_foreground(self, number: int) -> None:
        """By the keeper, whose child the command is."""
        with self._lock:
            if self._told:
                with suppress(OSError):
                    self._channel.sendall(bytes([number]))

    def _wait_foreground(self) -> int | None:
        """The status as the keeper tells it; None when somebody killed the keeper, and the command with it."""
        with self._answer:
            if not self._heard:
                try:
                    status = self._channel.recv(4, socket.MSG_WAITALL)
                except OSError:
                    status = b""
                if len(status) == 4:
                    code = os.waitstatus_to_exitcode(int.from_bytes(status, "big"))
                    self._code = code if code >= 0 else 128 - code
                self._heard = True
            return self._code

    def _failure(self) -> str:
        """The keeper dies of signals alone: what it wrote is no reason."""
        return ""

    def _end(self) -> None:
        """The end of the channel: the keeper kills the tree and removes the files, and is then gone itself."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)

    def _tree(self) -> tuple[int, Collection[int]]:
        """Below the keeper."""
        return self._child.pid, ()

    def _close(self) -> None:
        """When the keeper is gone, so is the tree."""
        if self._child.wait(TEARDOWN_DEADLINE) is None:
            self._child.kill()
            self._child.wait(TEARDOWN_DEADLINE)
        if self._foreground is not None:
            self._wait_foreground()  # what the keeper said last, or the end of the channel
        os.close(self._complaint)
        for path in self._temporary:
            _remove(path)
        self._front.over()


def _remove(path: str) -> None:
    """Whatever the commands made of it: a directory with all that is in it, a link alone."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(path)
