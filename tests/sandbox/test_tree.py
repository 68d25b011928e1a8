"""A whole tree is stopped and goes on: forks, threads, processes that somebody else had stopped, and what is spared."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from sandbox import tree
from sandbox.attendant import descendants
from sandbox.tree import Seen, Stopped, continue_processes, look, parse_ps, stop_tree


@contextmanager
def running(*argv: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A command that has said a line; it is killed with everything below it."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline()
        try:
            yield process
        finally:
            for pid in (process.pid, *descendants(process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def states(root: int) -> set[str]:
    seen = look()
    return {seen[pid].state for pid in descendants(root, {pid: one.parent for pid, one in seen.items()})}


# Starts one short process after another, in several shells.
FORKS = "for i in 1 2 3 4; do while :; do /bin/true; done & done; echo ready; wait"
# The first thread is over; another runs on.
THREADS = """
import ctypes, threading
def turn():
    while True:
        pass
threading.Thread(target=turn).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_nothing_runs_any_more() -> None:
    with running("bash", "-c", f"bash -c '{FORKS}'") as process:
        stopped = stop_tree(process.pid, ())
        first = {pid: seen for pid, seen in look().items() if pid in descendants(process.pid)}
        assert {seen.state for seen in first.values()} <= {"T", "D", "Z"}
        assert {pid: seen for pid, seen in look().items() if pid in descendants(process.pid)} == first
        continue_processes(stopped)
        while "T" in states(process.pid):
            pass


def test_threads_whose_first_is_over() -> None:
    with running("bash", "-c", f"python3 -c '{THREADS}' & wait") as process:
        (python,) = descendants(process.pid)
        while look()[python].state != "Z":
            pass
        stopped = stop_tree(process.pid, ())
        assert stopped == (Stopped(python, look()[python].start),)
        folder = Path(f"/proc/{python}/task")
        threads = [(thread / "stat").read_text() for thread in folder.iterdir()]
        assert sorted(text.rpartition(")")[2].split()[0] for text in threads) == ["T", "Z"]


def test_spared_processes_run_on_and_what_is_below_them_does_not() -> None:
    with running("bash", "-c", "bash -c 'sleep 1000 & echo ready; wait' & wait") as process:
        shell, sleep = descendants(process.pid)
        assert [one.pid for one in stop_tree(process.pid, {shell})] == [sleep]
        seen = look()
        assert (seen[shell].state, seen[sleep].state) == ("S", "T")


def test_what_was_stopped_before_stays_so() -> None:
    with running("bash", "-c", "sleep 1000 & sleep 1000 & echo ready; wait") as process:
        before, other = descendants(process.pid)
        os.kill(before, signal.SIGSTOP)
        while look()[before].state != "T":
            pass
        stopped = stop_tree(process.pid, ())
        assert [one.pid for one in stopped] == [other]
        continue_processes(stopped)
        while look()[other].state == "T":
            pass
        assert look()[before].state == "T"


def test_parent_that_waits_in_the_kernel_for_its_child() -> None:
    """`vfork`: the parent cannot stop before the child has become another program, and the child is stopped."""
    script = """
import subprocess
print("ready", flush=True)
while True:
    subprocess.run(["/bin/true"])
"""
    with running("bash", "-c", f"python3 -c '{script}' & wait") as process:
        for _ in range(20):
            stopped = stop_tree(process.pid, ())
            assert states(process.pid) <= {"T", "D", "Z"}
            continue_processes(stopped)


def test_nothing_there() -> None:
    with running("bash", "-c", "echo ready; exec sleep 1000") as process:
        assert stop_tree(process.pid, ()) == ()
    assert stop_tree(process.pid, ()) == ()


def test_number_that_is_somebody_elses_by_now() -> None:
    """The birth does not fit: nothing is sent."""
    with running("bash", "-c", "echo ready; exec sleep 1000") as process:
        seen = look()[process.pid]
        assert not tree._send(Stopped(process.pid, seen.start + 1), signal.SIGSTOP)
        assert tree._send(Stopped(process.pid, seen.start), signal.SIGCONT)
        assert look()[process.pid].state == "S"
    assert not tree._send(Stopped(process.pid, seen.start), signal.SIGCONT)


def test_tree_that_cannot_be_stopped_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "STOP_DEADLINE", 0.0)
    with running("bash", "-c", "sleep 1000 & echo ready; wait") as process:
        with pytest.raises(GatewayError, match="could not be stopped"):
            stop_tree(process.pid, ())
        assert "T" not in states(process.pid)


def test_processes_as_ps_lists_them() -> None:
    text = "    1     0 Ss\n  312     1 S+\n  313   312 T\n  400   312 U\n  401   400 Z+\n"
    assert parse_ps(text) == {
        1: Seen(0, 0, "S"),
        312: Seen(1, 0, "S"),
        313: Seen(312, 0, "T"),
        400: Seen(312, 0, "D"),
        401: Seen(400, 0, "Z"),
    }


def test_own_process_is_seen() -> None:
    own = tree.look_at(os.getpid())
    assert own is not None and (own.parent, own.state) == (os.getppid(), "R")
    assert tree.look_at(1 << 22) is None
