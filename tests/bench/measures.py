"""Takes the figures that need a running subject: loads, interleaved over subjects; memory; a cold run.

Every load is bounded in count and time by the generator itself. A figure that cannot be taken becomes a problem with
its reason and never a guess.
"""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from tests.bench.memory import memory, pause
from tests.bench.processes import last_words
from tests.bench.subjects import STARTERS, Stage, Subject, gateway_program, own_environment, own_worktree
from tests.bench.toolchain import Unavailable

CLIENTS = 8
MAX_ROUNDS_OF_A_LOAD = 20_000  # per load; keeps the number of TIME_WAIT states small
MAX_STREAM_BYTES = 8_000_000_000
IDLE_TUNNELS = 256
SETTLE_SECONDS = 0.3  # before memory is read: the subject's own clean-up after the last connection
SAMPLE_SECONDS = 0.02
GRACE_SECONDS = 30  # past the generator's own limit


class MeasurementFailed(Exception):
    """A figure that could not be taken, and why."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How long and how often: rounds of the interleaved figures, seconds of one load, repeats of the single ones,
    pairs of pushes."""

    rounds: int
    seconds: float
    warm_seconds: float
    repeats: int
    body_bytes: int
    pairs: int


@dataclass(slots=True)
class Results:
    """Everything measured so far; grows during a run. `series[figure][subject]` holds one value per round."""

    series: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])

    def add(self, figure: str, subject: str, value: float) -> None:
        """Appends one value."""
        self.series.setdefault(figure, {}).setdefault(subject, []).append(value)


@dataclass(frozen=True, slots=True)
class Load:
    """What the generator reported. Latencies in microseconds."""

    done: int
    failed: int
    redials: int
    seconds: float
    bytes: int
    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Figure:
    """One interleaved figure: how to load a subject (mode, route, clients, count) and what to read from the load."""

    name: str
    mode: str
    route: str
    clients: int
    count: int
    read: Callable[[Load], float]

    def fits(self, subject: Subject) -> bool:
        """Whether the subject speaks what the figure needs; direct has no SOCKS."""
        return bool(subject.socks if self.route == "socks" else subject.http)


INTERLEAVED: tuple[Figure, ...] = (
    Figure(
        "connect", "tunnels", "connect", CLIENTS, MAX_ROUNDS_OF_A_LOAD, lambda load: load.done / load.seconds
    ),
    Figure("latency", "tunnels", "connect", 1, MAX_ROUNDS_OF_A_LOAD, lambda load: load.p50),
    Figure("stream", "stream", "connect", 1, MAX_STREAM_BYTES, lambda load: load.bytes / load.seconds / 1e6),
    Figure("socks", "tunnels", "socks", CLIENTS, MAX_ROUNDS_OF_A_LOAD, lambda load: load.done / load.seconds),
    Figure("http", "requests", "plain", CLIENTS, 10_000_000, lambda load: load.done / load.seconds),
)


def argv_of(stage: Stage, subject: Subject, figure: Figure, seconds: float, count: int) -> tuple[str, ...]:
    """The generator's command line for one load."""
    route = "direct" if subject.name == "direct" else figure.route
    dial = subject.socks if route == "socks" else subject.http
    target = (subject.host, str(stage.origin_port), str(stage.hello))
    return (stage.load, figure.mode, route, str(dial), *target, str(figure.clients), str(seconds), str(count))


def parse_load(text: str) -> Load:
    """The generator's line of `name=value` pairs."""
    values = dict(pair.split("=", 1) for pair in text.split())
    return Load(
        done=int(values["done"]),
        failed=int(values["failed"]),
        redials=int(values["redials"]),
        seconds=float(values["seconds"]),
        bytes=int(values["bytes"]),
        p50=float(values["p50"]),
        p99=float(values["p99"]),
    )


def run_load(stage: Stage, subject: Subject, figure: Figure, seconds: float, count: int) -> Load:
    """One load, judged: a load that got nowhere, or whose exchanges failed, is a failed measurement."""
    argv = argv_of(stage, subject, figure, seconds, count)
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=seconds + GRACE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise MeasurementFailed("the load did not end") from error
    if done.returncode != 0:
        raise MeasurementFailed(f"the load ended with {done.returncode}: {last_words(done.stderr)}")
    load = parse_load(done.stdout)
    if load.done == 0 or load.failed * 100 > load.done or (figure.mode == "stream" and load.bytes == 0):
        raise MeasurementFailed(
            f"{load.done} exchanges done, {load.failed} failed: {last_words(done.stderr)}"
        )
    return load


def measure_interleaved(
    stage: Stage, subjects: Sequence[Subject], figure: Figure, scale: Scale, results: Results
) -> None:
    """Rounds over all subjects; the order rotates, so that nobody always runs behind the same neighbour."""
    fitting = [subject for subject in subjects if figure.fits(subject)]
    broken: set[str] = set()
    for number in range(-1, scale.rounds):
        seconds = scale.warm_seconds if number < 0 else scale.seconds
        turn = number % len(fitting)
        for subject in fitting[turn:] + fitting[:turn]:
            if subject.name in broken:
                continue
            try:
                load = run_load(stage, subject, figure, seconds, figure.count)
            except MeasurementFailed as error:
                broken.add(subject.name)
                results.series.get(figure.name, {}).pop(subject.name, None)
                results.problems.append(f"{figure.name}, {subject.name}: {error}")
                continue
            if number >= 0:
                results.add(figure.name, subject.name, figure.read(load))


