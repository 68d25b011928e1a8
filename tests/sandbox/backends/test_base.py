"""What holds for every backend of the tuple: the names, the probe, a wrap as `base.py` promises it, with a command in
the foreground, as `run` uses it. Commands beside each other are in test_contract.py."""

import fcntl
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from sandbox.backends import BACKENDS
from sandbox.backends.base import Backend, Command, Execution, Running, Stdio
from sandbox.env import build_environment
from sandbox.events import Cause, Exit, Killed
from sandbox.git.github_host import GITHUB_HOST
from sandbox.git.session import SessionGit
from sandbox.spec import SandboxBindMount, SandboxSpec
from sandbox.supervisor.client import RESERVE
from tests.fakes.wire import Message, Wire
from tests.sandbox.inside_git import IDENTITY, SECRET, TOKEN, response
from tests.sandbox.wrapping import PATIENCE, PEOPLE, Place, place_of

every_backend = pytest.mark.parametrize("backend", BACKENDS, ids=[backend.name for backend in BACKENDS])


def test_names_are_the_contracts() -> None:
    assert [backend.name for backend in BACKENDS] == ["native", "microvm", "none"]


@every_backend
def test_probe_says_what_to_do(backend: Backend) -> None:
    probe = backend.probe()
    assert bool(probe.note) is probe.available
    assert probe.available or probe.hint
    assert not (probe.available and probe.requires_install)
    assert backend.probe() == probe


def test_something_always_runs() -> None:
    assert BACKENDS[-1].name == "none"
    assert BACKENDS[-1].probe().available


# --- A running wrap -------------------------------------------------------------------------------

WORKS = [backend for backend in BACKENDS if backend.probe().available]


@dataclass
class Session:
    """A wrap, and the one command in it."""

    backend: Backend
    running: Running

    def start(
        self,
        argv: tuple[str, ...],
        environment: Mapping[str, str],
        workdir: str,
        ignored: tuple[int, ...] = (),
    ) -> Execution:
        """Starts it in the foreground."""
        command = Command(argv, environment, workdir, Stdio.INHERIT, foreground=True, ignored=ignored)
        return self.backend.exec(self.running, command)

    def bash(self, host: Place, script: str) -> Execution:
        """Starts bash with a script; ports are in its environment."""
        ends = self.running.endpoints
        ports = {"HTTP": ends.http_port, "SOCKS": ends.socks_port, "GATEWAY": ends.gateway_port}
        environment = {"PATH": self.running.inside.path} | {name: str(port) for name, port in ports.items()}
        return self.start(("bash", "-c", script), environment, str(host.worktree))

    def destroy(self) -> None:
        self.backend.destroy(self.running)


type Launch = Callable[[], Session]


@pytest.fixture
def host() -> Iterator[Place]:
    """A host in small, of whoever runs the tests."""
    with place_of(PEOPLE[0]) as made:
        yield made


def spec_of(host: Place) -> SandboxSpec:
    """A wrap around the worktree of the host."""
    work = str(host.worktree)
    return SandboxSpec(
        "session",
        "default",
        "",
        (SandboxBindMount(work, work),),
        home=str(host.state / "workspaces/default/home"),
        state_dir=str(host.state),
        user_home=str(host.home),
        command=("bash",),
        search_path="/usr/bin:/bin",
    )


@pytest.fixture(params=WORKS, ids=[backend.name for backend in WORKS])
def launch(request: pytest.FixtureRequest, host: Place) -> Iterator[Launch]:
    """Launches the backend with the worktree; all of it is torn down at the end."""
    backend: Backend = request.param
    spec = spec_of(host)
    with ExitStack() as stack:

        def launched() -> Session:
            running = backend.launch(spec)
            stack.callback(backend.destroy, running)
            assert running.handle.backend == backend.name
            return Session(backend, running)

        yield launched


def accept(listener: socket.socket) -> socket.socket:
    """The next connection of a listener that does not block."""
    listener.settimeout(PATIENCE)
    connection, _ = listener.accept()
    connection.settimeout(PATIENCE)
    return connection


# Says a word on the HTTP listener once it runs, and then waits for an answer.
REPORT = 'exec 3<>"/dev/tcp/127.0.0.1/$HTTP"; echo ready >&3; read -u 3 answer; exit 1'


