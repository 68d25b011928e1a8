"""Linux and WSL2: namespaces by bubblewrap. It starts one process and speaks with the stub in it; it decides nothing.

    launcher ─ thread ─► bwrap (monitor) ─► bwrap (init of the PID namespace) ─► stub, later CMD
                                                                              or stub ─► attendant ─► command, …

With file rules at creation time the supervisor stands between launcher and monitor (`door.py`).

The monitor and the init never get a signal meant for CMD; killing the init kills everything in the wrap.
"""

import os
import re
import select
import signal
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress

from gateway.errors import GatewayError
from gateway.session import ProcessGroup, Profile
from sandbox.backends.base import (
    KILLED,
    LAUNCH_DEADLINE,
    TEARDOWN_DEADLINE,
    Endpoints,
    Inside,
    OnEvent,
    Probe,
)
from sandbox.backends.door import Door, open_door
from sandbox.backends.life import Life
from sandbox.backends.wrap import Parts, Wrap, WrapBackend
from sandbox.bridge import SocatBridge, open_bridge
from sandbox.events import Violation
from sandbox.handover import (
    Child,
    has_complaint,
    open_channel,
    read_complaint,
    still_open,
    take_listeners,
)
from sandbox.layout import CONNECT, CREDENTIAL, STUB
from sandbox.mounts import GATEWAY_PORT, HTTP_PORT, SOCKS_PORT, WrapPlan, plan_wrap
from sandbox.probing.trial import find_bubblewrap, probe_bubblewrap
from sandbox.quarantine import quarantine
from sandbox.seccomp import build_filter
from sandbox.sockets import sockets_among
from sandbox.spec import SandboxSpec
from sandbox.terminal.wrap import plan_terminal
from sandbox.verify import verify_mounts

# Interpreter flags of the stub: isolated, no site, no environment, no bytecode.
PYTHON_FLAGS = ("-I", "-S", "-E", "-B")
# Seconds for the init process to end after CMD, which takes it milliseconds.
INIT_GRACE = 2.0
# What bubblewrap tells about itself (--info-fd): some numbers in JSON.
INFO_LIMIT = 4096
PORTS = (HTTP_PORT, SOCKS_PORT, GATEWAY_PORT)
ENDPOINTS = Endpoints(*PORTS)


class Bubblewrap(WrapBackend):
    """The native backend on Linux."""

    name = "native"

    def probe(self) -> Probe:
        """Whether bubblewrap really works here: found by running it once per process."""
        return probe_bubblewrap()

    def launch(self, spec: SandboxSpec, on_event: OnEvent | None = None) -> "Wrapped":
        """Brings the wrap up; the stub waits for commands. GatewayError says what failed."""
        program = find_bubblewrap()
        if not program:
            raise GatewayError("bubblewrap is not installed", probe_bubblewrap().hint)
        life = Life(spec.session_id, self.name, on_event)
        with ExitStack() as undo:
            door = open_door(spec, life, undo)
            plan = plan_wrap(spec) if spec.profile is Profile.AGENT else plan_terminal(spec)
            bridge = open_bridge(spec)
            if bridge is not None:
                plan = bridge.add_to(plan)
                undo.callback(bridge.remove)
            wrapped = _spawn(program, plan, spec, life, bridge, door, undo)
            undo.pop_all()
        if bridge is not None:
            bridge.remove()  # bound by now, so it is not needed on the host
        wrapped.up()
        return wrapped


