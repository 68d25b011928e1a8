"""Seatbelt's launch, with a program in place of `sandbox-exec` that confines nothing where the real one is missing.

What is confined is the profile's matter (`tests/sandbox/seatbelt/`); on a Mac the contract suite runs the real one.
"""

import json
import os
import queue
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.session import Mode
from sandbox.backends.base import Command, Running
from sandbox.backends.seatbelt import DEAF, NOTE, Seatbelt, is_sandboxed
from sandbox.events import Exit, SandboxEvent, SandboxViolation, Stderr, Stdout, Violation
from sandbox.seatbelt.policy import Operation
from sandbox.spec import SandboxBindMount, SandboxSpec
from tests.sandbox.seatbelt.evaluator import Profile, Request
from tests.sandbox.wrapping import Place, place_of

FAKE = Path(__file__).resolve().parents[2] / "fakes/sandbox_exec.py"
PATIENCE = 60


@dataclass
class Mac:
    """A host in small with the programs of a Mac, and a wrap on it."""

    place: Place
    programs: Path
    backend: Seatbelt

    def spec(self, **changes: object) -> SandboxSpec:
        work = str(self.place.worktree)
        state = self.place.state
        spec = SandboxSpec(
            "session", "default", "", (SandboxBindMount(work, work),), state_dir=str(state),
            home=str(state / "workspaces/default/home"), user_home=str(self.place.home), search_path="/usr/bin:/bin",
        )  # fmt: skip
        return replace(spec, **changes)  # type: ignore[arg-type]  # names and values are those of the fields

    @property
    def profile(self) -> Profile:
        """What the last command was confined by."""
        return Profile((self.programs / "profile").read_text())

    @contextmanager
    def launched(self, **changes: object) -> Iterator[tuple[Running, "queue.Queue[SandboxEvent]"]]:
        told: queue.Queue[SandboxEvent] = queue.Queue()
        running = self.backend.launch(self.spec(**changes), told.put)
        try:
            yield running, told
        finally:
            self.backend.destroy(running)


@pytest.fixture
def mac() -> Iterator[Mac]:
    with place_of("root") as place:
        programs = place.root / "programs"
        programs.mkdir()
        program = programs / "sandbox-exec"
        program.write_text(f"#!{sys.executable}\n{FAKE.read_text()}")
        program.chmod(0o755)
        os.mkfifo(programs / "log.fifo")
        # Held open from both ends, so that the log goes on until somebody ends it.
        pipe = os.open(programs / "log.fifo", os.O_RDWR)
        try:
            yield Mac(place, programs, Seatbelt("darwin", str(program), (str(program), "log")))
        finally:
            os.close(pipe)


def run(mac: Mac, running: Running, *argv: str, **options: object) -> tuple[bytes, bytes, int]:
    """A command's output, errors and status."""
    command = Command(argv, {"PATH": running.inside.path}, **options)  # type: ignore[arg-type]
    events = list(mac.backend.exec(running, command))
    last = events[-1]
    assert isinstance(last, Exit)
    out = b"".join(event.data for event in events if isinstance(event, Stdout))
    return out, b"".join(event.data for event in events if isinstance(event, Stderr)), last.code


def test_probe_runs_the_program(mac: Mac) -> None:
    assert mac.backend.probe().available is (os.path.exists("/usr/bin/true"))
    if mac.backend.probe().available:
        assert mac.backend.probe().note == NOTE


@pytest.mark.parametrize(
    ("platform", "script", "hint"),
    [
        ("linux", "exit 0", "not available on this platform"),
        ("win32", "exit 0", "not available on this platform"),
        ("darwin", "echo 'sandbox_apply: Operation not permitted' >&2; exit 71", "exits with 71"),
        ("darwin", None, "repair the system"),
    ],
)
def test_probe_says_what_is_in_the_way(tmp_path: Path, platform: str, script: str | None, hint: str) -> None:
    program = tmp_path / "sandbox-exec"
    if script is not None:
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    probe = Seatbelt(platform, str(program)).probe()
    assert not probe.available
    assert hint in probe.hint
    assert probe.requires_install == ()


def test_this_process_is_in_no_sandbox() -> None:
    assert not is_sandboxed()


