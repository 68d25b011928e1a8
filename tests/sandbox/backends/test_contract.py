"""The contract: one list of behaviours for every backend that can run here, as whoever runs the tests, and once more
as an ordinary user. A backend is added to `BACKENDS`, and that is all; nothing here looks where only Linux would.

Commands and tests meet at named pipes in the worktree: one ends when the last process that holds it is gone.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.session import FileRules
from sandbox.backends import BACKENDS
from sandbox.backends.base import Backend, Command, Execution, Running, Stdio
from sandbox.events import Cause, Exit, Killed, Ready, SandboxEvent, Starting, Stderr, Stdout, Violation
from sandbox.spec import SandboxBindMount, SandboxHandle, SandboxSpec, SandboxState
from sandbox.supervisor.client import RESERVE
from tests.sandbox.wrapping import PATIENCE, PEOPLE, SOURCES, Place, as_ordinary, place_of

WORKS = [backend for backend in BACKENDS if backend.probe().available]


@dataclass(frozen=True)
class Kind:
    """A backend, and the file rules it is asked for."""

    backend: Backend
    rules: FileRules

    def __str__(self) -> str:
        return f"{self.backend.name}-{self.rules}" if self.backend.name == "native" else self.backend.name


# Without a wrap there are no file rules, and on macOS they are always those of creation.
KINDS = [
    Kind(backend, rules)
    for backend in WORKS
    for rules in FileRules
    if rules is FileRules.CREATE_TIME or (backend.name == "native" and sys.platform.startswith("linux"))
]
# A process that has left its parents' tree is found again only where there is a subreaper or a PID namespace.
APART = 'import os, sys; os.setsid(); os.execv("/bin/sh", sys.argv[1:])'
BACKGROUND = {
    "background": "{holder} &",
    "a session of its own": f"python3 -c '{APART}' sh -c '{{holder}}' &",
    **({"daemon": "(setsid sh -c '({holder}) &' &);"} if sys.platform.startswith("linux") else {}),
}
KILLED = 128 + signal.SIGKILL


@dataclass
class Done:
    """What a command did, from its events."""

    events: list[SandboxEvent]

    @property
    def stdout(self) -> bytes:
        return b"".join(event.data for event in self.events if isinstance(event, Stdout))

    @property
    def stderr(self) -> bytes:
        return b"".join(event.data for event in self.events if isinstance(event, Stderr))

    @property
    def code(self) -> int:
        last = self.events[-1]
        assert isinstance(last, Exit)
        return last.code

    @property
    def ending(self) -> list[SandboxEvent]:
        return [event for event in self.events if isinstance(event, Killed | Exit)]


@dataclass
class Session:
    """A wrap around a worktree, and the caller that uses it."""

    backend: Backend
    running: Running
    place: Place
    told: list[SandboxEvent] = field(default_factory=list)

    def exec(self, *argv: str, **options: Any) -> Execution:
        """Starts a command; options are fields of Command, `set` more variables."""
        environment = {"PATH": self.running.inside.path, **options.pop("set", {})}
        return self.backend.exec(self.running, Command(argv, environment, **options))

    def sh(self, script: str, *words: str, **options: Any) -> Execution:
        """Starts a shell script."""
        return self.exec("/bin/sh", "-c", script, "sh", *words, **options)

    def run(self, script: str, *words: str, **options: Any) -> Done:
        """Runs a shell script to its end."""
        return Done(list(self.sh(script, *words, **options)))

    @property
    def state(self) -> SandboxState:
        return self.running.handle.state

    def pipe(self, name: str) -> Path:
        """A named pipe in the worktree that anybody may use."""
        path = self.place.worktree / name
        os.mkfifo(path)
        path.chmod(0o666)
        return path


def spec_of(place: Place, rules: FileRules) -> SandboxSpec:
    work = str(place.worktree)
    return SandboxSpec(
        "session", "default", "", (SandboxBindMount(work, work),), home=str(place.state / "workspaces/default/home"),
        state_dir=str(place.state), user_home=str(place.home), command=("python3",), search_path="/usr/bin:/bin",
        file_rules=rules,
    )  # fmt: skip


@contextmanager
def launched(kind: Kind, place: Place) -> Iterator[Session]:
    """A wrap that is destroyed in the end."""
    told: list[SandboxEvent] = []
    running = kind.backend.launch(spec_of(place, kind.rules), told.append)
    try:
        yield Session(kind.backend, running, place, told)
    finally:
        kind.backend.destroy(running)


@pytest.fixture(params=KINDS, ids=[str(kind) for kind in KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    chosen: Kind = request.param
    return chosen


@pytest.fixture
def host() -> Iterator[Place]:
    """A host in small, of whoever runs the tests."""
    with place_of(PEOPLE[0]) as made:
        yield made


@pytest.fixture
def session(kind: Kind, host: Place) -> Iterator[Session]:
    with launched(kind, host) as made:
        yield made


HOLDER = "exec 9>{path}; echo held >&9; exec sleep 1000 >/dev/null 2>&1"


def hold(path: Path) -> str:
    """A script that holds a named pipe for ever, and says so."""
    return HOLDER.format(path=path)


def held(path: Path) -> int:
    """Waits until somebody holds the pipe; our end of it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    end, word = time.monotonic() + PATIENCE, b""
    while word != b"held\n":
        assert time.monotonic() < end, f"nobody holds {path.name}"
        select.select([descriptor], [], [], PATIENCE)
        try:
            word += os.read(descriptor, 5)
        except BlockingIOError:
            continue
    return descriptor


