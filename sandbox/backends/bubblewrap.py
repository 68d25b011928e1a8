"""Linux and WSL2: namespaces by bubblewrap. It starts one process and speaks with the stub in it; it decides nothing.

    launcher ─ thread ─► bwrap (monitor) ─► bwrap (init of the PID namespace) ─► stub, later CMD

The monitor and the init never get a signal meant for CMD; killing the init kills everything in the wrap.
"""

import os
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache

from gateway.errors import GatewayError
from gateway.policy.wording import printable
from gateway.session import ProcessGroup
from sandbox.backends.base import LAUNCH_DEADLINE, TEARDOWN_DEADLINE, WORD_DEADLINE, Endpoints, Inside, Probe
from sandbox.handover import Child, encode_word, open_channel, read_complaint, still_open, take_listeners
from sandbox.layout import CONNECT, CREDENTIAL, NAMESPACES, STUB
from sandbox.mounts import GATEWAY_PORT, HTTP_PORT, SOCKS_PORT, WrapPlan, plan_wrap
from sandbox.quarantine import Finding, quarantine
from sandbox.seccomp import build_filter
from sandbox.spec import SandboxSpec
from sandbox.verify import verify_mounts

# The distribution's own first: AppArmor profiles name it, and whatever else PATH holds may be the agent's.
SYSTEM_PATHS = ("/usr/bin/bwrap", "/bin/bwrap", "/usr/sbin/bwrap", "/run/current-system/sw/bin/bwrap")
NOTE = "bubblewrap: namespace isolation, no kernel boundary"
# Interpreter flags of the stub: isolated, no site, no environment, no bytecode.
PYTHON_FLAGS = ("-I", "-S", "-E", "-B")
# Seconds for the trial run of the probe.
PROBE_DEADLINE = 20.0
# Seconds for the init process to end after CMD, which takes it milliseconds.
INIT_GRACE = 2.0
# The status of a command that was killed and could not tell.
KILLED = 128 + signal.SIGKILL
# What bubblewrap tells about itself (--info-fd): some numbers in JSON.
INFO_LIMIT = 4096

USER_NAMESPACES_OFF = (
    # (file, the value that forbids, what to do)
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor keeps bubblewrap from making a user namespace: install the bwrap-userns-restrict profile"
        " (apt-get install apparmor-profiles, then apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict),"
        " or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "this kernel forbids user namespaces: sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "this kernel allows no user namespaces: sysctl -w user.max_user_namespaces=16384",
    ),
)


class Bubblewrap:
    """The native backend on Linux."""

    name = "native"

    def probe(self) -> Probe:
        """Whether bubblewrap really works here: found by running it once per process."""
        return _probe()

    def launch(self, spec: SandboxSpec) -> "Wrapped":
        """Brings the wrap up; CMD waits for the word. GatewayError says what failed."""
        program = find_bubblewrap()
        if not program:
            raise GatewayError("bubblewrap is not installed", _probe().hint)
        plan = plan_wrap(spec)
        with ExitStack() as undo:
            wrapped = _spawn(program, plan, spec.group, undo)
            undo.pop_all()
        return wrapped


def find_bubblewrap() -> str:
    """The absolute path of the system's bwrap; one elsewhere on PATH counts when only root could have put it there."""
    for path in SYSTEM_PATHS:
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("bwrap")
    if found is None:
        return ""
    real = os.path.realpath(found)
    places = [os.stat(real), os.stat(os.path.dirname(real))]
    safe = all(place.st_uid == 0 and not place.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for place in places)
    return real if safe else ""


