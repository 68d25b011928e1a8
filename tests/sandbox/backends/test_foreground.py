"""The command in the foreground: its end, who ended it, and the clock. The backend's three ways are the test's."""

import signal
import threading

import pytest

from sandbox.backends.foreground import Foreground
from sandbox.events import Cause, Exit, Killed, SandboxEvent
from sandbox.memory import OomWatch, oom_kills
from tests.sandbox.wrapping import PATIENCE


class Played:
    """A command that is over when somebody says so."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.code: int | None = 0
        self.signals: list[int] = []
        self.lost: list[Cause] = []

    def wait(self) -> int | None:
        assert self.over.wait(PATIENCE)
        return self.code

    def end(self) -> None:
        if not self.over.is_set():
            self.code = 137
            self.over.set()

    def foreground(self, timeout: float | None = None, oom: OomWatch | None = None) -> Foreground:
        return Foreground(self.wait, self.signals.append, self.end, timeout, oom, self.lost.append)


@pytest.mark.parametrize("code", [0, 3, 125, 137, 143])
def test_exit(code: int) -> None:
    played = Played()
    execution = played.foreground()
    played.code = code
    played.over.set()
    assert list(execution) == [Exit(code)]
    assert (list(execution), execution.wait()) == ([], code)


def test_kill_and_time_limit() -> None:
    execution = Played().foreground()
    execution.kill()
    assert list(execution) == [Killed(Cause.MANUAL), Exit(137)]
    execution = Played().foreground(timeout=0.05)
    assert list(execution) == [Killed(Cause.TIMEOUT), Exit(137)]
    execution.kill()
    execution.settle(PATIENCE)


def test_the_first_cause_counts() -> None:
    execution = Played().foreground()
    execution.end(Cause.TIMEOUT)
    execution.end(Cause.MANUAL)
    assert list(execution) == [Killed(Cause.TIMEOUT), Exit(137)]


def test_time_limit_that_is_not_reached() -> None:
    before = threading.active_count()
    played = Played()
    execution = played.foreground(timeout=PATIENCE)
    played.over.set()
    assert execution.wait() == 0
    execution.settle(PATIENCE)
    assert threading.active_count() == before


@pytest.mark.parametrize(
    ("code", "events"),
    [(137, [Killed(Cause.OOM), Exit(137)]), (143, [Exit(143)]), (0, [Exit(0)])],
)
def test_killed_for_want_of_memory(code: int, events: list[SandboxEvent]) -> None:
    played = Played()
    execution = played.foreground(oom=OomWatch(oom_kills() - 1))
    played.code = code
    played.over.set()
    assert list(execution) == events


@pytest.mark.parametrize(("kills", "cause"), [(0, Cause.MANUAL), (-1, Cause.OOM)])
def test_wrap_that_ended_around_it(kills: int, cause: Cause) -> None:
    played = Played()
    execution = played.foreground(oom=OomWatch(oom_kills() + kills))
    played.code = None
    played.over.set()
    assert list(execution) == [Killed(cause), Exit(125)]
    execution.end(Cause.MANUAL)  # the destruction of what is left
    assert (execution.wait(), played.lost) == (125, [cause])


def test_wrap_that_was_ended_from_here() -> None:
    played = Played()
    execution = played.foreground()
    played.code = None
    execution.kill()
    played.over.set()
    assert (list(execution), played.lost) == ([Killed(Cause.MANUAL), Exit(137)], [])


def test_command_that_ended_by_itself_was_killed_by_nobody() -> None:
    played = Played()
    execution = played.foreground()
    played.code = 5
    played.over.set()
    execution.kill()
    assert list(execution) == [Exit(5)]


def test_signals_and_streams() -> None:
    played = Played()
    execution = played.foreground()
    execution.signal(signal.SIGTERM)
    execution.close_stdin()
    assert played.signals == [signal.SIGTERM]
    with pytest.raises(BrokenPipeError):
        execution.write(b"x")