def still_held(descriptor: int) -> bool:
    """Whether a process is left that holds it; looks and does not wait."""
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, 1) != b""
    except BlockingIOError:
        return True


def wait_until_let_go(descriptor: int) -> None:
    """Waits until no process holds it any more."""
    os.set_blocking(descriptor, True)
    assert os.read(descriptor, 1) == b""
    os.close(descriptor)


def read_lines(execution: Execution, count: int) -> list[bytes]:
    """The next lines of a command's output."""
    data = b""
    for event in execution:
        assert isinstance(event, Stdout), event
        data += event.data
        if data.count(b"\n") == count:
            return data.splitlines()
    raise AssertionError(data)


# --- One wrap, many commands ----------------------------------------------------------------------


def test_one_launch_and_many_commands(session: Session) -> None:
    assert session.run("echo one >file; exit 3").code == 3
    assert session.run("cat file; echo two >>file").stdout == b"one\n"
    done = session.run("cat file")
    assert (done.events, done.code) == ([Stdout(b"one\ntwo\n"), Exit(0)], 0)


def test_commands_beside_each_other(session: Session) -> None:
    """Each waits for the other: they run at the same time."""
    session.pipe("there"), session.pipe("back")
    first = session.sh("echo question >there; cat back")
    second = session.sh("read word <there; echo answer to $word >back")
    assert Done(list(first)).stdout == b"answer to question\n"
    assert Done(list(second)).code == 0


def test_many_at_once(session: Session) -> None:
    executions = [session.sh(f"cat; exit {number}", stdin=b"%d" % number) for number in range(20)]
    for number, execution in enumerate(executions):
        done = Done(list(execution))
        assert (done.stdout, done.code) == (b"%d" % number, number)


