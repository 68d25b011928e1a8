"""What all wraps have in common: commands beside each other or one in the foreground, suspension, and the end.

A backend's own wrap (`bubblewrap.Wrapped`, `hosted.Hosted`) says how its first process is ended and where the tree of
its processes hangs. Nothing here knows what is wrapped.
"""

import os
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from gateway.errors import GatewayError
from gateway.session import ProcessGroup
from sandbox.backends.base import (
    TEARDOWN_DEADLINE,
    WORD_DEADLINE,
    Command,
    Endpoints,
    Execution,
    Inside,
    Running,
    Stdio,
)
from sandbox.backends.execution import Attended, Streams, Surroundings
from sandbox.backends.foreground import Foreground
from sandbox.backends.life import Life
from sandbox.events import Cause, SandboxEvent, Violation
from sandbox.handover import SERVE, Child, ask_for_command, encode_word, open_channel, take_attendant
from sandbox.memory import OomWatch
from sandbox.quarantine import Finding
from sandbox.spec import SandboxHandle, SandboxSpec, SandboxState
from sandbox.tree import Stopped, continue_processes, stop_tree

# Seconds; thirty years, which the clocks of every platform can count to.
LONGEST_TIMEOUT = 1e9
# What became of a command whose wrap was killed around it.
LOST = "a process of the wrap itself was killed from outside, and the command with it"


@dataclass(frozen=True, slots=True)
class Parts:
    """What a launch has made, the three listeners in their order: the wrap owns all of it. `channel` leads to the stub
    or the keeper."""

    listeners: Sequence[socket.socket]
    endpoints: Endpoints
    inside: Inside
    child: Child
    channel: socket.socket
    notes: tuple[str, ...] = ()


