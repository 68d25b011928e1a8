"""macOS: each command runs in a Seatbelt sandbox, entered by `sandbox-exec`; its processes live on the host.

    launcher ─ thread ─► keeper ─► sandbox-exec, which becomes enter.py, which becomes CMD
             └ thread ◄─ log stream

The keeper stays outside, where no command can reach it. What is forbidden inside is `sandbox/seatbelt/`'s matter.
"""

import errno
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

from gateway.errors import GatewayError
from gateway.policy.wording import printable
from gateway.session import Profile
from sandbox.backends.base import Command, Inside, OnEvent, Probe
from sandbox.backends.hosted import PACKAGE, PYTHON_FLAGS, Front, Hosted, Hosting, Places, launch_hosted
from sandbox.backends.life import Life
from sandbox.backends.wrap import WrapBackend
from sandbox.events import Violation
from sandbox.folders import make_private
from sandbox.mounts import own_interpreter
from sandbox.seatbelt.log_stream import PROGRAM as LOG
from sandbox.seatbelt.log_stream import Tap
from sandbox.seatbelt.plan import HOME, PROFILE, PROGRAM, TEMPORARY, Layout, plan_seatbelt
from sandbox.seatbelt.trial import trial_profile
from sandbox.spec import SandboxSpec

NOTE = "sandbox-exec (Seatbelt): namespace isolation, no kernel boundary"
ENTER = os.path.join(PACKAGE, "seatbelt", "enter.py")
# What the interpreter in between sets by itself: its locale, what Apple's CoreFoundation notes of the user, and the
# path by which a Python framework's launcher was called.
MADE_UP = ("LC_CTYPE", "__CF_USER_TEXT_ENCODING", "__PYVENV_LAUNCHER__")
# Does the kernel take a profile with all that ours say? The paths in it are of no account.
TRIAL = ("-p", trial_profile(), "/usr/bin/true")
# Characters of what it says when it fails.
COMPLAINT_LIMIT = 300
# Seconds for it; it takes milliseconds.
TRIAL_DEADLINE = 20.0
# Where launches make their directories, below the product's state.
RUN = "run"
DEAF = "what the wrap refuses is not told: the system's log cannot be read (only administrators may)"


class Seatbelt(WrapBackend):
    """The native backend on macOS. The programs are the system's own; tests put others in their place."""

    name = "native"

    def __init__(
        self, platform: str = sys.platform, program: str = PROGRAM, log: Sequence[str] = LOG
    ) -> None:
        self._platform = platform
        self._program = program
        self._log = tuple(log)
        self._probe: Probe | None = None

    def probe(self) -> Probe:
        """Whether a profile can be applied here: found by applying one, once per process."""
        if self._probe is None:
            self._probe = probe_seatbelt(self._platform, self._program)
        return self._probe

    def launch(self, spec: SandboxSpec, on_event: OnEvent | None = None) -> Hosted:
        """Lays the wrap out and starts the keeper. GatewayError says what failed."""
        life = Life(spec.session_id, self.name, on_event)
        launch = _Launch(self._program, self._log, life)
        hosted = launch_hosted(spec, life, Hosting(launch.inside, wrapped=True, front=launch.front))
        hosted.notes = launch.notes
        return hosted