def test_started_from_many_threads(session: Session) -> None:
    codes: list[int] = []
    threads = [
        threading.Thread(target=lambda: codes.append(session.run("echo word; exit 5").code)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [5] * 8


# --- Streams --------------------------------------------------------------------------------------


def test_bytes_pass_unchanged(session: Session) -> None:
    data = bytes(range(256)) * 40_000  # 10 MB
    done = Done(list(session.exec("cat", stdin=data)))
    assert (done.stdout == data, done.stderr, done.code) == (True, b"", 0)


def test_bytes_written_piece_by_piece(session: Session) -> None:
    """`write` holds the caller up, so it has a thread here, and the reader is late."""
    execution = session.exec("cat")
    pieces = [os.urandom(70_001) for _ in range(60)]

    def give() -> None:
        for piece in pieces:
            execution.write(piece)
        execution.close_stdin()

    thread = threading.Thread(target=give)
    thread.start()
    done = Done(list(execution))
    thread.join()
    assert done.stdout == b"".join(pieces)


def test_streams_are_told_apart(session: Session) -> None:
    done = session.run("printf 'out\\0put'; printf 'err\\0or' >&2")
    assert (done.stdout, done.stderr) == (b"out\0put", b"err\0or")


def test_streams_are_no_terminal_and_the_session_is_its_own(session: Session) -> None:
    script = (
        "import os; print(*(os.isatty(n) for n in (0, 1, 2)), os.getsid(0) == os.getpid());"
        "print(sorted(n for n in map(int, os.listdir('/dev/fd')) if n > 3 or n < 3))"
    )
    done = Done(list(session.exec("python3", "-c", script, stdin=b"")))
    assert done.stdout.splitlines() == [b"False False False True", b"[0, 1, 2]"], done.stderr


def test_input_ends_when_told(session: Session) -> None:
    execution = session.exec("wc", "-c")
    execution.write(b"12345")
    execution.close_stdin()
    execution.close_stdin()
    assert Done(list(execution)).stdout.strip() == b"5"
    with pytest.raises(BrokenPipeError):
        execution.write(b"more")


def test_input_that_nobody_reads(session: Session) -> None:
    """The command ends, and whoever still writes is told."""
    execution = session.exec("true")
    assert execution.wait() == 0
    with pytest.raises(BrokenPipeError):
        execution.write(b"x")
    assert Done(list(session.exec("true", stdin=bytes(1 << 20)))).events == [Exit(0)]


def test_inherited_streams(session: Session, capfd: pytest.CaptureFixture[str]) -> None:
    """Beside others, and with the caller's own streams."""
    done = session.run("echo out; echo error >&2", stdio=Stdio.INHERIT)
    assert done.events == [Exit(0)]
    assert capfd.readouterr() == ("out\n", "error\n")


def test_events_can_be_read_after_the_end(session: Session) -> None:
    execution = session.sh("echo word")
    assert execution.wait() == 0
    assert list(execution) == [Stdout(b"word\n"), Exit(0)]
    assert list(execution) == []


# --- The end of a command -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "exit 255"), 255),
        (("sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM),
        (("sh", "-c", "kill -SEGV $$"), 128 + signal.SIGSEGV),
        (("no-such-command",), 127),
        (("./missing",), 127),
        (("",), 127),
        (("/usr",), 126),
        (("./plain",), 126),
    ],
)
def test_exit_status(session: Session, argv: tuple[str, ...], code: int) -> None:
    session.place.write(session.place.worktree / "plain", "text")
    execution = session.exec(*argv)
    assert Done(list(execution)).ending == [Exit(code)]
    assert execution.wait() == code


def test_what_cannot_be_executed_is_said_on_stderr(session: Session) -> None:
    done = Done(list(session.exec("no-such-command")))
    assert done.stderr == b"agent-gateway: no-such-command: command not found\n"


def test_killed_by_its_own_hand(session: Session) -> None:
    """Nobody else has done it."""
    assert session.run("kill -KILL $$").events == [Exit(KILLED)]


def test_environment_and_place(session: Session) -> None:
    below = session.place.worktree / "below"
    below.mkdir(mode=0o777)
    lines = session.run("pwd; echo $WORD; echo ${HOME-none}", set={"WORD": "a  b"}).stdout.splitlines()
    assert lines == [str(session.place.worktree).encode(), b"a b", b"none"]
    assert session.run("pwd", workdir=str(below)).stdout == f"{below}\n".encode()
    done = session.run("pwd", workdir=f"{below}/missing")
    assert (done.stdout, done.code) == (b"", 125)


def test_time_limit_kills_the_whole_tree(session: Session) -> None:
    pipe = session.pipe("pipe")
    script = BACKGROUND["a session of its own"].format(holder=hold(pipe)) + " echo begun; exec sleep 1000"
    execution = session.sh(script, timeout=0.5)
    end = held(pipe)
    assert Done(list(execution)).ending == [Killed(Cause.TIMEOUT), Exit(KILLED)]
    wait_until_let_go(end)
    assert session.run("echo alive").stdout == b"alive\n"


def test_time_limit_that_is_not_reached(session: Session) -> None:
    assert session.run("exit 4", timeout=PATIENCE).events == [Exit(4)]


@pytest.mark.parametrize("way", BACKGROUND.values(), ids=BACKGROUND.keys())
def test_kill_ends_all_it_started(session: Session, way: str) -> None:
    mine, other = session.pipe("mine"), session.pipe("other")
    spared = session.sh(hold(other))
    execution = session.sh(f"trap '' TERM; {way.format(holder=hold(mine))} exec sleep 1000")
    ends = held(mine), held(other)
    execution.kill()
    execution.kill()
    assert list(execution) == [Killed(Cause.MANUAL), Exit(KILLED)]
    wait_until_let_go(ends[0])
    assert still_held(ends[1])
    spared.kill()
    assert spared.wait() == KILLED
    wait_until_let_go(ends[1])


def test_kill_of_what_is_over(session: Session) -> None:
    execution = session.sh("exit 3")
    assert execution.wait() == 3
    execution.kill()
    execution.signal(signal.SIGTERM)
    assert list(execution) == [Exit(3)]


def test_signal_reaches_the_command_alone(session: Session) -> None:
    execution = session.sh("trap 'echo told; exit 9' USR1; echo ready; while :; do read line; done")
    assert read_lines(execution, 1) == [b"ready"]
    execution.signal(signal.SIGUSR1)
    assert list(execution) == [Stdout(b"told\n"), Exit(9)]


def test_ignored_signals(session: Session) -> None:
    done = session.run("kill -HUP $$; echo alive", ignored=(signal.SIGHUP,))
    assert done.stdout == b"alive\n"


@pytest.mark.parametrize("way", BACKGROUND.values(), ids=BACKGROUND.keys())
def test_what_it_leaves_in_the_background(session: Session, way: str) -> None:
    """It holds the command's streams and does not keep the command from being over; it lives until the wrap ends."""
    pipe = session.pipe("pipe")
    holder = f"exec 9>{pipe}; echo held >&9; exec sleep 1000"
    go = session.pipe("go")
    execution = session.sh(f"echo word; {way.format(holder=holder)} read line <{go}; exit 6")
    end = held(pipe)
    go.write_text("go\n")
    assert list(execution) == [Stdout(b"word\n"), Exit(6)]
    assert session.run("exit 1").code == 1
    assert still_held(end)
    session.backend.destroy(session.running)
    wait_until_let_go(end)


# --- States ---------------------------------------------------------------------------------------


def test_states(session: Session) -> None:
    backend, running = session.backend, session.running
    seen = [session.state]
    session.run("true")
    seen.append(session.state)
    backend.suspend(running)
    seen.append(session.state)
    backend.resume(running)
    seen.append(session.state)
    backend.destroy(running)
    seen.append(session.state)
    assert seen == [
        SandboxState.WARM,
        SandboxState.ACTIVE,
        SandboxState.SUSPENDED,
        SandboxState.ACTIVE,
        SandboxState.DESTROYED,
    ]


def test_handle_is_a_snapshot(session: Session) -> None:
    handle, ports = session.running.handle, session.running.endpoints
    session.run("true")
    assert handle == SandboxHandle(
        "session", session.backend.name, SandboxState.WARM, "",
        {"http_port": str(ports.http_port), "socks_port": str(ports.socks_port),
         "gateway_port": str(ports.gateway_port)},
    )  # fmt: skip
    assert session.running.handle.state is SandboxState.ACTIVE


def test_what_a_state_does_not_allow(session: Session) -> None:
    backend, running = session.backend, session.running
    for call in (backend.suspend, backend.resume):
        with pytest.raises(GatewayError, match="is warm"):
            call(running)
    session.run("true")
    with pytest.raises(GatewayError, match="is active"):
        backend.resume(running)
    backend.suspend(running)
    with pytest.raises(GatewayError, match="is suspended"):
        session.sh("true")
    with pytest.raises(GatewayError, match="is suspended"):
        backend.suspend(running)
    backend.destroy(running)
    for call in (backend.suspend, backend.resume):
        with pytest.raises(GatewayError, match="is destroyed"):
            call(running)
    with pytest.raises(GatewayError, match="is destroyed"):
        session.sh("true")


COUNTER = "i=0; while :; do i=$((i+1)); echo $i >{name}.new; mv {name}.new {name}; done"
# Counts in the same way, as far as it is told to.
CLOCK = "i=0; while [ $i -lt $1 ]; do i=$((i+1)); echo $i >{name}.new; mv {name}.new {name}; done"


def count(path: Path) -> int:
    """Where a counter stands."""
    return int(path.read_text()) if path.exists() else 0


def test_suspended_processes_stand_still(session: Session, kind: Kind) -> None:
    """Meanwhile another wrap counts on."""
    counter = session.place.worktree / "counter"
    execution = session.sh(f"{COUNTER.format(name='counter')} & " + COUNTER.format(name="second"))
    while not count(counter):
        pass
    session.backend.suspend(session.running)
    stands = [count(session.place.worktree / name) for name in ("counter", "second")]
    with place_of(PEOPLE[0]) as elsewhere, launched(kind, elsewhere) as other:
        assert other.run(CLOCK.format(name="clock"), "100").code == 0
        assert count(elsewhere.worktree / "clock") == 100
    assert [count(session.place.worktree / name) for name in ("counter", "second")] == stands
    session.backend.resume(session.running)
    while count(counter) <= stands[0]:
        pass
    execution.kill()
    assert execution.wait() == KILLED


def test_kill_while_suspended(session: Session) -> None:
    pipe = session.pipe("pipe")
    execution = session.sh(f"({hold(pipe)}) & exec sleep 1000")
    end = held(pipe)
    session.backend.suspend(session.running)
    execution.signal(signal.SIGCONT)
    execution.kill()
    assert list(execution) == [Killed(Cause.MANUAL), Exit(KILLED)]
    wait_until_let_go(end)
    session.backend.resume(session.running)
    assert session.run("exit 2").code == 2


def test_time_runs_on_while_suspended(session: Session) -> None:
    execution = session.sh("exec sleep 1000", timeout=0.2)
    session.backend.suspend(session.running)
    assert list(execution) == [Killed(Cause.TIMEOUT), Exit(KILLED)]


# --- Destruction ----------------------------------------------------------------------------------


def prepare(session: Session, state: SandboxState) -> None:
    """Brings a wrap into a state."""
    if state is not SandboxState.WARM:
        session.sh("exec sleep 1000")
    if state is SandboxState.SUSPENDED:
        session.backend.suspend(session.running)


@pytest.mark.parametrize("state", [SandboxState.WARM, SandboxState.ACTIVE, SandboxState.SUSPENDED])
def test_destroy_from_every_state_and_by_many(session: Session, state: SandboxState) -> None:
    prepare(session, state)
    assert session.state is state
    threads = [threading.Thread(target=session.backend.destroy, args=(session.running,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.state is SandboxState.DESTROYED
    running = session.running
    assert [sock.fileno() for sock in (running.http, running.socks, running.gateway)] == [-1, -1, -1]


@pytest.mark.parametrize("way", BACKGROUND.values(), ids=BACKGROUND.keys())
def test_destroy_ends_everything(session: Session, way: str) -> None:
    """When it returns nothing is left, also of a suspended wrap."""
    running, left = session.pipe("running"), session.pipe("left")
    execution = session.sh(hold(running))
    over = session.sh(f"{way.format(holder=hold(left))} exit 0")
    ends = held(running), held(left)
    assert over.wait() == 0
    session.backend.suspend(session.running)
    session.backend.destroy(session.running)
    assert [still_held(end) for end in ends] == [False, False]
    for end in ends:
        os.close(end)
    assert list(execution) == [Killed(Cause.MANUAL), Exit(KILLED)]
    assert session.state is SandboxState.DESTROYED


def test_destroy_frees_who_waits(session: Session) -> None:
    """A thread in `wait`, one that iterates, one that writes."""
    execution = session.sh("exec sleep 1000")
    found: list[object] = []

    def write() -> None:
        try:
            while True:
                execution.write(bytes(1 << 16))
        except BrokenPipeError:
            found.append("broken")

    threads = [
        threading.Thread(target=lambda: found.append(execution.wait())),
        threading.Thread(target=lambda: found.append(list(execution)[-1])),
        threading.Thread(target=lambda: found.append(list(session.running.events())[-1])),
        threading.Thread(target=write),
    ]
    for thread in threads:
        thread.start()
    session.backend.destroy(session.running)
    for thread in threads:
        thread.join()
    assert sorted(map(str, found)) == ["137", "Exit(code=137)", "Ready()", "broken"]


def test_nothing_is_left(kind: Kind, host: Place) -> None:
    """No descriptor, no thread, no file, also of commands that nobody has read."""
    descriptors, threads = sorted(os.listdir("/dev/fd")), set(threading.enumerate())
    for _ in range(2):
        with launched(kind, host) as session:
            session.sh("echo unread; exec sleep 1000")
            session.sh("echo unread; exit 1")
            session.run("echo read")
    RESERVE.empty()
    assert sorted(os.listdir("/dev/fd")) == descriptors
    assert not set(threading.enumerate()) - threads
    assert list(host.worktree.iterdir()) == []


LAUNCHER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from gateway.session import FileRules
from sandbox.backends import BACKENDS
from sandbox.backends.base import Command
from sandbox.spec import SandboxBindMount, SandboxSpec
name, rules, work, state, home, *scripts = sys.argv[2:]
backend = next(backend for backend in BACKENDS if backend.name == name)
bind = SandboxBindMount(work, work)
running = backend.launch(SandboxSpec(
    "s", "w", "", (bind,), home=os.path.join(state, "workspaces/w/home"), state_dir=state, user_home=home,
    search_path="/usr/bin:/bin", git_config="[user]\\n\\tname = x\\n", file_rules=FileRules(rules),
))
executions = [backend.exec(running, Command(("sh", "-c", script), {"PATH": "/usr/bin:/bin"})) for script in scripts]
print(running.inside.git_config, flush=True)
executions[0].wait()
"""


@pytest.mark.parametrize("suspended", [False, True], ids=["active", "suspended"])
def test_killed_launcher_leaves_nothing(kind: Kind, host: Place, suspended: bool) -> None:
    """No process, and none of its files: the kernel tells the other end."""
    running, left = host.worktree / "running", host.worktree / "left"
    for pipe in (running, left):
        os.mkfifo(pipe)
    scripts = [hold(running), BACKGROUND["a session of its own"].format(holder=hold(left)) + " exit 0"]
    words = (
        str(SOURCES),
        kind.backend.name,
        str(kind.rules),
        str(host.worktree),
        str(host.state),
        str(host.home),
        *scripts,
    )
    suspend = "backend.suspend(running)\nprint(flush=True)\nexecutions[0].wait()" if suspended else ""
    script = LAUNCHER.replace("executions[0].wait()", "input()\n" + suspend + "\nexecutions[0].wait()")
    with subprocess.Popen(
        (sys.executable, "-c", script, *words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        file = process.stdout.readline().strip()
        assert file
        ends = held(running), held(left)
        process.stdin.write("\n")
        process.stdin.flush()
        if suspended:
            assert process.stdout.readline() == "\n"
        process.kill()
    for end in ends:
        wait_until_let_go(end)
    while os.path.lexists(file):
        pass
    assert sorted(path.name for path in host.worktree.iterdir()) == ["left", "running"]


# --- Events ---------------------------------------------------------------------------------------


def test_events_of_the_wrap(session: Session) -> None:
    stream = session.running.events()
    assert [next(stream), next(stream)] == session.told == [Starting(), Ready()]
    session.run("true")
    session.backend.destroy(session.running)
    assert list(stream) == []
    assert session.told == [Starting(), Ready()]


REFUSED = "touch: cannot touch '/etc/x': Permission denied"


def test_refusals_on_stderr(session: Session) -> None:
    """Violations where something is wrapped, and nothing where nothing is; the stream is what it was."""
    done = session.run("for i in 1 2 3; do echo \"$1\" >&2; done; echo 'x: EPERM' >&2; exit 1", REFUSED)
    assert done.stderr == f"{REFUSED}\n".encode() * 3 + b"x: EPERM\n"
    found = [event.violation for event in done.events if isinstance(event, Violation)]
    told = [event.violation for event in session.told if isinstance(event, Violation)]
    if session.backend.name == "none":
        assert found == told == []
        return
    assert found == told
    counts: dict[str, int] = {}
    for violation in found:
        counts[violation.raw] = counts.get(violation.raw, 0) + violation.count
    assert counts == {REFUSED: 3, "x: EPERM": 1}
    assert (found[0].action, found[0].target) == ("file-write-create", "/etc/x")
    assert done.code == 1


@pytest.mark.parametrize("name", [".env", "sub/new.key"])
def test_a_refusal_is_told_once(session: Session, name: str) -> None:
    """By the wrap with its rule where that knows it, else as the command's stderr tells it."""
    session.run('mkdir sub; touch "$1"; touch "$1"', name)
    session.backend.destroy(session.running)
    told = [event.violation for event in session.told if isinstance(event, Violation)]
    assert {violation.rule for violation in told} <= {".env", "*.key"}
    if told:
        assert {violation.target for violation in told} == {str(session.place.worktree / name)}
        assert sum(violation.count for violation in told) == 2


def test_what_cannot_be_executed_was_refused_by_nobody(session: Session) -> None:
    session.place.write(session.place.worktree / "plain", "text")
    assert [event for event in session.exec("./plain") if isinstance(event, Violation)] == []


# --- What callers do with it ----------------------------------------------------------------------

ADAPTER = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if request["method"] == "end":
        sys.exit(4)
    print(json.dumps({"id": request["id"], "result": request["method"].upper()}), flush=True)
"""


def test_line_protocol_over_the_streams(session: Session) -> None:
    """An adapter: requests and answers in turn over stdin and stdout."""
    adapter = session.exec("python3", "-c", ADAPTER)
    answers = []
    for number, method in enumerate(("initialize", "prompt", "cancel")):
        adapter.write(f'{{"id": {number}, "method": "{method}"}}\n'.encode())
        answers += read_lines(adapter, 1)
    assert answers == [
        b'{"id": 0, "result": "INITIALIZE"}',
        b'{"id": 1, "result": "PROMPT"}',
        b'{"id": 2, "result": "CANCEL"}',
    ]
    adapter.write(b'{"method": "end"}\n')
    assert list(adapter) == [Exit(4)]


def test_tool_that_runs_shell_commands(session: Session) -> None:
    """A harness: a command for each call, with its output, status and time limit, and servers that stay."""
    work = session.place.worktree

    def tool(script: str, folder: Path = work, limit: float = PATIENCE) -> tuple[str, int]:
        done = Done(
            list(session.exec("sh", "-c", f"exec 2>&1\n{script}", workdir=str(folder), timeout=limit))
        )
        return done.stdout.decode(), done.code

    assert tool("mkdir project && cd project && echo text >file && ls") == ("file\n", 0)
    assert tool("cat file; cat missing", work / "project")[1] == 1
    assert tool("echo begun; sleep 1000", limit=0.3) == ("begun\n", KILLED)
    pipe = session.pipe("pipe")
    assert tool(f"({hold(pipe)}) & echo $! >pid")[1] == 0
    end = held(pipe)
    assert tool('kill "$(cat pid)"') == ("", 0)
    wait_until_let_go(end)


# --- What cannot be asked for ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "options"),
    [
        ((), {}),
        (("a\0b",), {}),
        (("x" * (9 << 20),), {}),
        (("true",), {"set": {"A": "\0"}}),
        (("true",), {"set": {"A=B": "c"}}),
        (("true",), {"set": {"": "c"}}),
        (("true",), {"foreground": True}),
        (("true",), {"stdio": Stdio.INHERIT, "stdin": b""}),
        (("true",), {"workdir": "relative"}),
        (("true",), {"timeout": 0}),
        (("true",), {"timeout": -1.0}),
        (("true",), {"timeout": float("nan")}),
        (("true",), {"timeout": float("inf")}),
    ],
)
def test_command_that_cannot_be_run(session: Session, argv: tuple[str, ...], options: dict[str, Any]) -> None:
    """Nothing is sent; another can follow."""
    with pytest.raises(GatewayError):
        session.exec(*argv, **options)
    assert session.state is SandboxState.WARM
    assert session.run("exit 6").code == 6


def test_foreground_is_alone(session: Session, kind: Kind, host: Place) -> None:
    session.run("true")
    with pytest.raises(GatewayError, match="alone"):
        session.sh("true", stdio=Stdio.INHERIT, foreground=True)
    with launched(kind, host) as other:
        execution = other.sh("exit 3", stdio=Stdio.INHERIT, foreground=True)
        for foreground in (True, False):
            with pytest.raises(GatewayError, match="alone"):
                other.sh("true", stdio=Stdio.INHERIT, foreground=foreground)
        assert list(execution) == [Exit(3)]
        assert list(execution) == []


def test_foreground_and_time(session: Session) -> None:
    execution = session.sh("exec sleep 1000", stdio=Stdio.INHERIT, foreground=True, timeout=0.2)
    assert list(execution) == [Killed(Cause.TIMEOUT), Exit(KILLED)]
    assert execution.wait() == KILLED


def test_foreground_is_killed_and_suspended(session: Session) -> None:
    pipe = session.pipe("pipe")
    execution = session.sh(hold(pipe), stdio=Stdio.INHERIT, foreground=True)
    end = held(pipe)
    session.backend.suspend(session.running)
    session.backend.resume(session.running)
    with pytest.raises(BrokenPipeError):
        execution.write(b"x")
    execution.kill()
    assert list(execution) == [Killed(Cause.MANUAL), Exit(KILLED)]
    wait_until_let_go(end)


def test_wrap_of_another_backend(session: Session) -> None:
    for other in BACKENDS:
        if other.name != session.backend.name:
            with pytest.raises(GatewayError, match="launched no such wrap"):
                other.destroy(session.running)
    assert session.run("true").code == 0


# --- Somebody else --------------------------------------------------------------------------------


@pytest.mark.parametrize("person", PEOPLE[1:])
def test_all_of_it_as_an_ordinary_user(person: str) -> None:
    with place_of(person) as place:
        place.give()
        options = ("-q", "-x", "-o", f"cache_dir={place.root}/cache", "-o", "faulthandler_timeout=0")
        command = as_ordinary([sys.executable, "-B", "-m", "pytest", *options, __file__], sys.prefix)
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=SOURCES, env={"PATH": "/usr/bin:/bin"}
        )
    assert done.returncode == 0, done.stdout
