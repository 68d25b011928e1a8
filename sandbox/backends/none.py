"""No wrap: the same door with the host behind it. What CMD sees is convenience and not a boundary.

    launcher ─ thread ─► keeper ─► CMD

The listeners are the launcher's own, on free ports of the host's loopback.
"""

import os
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress

from gateway.errors import GatewayError
from sandbox.backends.base import LAUNCH_DEADLINE, TEARDOWN_DEADLINE, WORD_DEADLINE, Endpoints, Inside, Probe
from sandbox.handover import Child, encode_word, open_channel, read_complaint
from sandbox.paths import path_folders
from sandbox.quarantine import Finding
from sandbox.session_git import config_text
from sandbox.spec import SandboxSpec

NOTE = "no wrap"
PYTHON_FLAGS = ("-I", "-S", "-E", "-B")
# The gateway accepts at once; the queue only has to hold a burst.
BACKLOG = 1024
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Unwrapped:
    """Always available."""

    name = "none"

    def probe(self) -> Probe:
        """It needs nothing."""
        return Probe(True, NOTE)

    def launch(self, spec: SandboxSpec) -> "Kept":
        """Opens the listeners and starts the keeper, which waits for the word."""
        with ExitStack() as undo:
            listeners = []
            for _ in range(3):
                listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
                undo.callback(listener.close)
                listener.setblocking(False)
                listeners.append(listener)
            gateway_port = listeners[-1].getsockname()[1]
            git_config = _temporary_file(config_text(spec.git, gateway_port, spec.git_config), undo)
            gh_config = _temporary_folder(undo) if spec.git else ""
            kept = _spawn(spec, listeners, git_config, gh_config, undo)
            undo.pop_all()
        return kept


def _temporary_file(text: str, undo: ExitStack) -> str:
    """The generated git configuration as a file of this user alone; empty when there is none."""
    if not text:
        return ""
    descriptor, path = tempfile.mkstemp(prefix="agent-gateway-", suffix=".gitconfig")  # 0600
    undo.callback(_remove, path)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode(errors="surrogateescape"))
    return path


def _temporary_folder(undo: ExitStack) -> str:
    """An empty directory of this user alone, for gh."""
    path = tempfile.mkdtemp(prefix="agent-gateway-", suffix=".gh")  # 0700
    undo.callback(_remove, path)
    return path


def _spawn(
    spec: SandboxSpec, listeners: list[socket.socket], git_config: str, gh_config: str, undo: ExitStack
) -> "Kept":
    """Starts the keeper and waits until it is ready."""
    ours, theirs = open_channel()
    undo.callback(ours.close)
    complaint, complaint_end = os.pipe()
    undo.callback(os.close, complaint)
    stderr = os.dup(2)
    try:
        files = [path for path in (git_config, gh_config) if path]
        arguments = [os.path.join(PACKAGE, "keeper.py"), str(theirs.fileno()), str(stderr), *files]
        child = Child((sys.executable, *PYTHON_FLAGS, *arguments), (theirs.fileno(), stderr), complaint_end)
    finally:
        theirs.close()
        os.close(complaint_end)
        os.close(stderr)
    undo.callback(child.kill)
    ours.settimeout(LAUNCH_DEADLINE)
    try:
        ready = ours.recv(1)
    except TimeoutError:
        ready = b""
    if not ready:
        child.kill()
        child.wait(TEARDOWN_DEADLINE)
        raise GatewayError(f"the command's keeper did not start: {read_complaint(complaint)}")
    return Kept(spec, listeners, git_config, gh_config, child, ours, complaint)


class Kept:
    """A running command without a wrap. Used from several threads: `wait` in one, the rest in another."""

    backend = "none"

    def __init__(
        self,
        spec: SandboxSpec,
        listeners: list[socket.socket],
        git_config: str,
        gh_config: str,
        child: Child,
        channel: socket.socket,
        complaint: int,
    ) -> None:
        self.http, self.socks, self.gateway = listeners
        self.endpoints = Endpoints(*(listener.getsockname()[1] for listener in listeners))
        self.notes: tuple[str, ...] = ()
        self.findings: tuple[Finding, ...] = ()
        self.inside = Inside(
            home=spec.user_home,
            path=":".join(path_folders(spec.search_path)),
            tmpdir=tempfile.gettempdir(),
            git_config=git_config,
            connect=(sys.executable, *PYTHON_FLAGS, os.path.join(PACKAGE, "connect.py")),
            roots=("/",),
            variables={},
            credential=(sys.executable, *PYTHON_FLAGS, os.path.join(PACKAGE, "credential.py")),
            gh_config=gh_config,
        )
        self._group = spec.group
        self._temporary = tuple(path for path in (git_config, gh_config) if path)
        self._child = child
        self._channel = channel
        self._complaint = complaint
        self._lock = threading.RLock()  # a signal handler may call `signal` in the middle of anything here
        self._answer = threading.Lock()
        self._code: int | None = None
        self._started = False
        self._told = False  # the word is out: what follows it on the channel is a signal
        self._destroyed = False

    def start(
        self, argv: Sequence[str], environment: Mapping[str, str], workdir: str, ignored: Collection[int] = ()
    ) -> None:
        """Sends the word; the keeper starts CMD."""
        word = encode_word(argv, environment, workdir, ignored, self._group)
        with self._lock:
            if self._started or self._destroyed:
                raise GatewayError("the command was started before")
            self._started = True
            self._channel.settimeout(WORD_DEADLINE)
            try:
                self._channel.sendall(word)
            except OSError as error:
                raise GatewayError("the command's keeper ended before its command") from error
            self._channel.settimeout(None)
            self._told = True

    def signal(self, number: int) -> None:
        """Asks the keeper, whose child CMD is, to send it."""
        with self._lock:
            if self._told and not self._destroyed:
                with suppress(OSError):
                    self._channel.sendall(bytes([number]))

    def wait(self) -> int:
        """CMD's exit status, told by the keeper; 137 when somebody killed the keeper, and CMD with it."""
        with self._answer:
            if self._code is None:
                try:
                    status = self._channel.recv(4, socket.MSG_WAITALL)
                except OSError:
                    status = b""
                code = os.waitstatus_to_exitcode(int.from_bytes(status, "big")) if len(status) == 4 else -9
                self._code = code if code >= 0 else 128 - code
            return self._code

    def destroy(self) -> None:
        """Ends the channel: the keeper kills the tree and removes the files, and is then gone itself."""
        with self._lock:
            if self._destroyed:
                return
            self._destroyed = True
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)
        if self._child.wait(TEARDOWN_DEADLINE) is None:
            self._child.kill()
            self._child.wait(TEARDOWN_DEADLINE)
        self.wait()  # what the keeper said last, or the end of the channel
        self._channel.close()
        for listener in (self.http, self.socks, self.gateway):
            listener.close()
        os.close(self._complaint)
        for path in self._temporary:
            _remove(path)


def _remove(path: str) -> None:
    """Whatever CMD made of it: a directory with all that is in it, a link alone."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(path)