def _spawn(
    program: str,
    plan: WrapPlan,
    spec: SandboxSpec,
    life: Life,
    bridge: SocatBridge | None,
    door: Door | None,
    undo: ExitStack,
) -> "Wrapped":
    """Starts bubblewrap and takes what the stub hands over. `undo` holds all of it until the caller says otherwise."""
    ours, theirs = open_channel()
    undo.callback(ours.close)
    passed = ExitStack()
    with passed, theirs:
        complaint, complaint_end = (door.complaint, -1) if door else os.pipe()
        undo.callback(_close, complaint)
        passed.callback(_close, complaint_end)
        info, info_end = os.pipe()
        undo.callback(_close, info)
        passed.callback(_close, info_end)
        stderr = os.dup(2)
        passed.callback(_close, stderr)
        descriptors = [theirs.fileno(), info_end, stderr]

        def pass_data(content: bytes) -> str:
            descriptor = _memory_file(content)
            passed.callback(_close, descriptor)
            descriptors.append(descriptor)
            return str(descriptor)

        argv = _command_line(program, plan, spec.group, info_end, pass_data)
        ports = PORTS if spec.profile is Profile.AGENT else ()  # a terminal's network is the host's
        stub = (plan.python, *PYTHON_FLAGS, STUB, str(theirs.fileno()), str(stderr), *map(str, ports))
        if door and plan.governed:
            stub = (*stub, door.stub_argument(pass_data(door.orders(plan.governed, spec.group))))
        argv = (*argv, "--", *stub, *(bridge.stub_arguments if bridge else ()))
        if door and plan.governed:
            named = sockets_among(bind.path for bind in plan.binds)
            child = door.spawn(argv, descriptors, spec, plan.governed, named)
        else:
            child = Child(argv, descriptors, complaint_end)
        undo.callback(child.kill)
    listeners, pid = _take_over(ours, bridge, len(ports), child, complaint, door)
    listeners = listeners or [socket.socket() for _ in PORTS]  # nobody listens, and nobody asks
    for listener in listeners:
        undo.callback(listener.close)
    init = _init_process(info)
    ends = [os.pidfd_open(number) for number in (pid, init)]
    for end in ends:
        undo.callback(_close, end)
    if not still_open(ours):  # only now is it sure that the numbers still meant these processes
        raise GatewayError(f"the wrap ended before its command: {read_complaint(complaint)}")
    verify_mounts(pid, plan)
    parts = Parts(listeners, ENDPOINTS, _inside(plan), child, ours, plan.notes)
    return Wrapped(spec, life, parts, plan, (pid, init), (ends[0], ends[1]), (complaint, info), door)


def _command_line(
    program: str, plan: WrapPlan, group: ProcessGroup, info_end: int, pass_data: Callable[[bytes], str]
) -> Sequence[str]:
    """bubblewrap with everything but what it runs. What it reads from descriptors is given to `pass_data`."""
    arguments = wrap_arguments(plan, group, str(info_end), pass_data)
    listed = b"".join(os.fsencode(argument) + b"\0" for argument in arguments)
    return (program, "--args", pass_data(listed))


def wrap_arguments(
    plan: WrapPlan, group: ProcessGroup, info_end: str, pass_data: Callable[[bytes], str]
) -> list[str]:
    """bubblewrap's arguments. The filter (unless the stub installs one itself, with a listener), then each of the
    plan's files in order, goes through `pass_data`, which gives the number of the descriptor to read it from."""
    arguments = [*plan.arguments, "--info-fd", info_end]
    if plan.governed is None:
        arguments += ["--seccomp", pass_data(build_filter(shares_group=group is ProcessGroup.SHARED))]
    for file in plan.files:
        arguments += ["--perms", "0444", "--file", pass_data(file.content), file.path]
    return [*arguments, "--dir", plan.home, "--remount-ro", "/"]


def _take_over(
    channel: socket.socket,
    bridge: SocatBridge | None,
    count: int,
    child: Child,
    complaint: int,
    door: Door | None,
) -> tuple[list[socket.socket], int]:
    """The listeners, and the stub's process id. GatewayError with what bubblewrap said when it does not come up."""
    try:
        if door is not None:
            door.prove(channel)
        if bridge is not None:
            return bridge.take(channel, LAUNCH_DEADLINE)
        return take_listeners(channel, count, LAUNCH_DEADLINE)
    except EOFError:
        child.wait(TEARDOWN_DEADLINE)
        text = read_complaint(complaint)
        raise GatewayError(f"bubblewrap could not set the wrap up: {text}") from None
    except TimeoutError:
        raise GatewayError(f"the wrap did not come up within {LAUNCH_DEADLINE:.0f} seconds") from None


def _temporary(plan: WrapPlan) -> str:
    """A directory for temporary files in which sockets can be made as well: in a mount that holds a worktree the wall
    of the file rules does not allow that."""
    governed = plan.governed
    if governed is not None and "/tmp" not in governed.private and "/var/tmp" in governed.private:
        return "/var/tmp"
    return "/tmp"