def test_listeners(launch: Launch) -> None:
    running = launch().running
    ports = running.endpoints
    listeners = (running.http, running.socks, running.gateway)
    assert [listener.getsockname() for listener in listeners] == [
        ("127.0.0.1", port) for port in (ports.http_port, ports.socks_port, ports.gateway_port)
    ]
    assert len({ports.http_port, ports.socks_port, ports.gateway_port}) == 3
    for listener in listeners:
        assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        assert not listener.getblocking()
        assert fcntl.fcntl(listener, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


def test_command_reaches_the_listeners(launch: Launch, host: Place) -> None:
    session = launch()
    running = session.running
    script = 'for port in $HTTP $SOCKS $GATEWAY; do echo "$port" >"/dev/tcp/127.0.0.1/$port"; done'
    execution = session.bash(host, script)
    for listener in (running.http, running.socks, running.gateway):
        with accept(listener) as connection, connection.makefile() as words:
            assert words.read() == f"{listener.getsockname()[1]}\n"
    assert execution.wait() == 0


def test_environment_and_place_are_those_of_the_word(
    launch: Launch, host: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    session = launch()
    words = {"PATH": session.running.inside.path, "A": "one two", "EMPTY": "", "LINES": "a\nb"}
    assert session.start(("env", "-0"), words, str(host.worktree)).wait() == 0
    assert dict(line.split("=", 1) for line in capfd.readouterr().out.split("\0") if line) == words
    script = 'printf "%s\\n" "$PWD" "$0" "$#"; readlink /proc/$$/fd/3 || echo nothing open'
    assert launch().bash(host, script).wait() == 0
    assert capfd.readouterr().out.splitlines() == [str(host.worktree), "bash", "0", "nothing open"]


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (("true",), 0),
        (("sh", "-c", "exit 7"), 7),
        (("sh", "-c", "exit 125"), 125),
        (("sh", "-c", "kill -KILL $$"), 137),
        (("sh", "-c", "kill -TERM $$"), 143),
        (("sh", "-c", "kill -SEGV $$"), 139),
        (("no-such-command",), 127),
        (("./missing",), 127),
        (("/usr",), 126),
    ],
)
def test_exit_status(launch: Launch, host: Place, argv: tuple[str, ...], status: int) -> None:
    session = launch()
    execution = session.start(argv, {"PATH": session.running.inside.path}, str(host.worktree))
    assert execution.wait() == status
    assert execution.wait() == status
    assert list(execution) == [Exit(status)]


def test_inside_says_where_things_are(launch: Launch, host: Place) -> None:
    session = launch()
    inside = session.running.inside
    script = (
        f'test -d "{inside.home}" && touch "{inside.tmpdir}/$$" && rm "{inside.tmpdir}/$$" && test -x "$0"'
    )
    argv = ("sh", "-c", script, inside.connect[0])
    assert session.start(argv, {"PATH": inside.path}, str(host.worktree)).wait() == 0
    assert inside.path
    assert inside.roots


def test_signal_reaches_the_command(launch: Launch, host: Place) -> None:
    session = launch()
    execution = session.bash(host, f"trap 'exit 9' USR1; {REPORT}")
    with accept(session.running.http) as connection:
        assert connection.recv(64) == b"ready\n"
        execution.signal(signal.SIGUSR1)
        assert execution.wait() == 9


def test_signal_kills_a_command_that_does_not_handle_it(launch: Launch, host: Place) -> None:
    session = launch()
    execution = session.bash(host, REPORT)
    with accept(session.running.http) as connection:
        assert connection.recv(64) == b"ready\n"
        execution.signal(signal.SIGTERM)
        assert execution.wait() == 128 + signal.SIGTERM


def test_signals_after_the_end_do_nothing(launch: Launch, host: Place) -> None:
    session = launch()
    execution = session.bash(host, "exit 3")
    assert execution.wait() == 3
    execution.signal(signal.SIGTERM)
    session.destroy()
    execution.signal(signal.SIGTERM)
    assert execution.wait() == 3


def test_ignored_signals(launch: Launch, host: Place, capfd: pytest.CaptureFixture[str]) -> None:
    session = launch()
    argv = ("sh", "-c", "kill -HUP $$; echo alive")
    environment = {"PATH": session.running.inside.path}
    execution = session.start(argv, environment, str(host.worktree), ignored=(signal.SIGHUP,))
    assert execution.wait() == 0
    assert capfd.readouterr().out == "alive\n"


def test_starts_once(launch: Launch, host: Place) -> None:
    session = launch()
    execution = session.bash(host, "exit 4")
    with pytest.raises(GatewayError, match="started before"):
        session.bash(host, "exit 5")
    assert execution.wait() == 4


@pytest.mark.parametrize(
    ("argv", "environment"),
    [
        ((), {}),
        (("a\0b",), {}),
        (("true",), {"A": "\0"}),
        (("true",), {"A=B": "c"}),
        (("true",), {"": "c"}),
    ],
)
def test_word_that_cannot_be_said(
    launch: Launch, host: Place, argv: tuple[str, ...], environment: dict[str, str]
) -> None:
    """Nothing is sent, so that a good word can follow."""
    session = launch()
    with pytest.raises(GatewayError):
        session.start(argv, environment, str(host.worktree))
    assert session.bash(host, "exit 6").wait() == 6


