"""Stops a whole tree of processes and lets it go on, from outside: /proc on Linux, ps on macOS.

Processes are born while others are stopped, so it looks again until two looks in a row have found the same processes
and none that runs. One that sleeps in the kernel and cannot stop there (state D: a disk, or `vfork`, whose child is
stopped) counts as stopped once it has the signal: it executes nothing before it takes it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from gateway.errors import GatewayError
from sandbox.attendant import descendants

# Seconds until all have stopped. A tree that grows faster than it can be stopped (a fork bomb) is given up.
STOP_DEADLINE = 10.0
# Seconds between two looks, while a signal takes effect.
PAUSE = 0.002
# proc_pid_stat(5): stopped, traced, zombie, dead. What is traced goes on only when its tracer does.
HALTED = frozenset("TtZXx")
OVER = frozenset("ZXx")
ASLEEP = "D"
PS = ("/bin/ps", "-A", "-o", "pid=,ppid=,stat=")


@dataclass(frozen=True, slots=True)
class Stopped:
    """A process that was stopped here; `start` is when it was born, which tells it from a later one of its number."""

    pid: int
    start: int


@dataclass(frozen=True, slots=True)
class Seen:
    """One process in a look at all of them: its parent, its birth (0 where ps does not tell), its state's letter."""

    parent: int
    start: int
    state: str


def stop_tree(root: int, spared: Collection[int]) -> tuple[Stopped, ...]:
    """Stops every process below `root` but the spared, and gives those that ran.

    GatewayError at the deadline; then they go on again.
    """
    end = time.monotonic() + STOP_DEADLINE
    stopped: dict[int, Stopped] = {}
    quiet: dict[int, int] | None = None  # what the last look found, if nothing ran in it
    while time.monotonic() < end:
        tree = {pid: one.start for pid, one in _below(root).items() if pid not in spared}
        # No short cut: each of them has to be stopped, whichever runs.
        busy = [pid for pid, start in tree.items() if _stop(Stopped(pid, start), stopped)]
        if not busy and tree == quiet:
            return tuple(one for one in stopped.values() if tree.get(one.pid) == one.start)
        quiet = None if busy else tree
        if busy:
            time.sleep(PAUSE)
    continue_processes(stopped.values())
    raise GatewayError(f"the processes could not be stopped within {STOP_DEADLINE:.0f} seconds")


def continue_processes(stopped: Collection[Stopped]) -> None:
    """Lets them go on; those that are gone are not missed."""
    for one in stopped:
        _send(one, signal.SIGCONT)


def _below(root: int) -> dict[int, Seen]:
    """The processes below `root`, without those that only wait to be taken in."""
    seen = look()
    tree = descendants(root, {pid: one.parent for pid, one in seen.items()})
    return {pid: seen[pid] for pid in tree if set(_states(pid, seen[pid])) - OVER}


def _stop(one: Stopped, stopped: dict[int, Stopped]) -> bool:
    """Whether this process still runs; if so, or if it sleeps in the kernel, it is told to stop (once more: somebody
    who ran may have told it to go on)."""
    seen = look_at(one.pid)
    states = set(_states(one.pid, seen)) if seen is not None and seen.start == one.start else set()
    if states <= HALTED:
        return False
    told = stopped.get(one.pid) == one
    if _send(one, signal.SIGSTOP):
        stopped[one.pid] = one
    return not (told and states <= HALTED | {ASLEEP})


def _send(one: Stopped, number: int) -> bool:
    """A signal to this very process: its number cannot be somebody else's by the time it is sent (Linux)."""
    with suppress(ProcessLookupError, PermissionError):
        if not sys.platform.startswith("linux"):
            os.kill(one.pid, number)
            return True
        descriptor = os.pidfd_open(one.pid)
        try:
            seen = look_at(one.pid)
            if seen is not None and seen.start == one.start:
                signal.pidfd_send_signal(descriptor, number)
                return True
        finally:
            os.close(descriptor)
    return False


def look() -> Mapping[int, Seen]:
    """All processes."""
    if not sys.platform.startswith("linux"):
        return parse_ps(subprocess.run(PS, capture_output=True, check=True, env={}).stdout.decode())
    found = {int(name): look_at(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    return {pid: seen for pid, seen in found.items() if seen is not None}


def look_at(pid: int) -> Seen | None:
    """One process; None when it is gone."""
    if not sys.platform.startswith("linux"):
        listed = subprocess.run((*PS[:1], "-p", str(pid), *PS[2:]), capture_output=True, check=False, env={})
        return parse_ps(listed.stdout.decode()).get(pid)
    return _read_stat(f"/proc/{pid}/stat")


def _read_stat(path: str) -> Seen | None:
    try:
        with open(path, "rb") as file:
            # The second field is a name and may hold anything, also ")": the fields after the last one count.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return Seen(int(fields[1]), int(fields[19]), fields[0].decode()) if len(fields) > 19 else None


def _states(pid: int, seen: Seen) -> list[str]:
    """The states of all threads of a process: its own may be over while others run."""
    if not sys.platform.startswith("linux"):
        return [seen.state]
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    found = [_read_stat(f"/proc/{pid}/task/{thread}/stat") for thread in threads]
    return [one.state for one in found if one is not None]


def parse_ps(text: str) -> Mapping[int, Seen]:
    """The output of ps with process id, parent and state: the first letter is the state, U one asleep in the kernel."""
    found = {}
    for line in text.splitlines():
        pid, parent, state = line.split(None, 2)
        found[int(pid)] = Seen(int(parent), 0, ASLEEP if state[0] == "U" else state[0])
    return found