def _inside(plan: WrapPlan) -> Inside:
    """What the environment is told."""
    return Inside(
        home=plan.home,
        path=plan.path,
        tmpdir=_temporary(plan),
        git_config=plan.git_config,
        connect=(plan.python, *PYTHON_FLAGS, CONNECT),
        roots=plan.visible,
        variables=dict(plan.variables),
        credential=(plan.python, *PYTHON_FLAGS, CREDENTIAL),
        gh_config=plan.gh_config,
    )


class Wrapped(Wrap):
    """A running wrap of namespaces."""

    def __init__(
        self,
        spec: SandboxSpec,
        life: Life,
        parts: Parts,
        plan: WrapPlan,
        numbers: tuple[int, int],
        ends: tuple[int, int],
        pipes: tuple[int, int],
        door: Door | None = None,
    ) -> None:
        """`numbers` and `ends` are process ids and descriptors of the stub and of the init."""
        super().__init__(spec, life, parts)
        self._door = door
        self._known = plan.known
        self._stub, self._init = numbers
        self._stub_end, self._init_end = ends
        self.process = ends[1]
        self._pipes = pipes
        self._lock = threading.RLock()  # a signal handler may call `signal` in the middle of anything here
        self._closed = False
        self._said = ""

    def _start_foreground(self, word: bytes) -> None:
        """The stub becomes the command; the channel has had its purpose."""
        read_complaint(self._pipes[0])  # what was said by now is no failure: the wrap is up
        with self._channel:
            self._channel.sendall(word)

    def _signal_foreground(self, number: int) -> None:
        """By a descriptor of the process: its number cannot be somebody else's by now."""
        self._send(lambda: self._stub_end, number)

    def _wait_foreground(self) -> int | None:
        """bubblewrap passes the command's status on and says 128+N itself. Its own death by a signal is another thing,
        and so is that of the supervisor, which dies where bubblewrap or the init was killed, or says what failed."""
        with self._lock:
            end = None if self._closed else os.dup(self._stub_end)
        if end is not None:
            poll = select.poll()
            poll.register(end, select.POLLIN)
            poll.poll()
            os.close(end)
        code = self._child.wait(INIT_GRACE)
        if code is None:  # somebody inside keeps the init process from ending with CMD
            self._end()
            code = self._child.wait(TEARDOWN_DEADLINE)
            return KILLED if code is None or code < 0 else code
        return code if code >= 0 and not self._failure() else None

    def _failure(self) -> str:
        """What supervisor and bubblewrap have said since the command is there. No command can write there: the
        processes that hold the other end are closed to it."""
        with self._lock:
            if not self._said and not self._closed and has_complaint(self._pipes[0]):
                self._said = read_complaint(self._pipes[0])
            return self._said

    def _tell_read(self, event: Violation) -> None:
        """Not what the supervisor has told."""
        if self._door is None or not self._door.has_told(event.violation):
            super()._tell_read(event)

    def _end(self) -> None:
        """The init, and with it everything in the wrap."""
        self._send(lambda: self._init_end, signal.SIGKILL)

    def _send(self, end: Callable[[], int], number: int) -> None:
        with self._lock:
            if not self._closed:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(end(), number)

    def _tree(self) -> tuple[int, Collection[int]]:
        """Below the init; the stub is ours as long as it has not become the command."""
        return self._init, (self._stub,) if self._foreground is None else ()

    def _close(self) -> None:
        """All processes in the wrap are gone when bubblewrap is."""
        if self._child.wait(TEARDOWN_DEADLINE) is None:
            self._child.kill()
            self._child.wait(TEARDOWN_DEADLINE)
        if self._door is not None:
            self._door.close()
        self.findings = quarantine(self._known)
        with self._lock:
            self._closed = True
            for descriptor in (self._stub_end, self._init_end, *self._pipes):
                _close(descriptor)


def _init_process(info: int) -> int:
    """The host's number of the wrap's init, from what bubblewrap wrote before it let the stub run."""
    os.set_blocking(info, False)
    try:
        text = os.read(info, INFO_LIMIT)
    except BlockingIOError:
        text = b""
    found = re.search(rb'"child-pid":\s*(\d+)', text)
    if found is None:
        raise GatewayError("bubblewrap did not say which process is its own")
    return int(found[1])


def _memory_file(content: bytes) -> int:
    """A descriptor to read `content` from, without a file anywhere."""
    descriptor = os.memfd_create("agent-gateway", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _close(descriptor: int) -> None:
    with suppress(OSError):
        os.close(descriptor)
