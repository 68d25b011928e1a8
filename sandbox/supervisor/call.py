"""One notification being handled: its arguments, its caller, and the ways to answer it.

Whoever handles a call either answers it here, once, or raises: `Refused` for a rule's no, OSError for the errno the
kernel would have given, `Gone` when nobody waits for an answer any more.
"""

import errno
import os

from sandbox.supervisor import kernel
from sandbox.supervisor.configurations import Configurations
from sandbox.supervisor.judgement import Judge
from sandbox.supervisor.report import Reporter
from sandbox.supervisor.resolution import Resolver
from sandbox.supervisor.tracee import Stale, Tracee, Tracees
from sandbox.supervisor.waiting import WaitingRoom


class Gone(Exception):
    """The caller does not wait any more: it was killed."""


class Door:
    """What all calls of one wrap share."""

    __slots__ = ("configurations", "judge", "listener", "processor", "reporter", "tracees", "waiting")

    def __init__(
        self, listener: int, judge: Judge, reporter: Reporter, configurations: Configurations | None = None
    ) -> None:
        self.configurations = configurations or Configurations(())
        self.listener = listener
        self.judge = judge
        self.reporter = reporter
        self.processor = kernel.Processor()
        self.tracees = Tracees()
        self.waiting = WaitingRoom()


class Call:
    """A notification. Integers of the kernel's are 32 bits wide and signed unless said otherwise."""

    __slots__ = ("arguments", "door", "identity", "resolver", "thread", "tracee")

    def __init__(self, door: Door, identity: int, thread: int, arguments: tuple[int, ...]) -> None:
        self.door = door
        self.identity = identity
        self.thread = thread
        self.arguments = arguments
        self.tracee: Tracee = door.tracees.find(thread)
        self.tracee.is_sure = False
        self.resolver = Resolver(door.tracees, self.tracee)

    def number(self, index: int) -> int:
        """An argument as a signed 32-bit number."""
        value = self.arguments[index] & 0xFFFFFFFF
        return value - (1 << 32) if value & 0x80000000 else value

    def path(self, index: int) -> bytes:
        """The path an argument points to. Read once: the memory is the caller's, who may change it."""
        return self.tracee.read_path(self.arguments[index])

    def confirm(self) -> None:
        """After the last look at the caller by its number, before anything is done for it (`tracee.py` says why).

        Gone when it does not wait any more, Stale when its folder is an earlier thread's.
        """
        tracee = self.tracee
        if tracee.is_new:
            self.require_valid()
            tracee.is_new = False
        elif not tracee.is_sure and not tracee.is_alive():
            raise Stale

    def require_valid(self) -> None:
        """Gone when nobody waits for an answer."""
        if not kernel.is_valid(self.door.listener, self.identity):
            raise Gone

    def wear_mask(self) -> None:
        """Before anything is made for the caller."""
        self.door.tracees.wear_mask(self.tracee)

    def answer(self, value: int = 0, error: int = 0) -> None:
        """Lets the caller go on with a result."""
        try:
            kernel.send(self.door.listener, self.identity, value, error)
        except FileNotFoundError as gone:
            raise Gone from gone

    def fail(self, error: OSError) -> bool:
        """Answers with an error's errno, or EACCES for one without; True, for whoever wants to say "over"."""
        try:
            self.answer(error=error.errno or errno.EACCES)
        except Gone:
            pass
        return True

    def go_on(self) -> None:
        """The kernel is to do it. Only where the wall stops everything that it should not do."""
        try:
            kernel.send(self.door.listener, self.identity, flags=kernel.CONTINUE)
        except FileNotFoundError as gone:
            raise Gone from gone

    def inject(self, descriptor: int, flags: int) -> None:
        """Gives the caller a copy of a descriptor; ours is closed before it runs on. `flags` are those of its open."""
        try:
            number = self.door.processor.lend(
                self.door.listener, self.identity, self.thread, descriptor, bool(flags & os.O_CLOEXEC)
            )
        except FileNotFoundError as gone:
            raise Gone from gone
        finally:
            os.close(descriptor)
        self.answer(number)
