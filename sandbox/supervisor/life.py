"""The supervisor's life from bubblewrap's start to its end: privileges given up, listener taken, calls served."""

import _signal  # type: ignore[import-not-found]  # typeshed does not know it; `signal` would bring enum along
import _socket
import errno
import os
import resource
import select
import sys
import time

from sandbox.supervisor import kernel
from sandbox.supervisor.call import Door
from sandbox.supervisor.configurations import Configurations
from sandbox.supervisor.judgement import UNLINK, Judge
from sandbox.supervisor.loop import Loop
from sandbox.supervisor.report import Reporter, Value
from sandbox.supervisor.rules import RulesError, unpack

# Exit status for a wrap that could not be supervised (the launcher's contract).
FAILED = 125
KILLED = 128 + _signal.SIGKILL
# Descriptors: callers remembered, paths pinned, calls that wait; each bounded, together far fewer.
DESCRIPTORS = 4096


class Ended(Exception):
    """The wrap is over, with this exit status. Below 0: something killed a process of bubblewrap's, by that signal."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Missing(OSError):
    """A system call that the supervisor needs is not to be had."""


class Life:
    """Watches bubblewrap, the launcher and the stub beside the loop."""

    def __init__(self, process: int, channel: int, door: int, rules: bytes) -> None:
        self._process = process
        self._end = os.pidfd_open(process)
        self._channel = channel
        self._door = door
        unpacked = unpack(rules)
        self._judge = Judge(unpacked)
        self._configurations = Configurations(unpacked.git_configs)
        os.set_blocking(channel, False)
        self._reporter = Reporter(channel, time.monotonic)

    def run(self) -> None:
        """Serves; ends by Ended."""
        listener = self._take_listener()
        others = {
            self._end: self._bubblewrap_ended,
            self._channel: self._launcher_spoke,
            self._door: self._stub_spoke,
        }
        self._loop = Loop(Door(listener, self._judge, self._reporter, self._configurations), others)
        self._loop.run()

    def _take_listener(self) -> int:
        """Waits for the stub to hand its listener over."""
        poll = select.poll()
        for descriptor in (self._end, self._channel, self._door):
            poll.register(descriptor, select.POLLIN)
        while True:
            for descriptor, _ in poll.poll():
                if descriptor == self._end:
                    self._bubblewrap_ended()
                elif descriptor == self._channel:
                    self._launcher_spoke()
                elif (listener := receive_listener(self._door)) is not None:
                    return listener
                else:
                    poll.unregister(self._door)  # nobody is left in the wrap: its own end says why

    def _bubblewrap_ended(self) -> bool:
        _, status = os.waitpid(self._process, 0)
        code = os.waitstatus_to_exitcode(status)
        for path in self._configurations.restore():
            target = path.decode("utf-8", "surrogateescape")
            self._reporter.violation(UNLINK, target, target, _put_back)
        self._reporter.flush()
        # bubblewrap takes its init in only where that died before it could tell how the command ended. Otherwise it
        # goes first, and the init is our child now: we are the subreaper.
        if code == KILLED and not has_children():
            code = -_signal.SIGKILL
        raise Ended(code)

    def _launcher_spoke(self) -> bool:
        """It never speaks again, so it is gone."""
        end_wrap(self._process)
        self._configurations.restore()
        raise Ended(KILLED)

    def _stub_spoke(self) -> bool:
        """The canary is over, or was: from here on no name is special. The launcher hears what was seen."""
        self._judge.canary = b""
        self._reporter.say("canary", dict[str, Value](self._judge.seen))
        self._loop.ignore(self._door)
        return True


def _put_back() -> str:
    return "it was removed, and is put back as it was last"


def end_wrap(process: int) -> None:
    """Kills bubblewrap and what it leaves behind. In its first moments its child does not end with it yet: it
    waits for a word from its parent, for ever where nobody is left to say it. What is left is ours by then."""
    os.kill(process, _signal.SIGKILL)
    os.waitpid(process, 0)
    while has_children():
        with open("/proc/thread-self/children", "rb") as listing:
            children = [int(number) for number in listing.read().split()]
        for child in children:
            os.kill(child, _signal.SIGKILL)
            os.waitpid(child, 0)
        if not children:
            return


def has_children() -> bool:
    """Whether there is any, alive or not yet taken in."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def receive_listener(door: int) -> int | None:
    """The one descriptor that comes over the stub's socket, close-on-exec; None when the stub is gone, EPROTO for
    anything else."""
    channel = _socket.socket(fileno=door)
    try:
        space = _socket.CMSG_SPACE(2 * 4)
        word, ancillary, flags, _ = channel.recvmsg(1, space, _socket.MSG_CMSG_CLOEXEC)
    finally:
        channel.detach()
    if not word and not ancillary:
        return None
    received = b"".join(content for _, kind, content in ancillary if kind == _socket.SCM_RIGHTS)
    if word != b"N" or len(received) != 4 or flags & _socket.MSG_CTRUNC:
        raise OSError(errno.EPROTO, "the wrap handed over something other than its listener")
    return int.from_bytes(received, sys.byteorder)


def require_calls(channel: int) -> None:
    """Missing, told to the launcher, when a call is missing without which nothing could be performed."""
    missing = kernel.find_missing()
    if missing is not None:
        name, number = missing
        Reporter(channel, time.monotonic).say("missing", [name, number])
        raise Missing(number, f"no {name}(2) here ({errno.errorcode.get(number, number)})")


def give_up_privileges() -> None:
    """What was needed to start bubblewrap, and nothing after it."""
    kernel.die_with(_signal.SIGKILL)
    kernel.take_orphans_in()
    os.setsid()  # the terminal's signals are for the command, and none of them is for us
    _signal.pthread_sigmask(
        _signal.SIG_BLOCK, (_signal.SIGTSTP, _signal.SIGTTIN, _signal.SIGTTOU, _signal.SIGPIPE)
    )
    _signal.signal(_signal.SIGALRM, lambda *_: None)  # what does not return is interrupted (`kernel.connect`)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGALRM,))
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.chdir("/")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)  # each caller has its own
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    kernel.drop_capabilities()


def live(process: int, channel: int, door: int, rules: bytes) -> int:
    """Until the wrap ends; bubblewrap's exit status. Where bubblewrap was killed this process ends in that way, too."""
    try:
        give_up_privileges()
        require_calls(channel)
        Life(process, channel, door, rules).run()
    except Ended as ended:
        if ended.status < 0:
            os.kill(os.getpid(), _signal.SIGKILL)
        return ended.status
    except (RulesError, OSError) as error:
        os.write(2, f"the supervisor of the file rules failed: {error}\n".encode("utf-8", "replace"))
        end_wrap(process)
    return FAILED
