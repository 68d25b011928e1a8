"""The program of a further process: it lives no longer than the socket it was given."""

import os
import select
import signal
import socket
import subprocess
import sys

import pytest

from gateway.proxy.workers import _PROGRAM, _SEPARATOR
from tests.fakes.wire import PATIENCE

# Starts a worker, prints its process id and waits to be killed.
PARENT = """
import socket, subprocess, sys
ours, theirs = socket.socketpair()
worker = subprocess.Popen([*sys.argv[1:], str(theirs.fileno()), "\\x1f".join(filter(None, sys.path))],
                          pass_fds=[theirs.fileno()], process_group=0)
print(worker.pid, flush=True)
sys.stdin.read()
"""


def start(control: socket.socket) -> "subprocess.Popen[bytes]":
    paths = _SEPARATOR.join(path for path in sys.path if path)
    argv = (sys.executable, "-I", "-c", _PROGRAM, str(control.fileno()), paths)
    return subprocess.Popen(argv, pass_fds=[control.fileno()], stderr=subprocess.PIPE, env={}, cwd="/")


@pytest.mark.parametrize("word", [b"", b"\0\0\0", b"\0" * 7 + b"\xff" + b"half"])
def test_other_end_hangs_up_before_the_word_is_whole(word: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = start(theirs)
        theirs.close()
        ours.sendall(word)
        ours.close()
        _, complaint = process.communicate(timeout=PATIENCE)
        assert (process.returncode, complaint) == (0, b"")


def test_word_that_is_none() -> None:
    """It serves nothing."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = start(theirs)
        theirs.close()
        ours.sendall(b"\0" * 7 + b"\x04" + b"none")
        _, complaint = process.communicate(timeout=PATIENCE)
        assert process.returncode != 0
        assert b"Unpickling" in complaint


def test_parent_that_is_killed() -> None:
    command = (sys.executable, "-c", PARENT, sys.executable, "-I", "-c", _PROGRAM)
    parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdin is not None
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    handle = os.pidfd_open(worker)
    try:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait(PATIENCE)
        parent.stdin.close()
        parent.stdout.close()
        poll = select.poll()
        poll.register(handle)
        assert poll.poll(PATIENCE * 1000), "the worker outlives its gateway"
    finally:
        os.close(handle)
