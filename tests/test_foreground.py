"""The command of a `run`: its end is told, and a gateway that fails takes it along."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.console import PATIENCE, Console, end, hear, watched

# The product, with a callback in its loop that fails as soon as the command is told to start.
FAILS = """
import asyncio
import gateway.foreground as foreground
from gateway.cli import main

start = foreground.Command

def break_the_loop(*arguments, **named):
    asyncio.get_running_loop().call_soon(lambda: 1 / 0)
    return start(*arguments, **named)

foreground.Command = break_the_loop
main(["run", "--sandbox", "off", "--", "sleep", "1000"])
"""


def test_no_command_goes_on_without_its_gateway(tmp_path: Path) -> None:
    console = Console(tmp_path)
    done = subprocess.run(
        (sys.executable, "-c", FAILS),
        cwd=console.work,
        env=console.environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 125
    assert "ZeroDivisionError" in done.stderr
    assert "the gateway failed, so the command was killed" in done.stderr.splitlines()[-1]
    assert console.left() == []


@pytest.mark.parametrize(("way", "place"), [((), 1), ((), 2), ((), 3), (("--sandbox", "off"), 1)])
def test_killed_wrap_is_told(tmp_path: Path, way: tuple[str, ...], place: int) -> None:
    """125 and a line, whichever process between this program and the command it was."""
    console = Console(tmp_path)
    process = console.start("sh", "-c", "echo up; exec sleep 1000", options=way)
    assert hear(process) == b"up"
    with watched(process.pid) as pids:
        os.kill(pids[place], signal.SIGKILL)
        done = end(process)
    assert (done.status, done.stdout, len(done.said)) == (125, b"", 2)
    assert done.said[1].startswith("agent-gateway: a process of the wrap itself was killed from outside")
    assert console.records("session")[-1]["exit_status"] is None
    assert console.left() == []


def test_status_of_the_command(tmp_path: Path) -> None:
    done = Console(tmp_path).run("sh", "-c", "exit 42", options=("--sandbox", "off"))
    assert done.status == 42
