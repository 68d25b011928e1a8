"""The supervisor's process by itself: orders that are none, a program that is not there."""

import array
import os
import socket
import subprocess

import pytest

from sandbox.supervisor import program
from sandbox.supervisor.rules import DoorRules
from sandbox.supervisor.starting import PYTHON_FLAGS, SOURCES
from tests.sandbox.wrapping import PATIENCE, PYTHON

RULES = DoorRules(canary="0" * 16).pack()


def sizes(*parts: bytes) -> bytes:
    return program.MAGIC + b"".join(len(part).to_bytes(4, "big") for part in parts)


def tell(head: bytes, body: bytes, descriptors: int = 1, *, early: bool = False) -> tuple[int, str]:
    """Starts it, says something, hangs up. Its status and complaint. `descriptors` are the door's and bubblewrap's."""
    ours, theirs = socket.socketpair()
    reader, writer = os.pipe()
    argv = (PYTHON, *PYTHON_FLAGS, program.__file__, str(theirs.fileno()), SOURCES)
    child = subprocess.Popen(
        (*argv, *((program.EARLY,) if early else ())), pass_fds=(theirs.fileno(),), stderr=writer
    )
    theirs.close()
    one, other = socket.socketpair()
    numbers = array.array("i", [one.fileno(), 0, 1, writer, *[one.fileno()] * (descriptors - 1)])
    if head:
        ours.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)] if descriptors else [])
    os.close(writer)
    ours.sendall(body)
    ours.shutdown(socket.SHUT_WR)
    with open(reader, encoding="utf-8") as complaint:
        said = complaint.read()
    for end in (ours, one, other):
        end.close()
    return child.wait(PATIENCE), said


def test_door_alone_is_no_order() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        child = subprocess.Popen(
            (PYTHON, *PYTHON_FLAGS, program.__file__, str(theirs.fileno()), SOURCES),
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        passed = array.array("i", [ours.fileno()])
        ours.sendmsg([sizes(b"", b"", b"")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
        assert child.wait(PATIENCE) == program.FAILED


@pytest.mark.parametrize(
    ("head", "body", "descriptors"),
    [
        (b"", b"", 0),
        (b"x" * 16, b"", 1),
        (b"DOOR", b"", 1),
        (sizes(b"", b"", b""), b"", 0),
        (sizes(b"", b"", b""), b"", 1),
        (sizes(b"", b"", b""), b"", 3),
        (program.MAGIC + b"\xff" * 12, b"", 1),
        (sizes(b"\0\0\0\1", b"", b""), b"\0\0\0\1", 2),
        (sizes(b"", b"/bin/true\0", RULES), b"/bin", 1),
    ],
)
def test_what_is_no_order_ends_it(head: bytes, body: bytes, descriptors: int) -> None:
    assert tell(head, body, descriptors)[0] == program.FAILED


@pytest.mark.parametrize("early", [False, True])
def test_program_that_is_not_there(early: bool) -> None:
    argv = b"/absent/bwrap\0--x\0"
    code, complaint = tell(sizes(b"", argv, RULES), argv + RULES, early=early)
    assert code == program.FAILED
    assert "cannot start /absent/bwrap: No such file or directory" in complaint


def test_rules_that_are_none() -> None:
    argv = b"/bin/sleep\x00100\0"
    code, complaint = tell(sizes(b"", argv, b"nonsense"), argv + b"nonsense")
    assert code == program.FAILED
    assert "the supervisor of the file rules failed: canary" in complaint


def test_it_is_gone_with_the_launcher() -> None:
    """Hung up before the wrap came up: what was started is killed."""
    argv = b"/bin/sleep\x00100\0"
    assert tell(sizes(b"", argv, RULES), argv + RULES)[0] == 128 + 9


def test_descriptors_arrive_under_their_numbers() -> None:
    script = b"/bin/sh\0-c\0[ -e /proc/self/fd/57 ] && [ -e /proc/self/fd/9 ] && ! [ -e /proc/self/fd/58 ] && exit 42\0"
    numbers = (57).to_bytes(4, "big") + (9).to_bytes(4, "big")
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(
        (PYTHON, *PYTHON_FLAGS, program.__file__, str(theirs.fileno()), SOURCES), pass_fds=(theirs.fileno(),)
    )
    theirs.close()
    one, other = socket.socketpair()
    reader, writer = os.pipe()
    passed = array.array("i", [one.fileno(), 0, 1, 2, reader, writer])
    ours.sendmsg([sizes(numbers, script, RULES)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
    ours.sendall(numbers + script + RULES)
    assert child.wait(PATIENCE) == 42
    for end in (ours, one, other):
        end.close()
    os.close(reader)
    os.close(writer)
