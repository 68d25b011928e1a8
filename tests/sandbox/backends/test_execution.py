"""A command seen from the launcher, with an attendant that the test plays: also one that lies, is silent or is dead."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from sandbox.backends.base import BUFFERED
from sandbox.backends.execution import MOST_WAITING, PIECE, Attended, Streams, Surroundings
from sandbox.events import Cause, Exit, Killed, SandboxEvent, SandboxViolation, Stderr, Stdout, Violation
from sandbox.memory import OomWatch, oom_kills
from tests.sandbox.wrapping import PATIENCE

SIGKILL = int(signal.SIGKILL).to_bytes(4, "big")
# Of a pipe, unless somebody asks for more (pipe(7)).
PIPE = 64 << 10


@dataclass
class Played:
    """The command and its attendant: the other ends of everything."""

    control: socket.socket
    stdin: int
    stdout: int
    stderr: int
    told: list[SandboxEvent] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    suspended: bool = False
    destroyed: bool = False

    def end(self, status: bytes = bytes(4)) -> None:
        """The command is over, with everything closed."""
        for stream in (self.stdin, self.stdout, self.stderr):
            os.close(stream)
        self.control.sendall(status)
        self.control.close()


@contextmanager
def played(
    stdin: bytes | None = None,
    timeout: float | None = None,
    wrapped: bool = True,
    oom: OomWatch | None = None,
    tell: Callable[[SandboxEvent], None] | None = None,
) -> Iterator[tuple[Attended, Played]]:
    """A command that the test plays; in the end nothing of it is left open."""
    before = sorted(os.listdir("/dev/fd"))
    ours, theirs = socket.socketpair()
    (stdin_end, stdin_write), (stdout, stdout_end), (stderr, stderr_end) = os.pipe(), os.pipe(), os.pipe()
    play = Played(theirs, stdin_end, stdout_end, stderr_end)
    surroundings = Surroundings(
        wrapped,
        tell or play.told.append,
        play.given_up.append,
        lambda: play.suspended,
        lambda: play.destroyed,
    )
    streams = Streams(stdin_write, stdout, stderr)
    execution = Attended(ours, os.getpid(), streams, stdin, timeout, surroundings, oom or OomWatch())
    yield execution, play
    theirs.close()
    execution.settle(PATIENCE)
    for stream in (stdin_end, stdout_end, stderr_end):
        try:
            os.close(stream)
        except OSError:
            pass  # the test has
    assert sorted(os.listdir("/dev/fd")) == before


# --- Streams --------------------------------------------------------------------------------------


def test_events_in_order() -> None:
    with played() as (execution, play):
        os.write(play.stdout, b"out")
        stream = iter(execution)
        assert next(stream) == Stdout(b"out")
        os.write(play.stderr, b"err")
        assert next(stream) == Stderr(b"err")
        play.end((7 << 8).to_bytes(4, "big"))
        assert list(stream) == [Exit(7)]


def test_slow_reader_holds_the_writer_up() -> None:
    """What was written and not yet read is never more than what may wait here and in the pipe."""
    total, bound = 8 << 20, BUFFERED + PIECE + PIPE
    written = 0

    with played() as (execution, play):

        def write() -> None:
            nonlocal written
            while written < total:
                written += os.write(play.stdout, bytes(4096))
            play.end()

        thread = threading.Thread(target=write)
        thread.start()
        read = 0
        for event in execution:
            if isinstance(event, Stdout):
                assert written - read <= bound
                read += len(event.data)
        thread.join()
    assert read == total


def test_small_pieces_are_bounded_in_number() -> None:
    with played() as (execution, play):

        def write() -> None:
            for _ in range(MOST_WAITING * 3):
                os.write(play.stdout, b"x")
            play.end()

        thread = threading.Thread(target=write)
        thread.start()
        data = b""
        for event in execution:
            assert len(execution._events) <= MOST_WAITING
            data += event.data if isinstance(event, Stdout) else b""
        thread.join()
    assert data == b"x" * MOST_WAITING * 3


def test_input_is_bounded_and_arrives() -> None:
    with played() as (execution, play):
        data = os.urandom(2 << 20)
        written = 0

        def write() -> None:
            nonlocal written
            for at in range(0, len(data), 5000):
                execution.write(data[at : at + 5000])
                written += 5000
            execution.close_stdin()

        thread = threading.Thread(target=write)
        thread.start()
        read = b""
        while part := os.read(play.stdin, 10_000):
            read += part
            assert written - len(read) <= BUFFERED + 5000 + PIPE
        thread.join()
        assert read == data
        play.end()
        assert list(execution) == [Exit(0)]


def test_input_that_was_given_at_the_start() -> None:
    with played(stdin=b"all of it") as (execution, play):
        assert os.read(play.stdin, 64) == b"all of it"
        assert os.read(play.stdin, 64) == b""
        with pytest.raises(BrokenPipeError):
            execution.write(b"more")
        play.end()


def test_reader_that_closes_its_input() -> None:
    with played() as (execution, play):
        os.close(play.stdin)
        with pytest.raises(BrokenPipeError):
            while True:
                execution.write(bytes(PIECE))
        play.control.sendall(bytes(4))
        assert execution.wait() == 0


def test_streams_that_somebody_else_still_holds() -> None:
    """What is there is read, and not what a daemon goes on writing."""
    with played() as (execution, play):
        os.write(play.stdout, b"last words")
        play.control.sendall(bytes(4))
        assert list(execution) == [Stdout(b"last words"), Exit(0)]
        with pytest.raises(BrokenPipeError):
            os.write(play.stdout, b"too late")


def test_output_that_nobody_reads_is_there_after_the_end() -> None:
    with played() as (execution, play):
        os.write(play.stdout, bytes(PIPE))
        play.end()
        assert execution.wait() == 0
        data = b"".join(event.data for event in execution if isinstance(event, Stdout))
    assert len(data) == PIPE


# --- Ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        (bytes(4), [Exit(0)]),
        ((255 << 8).to_bytes(4, "big"), [Exit(255)]),
        (int(signal.SIGTERM).to_bytes(4, "big"), [Exit(128 + signal.SIGTERM)]),
        ((128 | signal.SIGSEGV).to_bytes(4, "big"), [Exit(128 + signal.SIGSEGV)]),
        (SIGKILL, [Exit(137)]),
        # Nobody told, or something that is no status: that is no end of the command's own.
        (b"", [Killed(Cause.MANUAL), Exit(125)]),
        (bytes(3), [Killed(Cause.MANUAL), Exit(125)]),
        (bytes(5), [Killed(Cause.MANUAL), Exit(125)]),
        (bytes(100), [Killed(Cause.MANUAL), Exit(125)]),
        (b"\xff\xff\xff\xff", [Killed(Cause.MANUAL), Exit(125)]),
        (b"\0\0\x13\x7f", [Killed(Cause.MANUAL), Exit(125)]),
    ],
    ids=["0", "255", "TERM", "SEGV", "KILL", "dead", "short", "long", "flood", "nonsense", "stopped"],
)
def test_what_the_attendant_says(status: bytes, ending: list[SandboxEvent]) -> None:
    with played() as (execution, play):
        play.end(status)
        assert list(execution) == ending


def test_descriptors_that_come_along_are_not_taken() -> None:
    before = len(os.listdir("/dev/fd"))
    with played() as (execution, play), open("/dev/null", "rb") as null:
        socket.send_fds(play.control, [bytes(4)], [null.fileno()] * 5)
        assert execution.wait() == 0
    assert len(os.listdir("/dev/fd")) == before


def test_kill_is_over_when_the_attendant_is() -> None:
    with played() as (execution, play):
        execution.kill()
        assert play.control.recv(1) == b""
        play.control.sendall(SIGKILL)
        execution.kill()
        play.control.close()
        assert list(execution) == [Killed(Cause.MANUAL), Exit(137)]


def test_command_that_ended_before_the_kill() -> None:
    with played() as (execution, play):
        execution.kill()
        play.end()
        assert list(execution) == [Exit(0)]


def test_time_limit() -> None:
    with played(timeout=0.05) as (execution, play):
        assert play.control.recv(1) == b""
        play.end(SIGKILL)
        assert list(execution) == [Killed(Cause.TIMEOUT), Exit(137)]


def test_attendant_that_does_not_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.backends.execution.TEARDOWN_DEADLINE", 0.05)
    with played() as (execution, play):
        execution.kill()
        while not play.given_up:
            pass
        assert play.given_up == ["a command could not be killed"]
        play.control.close()
        assert list(execution) == [Killed(Cause.MANUAL), Exit(137)]


def test_killed_for_want_of_memory() -> None:
    """The kernel has counted one since, and nobody here has sent the signal."""
    since = OomWatch(oom_kills() - 1)
    with played(oom=since) as (execution, play):
        play.end(SIGKILL)
        assert list(execution) == [Killed(Cause.OOM), Exit(137)]
    with played(oom=since) as (execution, play):
        execution.kill()
        play.end(SIGKILL)
        assert list(execution) == [Killed(Cause.MANUAL), Exit(137)]
    with played(oom=since) as (execution, play):
        play.end((1 << 8).to_bytes(4, "big"))
        assert list(execution) == [Exit(1)]


# --- Signals --------------------------------------------------------------------------------------


def test_signals_are_passed_on() -> None:
    with played() as (execution, play):
        execution.signal(signal.SIGUSR1)
        play.suspended = True
        execution.signal(signal.SIGCONT)
        execution.signal(signal.SIGTERM)
        assert play.control.recv(2, socket.MSG_WAITALL) == bytes([signal.SIGUSR1, signal.SIGTERM])
        play.end()
        assert execution.wait() == 0
        execution.signal(signal.SIGTERM)


def test_attendant_that_takes_no_signals_holds_nobody() -> None:
    with played() as (execution, play):
        for _ in range(10_000):
            execution.signal(signal.SIGUSR1)
        play.end()
        assert execution.wait() == 0


# --- Violations -----------------------------------------------------------------------------------

LINE = b"touch: cannot touch '/x': Permission denied\n"


def test_refusals_are_told_twice_and_counted() -> None:
    with played() as (execution, play):
        for _ in range(50):
            os.write(play.stderr, LINE)
        play.end()
        events = list(execution)
    found = [event for event in events if isinstance(event, Violation)]
    assert [event.violation.count for event in found] == [1, 49]
    assert found == play.told
    assert b"".join(event.data for event in events if isinstance(event, Stderr)) == LINE * 50


def test_stdout_tells_of_no_refusals_and_neither_does_what_is_not_wrapped() -> None:
    with played() as (execution, play):
        os.write(play.stdout, LINE)
        play.end()
        assert list(execution) == [Stdout(LINE), Exit(0)]
    with played(wrapped=False) as (execution, play):
        os.write(play.stderr, LINE)
        play.end()
        assert list(execution) == [Stderr(LINE), Exit(0)]


def test_callback_that_fails_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be told must not go on, and nobody waits for it."""
    failures: list[str] = []
    monkeypatch.setattr("threading.excepthook", lambda raised: failures.append(str(raised.exc_value)))

    def refuse(event: SandboxEvent) -> None:
        raise OSError("the log is full")

    with played(tell=refuse) as (execution, play):
        os.write(play.stderr, LINE)
        assert play.control.recv(1) == b""
        assert list(execution) == [
            Stderr(LINE),
            Violation(SandboxViolation("file-write-create", "/x", LINE.decode().strip())),
            Killed(Cause.MANUAL),
            Exit(125),
        ]
    assert failures == ["the log is full"]


def test_one_that_was_started_while_its_wrap_was_destroyed_was_killed() -> None:
    """Nobody had told it to end; but it was no process of the wrap that failed."""
    with played() as (execution, play):
        play.destroyed = True
        play.end(b"")
        assert list(execution) == [Killed(Cause.MANUAL), Exit(137)]
