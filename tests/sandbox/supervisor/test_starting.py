"""The supervisor that waits for whoever launches next."""

import os
import socket
import threading

import pytest

from sandbox.supervisor.client import Supervisor
from sandbox.supervisor.rules import DoorRules
from sandbox.supervisor.starting import Reserve, Started, start, what_is_inherited
from tests.sandbox.wrapping import PATIENCE, PYTHON

RULES = DoorRules(canary="0" * 16)


@pytest.fixture
def reserve() -> Reserve:
    """One whose process has launched twice."""
    made = Reserve()
    assert (made.take(PYTHON), made.take(PYTHON)) == (None, None)
    return made


def taken(reserve: Reserve, python: str = PYTHON) -> Started:
    found = reserve.take(python)
    assert found is not None
    return found


def test_nothing_waits_for_who_launches_once() -> None:
    reserve = Reserve()
    reserve.fill(PYTHON)
    assert reserve.take(PYTHON) is None
    reserve.fill(PYTHON)
    assert reserve.take(PYTHON) is None


def test_the_one_that_waits_is_taken_once(reserve: Reserve) -> None:
    reserve.fill(PYTHON)
    reserve.fill(PYTHON)
    started = taken(reserve)
    assert started.child.returncode is None
    assert reserve.take(PYTHON) is None
    started.close()
    assert started.child.wait(PATIENCE) == 125


def test_it_is_sent_home_when_nobody_comes() -> None:
    reserve = Reserve(seconds=0)
    assert (reserve.take(PYTHON), reserve.take(PYTHON)) == (None, None)
    reserve.fill(PYTHON)
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(PATIENCE)
    assert reserve.take(PYTHON) is None


def test_nothing_is_left_of_an_emptied_one(reserve: Reserve) -> None:
    descriptors, threads = sorted(os.listdir("/dev/fd")), set(threading.enumerate())
    reserve.fill(PYTHON)
    assert sorted(os.listdir("/dev/fd")) != descriptors
    assert set(threading.enumerate()) - threads
    reserve.empty()
    reserve.empty()
    assert sorted(os.listdir("/dev/fd")) == descriptors
    assert not set(threading.enumerate()) - threads


def test_one_that_died_is_not_taken(reserve: Reserve) -> None:
    reserve.fill(PYTHON)
    started = taken(reserve)
    reserve.fill(PYTHON)
    other = taken(reserve)
    for one in (started, other):
        one.child.kill()
        assert one.child.wait(PATIENCE) == -9
    reserve.fill(PYTHON)
    waiting = reserve._kept
    assert waiting is not None
    waiting.child.kill()
    waiting.child.wait(PATIENCE)
    assert reserve.take(PYTHON) is None


def test_one_for_another_interpreter_is_not_taken(reserve: Reserve) -> None:
    reserve.fill(PYTHON)
    assert reserve.take("/other/python") is None


def test_one_born_under_another_mask_is_not_taken(reserve: Reserve) -> None:
    reserve.fill(PYTHON)
    before = os.umask(0o77)
    try:
        assert reserve.take(PYTHON) is None
    finally:
        os.umask(before)


def test_what_is_inherited_stands_still() -> None:
    assert what_is_inherited() == what_is_inherited()


def test_a_child_of_this_process_leaves_it_alone(reserve: Reserve) -> None:
    reserve.fill(PYTHON)
    child = os.fork()
    if child == 0:
        os._exit(0 if reserve.take(PYTHON) is None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    taken(reserve).close()


def test_streams_are_those_of_the_launch(capfd: pytest.CaptureFixture[str]) -> None:
    """Not of the moment when it was started."""
    supervisor = Supervisor(PYTHON, None, lambda _: None)
    with capfd.disabled():
        replaced = start(PYTHON, None, early=True)
    supervisor._channel.close()
    supervisor.child.wait(PATIENCE)
    supervisor.child, supervisor._channel = replaced.child, replaced.channel
    ours, theirs = socket.socketpair()
    with ours, theirs:
        supervisor.spawn(["/bin/sh", "-c", "echo here"], (), ours.fileno(), RULES)
    assert supervisor.child.wait(PATIENCE) == 0
    assert capfd.readouterr().out == "here\n"
    supervisor.close()


@pytest.mark.parametrize("early", [False, True])
def test_orders_are_obeyed_either_way(early: bool) -> None:
    """Whatever was there before the orders, bubblewrap complains to where they say."""
    supervisor = Supervisor(PYTHON, None, lambda _: None)
    supervisor.close()
    assert supervisor.child.wait(PATIENCE) == 125
    reader, writer = os.pipe()
    supervisor = Supervisor(PYTHON, writer, lambda _: None)
    os.close(writer)
    replaced = start(PYTHON, None, early=early)
    supervisor._channel.close()
    supervisor.child.wait(PATIENCE)
    supervisor.child, supervisor._channel = replaced.child, replaced.channel
    ours, theirs = socket.socketpair()
    with ours, theirs:
        supervisor.spawn(["/bin/sh", "-c", "echo complaint >&2; exit 7"], (), ours.fileno(), RULES)
    assert supervisor.child.wait(PATIENCE) == 7
    assert os.read(reader, 100) == b"complaint\n"
    assert os.read(reader, 100) == b""
    supervisor.close()
    os.close(reader)
