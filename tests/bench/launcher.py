"""The launcher: a wrapped `true` against bare bubblewrap, and both bridges against the host's own loopback. Linux.

Everything in turns, in this running process, as an orchestrator that embeds the launcher has it.
"""

import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from gateway.errors import GatewayError
from gateway.session import Bridge, FileRules
from sandbox.backends.base import Backend, Command, Running, Stdio
from sandbox.bridge import probe_bridge
from sandbox.launch import NATIVE, from_name
from sandbox.layout import NAMESPACES
from sandbox.probing.trial import find_bubblewrap
from sandbox.spec import SandboxBindMount, SandboxSpec
from tests.bench.measures import MeasurementFailed, Results, Scale
from tests.bench.subjects import Stage

OURS, BARE, HOST, SOCAT = "gateway", "bwrap", "host", "socat"
LAUNCH, STREAM, CONNECT = "launch", "bridge-stream", "bridge-connect"
LAUNCHER_FIGURES = (LAUNCH, STREAM, CONNECT)

LAUNCHES = 30  # of each, in turns, at the full scale
ENVIRONMENT = {"PATH": "/usr/bin:/bin"}
MOUNTS = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp")
STREAM_BYTES = 512 << 20
PIECE = 1 << 20
CONNECTIONS = 300
WORD = 100  # bytes each way on one of the many short connections
PATIENCE = 60.0

# Runs inside and on the host alike: asked on standard input, answers with seconds.
CLIENT = f"""
import socket, statistics, sys, time
piece = bytes({PIECE})
def stream(port, size):
    with socket.create_connection(("127.0.0.1", port)) as way:
        begun = time.perf_counter()
        for _ in range(size // len(piece)):
            way.sendall(piece)
        way.shutdown(socket.SHUT_WR)
        way.recv(1)
        return time.perf_counter() - begun
def connect(port, count):
    took = []
    for _ in range(count):
        begun = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port)) as way:
            way.sendall(piece[:{WORD}])
            way.recv({WORD})
        took.append(time.perf_counter() - begun)
    return statistics.median(took)
print("ready", flush=True)
for line in sys.stdin:
    what, port, number = line.split()
    print({{"stream": stream, "connect": connect}}[what](int(port), int(number)), flush=True)
"""


def serve(listener: socket.socket) -> None:
    """Takes in what comes and answers one byte at its end; a short word is answered at once. Ends with the listener."""
    buffer = bytearray(PIECE)
    listener.setblocking(True)
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            while size := connection.recv_into(buffer):
                if size == WORD:
                    connection.sendall(buffer[:WORD])
                    break
            else:
                connection.sendall(b"x")


@dataclass
class Client:
    """A client at the far end of a way: `ask` sends it a line, `hear` waits for its answer."""

    name: str
    port: int
    ask: Callable[[str], None]
    hear: Callable[[], str]

    def measure(self, what: str, number: int) -> float:
        """Seconds; MeasurementFailed when it says something else."""
        self.ask(f"{what} {self.port} {number}\n")
        try:
            return float(self.hear())
        except ValueError as error:
            raise MeasurementFailed(f"the client at {self.name} failed: {error}") from None


@dataclass
class Ground:
    """A worktree and a home for the wraps."""

    folder: Path
    spec: SandboxSpec = field(init=False)

    def __post_init__(self) -> None:
        work, home = self.folder / "launcher/work", self.folder / "launcher/home"
        for path in (work, home):
            path.mkdir(parents=True)
        subprocess.run(("git", "init", "-q", str(work)), check=True, env={**ENVIRONMENT, "HOME": str(home)})
        self.spec = SandboxSpec(
            session_id="bench",
            workspace_id="default",
            agent_id="",
            bind_mounts=(SandboxBindMount(str(work), str(work)),),
            home=str(self.folder / "launcher/state/workspaces/default/home"),
            state_dir=str(self.folder / "launcher/state"),
            user_home=str(home),
            command=("true",),
            search_path=ENVIRONMENT["PATH"],
        )


def measure_launcher(stage: Stage, scale: Scale, results: Results) -> None:
    """All of it; what fails costs its own figure."""
    backend = from_name(NATIVE)
    probe = backend.probe()
    if not probe.available:
        results.problems.extend(f"{figure}, {OURS}: {probe.hint}" for figure in LAUNCHER_FIGURES)
        return
    ground = Ground(stage.folder)
    for figure, take in ((LAUNCH, measure_launch), (STREAM, measure_bridges)):
        try:
            take(backend, ground, scale, results)
        except (MeasurementFailed, GatewayError, OSError, subprocess.SubprocessError) as error:
            results.problems.append(f"{figure}, {OURS}: {error}")


# --- The start ------------------------------------------------------------------------------------