def test_destroy_ends_all_of_the_tree(launch: Launch, host: Place) -> None:
    """CMD and a daemon of its own: their connections end."""
    session = launch()
    running = session.running
    execution = session.bash(host, f"setsid bash -c '{REPORT}' </dev/null & {REPORT}")
    connections = [accept(running.http), accept(running.http)]
    assert [connection.recv(64) for connection in connections] == [b"ready\n", b"ready\n"]
    session.destroy()
    session.destroy()
    for connection in connections:
        with connection:
            assert connection.recv(64) == b""
    assert execution.wait() == 128 + signal.SIGKILL
    assert list(execution) == [Killed(Cause.MANUAL), Exit(128 + signal.SIGKILL)]
    assert [listener.fileno() for listener in (running.http, running.socks, running.gateway)] == [-1, -1, -1]
    with pytest.raises(GatewayError):
        session.bash(host, "true")


def test_destroy_of_what_never_started(launch: Launch, host: Place) -> None:
    session = launch()
    session.destroy()
    with pytest.raises(GatewayError):
        session.bash(host, "true")


def test_nothing_is_left(launch: Launch, host: Place) -> None:
    """No descriptor, no file in the worktree."""
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(2):
        session = launch()
        assert session.bash(host, "exit 0").wait() == 0
        session.destroy()
    RESERVE.empty()
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert list(Path(host.worktree).iterdir()) == []


@pytest.mark.parametrize("backend", [backend for backend in BACKENDS if backend not in WORKS])
def test_what_cannot_run_says_so(backend: Backend) -> None:
    """Loudly, and with the hint of its probe; nothing runs instead."""
    with pytest.raises(GatewayError) as caught:
        backend.launch(SandboxSpec("s", "w", "a", ()))
    assert caught.value.hint == backend.probe().hint


# --- Git and gh -----------------------------------------------------------------------------------

GIT_SCRIPT = """
git push origin HEAD:main 2>pushed
printf 'url=https://github.com/acme/widget.git\\n\\n' | git credential fill >login 2>&1
git remote -v >remotes
git config user.name >name
{ ls -A "$GH_CONFIG_DIR"; stat -c %a "$GH_CONFIG_DIR"; } >gh
echo x >"$GH_CONFIG_DIR/config.yml" && printf '%s' "$GH_CONFIG_DIR" >where
"""


def answer(listener: socket.socket, reply: bytes) -> Message:
    """Answers one request on one connection."""
    with Wire(accept(listener)) as wire:
        request = wire.message()
        wire.send(reply)
        return request


@pytest.mark.parametrize("backend", WORKS, ids=[backend.name for backend in WORKS])
def test_git_speaks_to_the_gateway(backend: Backend, host: Place) -> None:
    for arguments in (
        ("init", "-q"), ("commit", "-q", "--allow-empty", "-m", "one"),
        ("remote", "add", "origin", "git@github.com:acme/widget.git"),
    ):  # fmt: skip
        environment = {"PATH": "/usr/bin:/bin", **IDENTITY}
        subprocess.run(("git", *arguments), cwd=host.worktree, env=environment, check=True)
    git = SessionGit(GITHUB_HOST)
    running = backend.launch(replace(spec_of(host), git=git, git_config='[user]\n\tname = "A U Thor"\n'))
    try:
        inside = running.inside
        built = build_environment(
            {}, endpoints=running.endpoints, session_id="s", backend=backend.name, secret=SECRET, home=inside.home,
            path=inside.path, tmpdir=inside.tmpdir, git_config=inside.git_config, connect=inside.connect,
            roots=inside.roots, tools=inside.variables, git=git, credential=inside.credential,
            gh_config=inside.gh_config, github_token=TOKEN,
        )  # fmt: skip
        command = Command(("bash", "-c", GIT_SCRIPT), built.values, str(host.worktree))
        execution = backend.exec(running, command)
        pushed = answer(running.gateway, response("403 Forbidden", b"no\n", "Content-Type: text/plain"))
        login = b'{"username": "x-access-token", "password": "read-only"}'
        asked = answer(running.gateway, response("200 OK", login))
        assert execution.wait() == 0
    finally:
        backend.destroy(running)
    assert pushed.target == "/git/github.com/acme/widget.git/info/refs?service=git-receive-pack"
    assert asked.json() == {"host": "github.com", "path": "acme/widget.git"}
    assert pushed.field("X-Agent-Gateway-Session") == asked.field("X-Agent-Gateway-Session") == SECRET
    found = {
        name: (host.worktree / name).read_text() for name in ("pushed", "login", "remotes", "name", "gh")
    }
    assert "remote: no\n" in found["pushed"]
    assert "username=x-access-token\npassword=read-only\n" in found["login"]
    assert f"http://127.0.0.1:{running.endpoints.gateway_port}/git/github.com/acme/" in found["remotes"]
    assert SECRET not in found["remotes"]
    assert (found["name"], found["gh"]) == ("A U Thor\n", "700\n")
    # What gh writes is gone with the session.
    assert not os.path.lexists((host.worktree / "where").read_text())
    assert not os.path.lexists(inside.git_config)
