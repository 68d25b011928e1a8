"""What all wraps share and test_contract.py does not reach: a wrap whose first process dies, and what races."""

import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from sandbox.backends import BACKENDS
from sandbox.backends.base import Command, Stdio
from sandbox.backends.hosted import Hosted
from sandbox.backends.none import Unwrapped
from sandbox.events import Cause, Exit, Killed, Ready, SandboxEvent, Starting
from sandbox.spec import SandboxBindMount, SandboxSpec, SandboxState

VARIABLES = {"PATH": "/usr/bin:/bin"}


@contextmanager
def wrap(folder: Path, told: list[SandboxEvent] | None = None) -> Iterator[Hosted]:
    """The wrap that needs least of a host."""
    binds = (SandboxBindMount(str(folder), str(folder)),)
    tell = told.append if told is not None else None
    running = Unwrapped().launch(SandboxSpec("s", "w", "a", binds, search_path="/usr/bin:/bin"), tell)
    try:
        yield running
    finally:
        running.destroy()


@contextmanager
def room_for(count: int) -> Iterator[None]:
    """No more than so many descriptors can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/dev/fd")))  # whoever ran before may hold any number of them
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 64, hard))
    held: list[int] = []
    try:
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                held.append(os.open("/dev/null", os.O_RDONLY))
        for _ in range(count):
            os.close(held.pop())
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def sleep(*options: str) -> Command:
    return Command(("sleep", "1000", *options), VARIABLES)


def test_first_process_that_dies(tmp_path: Path) -> None:
    """Noticed without anybody asking, told once, and nothing starts any more."""
    told: list[SandboxEvent] = []
    with wrap(tmp_path, told) as running:
        execution = running.exec(sleep())
        stream = running.events()
        assert [next(stream), next(stream)] == [Starting(), Ready()]
        os.kill(running._child.pid, signal.SIGKILL)
        assert next(stream) == Killed(Cause.MANUAL)
        assert list(execution) == [Killed(Cause.MANUAL), Exit(125)]
        assert running.handle.state is SandboxState.ERROR
        with pytest.raises(GatewayError, match="is error: it ended"):
            running.exec(sleep())
        with pytest.raises(GatewayError, match="is error"):
            running.suspend()
    assert told == [Starting(), Ready(), Killed(Cause.MANUAL)]


def test_end_of_the_foreground_is_no_failure(tmp_path: Path) -> None:
    told: list[SandboxEvent] = []
    with wrap(tmp_path, told) as running:
        command = Command(("true",), VARIABLES, stdio=Stdio.INHERIT, foreground=True)
        assert running.exec(command).wait() == 0
        assert running.handle.state is SandboxState.ACTIVE
    assert told == [Starting(), Ready()]


def test_foreground_that_cannot_be_started(tmp_path: Path) -> None:
    with wrap(tmp_path) as running:
        os.kill(running._child.pid, signal.SIGKILL)
        assert running._child.wait(60) is not None
        with pytest.raises(GatewayError):
            running.exec(Command(("true",), VARIABLES, stdio=Stdio.INHERIT, foreground=True))


def test_streams_that_cannot_be_opened(tmp_path: Path) -> None:
    """The caller's own are closed, or there are no descriptors left: the wrap goes on."""
    inherits = Command(("true",), VARIABLES, stdio=Stdio.INHERIT)
    with wrap(tmp_path) as running:
        kept = os.dup(0)
        os.close(0)
        try:
            with pytest.raises(GatewayError, match="streams cannot be opened"):
                running.exec(inherits)
        finally:
            os.dup2(kept, 0)
            os.close(kept)
        before = sorted(os.listdir("/dev/fd"))
        for room in range(8):
            with room_for(room), pytest.raises(GatewayError, match="streams cannot be opened"):
                running.exec(sleep())
        assert sorted(os.listdir("/dev/fd")) == before
        assert list(running.exec(Command(("sh", "-c", "exit 3"), VARIABLES))) == [Exit(3)]


def test_commands_that_are_over_are_forgotten(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    with wrap(tmp_path) as running:
        held = len(os.listdir("/dev/fd")) - before
        for _ in range(30):
            execution = running.exec(Command(("true",), VARIABLES))
            assert execution.wait() == 0
            assert isinstance(execution, type(running._attended[-1]))
            running._attended[-1].settle(60)
        assert len(running._attended) == 1
        assert len(os.listdir("/dev/fd")) - before == held


def test_destroy_while_commands_are_started(tmp_path: Path) -> None:
    """Each is started and killed, or refused; none is forgotten."""
    ends: list[object] = []
    first = threading.Event()

    def start(running: Hosted) -> None:
        try:
            while True:
                execution = running.exec(sleep())
                first.set()
                ends.append(execution.wait())
        except GatewayError as error:
            ends.append(str(error))

    with wrap(tmp_path) as running:
        threads = [threading.Thread(target=start, args=(running,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        first.wait()
        running.destroy()
        for thread in threads:
            thread.join()
        assert running.handle.state is SandboxState.DESTROYED
    assert set(map(type, ends)) == {int, str}
    assert {end for end in ends if isinstance(end, int)} == {137}


@pytest.mark.parametrize("name", [backend.name for backend in BACKENDS if backend.name != "none"])
def test_wrap_is_its_backends(tmp_path: Path, name: str) -> None:
    other = next(backend for backend in BACKENDS if backend.name == name)
    with wrap(tmp_path) as running:
        calls = (other.suspend, other.resume, other.destroy)
        for call in calls:
            with pytest.raises(GatewayError, match=f"the backend {name} has launched no such wrap"):
                call(running)
        with pytest.raises(GatewayError, match="launched no such wrap"):
            other.exec(running, sleep())