def measure_launch(backend: Backend, ground: Ground, scale: Scale, results: Results) -> None:
    """Milliseconds of a wrapped `true`, from the launch to its exit, with both kinds of file rules, and of bubblewrap
    alone."""
    rounds = max(LAUNCHES, scale.rounds) if scale.rounds > 5 else scale.rounds
    bare = (find_bubblewrap(), *NAMESPACES, *MOUNTS, "--", "/bin/true")
    names = {ground.spec.file_rules: OURS}
    up: dict[FileRules, list[float]] = {rules: [] for rules in FileRules}
    for number in range(-1, rounds):  # one before that does not count
        for rules in FileRules:
            took, waited = launch_true(backend, replace(ground.spec, file_rules=rules))
            if number >= 0:
                results.add(LAUNCH, names.get(rules, rules), took * 1e3)
                up[rules].append(waited * 1e3)
        begun = time.perf_counter()
        subprocess.run(bare, env=ENVIRONMENT, check=True, timeout=PATIENCE)
        if number >= 0:
            results.add(LAUNCH, BARE, (time.perf_counter() - begun) * 1e3)
    series = results.series[LAUNCH]
    for rules, waits in up.items():
        ratios = [
            one / other for one, other in zip(series[names.get(rules, rules)], series[BARE], strict=True)
        ]
        results.notes.append(
            f"with {rules} file rules a wrapped `true` takes {statistics.median(ratios):.2f} times what bubblewrap"
            f" takes, {statistics.median(waits):.1f} ms of it for the launch"
        )


def launch_true(backend: Backend, spec: SandboxSpec) -> tuple[float, float]:
    """Seconds from the launch to the exit of `true`, and until the wrap was up; the teardown is not counted."""
    begun = time.perf_counter()
    running = backend.launch(spec)
    try:
        up = time.perf_counter()
        command = Command(("true",), ENVIRONMENT, stdio=Stdio.INHERIT, foreground=True)
        status = backend.exec(running, command).wait()
        over = time.perf_counter()
    finally:
        backend.destroy(running)
    if status:
        raise MeasurementFailed(f"a wrapped `true` ended with {status}")
    return over - begun, up - begun


# --- The bridges ----------------------------------------------------------------------------------


def measure_bridges(backend: Backend, ground: Ground, scale: Scale, results: Results) -> None:
    """Megabytes a second through one connection, and microseconds of one with a word each way."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(on_host()),
            stack.enter_context(inside(backend, ground, Bridge.HANDOVER)),
        ]
        missing = probe_bridge(Bridge.SOCAT)
        if missing is None:
            clients.append(stack.enter_context(inside(backend, ground, Bridge.SOCAT)))
        else:
            results.notes.append(f"no figures of the socat bridge: {missing.hint}")
        for number in range(-1, scale.rounds):
            for client in clients:
                size, count = (STREAM_BYTES, CONNECTIONS) if number >= 0 else (PIECE, 3)
                rate = size / client.measure("stream", size) / 1e6
                pause = client.measure("connect", count) * 1e6
                if number >= 0:
                    results.add(STREAM, client.name, rate)
                    results.add(CONNECT, client.name, pause)


@contextmanager
def on_host() -> Iterator[Client]:
    """A client on the host, and a listener of the host."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        process = subprocess.Popen(
            (sys.executable, "-I", "-S", "-c", CLIENT),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None and process.stdout is not None
        writer, reader = process.stdin, process.stdout
        with process, serving(listener):
            if reader.readline() != "ready\n":
                raise MeasurementFailed("the client on the host did not start")

            def ask(line: str) -> None:
                writer.write(line)
                writer.flush()

            try:
                yield Client(HOST, listener.getsockname()[1], ask, reader.readline)
            finally:
                writer.close()


@contextmanager
def inside(backend: Backend, ground: Ground, bridge: Bridge) -> Iterator[Client]:
    """A client in a wrap, and the wrap's listener."""
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    running = backend.launch(replace(ground.spec, bridge=bridge, command=(python,)))
    try:
        with serving(running.http):
            yield client_inside(backend, running, python, OURS if bridge is Bridge.HANDOVER else SOCAT)
    finally:
        backend.destroy(running)


def client_inside(backend: Backend, running: Running, python: str, name: str) -> Client:
    """The client's program, started in a wrap."""
    execution = backend.exec(running, Command((python, "-I", "-S", "-c", CLIENT), ENVIRONMENT))
    events = iter(execution)

    def hear() -> str:
        """A line: each is written at once, so each is an event."""
        event = next(events, None)
        data = getattr(event, "data", None)
        if not isinstance(data, bytes):
            raise MeasurementFailed(f"the client in the wrap ended: {event}")
        return data.decode()

    if hear() != "ready\n":
        raise MeasurementFailed("the client in the wrap did not start")
    return Client(name, running.endpoints.http_port, lambda line: execution.write(line.encode()), hear)


@contextmanager
def serving(listener: socket.socket) -> Iterator[None]:
    """Serves on a copy of the listener for as long as this lasts."""
    own = listener.dup()
    thread = threading.Thread(target=serve, args=(own,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        own.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE)
        own.close()
