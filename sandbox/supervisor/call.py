"""One notification being handled: its arguments, its caller, and the ways to answer it.

Whoever handles a call either answers it here, once, or raises: `Refused` for a rule's no, OSError for the errno the
kernel would have given, `Gone` when nobody waits for an answer any more.
"""

import errno
import os

from sandbox.supervisor import kernel
from sandbox.supervisor.configurations import Configurations
from sandbox.supervisor.judgement import GOVERNED, Judge
from sandbox.supervisor.report import Reporter
from sandbox.supervisor.resolution import Resolver
from sandbox.supervisor.tracee import Stale, Tracee
from sandbox.supervisor.tracees import Tracees
from sandbox.supervisor.waiting import WaitingRoom


class Gone(Exception):
    """The caller does not wait any more: it was killed."""


class Door:
    """What all calls of one wrap share."""

    __slots__ = (
        "_own_devices",
        "configurations",
        "judge",
        "listener",
        "processor",
        "reporter",
        "tracees",
        "waiting",
    )

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
        self._own_devices: frozenset[int] = frozenset()

    def own_devices(self) -> frozenset[int]:
        """The file systems of the wrap's own mounts. Asked for once a caller has shown the wrap's root."""
        if not self._own_devices:
            self._own_devices = frozenset(map(self.tracees.device, self.judge.own_mounts))
        return self._own_devices


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

    def is_shown(self, descriptor: int) -> bool:
        """Whether something that is below no writable bind belongs to the wrap: to a file system of its own, or to a
        mount that cannot be written. A descriptor that CMD was given may lead anywhere, under a path that means
        something else inside."""
        if os.fstat(descriptor).st_dev in self.door.own_devices():
            return True
        return bool(os.fstatvfs(descriptor).f_flag & os.ST_RDONLY)

    def require_shown(self, zone: int, folder: int) -> None:
        """EACCES where something would be made in a directory that the wrap does not show."""
        if zone != GOVERNED and not self.is_shown(folder):
            raise PermissionError(errno.EACCES, "")

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
            number = self.lend(descriptor, bool(flags & os.O_CLOEXEC))
        finally:
            os.close(descriptor)
        self.answer(number)

    def lend(self, descriptor: int, close_on_exec: bool) -> int:
        """A copy of a descriptor for the caller, who is not answered yet: its number there."""
        try:
            return self.door.processor.lend(
                self.door.listener, self.identity, self.thread, descriptor, close_on_exec
            )
        except FileNotFoundError as gone:
            raise Gone from gone