class Wrap(ABC):
    """A wrap that is up. Used from several threads, and `signal` of its commands from signal handlers."""

    wrapped = True

    def __init__(self, spec: SandboxSpec, life: Life, parts: Parts) -> None:
        self.http, self.socks, self.gateway = parts.listeners
        self.endpoints, self.inside, self.notes = parts.endpoints, parts.inside, parts.notes
        self.findings: tuple[Finding, ...] = ()
        self.process: int | None = None
        self._spec = spec
        self._life = life
        self._child = parts.child
        self._channel = parts.channel
        self._starting = threading.RLock()  # commands, suspension and resumption come one after the other
        self._destroying = threading.RLock()
        self._destroyed = False
        self._serving = False
        self._foreground: Foreground | None = None
        self._attended: list[Attended] = []
        self._stopped: tuple[Stopped, ...] = ()
        self._oom = OomWatch()

    def up(self) -> None:
        """Tells that it is; its unexpected end is noticed from here on."""
        ports = self.endpoints
        self._life.up(
            {
                "http_port": str(ports.http_port),
                "socks_port": str(ports.socks_port),
                "gateway_port": str(ports.gateway_port),
            }
        )
        self._child.at_end(self._ended)

    # --- What a backend says ----------------------------------------------------------------------

    @abstractmethod
    def _start_foreground(self, word: bytes) -> None:
        """Sends the word of the one command. OSError when nobody is there to take it."""

    @abstractmethod
    def _wait_foreground(self) -> int | None:
        """Blocks until it is over; its exit status, or None where a process of the wrap's own was killed or failed, and
        took it along. May be called again."""

    @abstractmethod
    def _failure(self) -> str:
        """What such a process has said of it, a line; mostly nothing."""

    @abstractmethod
    def _signal_foreground(self, number: int) -> None:
        """To the command itself; nothing when it is over."""

    @abstractmethod
    def _end(self) -> None:
        """Begins to kill everything and does not wait for it. May be called again."""

    @abstractmethod
    def _tree(self) -> tuple[int, Collection[int]]:
        """The process below which all others are, and those of them that are ours and no command's."""

    @abstractmethod
    def _close(self) -> None:
        """Everything is killed: waits for that, and closes what the backend itself has opened."""

    # --- Commands ---------------------------------------------------------------------------------

    @property
    def handle(self) -> SandboxHandle:
        """Its state at this moment."""
        return self._life.handle

    def events(self) -> Iterator[SandboxEvent]:
        """See `base.Running`."""
        return self._life.events()

    def exec(self, command: Command) -> Execution:
        """See `base.Backend`."""
        _check(command)
        apart = ProcessGroup.SESSION if command.stdio is Stdio.PIPES else self._spec.group
        workdir = command.workdir or self._spec.workdir
        word = encode_word(command.argv, command.environment, workdir, command.ignored, apart)
        with self._starting:
            self._require(SandboxState.WARM, SandboxState.ACTIVE)
            if self._foreground is not None or (command.foreground and self._serving):
                raise GatewayError(
                    "a foreground command is alone in its wrap, and another was started before",
                    "launch a wrap for each, or run them beside each other",
                )
            execution = (
                self._exec_foreground(word, command) if command.foreground else self._exec(word, command)
            )
            if self._life.state is SandboxState.WARM:
                self._life.move(SandboxState.ACTIVE)
            return execution

    def _require(self, *states: SandboxState) -> None:
        handle = self.handle
        if handle.state not in states:
            why = f": {handle.error}" if handle.error else ""
            raise GatewayError(f"the wrap is {handle.state}{why}", f"it has to be {' or '.join(states)}")

    def _exec_foreground(self, word: bytes, command: Command) -> Foreground:
        oom = self._oom
        execution = Foreground(
            self._wait_foreground, self._signal_foreground, self._end, command.timeout, oom, self._lost
        )
        self._foreground = execution  # before the word is out: its end is not the wrap's failure
        self._channel.settimeout(WORD_DEADLINE)
        try:
            self._start_foreground(word)
        except OSError as error:
            raise GatewayError("the wrap ended before its command") from error
        return execution

    def _exec(self, word: bytes, command: Command) -> Attended:
        """A command beside others: its pipes, the request, and the answer that it is there."""
        self._attended = [one for one in self._attended if not one.over]
        oom = OomWatch()
        with ExitStack() as theirs, ExitStack() as undo:
            try:
                streams, descriptors = _open_streams(command.stdio, theirs, undo)
                control, their_control = open_channel()
                undo.callback(control.close)
                theirs.callback(their_control.close)
            except OSError as error:
                raise GatewayError("the command's streams cannot be opened", str(error)) from error
            control.settimeout(WORD_DEADLINE)
            self._channel.settimeout(WORD_DEADLINE)
            try:
                if not self._serving:
                    self._serving = True
                    self._channel.sendall(SERVE)
                ask_for_command(self._channel, word, (*descriptors, their_control.fileno()))
                theirs.close()
                attendant = take_attendant(control)
            except OSError as error:
                self._give_up("it starts no more commands")
                raise GatewayError("the command could not be started", str(error)) from error
            surroundings = Surroundings(
                self.wrapped, self._tell_read, self._give_up, self._is_suspended, lambda: self._destroyed
            )
            try:
                execution = Attended(
                    control, attendant, streams, command.stdin, command.timeout, surroundings, oom
                )
            except OSError as error:  # with our end of its control socket the command ends
                raise GatewayError("the command's streams cannot be opened", str(error)) from error
            undo.pop_all()
        self._attended.append(execution)
        return execution

    def _tell_read(self, event: Violation) -> None:
        """A refusal that was read from what a command writes; a backend that hears of refusals itself may know it."""
        self._life.tell(event)

    def _is_suspended(self) -> bool:
        return self._life.state is SandboxState.SUSPENDED

    # --- Suspension -------------------------------------------------------------------------------

    def suspend(self) -> None:
        """See `base.Backend`. Our own processes go on: they pass nothing on and can still kill."""
        with self._starting:
            self._require(SandboxState.ACTIVE)
            root, ours = self._tree()
            self._stopped = stop_tree(root, {*ours, *(one.attendant for one in self._attended)})
            self._life.move(SandboxState.SUSPENDED)

    def resume(self) -> None:
        """See `base.Backend`."""
        with self._starting:
            self._require(SandboxState.SUSPENDED)
            self._life.move(SandboxState.ACTIVE)
            stopped, self._stopped = self._stopped, ()
            continue_processes(stopped)

    # --- The end ----------------------------------------------------------------------------------

    def _ended(self) -> None:
        """The wrap's first process is over. In the foreground that is how a command ends."""
        if self._foreground is None:
            cause = Cause.OOM if self._oom.happened() else Cause.MANUAL
            self._life.fail("it ended, and nobody had destroyed it", cause)

    def _lost(self, cause: Cause) -> None:
        """A process of the wrap's own was killed or failed while the command in the foreground ran."""
        told = self._failure()
        memory = ", probably for want of memory" if cause is Cause.OOM else ""
        self._life.fail(f"the wrap failed: {told}" if told else f"{LOST}{memory}", cause)

    def _give_up(self, error: str) -> None:
        """What cannot be kept in order is ended as a whole."""
        self._life.fail(error, Cause.MANUAL)
        self._end()

    def destroy(self) -> None:
        """See `base.Backend`."""
        with self._destroying:
            if self._destroyed:
                return
            self._destroyed = True
            executions = (*self._attended, *((self._foreground,) if self._foreground else ()))
            self._life.destroyed()
            for execution in executions:
                execution.end(Cause.MANUAL)
            self._end()
            self._close()
            self._child.settle(TEARDOWN_DEADLINE)
            for execution in (*self._attended, *executions):
                execution.settle(TEARDOWN_DEADLINE)
            with self._starting:  # a command that was just being started has found nobody by now
                self._channel.close()
            for listener in (self.http, self.socks, self.gateway):
                listener.close()