def test_command_runs_behind_the_profile(mac: Mac) -> None:
    with mac.launched() as (running, _):
        assert run(mac, running, "sh", "-c", "pwd; echo $0; echo err >&2; exit 3") == (
            f"{mac.place.worktree}\nsh\n".encode(), b"err\n", 3,
        )  # fmt: skip
        ports = running.endpoints
        for port in (ports.http_port, ports.socks_port, ports.gateway_port):
            assert mac.profile.allows(Request("network-outbound", remote=f"tcp localhost:{port}"))
        assert not mac.profile.allows(Request("network-outbound", remote="tcp localhost:22"))
    assert running.notes == ()


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("no-such-command",), 127, b"agent-gateway: no-such-command: command not found\n"),
        (("./missing",), 127, b"agent-gateway: ./missing: No such file or directory\n"),
        (("/usr",), 126, b"agent-gateway: /usr: Is a directory\n"),
        (("./plain",), 126, b"agent-gateway: ./plain: Permission denied\n"),
        (("sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM, b""),
    ],
)
def test_exit_statuses_are_those_of_the_contract(
    mac: Mac, argv: tuple[str, ...], code: int, words: bytes
) -> None:
    (mac.place.worktree / "plain").write_text("text")
    with mac.launched() as (running, _):
        assert run(mac, running, *argv)[1:] == (words, code)


def test_environment_is_the_commands_own(mac: Mac) -> None:
    with mac.launched() as (running, _):
        assert run(mac, running, "env")[0] == f"PATH={running.inside.path}\n".encode()


@pytest.mark.parametrize("ignored", [(), (signal.SIGHUP, signal.SIGPIPE)])
def test_signals_are_as_they_are_asked_for(mac: Mac, ignored: tuple[int, ...]) -> None:
    """The interpreter in between ignores SIGPIPE; the command does not unless it is told to."""
    script = (
        "trap - HUP PIPE; kill -PIPE $$; kill -HUP $$; echo alive"  # what is ignored from the start stays so
    )
    with mac.launched() as (running, _):
        out, _err, code = run(mac, running, "sh", "-c", script, ignored=ignored)
    assert (out, code) == ((b"alive\n", 0) if ignored else (b"", 128 + signal.SIGPIPE))


def test_launch_has_a_directory_of_its_own(mac: Mac) -> None:
    with mac.launched() as (running, _):
        folder = Path(running.inside.tmpdir).parent
        assert folder.parent == mac.place.state / "run"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "profile.sb").stat().st_mode) == 0o600
        run(mac, running, "true")
        for path, reads, writes in (
            (folder / "tmp/x", True, True),
            (folder / "profile.sb", False, False),
            (folder.parent / "wrap-another/tmp/x", False, False),
            (Path(running.inside.home) / "x", True, True),
            (mac.place.worktree / "x", True, True),
            (mac.place.home / ".ssh/id_ed25519", False, False),
        ):
            assert mac.profile.allows(Request("file-read-data", bytes(path))) is reads, path
            assert mac.profile.allows(Request("file-write-create", bytes(path))) is writes, path
    assert not folder.exists()
    assert list(folder.parent.iterdir()) == []


def test_home_of_a_spec_that_has_none(mac: Mac) -> None:
    with mac.launched(home="") as (running, _):
        home = running.inside.home
        assert stat.S_IMODE(os.stat(home).st_mode) == 0o700
    assert not os.path.exists(home)


@pytest.mark.parametrize("mode", Mode)
def test_worktree_is_written_in_chat_alone(mac: Mac, mode: Mode) -> None:
    state = mac.place.root / "state"
    state.mkdir()
    with mac.launched(mode=mode, runner_state_dirs=(str(state),)) as (running, _):
        run(mac, running, "true")
        write = str(Operation.CREATE)
        assert mac.profile.allows(Request(write, bytes(mac.place.worktree / "x"))) is (mode is Mode.CHAT)
        assert mac.profile.allows(Request(write, bytes(state / "x")))


def test_nobody_else_answers_on_the_other_loopback(mac: Mac) -> None:
    with (
        mac.launched() as (running, _),
        socket.socket(socket.AF_INET6) as other,
        pytest.raises(OSError, match=r"in use|not available|assign"),
    ):
        other.bind(("::1", running.endpoints.http_port))


