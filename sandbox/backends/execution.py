"""A command that runs beside others in a wrap, seen from the launcher: its streams, its end, and what ended it.

One thread for each moves its bytes. It stops reading while BUFFERED bytes wait for whoever iterates, so a slow reader
holds the command up and no memory grows. An attendant at the other end of `control` starts the command, passes signals
on and kills (see `sandbox/attendant.py`); all that is believed of it is four bytes of status and the socket's end.
"""

import contextlib
import fcntl
import os
import select
import signal
import socket
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sandbox.backends.base import BUFFERED, FAILED, KILLED, TEARDOWN_DEADLINE
from sandbox.events import (
    Cause,
    Exit,
    Killed,
    SandboxEvent,
    SandboxViolation,
    Stderr,
    Stdout,
    Violation,
)
from sandbox.memory import OomWatch
from sandbox.violations import WINDOW, Coalescer, RefusalReader

# Bytes of one read or write.
PIECE = 64 << 10
# Events that wait for a reader: a command that writes byte by byte must not cost a hundred times its output.
MOST_WAITING = 2048
# Seconds of one wait; what is further away is looked at again (poll counts milliseconds in an int).
LONGEST_WAIT = 3600.0


@dataclass(frozen=True, slots=True)
class Streams:
    """Our ends of a command's three pipes."""

    stdin: int
    stdout: int
    stderr: int


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a command needs of its wrap: whether something is really wrapped, where violations of it are told beside
    its own events, and what to do when it cannot be killed (the wrap is given up, and with it the command)."""

    wrapped: bool
    tell: Callable[[Violation], None]
    give_up: Callable[[str], None]
    suspended: Callable[[], bool]
    is_destroyed: Callable[[], bool]


class Attended:
    """An `Execution` whose command an attendant started. `attendant` is that process, as seen here."""

    def __init__(
        self,
        control: socket.socket,
        attendant: int,
        streams: Streams | None,
        stdin: bytes | None,
        timeout: float | None,
        surroundings: Surroundings,
        oom: OomWatch,
    ) -> None:
        self.attendant = attendant
        self._control = control
        self._surroundings = surroundings
        self._oom = oom
        self._changed = (
            threading.Condition()
        )  # reentrant: a signal handler may call `signal` in the middle of anything
        self._events: deque[SandboxEvent] = deque()
        self._waiting = 0  # bytes in them
        self._outputs: dict[int, type[Stdout] | type[Stderr]] = (
            {streams.stdout: Stdout, streams.stderr: Stderr} if streams else {}
        )
        self._stdin = streams.stdin if streams else -1
        self._input: deque[memoryview] = deque()
        self._input_ends = streams is None or stdin is not None
        if stdin:
            self._input.append(memoryview(stdin))
        self._refusals = RefusalReader() if surroundings.wrapped else None
        self._coalescer = Coalescer(time.monotonic)
        self._cause: Cause | None = None
        self._status = b""
        self._code: int | None = None
        now = time.monotonic()
        self._time_is_up = None if timeout is None else now + timeout
        self._must_be_dead: float | None = None
        self._wake, self._wake_end = os.pipe()
        for descriptor in (self._wake, self._wake_end, *self._outputs, self._stdin):
            if descriptor >= 0:
                os.set_blocking(descriptor, False)
        control.setblocking(False)
        self._thread = threading.Thread(target=self._live, name="sandbox-command", daemon=True)
        self._thread.start()

    # --- For the caller ---------------------------------------------------------------------------

    def __iter__(self) -> Iterator[SandboxEvent]:
        while True:
            with self._changed:
                while not self._events and self._code is None:
                    self._changed.wait()
                if not self._events:
                    return
                event = self._events.popleft()
                was_full = self._full()
                if isinstance(event, Stdout | Stderr):
                    self._waiting -= len(event.data)
                if was_full or len(self._events) == MOST_WAITING - 1:
                    self._poke()
            yield event

    def write(self, data: bytes) -> None:
        """Queues input; blocks while BUFFERED bytes of it wait."""
        with self._changed:
            while self._takes_input() and sum(map(len, self._input)) >= BUFFERED:
                self._changed.wait()
            if not self._takes_input():
                raise BrokenPipeError("the command takes no more input")
            if data:
                self._input.append(memoryview(bytes(data)))
                self._poke()

    def _takes_input(self) -> bool:
        return self._code is None and not self._input_ends and self._stdin >= 0

    def close_stdin(self) -> None:
        """After what was written."""
        with self._changed:
            self._input_ends = True
            self._poke()

    def signal(self, number: int) -> None:
        """To the command itself; what the attendant does not take at once it does not take at all."""
        with self._changed:
            held = number == signal.SIGCONT and self._surroundings.suspended()
            if self._code is None and not held:
                with contextlib.suppress(OSError):
                    self._control.send(bytes([number]))

    def kill(self) -> None:
        """The whole tree."""
        self.end(Cause.MANUAL)

    def wait(self) -> int:
        """Its exit status, when it is over."""
        with self._changed:
            while self._code is None:
                self._changed.wait()
            return self._code

    # --- For the wrap -----------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """Whether its end is known and nothing of it is left here."""
        return not self._thread.is_alive()

    def end(self, cause: Cause) -> None:
        """Has the attendant kill the tree, for this cause unless it was killed before."""
        with self._changed:
            if self._code is not None or self._cause is not None:
                return
            self._cause = cause
            self._must_be_dead = time.monotonic() + TEARDOWN_DEADLINE
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)
            self._poke()

    def settle(self, seconds: float) -> None:
        """Waits until it is over and its descriptors are closed."""
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds)

    # --- The thread -------------------------------------------------------------------------------

    def _live(self) -> None:
        try:
            while not self._over():
                self._look_at_the_clock()
                with self._changed:
                    poll = self._poll()
                for descriptor, event in poll.poll(self._patience()):
                    self._serve(descriptor, event)
            self._read_the_rest()
        finally:  # whatever a callback of the caller's does: nobody waits for ever, and the attendant is told
            self._close()

    def _over(self) -> bool:
        """The status has come, or the control socket has ended; of a tree that is killed only the latter counts."""
        return self._control.fileno() < 0 or (len(self._status) == 4 and self._cause is None)

    def _poll(self) -> select.poll:
        """What there is to wait for: no output while enough of it waits, no input when there is none."""
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        if not self._full():
            for descriptor in self._outputs:
                poll.register(descriptor, select.POLLIN)
        if self._stdin >= 0 and (self._input or self._input_ends):
            poll.register(self._stdin, select.POLLOUT)
        return poll

    def _full(self) -> bool:
        return self._waiting >= BUFFERED or len(self._events) >= MOST_WAITING

    def _patience(self) -> int | None:
        """Milliseconds until the clock has to be looked at again."""
        ends = [end for end in (self._time_is_up, self._must_be_dead) if end is not None]
        if self._refusals is not None and self._outputs:
            ends.append(time.monotonic() + WINDOW)
        if not ends:
            return None
        return max(0, round(min(min(ends) - time.monotonic(), LONGEST_WAIT) * 1000) + 1)

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        if self._time_is_up is not None and now >= self._time_is_up:
            self._time_is_up = None
            self.end(Cause.TIMEOUT)
        if self._must_be_dead is not None and now >= self._must_be_dead:
            self._must_be_dead = None
            self._surroundings.give_up("a command could not be killed")
        for violation in self._coalescer.due():
            self._tell(violation)

    def _serve(self, descriptor: int, event: int) -> None:
        """One descriptor that is ready."""
        if descriptor == self._wake:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake, PIECE)
        elif descriptor == self._control.fileno():
            self._hear()
        elif descriptor == self._stdin:
            self._feed()
        elif descriptor in self._outputs and not self._read(descriptor, PIECE):
            os.close(descriptor)
            del self._outputs[descriptor]

    def _hear(self) -> None:
        """The attendant: at most four bytes, then the end. Anything else ends it too."""
        try:
            data = self._control.recv(8)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._status += data
        if not data or len(self._status) > 4:
            with self._changed:
                self._control.close()

    def _feed(self) -> None:
        """Some input; at its end, or when nobody reads it any more, the pipe is closed."""
        with self._changed:
            try:
                while self._input:
                    written = os.write(self._stdin, self._input[0][:PIECE])
                    rest = self._input.popleft()[written:]
                    if rest:
                        self._input.appendleft(rest)
            except BlockingIOError:
                pass
            except OSError:
                self._input.clear()
                self._input_ends = True
            if self._input_ends and not self._input:
                os.close(self._stdin)
                self._stdin = -1
            self._changed.notify_all()

    def _read(self, descriptor: int, size: int) -> int:
        """One piece of output; the number of bytes, 0 at the end of the stream."""
        try:
            data = os.read(descriptor, size)
        except BlockingIOError:
            return -1
        except OSError:
            data = b""
        if data:
            kind = self._outputs[descriptor]
            with self._changed:
                self._events.append(kind(data))
                self._waiting += len(data)
                self._changed.notify_all()
            if self._refusals is not None and kind is Stderr:
                self._note(self._refusals.read(data))
        return len(data)

    def _note(self, violations: list[SandboxViolation]) -> None:
        for violation in violations:
            told = self._coalescer.add(violation)
            if told is not None:
                self._tell(told)

    def _tell(self, violation: SandboxViolation) -> None:
        event = Violation(violation)
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()
        self._surroundings.tell(event)

    def _read_the_rest(self) -> None:
        """The last of its output.

        No more is read than is there now: what it has left in the background may write for ever.
        """
        for descriptor in list(self._outputs):
            left = int.from_bytes(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
            while left > 0 and (size := self._read(descriptor, min(left, PIECE))) > 0:
                left -= size
        if self._refusals is not None:
            self._note(self._refusals.end())
            for violation in self._coalescer.due(everything=True):
                self._tell(violation)

    def _close(self) -> None:
        """How it ended, and no descriptor any more."""
        with self._changed:
            for descriptor in (*self._outputs, self._wake, self._wake_end, self._stdin):
                if descriptor >= 0:
                    os.close(descriptor)
            self._outputs, self._stdin, self._wake_end = {}, -1, -1
            self._control.close()
            code, cause = self._ending()
            if cause is not None:
                self._events.append(Killed(cause))
            self._events.append(Exit(code))
            self._code = code
            self._changed.notify_all()

    def _ending(self) -> tuple[int, Cause | None]:
        """The exit status, and who ended it; one that had ended by itself was killed by nobody. Where the attendant
        could not tell, nobody here had ended it, and the wrap or the attendant was killed, it is no status of the
        command's."""
        code = _exit_code(self._status)
        short_of_memory = code in (None, KILLED) and self._oom.happened()
        if code is None and self._cause is None and self._surroundings.is_destroyed():
            return KILLED, Cause.MANUAL  # started while the wrap was being destroyed
        if code is None and self._cause is None:
            return FAILED, Cause.OOM if short_of_memory else Cause.MANUAL
        if code is None or code == KILLED:
            return KILLED, self._cause or (Cause.OOM if short_of_memory else None)
        return code, None

    def _poke(self) -> None:
        """Makes the thread look again."""
        if self._wake_end >= 0:
            with contextlib.suppress(OSError):  # full: it is awake
                os.write(self._wake_end, b"\0")


def _exit_code(told: bytes) -> int | None:
    """The exit status in what an attendant tells; None for anything but the status of a process that is over."""
    status = int.from_bytes(told, "big")
    if len(told) != 4 or status > 0xFFFF:
        return None
    try:
        code = os.waitstatus_to_exitcode(status)
    except ValueError:
        return None
    return code if code >= 0 else 128 - code