def start_all(stage: Stage, stack: ExitStack, results: Results) -> list[Subject]:
    """Every subject that can be started here; the others become problems that name the mending command."""
    subjects = []
    for name, start in STARTERS:
        try:
            subjects.append(stack.enter_context(start(stage)))
        except Unavailable as error:
            results.problems.append(f"{name}: {error}")
    return subjects


def idle_cost(stage: Stage, subject: Subject) -> tuple[float, float]:
    """Bytes at no tunnel, and bytes per idle tunnel, of a fresh subject of which every process has served a few: what
    a process needs once, for its first client, is no tunnel's."""
    warm = Figure("idle", "tunnels", "connect", CLIENTS, 512, lambda load: load.p50)
    run_load(stage, subject, warm, 5, warm.count)
    pause(SETTLE_SECONDS)
    before = memory(subject)
    hold = Figure("idle", "idle", "connect", 1, IDLE_TUNNELS, lambda load: load.p50)
    argv = argv_of(stage, subject, hold, 20, IDLE_TUNNELS)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        line = child.stdout.readline()  # the generator gives up by itself after its 20 seconds
        if not line or parse_load(line).done != IDLE_TUNNELS:
            child.stdin.close()
            raise MeasurementFailed(
                f"not all of {IDLE_TUNNELS} tunnels opened: {line.strip() or 'no answer'}"
            )
        pause(SETTLE_SECONDS)
        after = memory(subject)
        child.stdin.close()
    return before, (after - before) / IDLE_TUNNELS


def measure_idle(stage: Stage, scale: Scale, results: Results) -> None:
    """Memory per idle tunnel of each subject: a fresh process each time, since a used one hides the cost."""
    for _ in range(scale.repeats):
        for name, start in STARTERS[1:]:
            if any(problem.startswith(f"{name}:") for problem in results.problems):
                continue  # missing, and said so already
            try:
                with start(stage) as subject:
                    base, each = idle_cost(stage, subject)
            except (MeasurementFailed, Unavailable) as error:
                results.problems.append(f"idle, {name}: {error}")
                continue
            results.add("idle", name, each / 1024)
            results.add("idle-base", name, base / 1e6)


def measure_body(stage: Stage, scale: Scale, results: Results) -> None:
    """How far one large body through a tunnel moves the gateway's memory: highest sample less the one before."""
    figure = Figure(
        "body", "stream", "connect", 1, scale.body_bytes, lambda load: load.bytes / load.seconds / 1e6
    )
    try:
        with dict(STARTERS)["gateway"](stage) as subject:
            run_load(
                stage, subject, Figure("body", "tunnels", "connect", 1, 32, lambda load: load.p50), 5, 32
            )
            pause(SETTLE_SECONDS)
            before = highest = memory(subject)
            argv = argv_of(stage, subject, figure, 60, scale.body_bytes)
            with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
                while child.poll() is None:
                    highest = max(highest, memory(subject))
                    pause(SAMPLE_SECONDS)
                assert child.stdout is not None
                said = child.stdout.read().strip()
            if child.returncode != 0 or f"bytes={scale.body_bytes} " not in said:
                raise MeasurementFailed(f"the body did not arrive: {said or 'no answer'}")
            load = parse_load(said)
    except (MeasurementFailed, Unavailable) as error:
        results.problems.append(f"body, gateway: {error}")
        return
    results.add("body", "gateway", (highest - before) / 1e6)
    results.notes.append(f"body: {load.bytes / 1e9:.0f} GB at {figure.read(load):.0f} MB/s")


def measure_cold(stage: Stage, scale: Scale, results: Results) -> None:
    """Wall time of `agent-gateway run -- true` in a fresh process, with the wrap where the host offers one."""
    try:
        program = gateway_program()
        environment, worktree = own_environment(stage.folder), own_worktree(stage.folder)
    except Unavailable as error:
        results.problems.append(f"cold, gateway: {error}")
        return
    said = ""
    for number in range(-1, 2 * scale.repeats):
        begun = time.monotonic()
        done = subprocess.run(
            (program, "run", "--quiet", "--", "true"),
            capture_output=True,
            text=True,
            timeout=GRACE_SECONDS,
            env=environment,
            cwd=worktree,
            check=False,
        )
        took = time.monotonic() - begun
        said = done.stderr.strip()
        if done.returncode != 0:
            results.problems.append(f"cold, gateway: exit code {done.returncode}: {last_words(said)}")
            return
        if number >= 0:  # the first run may still compile bytecode
            results.add("cold", "gateway", took)
    results.notes.append(f"the cold run said: {said.splitlines()[0] if said else 'nothing'}")
