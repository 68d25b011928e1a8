"""The launcher's half of `bridge: socat`: Unix sockets that socats in the wrap connect to, where the gateway accepts.

`bridge_inside.py` holds the other half. The sockets are made in a directory of this launch that nobody else may enter,
bound into the wrap one by one, and removed from the host as soon as the wrap is up: from then on they are reached from
inside alone, and nothing is left behind however the launcher ends.
"""

import fcntl
import os
import select
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache
from importlib import resources

from gateway.errors import GatewayError
from gateway.session import Bridge
from sandbox.bridge_inside import BACKLOG, FOLDER, NAMES
from sandbox.folders import make_private
from sandbox.layout import OWN_FOLDER, SYSTEM_FOLDERS, DataFile
from sandbox.mounts import WrapPlan
from sandbox.probing.host_files import Host
from sandbox.probing.probe import Probe
from sandbox.probing.trial import find_program, missing_programs
from sandbox.spec import SandboxSpec

INSIDE = f"{OWN_FOLDER}/bridge_inside.py"
# How the directory of a launch is called, wherever the product keeps its sockets.
PREFIX = "bridge-"
# Seconds for the one byte that comes through when the bridge is tried.
KNOCK_DEADLINE = 5.0


def find_socat() -> str:
    """socat as it is to be found inside, where only the system is shown; empty when it is not there."""
    found = find_program("socat")
    real = os.path.realpath(found) if found else ""
    return real if real.split("/")[1:2] and real.split("/")[1] in SYSTEM_FOLDERS else ""


@cache
def probe_bridge(bridge: Bridge) -> Probe | None:
    """What is missing for the bridge; None when nothing is. Looked at once per process."""
    if bridge is not Bridge.SOCAT or find_socat():
        return None
    return missing_programs(("socat",), Host(administrator=os.geteuid() == 0))


class SocatBridge:
    """Three listening Unix sockets of one launch. Changes: `take` hands them over, `remove` takes them off the host."""

    def __init__(self, program: str, folder: str, lock: int, listeners: Sequence[socket.socket]) -> None:
        self._folder = folder
        self._lock = lock
        self._listeners = list(listeners)
        self.stub_arguments = (program,)

    def add_to(self, plan: WrapPlan) -> WrapPlan:
        """The plan with the sockets, and the program that connects to them."""
        program = (resources.files("sandbox") / "bridge_inside.py").read_bytes()
        binds = (("--ro-bind", f"{self._folder}/{name}", f"{FOLDER}/{name}") for name in NAMES)
        return replace(
            plan,
            arguments=(*plan.arguments, *(part for bind in binds for part in bind)),
            files=(*plan.files, DataFile(INSIDE, program)),
        )

    def take(self, channel: socket.socket, deadline: float) -> tuple[list[socket.socket], int]:
        """Answers what comes through, until the stub says that all of it did; gives the listeners, non-blocking, and
        the stub's process id.

        EOFError when the other end is gone, TimeoutError at the deadline (seconds), GatewayError for what does not fit.
        """
        end = time.monotonic() + deadline
        poll = select.poll()
        by_number = {listener.fileno(): index for index, listener in enumerate(self._listeners)}
        for number in (*by_number, channel.fileno()):
            poll.register(number, select.POLLIN)
        while True:
            left = end - time.monotonic()
            ready = [number for number, _ in poll.poll(max(0.0, left) * 1000)]
            if not ready:
                raise TimeoutError
            for number in ready:
                if number in by_number:
                    _answer(self._listeners[by_number[number]], by_number[number])
            if channel.fileno() in ready:
                pid = _take_word(channel)
                listeners, self._listeners = self._listeners, []
                return listeners, pid

    def remove(self) -> None:
        """Takes the directory off the host, and closes what was not handed over. May be called again."""
        for listener in self._listeners:
            listener.close()
        self._listeners = []
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def open_bridge(spec: SandboxSpec) -> SocatBridge | None:
    """The bridge that the spec asks for; None for the hand-over. GatewayError when there is no socat, or no place."""
    if spec.bridge is not Bridge.SOCAT:
        return None
    program, missing = find_socat(), probe_bridge(spec.bridge)
    if missing is not None:
        raise GatewayError("bridge: socat cannot run on this host", missing.hint)
    try:
        return _open(program, _place(spec))
    except OSError as error:
        raise GatewayError(
            f"the sockets of the bridge cannot be made: {error.strerror}", "or write bridge: handover"
        ) from error


def _place(spec: SandboxSpec) -> str:
    """Where the product's sockets are; the system's temporary directory for who names no place."""
    if spec.runtime_dir:
        return spec.runtime_dir
    return f"{spec.state_dir}/run" if spec.state_dir else tempfile.gettempdir()


def _open(program: str, place: str) -> SocatBridge:
    make_private(place)
    with ExitStack() as undo:
        whole = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        undo.callback(os.close, whole)
        fcntl.flock(
            whole, fcntl.LOCK_EX
        )  # until ours is locked: nobody takes it for one that was left behind
        _sweep(place)
        folder = tempfile.mkdtemp(prefix=PREFIX, dir=place)
        with ExitStack() as failed:
            failed.callback(shutil.rmtree, folder, ignore_errors=True)
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            failed.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX)
            listeners = []
            for name in NAMES:
                listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                failed.callback(listener.close)
                # Not by its path, which may be longer than an address of a Unix socket can be.
                listener.bind(f"/proc/self/fd/{lock}/{name}")
                listener.listen(BACKLOG)
                listener.setblocking(False)
                listeners.append(listener)
            failed.pop_all()
        return SocatBridge(program, folder, lock, listeners)


def _sweep(place: str) -> None:
    """Removes what launchers left that were killed before their wrap was up."""
    for name in os.listdir(place):
        if not name.startswith(PREFIX):
            continue
        with suppress(OSError):
            left = os.open(f"{place}/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(left, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(f"{place}/{name}", ignore_errors=True)
            finally:
                os.close(left)


def _answer(listener: socket.socket, index: int) -> None:
    """Sends back the byte that the stub sends through."""
    with suppress(OSError):
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(KNOCK_DEADLINE)
            if connection.recv(1) == bytes([index]):
                connection.send(bytes([index]))


def _take_word(channel: socket.socket) -> int:
    """The stub's process id with its one word; descriptors that came along are not taken."""
    size = socket.CMSG_SPACE(struct.calcsize("3i"))
    data, ancillary, _, _ = channel.recvmsg(1, size)
    if not data:
        raise EOFError
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and data == b"B":
            return int(struct.unpack("3i", content)[0])
    raise GatewayError("the wrap said something other than that its bridge stands")
