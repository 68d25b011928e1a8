"""The launcher's end: what it passes on, and what it makes of what it hears."""

import os
import signal
import socket

import pytest

from gateway.errors import GatewayError
from sandbox.events import SandboxViolation
from sandbox.supervisor.client import Supervisor
from sandbox.supervisor.rules import DoorRules
from tests.sandbox.wrapping import PATIENCE, PYTHON

RULES = DoorRules(canary="0" * 16)


def supervise(
    argv: list[str], descriptors: tuple[int, ...] = (), rules: DoorRules = RULES
) -> tuple[Supervisor, list[SandboxViolation]]:
    told: list[SandboxViolation] = []
    supervisor = Supervisor(PYTHON, None, told.append)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        supervisor.spawn(argv, descriptors, ours.fileno(), rules)
    return supervisor, told


def test_status_of_what_it_started() -> None:
    for script, code in (("exit 3", 3), ("kill -KILL $$", -signal.SIGKILL)):
        supervisor, told = supervise(["/bin/sh", "-c", script])
        assert supervisor.child.wait(PATIENCE) == code
        assert (supervisor.canary(PATIENCE), told) == ({}, [])
        supervisor.close()
        supervisor.close()


def test_descriptors_keep_their_numbers() -> None:
    reader, writer = os.pipe()
    supervisor, _ = supervise(["/bin/sh", "-c", f"echo word > /proc/self/fd/{writer}"], (writer,))
    os.close(writer)
    assert os.read(reader, 100) == b"word\n"
    assert supervisor.child.wait(PATIENCE) == 0
    supervisor.close()
    os.close(reader)


def test_rules_out_of_bounds_start_nothing() -> None:
    supervisor = Supervisor(PYTHON, None, lambda _: None)
    with pytest.raises(GatewayError, match="sealed"):
        supervisor.spawn(["/bin/true"], (), 0, DoorRules(canary="0" * 16, sealed=("relative",)))
    with pytest.raises(GatewayError, match="descriptors"):
        supervisor.spawn(["/bin/true"], tuple(range(3, 300)), 0, RULES)
    supervisor.close()
    assert supervisor.child.wait(PATIENCE) == 125


def test_supervisor_that_is_gone() -> None:
    supervisor = Supervisor(PYTHON, None, lambda _: None)
    supervisor.child.kill()
    supervisor.child.wait(PATIENCE)
    with pytest.raises(GatewayError, match="ended before"):
        supervisor.spawn(["/bin/true"], (), 0, RULES)
    supervisor.close()


def test_closing_ends_what_runs() -> None:
    supervisor, _ = supervise(["/bin/sleep", "1000"])
    supervisor.close()
    assert supervisor.child.wait(PATIENCE) == 137


def test_program_that_does_not_exist() -> None:
    reader, writer = os.pipe()
    supervisor = Supervisor(PYTHON, writer, lambda _: None)
    os.close(writer)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        supervisor.spawn(["/absent"], (), ours.fileno(), RULES)
    assert supervisor.child.wait(PATIENCE) == 125
    assert b"cannot start /absent" in os.read(reader, 1000)
    supervisor.close()
    os.close(reader)
