"""Children that live until their standard input closes, so that none outlives the benchmark, however that ends."""

import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.bench.toolchain import Unavailable

START_SECONDS = 20
STOP_SECONDS = 10
LOOPBACK = "127.0.0.1"
QUIET_PORTS = range(15000, 32000)
"""Below the ephemeral range: connections of the load cannot have taken one of these."""

# Runs a daemon for as long as standard input is open.
KEEPER = """"$@" </dev/null & child=$!; echo "$child"; cat >/dev/null; kill "$child"; wait "$child" """


def kept(*argv: str) -> tuple[str, ...]:
    """The command line that runs a daemon under `KEEPER`; it first prints the daemon's process id."""
    return ("/bin/sh", "-c", KEEPER, "sh", *argv)


def last_words(text: str) -> str:
    """The end of what a program said, on one line, for a message."""
    return " ".join(text.split())[-300:] or "it said nothing"


def tail_of(log: Path) -> str:
    """The end of a child's log, for a message."""
    return last_words(log.read_text(errors="replace"))


def read_line(child: subprocess.Popen[str], what: str, log: Path) -> str:
    """The first line a child prints; `Unavailable` with the end of its log when there is none in time."""
    assert child.stdout is not None
    ready, _, _ = select.select([child.stdout], [], [], START_SECONDS)
    line = child.stdout.readline().strip() if ready else ""
    if not line:
        raise Unavailable(f"{what} did not start: {tail_of(log)}")
    return line


@contextmanager
def running(
    argv: tuple[str, ...],
    name: str,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A child and the first line it printed. It ends with its standard input, or else is made to."""
    log = folder / f"{name}.stderr"
    with log.open("w") as stderr:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=environment,
            cwd=cwd,
        )
    try:
        yield child, read_line(child, name, log)
    finally:
        stop(child)


def stop(child: subprocess.Popen[str]) -> None:
    """Closes its standard input; signals follow when that is not enough."""
    assert child.stdin is not None and child.stdout is not None
    child.stdin.close()
    child.stdout.close()
    for harder in (child.terminate, child.kill):
        try:
            child.wait(STOP_SECONDS)
            return
        except subprocess.TimeoutExpired:
            harder()
    child.wait()


def quiet_port() -> int:
    """A free port that no connection of the load can take."""
    for port in QUIET_PORTS[os.getpid() % 5000 :]:
        with socket.socket() as probe, suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
    raise Unavailable(f"no free port from {QUIET_PORTS.start} to {QUIET_PORTS.stop}")


def wait_until_listening(port: int, pid: int, what: str, folder: Path) -> None:
    """Returns once the port accepts; `Unavailable` when its process has gone or it does not in time."""
    deadline = time.monotonic() + START_SECONDS
    pause = threading.Event()
    while time.monotonic() < deadline:
        try:
            socket.create_connection((LOOPBACK, port), timeout=1).close()
            return
        except OSError:
            pause.wait(0.05)
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        except PermissionError:
            pass  # it has given up its rights: it lives
    raise Unavailable(f"{what} did not listen on port {port}: {tail_of(folder / f'{what}.stderr')}")
