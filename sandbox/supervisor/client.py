"""The launcher's end of the supervisor: starts it, gives it its orders, listens to what it tells.

The process is started before anybody knows what it will supervise, so that its interpreter comes up while the host is
looked at. What it tells goes to callbacks, in a thread of its own.
"""

import array
import fcntl
import json
import os
import select
import socket
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from gateway.errors import GatewayError
from sandbox.events import SandboxViolation
from sandbox.supervisor import program
from sandbox.supervisor.rules import DoorRules, RulesError
from sandbox.supervisor.starting import Reserve, start

# Of one line; targets and raw texts are bounded by the supervisor.
LINE_LIMIT = 64 << 10
# Seconds between two looks at what is unread; the listening thread takes it in far less.
PAUSE = 0.001
# Shared by all launches of this process.
RESERVE = Reserve()


class Supervisor:
    """One supervisor, and the bubblewrap it starts. Its `child` ends when bubblewrap does, with its exit status.

    `stderr` is where both complain. `on_violation` is called from the listening thread and must not raise.
    """

    def __init__(
        self, python: str, stderr: int | None, on_violation: Callable[[SandboxViolation], None]
    ) -> None:
        self._on_violation = on_violation
        self._seen: Mapping[str, int] | None = None
        self._missing: tuple[str, int] | None = None
        self._heard = threading.Event()
        self._python = python
        started = RESERVE.take(python) or start(python, stderr)
        self.child, self._channel = started.child, started.channel
        # Its own, so that the caller may close theirs before the orders go out.
        self._stderr = os.dup(2 if stderr is None else stderr)
        self._taking = threading.Lock()
        self._thread: threading.Thread | None = None

    def spawn(self, argv: Sequence[str], descriptors: Sequence[int], door: int, rules: DoorRules) -> None:
        """Has bubblewrap started. It finds `descriptors` under the numbers they have here; `door` is the end of a
        socket pair whose other end is among them, for the stub. All stay the caller's own.

        GatewayError for rules that are out of bounds, or when the supervisor is gone.
        """
        try:
            packed = rules.pack()
        except RulesError as error:
            raise GatewayError(f"the file rules cannot be handed over: {error}") from error
        if len(descriptors) > program.DESCRIPTORS_LIMIT:
            raise GatewayError(f"more than {program.DESCRIPTORS_LIMIT} descriptors for bubblewrap")
        numbers = b"".join(number.to_bytes(4, "big") for number in descriptors)
        arguments = b"".join(os.fsencode(argument) + b"\0" for argument in argv)
        sizes = b"".join(len(part).to_bytes(4, "big") for part in (numbers, arguments, packed))
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        # The command's, through bubblewrap; as they are now, whenever the supervisor was started.
        streams = [number if _is_open(number) else null for number in (0, 1)]
        passed = array.array("i", (door, *streams, self._stderr, *descriptors))
        try:
            self._channel.sendmsg([program.MAGIC + sizes], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
            self._channel.sendall(numbers + arguments + packed)
        except OSError as error:
            raise GatewayError("the supervisor of the file rules ended before the wrap began") from error
        finally:
            os.close(null)
        self._forget_stderr()
        self._thread = threading.Thread(target=self._listen, name="sandbox-supervisor", daemon=True)
        self._thread.start()

    def canary(self, deadline: float) -> Mapping[str, int]:
        """What it saw of the canary: how many requests at "wall" and "door", and "nameless" files performed.
        Waits for at most `deadline` seconds; empty when it said nothing."""
        self._heard.wait(deadline)
        RESERVE.fill(self._python)  # only now: the wrap that comes up has the machine to itself
        return self._seen or {}

    def missing(self, deadline: float) -> tuple[str, int] | None:
        """Of one that has ended at once: the system call that it would have needed, and the errno."""
        self._heard.wait(deadline)
        return self._missing

    def close(self) -> None:
        """Ends it, and the wrap with it, unless it is over; waits for what it still had to tell. May be called
        again."""
        try:
            self._channel.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._channel.close()
        self._forget_stderr()

    def _forget_stderr(self) -> None:
        """Closes our copy: the end of what it complains is the end of the supervisor and its bubblewrap."""
        descriptor, self._stderr = self._stderr, -1
        if descriptor >= 0:
            os.close(descriptor)

    def catch_up(self, deadline: float) -> None:
        """Waits until all that it has told by now was passed on, for at most `deadline` seconds. A refusal is told
        before the one who was refused hears of it."""
        end = time.monotonic() + deadline
        while self._has_unread() and time.monotonic() < end:
            time.sleep(PAUSE)
        if self._taking.acquire(timeout=max(0.0, end - time.monotonic())):
            self._taking.release()

    def _has_unread(self) -> bool:
        try:
            return fcntl.ioctl(self._channel.fileno(), termios.FIONREAD, bytes(4)) != bytes(4)
        except (OSError, ValueError):  # it is over
            return False

    def _listen(self) -> None:
        """The thread: one JSON line after another, until the supervisor is gone. Nothing is read without `_taking`, so
        what is neither unread nor being taken was passed on."""
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        rest, data = b"", b"-"
        while data:
            poll.poll()
            with self._taking:
                data = self._receive()
                *lines, rest = (rest + data).split(b"\n")
                rest = rest[:LINE_LIMIT]
                for line in lines:
                    self._take(line)
        self._heard.set()

    def _receive(self) -> bytes:
        try:
            return self._channel.recv(LINE_LIMIT)
        except OSError:
            return b""  # it ended before it had read its orders

    def _take(self, line: bytes) -> None:
        try:
            told = json.loads(line)
            ((word, value),) = told.items()
            if word == "violation":
                action, target, raw, rule, count = value
                found = SandboxViolation(str(action), str(target), str(raw), str(rule), int(count))
            elif word == "canary":
                self._seen = {str(name): int(count) for name, count in value.items()}
                self._heard.set()
                return
            elif word == "missing":
                name, number = value
                self._missing = str(name), int(number)
                return
            else:
                return
        except (ValueError, TypeError, AttributeError):
            return  # a line that was cut
        self._on_violation(found)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