def log(mac: Mac, *messages: str) -> None:
    with (mac.programs / "log.fifo").open("w") as pipe:
        for message in messages:
            pipe.write(json.dumps({"eventMessage": message}) + "\n")


def test_what_the_log_tells_becomes_a_violation(mac: Mac) -> None:
    with mac.launched() as (_, told):
        path = f"{mac.place.worktree}/.env"
        log(
            mac,
            f"Sandbox: touch(123) deny(1) file-write-create {path}\nanother launch's",
            f"Sandbox: touch(123) deny(1) file-write-create {path}\nTAG",
            "Sandbox: curl(124) deny(1) network-outbound /private/var/run/mDNSResponder\nTAG",
            f"2 duplicate reports for Sandbox: touch(123) deny(1) file-write-create {path}\nTAG",
        )
        raw = f"Sandbox: touch(123) deny(1) file-write-create {path}"
        first = Violation(SandboxViolation("file-write-create", path, raw, rule=".env"))
        while (event := told.get(timeout=PATIENCE)) != first:
            assert not isinstance(event, Violation)
    counted = [event for event in told.queue if isinstance(event, Violation)]
    assert [event.violation.count for event in counted] == [2]


def test_log_that_cannot_be_read_is_said(mac: Mac) -> None:
    mac.backend = Seatbelt("darwin", str(mac.programs / "sandbox-exec"), ("/bin/sh", "-c", "exit 64"))
    with mac.launched() as (running, _):
        assert running.notes == (DEAF,)
        assert run(mac, running, "echo", "works")[0] == b"works\n"


def test_launch_that_fails_leaves_nothing(mac: Mac) -> None:
    threads = threading.active_count()
    with pytest.raises(GatewayError, match="exec_grant_roots"):
        mac.backend.launch(mac.spec(exec_grant_roots=(str(mac.place.home / ".ssh"),)))
    assert list((mac.place.state / "run").iterdir()) == []
    assert threading.active_count() == threads


def test_nothing_is_left(mac: Mac) -> None:
    before = sorted(os.listdir("/dev/fd")), threading.active_count()
    for _ in range(2):
        with mac.launched() as (running, _told):
            run(mac, running, "true")
    assert (sorted(os.listdir("/dev/fd")), threading.active_count()) == before
    assert list(mac.place.worktree.iterdir()) == []


LAUNCHER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from sandbox.backends.base import Command
from sandbox.backends.seatbelt import Seatbelt
from sandbox.spec import SandboxBindMount, SandboxSpec
program, work, state, home = sys.argv[2:]
backend = Seatbelt("darwin", program, (program, "log"))
bind = SandboxBindMount(work, work)
running = backend.launch(SandboxSpec("s", "w", "", (bind,), home=os.path.join(state, "workspaces/w/home"),
    state_dir=state, user_home=home, search_path="/usr/bin:/bin"))
script = "exec 9>held; echo held >&9; exec sleep 1000"
backend.exec(running, Command(("sh", "-c", script), {"PATH": "/usr/bin:/bin"}))
print(os.path.dirname(running.inside.tmpdir), flush=True)
input()
"""


def test_killed_launcher_leaves_nothing(mac: Mac) -> None:
    """Neither the command, nor the directory, nor the two processes that read the log."""
    pipe = mac.place.worktree / "held"
    os.mkfifo(pipe)
    words = (
        str(mac.programs / "sandbox-exec"),
        str(mac.place.worktree),
        str(mac.place.state),
        str(mac.place.home),
    )
    with subprocess.Popen(
        (sys.executable, "-c", LAUNCHER, str(FAKE.parents[2]), *words),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        folder = process.stdout.readline().strip()
        readers = _readers(mac.programs)
        end = os.open(pipe, os.O_RDONLY) if folder else -1
        held = os.read(end, 5) if folder else b""
        process.kill()
    assert held == b"held\n"
    assert readers
    assert os.read(end, 1) == b""
    os.close(end)
    while os.path.exists(folder) or _readers(mac.programs):
        pass


def _readers(programs: Path) -> list[str]:
    """The process that plays the log, and the one that ends it."""
    listing = subprocess.run(("ps", "-axww", "-o", "args"), capture_output=True, text=True, check=True)
    return [line for line in listing.stdout.splitlines() if f"{programs}/sandbox-exec log stream" in line]