def probe_seatbelt(platform: str, program: str) -> Probe:
    """Whether it works. `platform` as `sys.platform` says it."""
    if platform != "darwin":
        return Probe(False, hint="Seatbelt is a part of macOS, and not available on this platform")
    try:
        done = subprocess.run(
            (program, *TRIAL), stdin=subprocess.DEVNULL, capture_output=True, timeout=TRIAL_DEADLINE, env={}
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Probe(
            False, hint=f"{program} does not run ({error}); it is a part of macOS: repair the system"
        )
    if done.returncode == 0:
        return Probe(True, NOTE)
    if is_sandboxed():
        return Probe(
            False,
            hint="this process runs in a sandbox itself, and macOS applies none inside another;"
            " run it outside, or let the outer one be the wrap (--sandbox off)",
        )
    said = printable(done.stderr.decode(errors="replace").strip())[:COMPLAINT_LIMIT]
    exits = f"it exits with {done.returncode}{said and f': {said}'}"
    return Probe(False, hint=f"{program} cannot apply a profile ({exits})")


def is_sandboxed() -> bool:
    """Whether this process is in a Seatbelt sandbox, by sandbox_check of libSystem; False where there is none."""
    import ctypes

    check = getattr(ctypes.CDLL(None), "sandbox_check", None)
    # No operation and no filter: whether there is any sandbox.
    return check is not None and bool(check(os.getpid(), None, 0))


class _Launch:
    """What one launch makes, between the keeper's start and the wrap's end."""

    def __init__(self, program: str, log: tuple[str, ...], life: Life) -> None:
        self._program = program
        self._log = log
        self._life = life
        self._layout: Layout | None = None
        self.notes: tuple[str, ...] = ()

    def front(self, spec: SandboxSpec, places: Places, undo: ExitStack) -> Front:
        """The launch's directory with the profile in it, the tap on the system's log, what is put before commands."""
        over = ExitStack()
        undo.callback(over.close)
        tag = f"agent-gateway-{secrets.token_hex(8)}"
        tap = Tap(tag, self._log)  # first of all: it needs a moment to be there
        over.callback(tap.close)
        folder = _make_folder(spec, undo)
        ports = places.endpoints
        numbers = (ports.http_port, ports.socks_port, ports.gateway_port)
        for port in numbers:
            _occupy(port, over)
        layout = plan_seatbelt(spec, folder, (places.gh_config,) if places.gh_config else ())
        profile = os.path.join(folder, PROFILE)
        with open(os.open(profile, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(layout.profile(numbers, tag).encode("utf-8", "surrogateescape"))
        is_heard = tap.wait_until_heard()
        tap.listen(layout.policy, lambda violation: self._life.tell(Violation(violation)))
        self._layout = layout
        self.notes = (*layout.notes, *(() if is_heard else (DEAF,)))
        prefix = (self._program, "-f", profile, own_interpreter(), *PYTHON_FLAGS, ENTER)
        return Front(files=(folder,), dress=lambda command: _dress(command, prefix), over=over.close)

    def inside(self, spec: SandboxSpec, places: Places) -> Inside:
        """The host, with another home and without what may not be read."""
        layout = self._layout
        if layout is None:  # `front` comes first
            raise GatewayError("the wrap was not laid out")
        python = (own_interpreter(), *PYTHON_FLAGS)
        return Inside(
            home=layout.home,
            path=layout.path,
            tmpdir=layout.tmpdir,
            git_config=places.git_config,
            connect=(*python, os.path.join(PACKAGE, "connect.py")),
            roots=("/",),
            variables=dict(layout.variables),
            credential=(*python, os.path.join(PACKAGE, "credential.py")),
            gh_config=places.gh_config,
        )


def _make_folder(spec: SandboxSpec, undo: ExitStack) -> str:
    """The launch's own directory, where no command of another launch reads: below the product's state if there is
    one. It holds temporary files, a home if the spec has none, and the profile."""
    base = spec.runtime_dir or (os.path.join(spec.state_dir, RUN) if spec.state_dir else None)
    try:
        if base:
            make_private(base)
        folder = os.path.realpath(tempfile.mkdtemp(prefix="wrap-", dir=base))  # 0700
    except OSError as error:
        raise GatewayError(f"{base or 'a temporary directory'} cannot be made: {error.strerror}") from error
    undo.callback(shutil.rmtree, folder, ignore_errors=True)
    os.mkdir(os.path.join(folder, TEMPORARY), 0o700)
    if not spec.home and spec.profile is Profile.AGENT:
        os.mkdir(os.path.join(folder, HOME), 0o700)
    return folder


def _occupy(port: int, over: ExitStack) -> None:
    """Takes the same port of the other loopback address, with nobody behind it: a profile knows only "localhost", which
    means both, and another program's service could stand there."""
    try:
        occupant = over.enter_context(socket.socket(socket.AF_INET6, socket.SOCK_STREAM))
        occupant.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        occupant.bind(("::1", port))
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):  # a host without that address
            return
        raise GatewayError(
            f"port {port} of ::1 belongs to another program ({error.strerror})", "run it again"
        ) from error


def _dress(command: Command, prefix: tuple[str, ...]) -> Command:
    """The command with the sandbox in front of it."""
    if not command.argv or not command.argv[0]:
        return command  # refused, or not found, as it is
    ignored = ",".join(str(int(number)) for number in sorted(command.ignored)) or "-"
    forget = ",".join(name for name in MADE_UP if name not in command.environment) or "-"
    return replace(command, argv=(*prefix, ignored, forget, *command.argv))