@cache
def _probe() -> Probe:
    """A run with every namespace and mount that a launch uses, judged by its exit status."""
    if not sys.platform.startswith("linux"):
        return Probe(False, hint="bubblewrap works on Linux and WSL2 only")
    if not build_filter():
        return Probe(False, hint=f"there is no system-call filter for {os.uname().machine}")
    program = find_bubblewrap()
    if not program:
        return Probe(False, requires_install=("bubblewrap",), hint=install_hint())
    # Its own version flag is the one program sure to be inside.
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp")
    command = (program, *NAMESPACES, *mounts, "--", os.path.realpath(program), "--version")
    try:
        done = subprocess.run(
            command,
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROBE_DEADLINE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Probe(False, hint=f"{program} does not run: {error}")
    if done.returncode == 0:
        return Probe(True, NOTE)
    return Probe(False, hint=failure_hint(done.stderr.decode(errors="replace")))


def install_hint() -> str:
    """The command that installs bubblewrap with the package manager of this host."""
    for manager, command in (
        ("apt-get", "apt-get install bubblewrap"),
        ("dnf", "dnf install bubblewrap"),
        ("zypper", "zypper install bubblewrap"),
        ("pacman", "pacman -S bubblewrap"),
        ("apk", "apk add bubblewrap"),
    ):
        if shutil.which(manager):
            return f"bubblewrap is not installed: {command}"
    return "bubblewrap is not installed: install the package bubblewrap"


def failure_hint(stderr: str) -> str:
    """What keeps an installed bubblewrap from working. The cause is read from the kernel, the text only quoted."""
    for file, forbids, hint in USER_NAMESPACES_OFF:
        with suppress(OSError), open(file, encoding="ascii") as setting:
            if setting.read(16).strip() == forbids:
                return hint
    lines = [line for line in stderr.splitlines() if line.strip()]
    said = printable(lines[0][:200]) if lines else "without a message"
    return f"bubblewrap cannot make its namespaces here ({said}); inside a container they must be allowed from outside"


def _spawn(program: str, plan: WrapPlan, group: ProcessGroup, undo: ExitStack) -> "Wrapped":
    """Starts bubblewrap and takes what the stub hands over. `undo` holds all of it until the caller says otherwise."""
    ours, theirs = open_channel()
    undo.callback(ours.close)
    passed = ExitStack()
    with passed, theirs:
        complaint, complaint_end = os.pipe()
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

        calls = build_filter(shares_group=group is ProcessGroup.SHARED)
        arguments = [*plan.arguments, "--info-fd", str(info_end), "--seccomp", pass_data(calls)]
        for file in plan.files:
            arguments += ["--perms", "0444", "--file", pass_data(file.content), file.path]
        arguments += ["--dir", plan.home, "--remount-ro", "/"]
        ports = (HTTP_PORT, SOCKS_PORT, GATEWAY_PORT)
        stub = (plan.python, *PYTHON_FLAGS, STUB, str(theirs.fileno()), str(stderr), *map(str, ports))
        listed = pass_data(b"".join(os.fsencode(argument) + b"\0" for argument in arguments))
        child = Child((program, "--args", listed, "--", *stub), descriptors, complaint_end)
        undo.callback(child.kill)
    try:
        listeners, pid = take_listeners(ours, len(ports), LAUNCH_DEADLINE)
    except EOFError:
        child.wait(TEARDOWN_DEADLINE)
        text = read_complaint(complaint)
        raise GatewayError(f"bubblewrap could not set the wrap up: {text}") from None
    except TimeoutError:
        raise GatewayError(f"the wrap did not come up within {LAUNCH_DEADLINE:.0f} seconds") from None
    for listener in listeners:
        undo.callback(listener.close)
    ends = [os.pidfd_open(number) for number in (pid, _init_process(info))]
    for end in ends:
        undo.callback(_close, end)
    if not still_open(ours):  # only now is it sure that the numbers still meant these processes
        raise GatewayError(f"the wrap ended before its command: {read_complaint(complaint)}")
    verify_mounts(pid, plan)
    return Wrapped(plan, group, child, ours, listeners, (ends[0], ends[1]), (complaint, info))


class Wrapped:
    """A running wrap. Used from several threads: `wait` in one, the rest in another."""

    backend = "native"
    endpoints = Endpoints(HTTP_PORT, SOCKS_PORT, GATEWAY_PORT)

    def __init__(
        self,
        plan: WrapPlan,
        group: ProcessGroup,
        child: Child,
        channel: socket.socket,
        listeners: list[socket.socket],
        ends: tuple[int, int],
        pipes: tuple[int, int],
    ) -> None:
        self.http, self.socks, self.gateway = listeners
        self.inside = Inside(
            home=plan.home,
            path=plan.path,
            tmpdir="/tmp",
            git_config=plan.git_config,
            connect=(plan.python, *PYTHON_FLAGS, CONNECT),
            roots=plan.visible,
            variables=dict(plan.variables),
            credential=(plan.python, *PYTHON_FLAGS, CREDENTIAL),
            gh_config=plan.gh_config,
        )
        self.notes = plan.notes
        self.findings: tuple[Finding, ...] = ()
        self._known = plan.known
        self._group = group
        self._child = child
        self._channel: socket.socket | None = channel
        self._command_end, self._init_end = ends
        self._pipes = pipes
        self._lock = threading.RLock()  # a signal handler may call `signal` in the middle of anything here
        self._destroyed = False

    def start(
        self, argv: Sequence[str], environment: Mapping[str, str], workdir: str, ignored: Collection[int] = ()
    ) -> None:
        """Sends the word; the stub becomes CMD."""
        word = encode_word(argv, environment, workdir, ignored, self._group)
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is None:
            raise GatewayError("the command was started before")
        with channel:
            channel.settimeout(WORD_DEADLINE)
            try:
                channel.sendall(word)
            except OSError as error:
                raise GatewayError("the wrap ended before its command") from error

    def signal(self, number: int) -> None:
        """To CMD itself, by a descriptor of the process: its number cannot be somebody else's by now."""
        with self._lock:
            if not self._destroyed:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._command_end, number)

    def wait(self) -> int:
        """CMD's exit status. bubblewrap passes it on and says 128+N itself; its own death by N looks the same."""
        with self._lock:
            end = None if self._destroyed else os.dup(self._command_end)
        if end is not None:
            poll = select.poll()
            poll.register(end, select.POLLIN)
            poll.poll()
            os.close(end)
        code = self._child.wait(INIT_GRACE)
        if code is None:  # somebody inside keeps the init process from ending with CMD
            self._kill_init()
            code = self._child.wait(TEARDOWN_DEADLINE)
        if code is None:
            return KILLED
        return code if code >= 0 else 128 - code

    def _kill_init(self) -> None:
        """And with it everything in the wrap; the rest stays as it is, for `destroy`."""
        with self._lock:
            if not self._destroyed:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._init_end, signal.SIGKILL)

    def destroy(self) -> None:
        """Ends the init process, and with it all others in the wrap; they are gone when bubblewrap is."""
        with self._lock:
            if self._destroyed:
                return
            self._destroyed = True
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._init_end, signal.SIGKILL)
        if self._child.wait(TEARDOWN_DEADLINE) is None:
            self._child.kill()
            self._child.wait(TEARDOWN_DEADLINE)
        self.findings = quarantine(self._known)
        for listener in (self.http, self.socks, self.gateway):
            listener.close()
        for descriptor in (self._command_end, self._init_end, *self._pipes):
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
