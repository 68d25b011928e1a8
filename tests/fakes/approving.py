"""A person in another terminal, who watches what a run asks and answers by the command line."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.fakes.product import PATIENCE, PROGRAM, Done
from tests.fakes.push_machine import PushMachine, records


def approvals(machine: PushMachine, *words: str) -> tuple[int, str]:
    """Status of `agent-gateway approvals …`, and what it wrote."""
    done = subprocess.run(
        (str(PROGRAM), "approvals", *words),
        env=machine.product.environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def waiting(machine: PushMachine) -> list[dict[str, Any]]:
    found = json.loads(approvals(machine, "list", "--json")[1])
    assert isinstance(found, list)
    return found


@contextmanager
def watching(machine: PushMachine) -> Iterator["subprocess.Popen[str]"]:
    """A person who watches, in another terminal."""
    with subprocess.Popen(
        (str(PROGRAM), "approvals", "watch"),
        env=machine.product.environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as watcher:
        assert watcher.stdout is not None
        assert watcher.stdout.readline().startswith("watching")
        try:
            yield watcher
        finally:
            watcher.send_signal(signal.SIGINT)
            assert watcher.wait(PATIENCE) == 130


def seen(watcher: "subprocess.Popen[str]", text: str) -> str:
    """The watcher's next line with this text."""
    assert watcher.stdout is not None
    for line in watcher.stdout:
        if text in line:
            return line
    raise AssertionError(f"{text} was never shown")


def attended(machine: PushMachine) -> None:
    """Waits until the run has noticed the watcher: it looks for runs every second. (A first question would be a no.)"""
    log = machine.product.audit

    def has_opened() -> bool:
        return log.exists() and any('"opened"' in path.read_text() for path in log.glob("*.jsonl"))

    machine.until(has_opened)
    machine.until(lambda: bool(list((machine.product.folder / "run/agent-gateway").glob("run-*.sock"))))


def states(done: Done) -> list[str]:
    return [str(record["state"]) for record in records(done, "approval")]


def start_asking(machine: PushMachine, script: str, *options: str) -> Any:
    """A run whose script begins when it is told to, so that the watcher is there by then."""
    return machine.start(f"read line\n{script}", options=options)


def seen_by(machine: PushMachine, watcher: "subprocess.Popen[str]", running: Any) -> None:
    """Lets the script begin once the watcher is attached to its run."""
    socket = next((machine.product.folder / "run/agent-gateway").glob("run-*.sock"))

    def attached() -> bool:
        """The kernel lists a connection for the watcher, besides the listening socket itself."""
        with open("/proc/net/unix", encoding="utf-8") as table:
            return sum(f"/{socket.stem}." in line for line in table) > 1

    machine.until(attached)
    running.tell("begin")
