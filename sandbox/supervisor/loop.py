"""The supervisor's one loop: takes a notification, has it handled, and answers whatever came of it.

Whatever goes wrong is a refusal: an unknown call, another architecture's, an error of ours. Nothing is ever let
through because it was not understood, and no caller can end the loop.
"""

import errno
import os
import select
import time
from _collections_abc import Callable

from sandbox.supervisor import kernel
from sandbox.supervisor.call import Call, Door, Gone
from sandbox.supervisor.judgement import CANARY, Refused
from sandbox.supervisor.operations import handlers
from sandbox.supervisor.tracee import Stale, Unreadable
from sandbox.system_calls import ARCHITECTURES

# Tries for a caller whose number was somebody else's a moment ago.
_TRIES = 3
# What is told of a program whose memory is closed to us, and of an error of ours.
UNREADABLE, BROKEN = "unreadable-program", "supervisor-error"
_COMMAND_LIMIT = 64


class Loop:
    """Serves one listener until its last caller is gone. `others` are descriptors with what to do when they are
    readable; a callable that returns False ends the loop."""

    def __init__(self, door: Door, others: dict[int, Callable[[], bool]]) -> None:
        machine = os.uname().machine
        self._door = door
        self._architecture = ARCHITECTURES[machine]
        self._handlers = handlers(machine)
        self._others = others
        self._poll = select.poll()
        self._poll.register(door.listener, select.POLLIN)
        for descriptor in others:
            self._poll.register(descriptor, select.POLLIN)
        kernel.wake_in_place(door.listener)

    def run(self) -> None:
        """Until the wrap is over."""
        while self.turn():
            pass

    def ignore(self, descriptor: int) -> None:
        """Looks at one of the others no more."""
        self._poll.unregister(descriptor)
        del self._others[descriptor]

    def turn(self) -> bool:
        """Waits for something to do and does it. False when there is nothing to come."""
        waiting, reporter, listener = self._door.waiting, self._door.reporter, self._door.listener
        timeout = self._timeout() if len(waiting) or reporter.due is not None else None
        for descriptor, event in self._poll.poll(timeout):
            if descriptor != listener:
                if not self._others[descriptor]():
                    return False
            elif event & select.POLLIN:
                self._serve()
            else:
                self._poll.unregister(listener)  # nobody is left inside; the wrap's end is told by the others
        if timeout is not None:
            self._do_what_is_due()
        return True

    def _timeout(self) -> float:
        """Milliseconds until something is due."""
        times = (self._door.waiting.due(time.monotonic()), self._door.reporter.due)
        return 1000 * min(moment for moment in times if moment is not None)

    def _do_what_is_due(self) -> None:
        if len(self._door.waiting):
            self._door.waiting.try_again(time.monotonic())
        if self._door.reporter.due == 0:
            self._door.reporter.flush()

    def _serve(self) -> None:
        """One notification."""
        try:
            identity, thread, _, number, architecture, _, *arguments = kernel.receive(self._door.listener)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return  # its caller was killed before we looked
            raise
        known = self._handlers.get(number)
        if known is None or architecture & 0xFFFFFFFF != self._architecture:
            self._answer(identity, errno.ENOSYS)
            return
        self.handle(identity, thread, known, tuple(arguments))

    def handle(
        self,
        identity: int,
        thread: int,
        known: tuple[str, Callable[[Call], None]],
        arguments: tuple[int, ...],
    ) -> None:
        """Has a call handled. It is answered when this returns, waits in the waiting room, or nobody waits for it."""
        name, handler = known
        call = None
        try:
            for _ in range(_TRIES):
                try:
                    call = Call(self._door, identity, thread, arguments)
                    handler(call)
                except Stale:
                    self._close(call)
                    self._door.tracees.forget(thread)
                    if not kernel.is_valid(self._door.listener, identity):
                        return
                else:
                    return
            self._answer(identity, errno.EACCES)
        except Refused as refused:
            self._tell(refused, name, thread)  # first: its name goes when it does
            self._answer(identity, errno.EACCES)
        except Gone:
            pass
        except Unreadable:
            self._answer(identity, errno.EACCES)
            self._tell(Refused("file-write-create", b"", UNREADABLE), name, thread)
        except OSError as error:
            mount = self._door.judge.refused_by_mount() if error.errno == errno.EROFS else None
            if mount is not None:
                self._tell(mount, name, thread)
            self._answer(identity, error.errno or errno.EACCES)
        except Exception as error:
            self._answer(identity, errno.EACCES)
            self._tell(Refused("file-write-create", repr(error).encode(), BROKEN), name, thread)
        finally:
            self._close(call)

    def _close(self, call: Call | None) -> None:
        if call is not None:
            call.resolver.close()

    def _answer(self, identity: int, error: int) -> None:
        """A refusal. That nobody waits for it any more is no news."""
        try:
            kernel.send(self._door.listener, identity, error=error)
        except OSError:
            pass

    def _tell(self, refused: Refused, name: str, thread: int) -> None:
        """A violation. The command's name is the agent's to choose: it is a hint for people, no evidence."""
        if refused.rule == CANARY and self._door.judge.canary:
            return

        def describe() -> str:
            return f"{name} by {_command(thread)}: permission denied"

        target = refused.target.decode("utf-8", "surrogateescape")
        self._door.reporter.violation(refused.action, target, refused.rule, describe)


def _command(thread: int) -> str:
    """What the kernel shows as the name of a thread's program."""
    try:
        descriptor = os.open(b"/proc/%d/comm" % thread, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return "?"
    try:
        return os.read(descriptor, _COMMAND_LIMIT).strip().decode(errors="replace")
    except OSError:
        return "?"
    finally:
        os.close(descriptor)