def _check(command: Command) -> None:
    """What contradicts itself. GatewayError names the field."""
    if command.foreground and command.stdio is not Stdio.INHERIT:
        raise GatewayError("stdio: a foreground command has the caller's own streams", "use Stdio.INHERIT")
    if command.stdin is not None and command.stdio is not Stdio.PIPES:
        raise GatewayError("stdin: only a command with pipes is given its input", "use Stdio.PIPES")
    if command.workdir and not command.workdir.startswith("/"):
        raise GatewayError(f"workdir: {command.workdir!r} is not an absolute path")
    if command.timeout is not None and not 0 < command.timeout <= LONGEST_TIMEOUT:
        raise GatewayError(f"timeout: {command.timeout} is no number of seconds", "use None for no limit")


def _open_streams(
    stdio: Stdio, theirs: ExitStack, ours: ExitStack
) -> tuple[Streams | None, tuple[int, int, int]]:
    """Our ends and the command's, each to be closed by the stack of its side. OSError when one cannot be opened, or
    the caller's own is closed."""
    if stdio is Stdio.INHERIT:
        own = []
        for number in (0, 1, 2):
            own.append(os.dup(number))
            theirs.callback(os.close, own[-1])
        return None, (own[0], own[1], own[2])
    kept, given = [], []
    for writes in (True, False, False):
        reader, writer = os.pipe()
        kept.append(writer if writes else reader)
        given.append(reader if writes else writer)
        ours.callback(os.close, kept[-1])
        theirs.callback(os.close, given[-1])
    return Streams(*kept), (given[0], given[1], given[2])


class WrapBackend:
    """The half of a `Backend` that is the same for all: it hands on to its own wraps."""

    name = ""

    def exec(self, running: Running, command: Command) -> Execution:
        """See `base.Backend`."""
        return self._own(running).exec(command)

    def suspend(self, running: Running) -> None:
        """See `base.Backend`."""
        self._own(running).suspend()

    def resume(self, running: Running) -> None:
        """See `base.Backend`."""
        self._own(running).resume()

    def destroy(self, running: Running) -> None:
        """See `base.Backend`."""
        self._own(running).destroy()

    def _own(self, running: Running) -> Wrap:
        if not isinstance(running, Wrap) or running.handle.backend != self.name:
            raise GatewayError(f"the backend {self.name} has launched no such wrap")
        return running
