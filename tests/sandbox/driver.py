"""A launcher in small, run as a process of its own by the tests: `python driver.py FILE` with a JSON description.

It launches the backend, tells on a descriptor that the command runs, passes signals on and exits as the command did.
"""

import dataclasses
import json
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from gateway.errors import GatewayError
from gateway.session import Bridge, FileRules, Mode, Profile
from sandbox.agents.claude import ClaudeHook
from sandbox.backends.base import Command, Running, Stdio
from sandbox.env import build_environment
from sandbox.launch import from_name
from sandbox.spec import SandboxBindMount, SandboxSpec


def build_spec(fields: dict[str, Any]) -> SandboxSpec:
    """The spec from JSON: binds as [path, read-only], the mode by its name, lists as tuples."""
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    values["bind_mounts"] = tuple(SandboxBindMount(path, path, ro) for path, ro in fields["bind_mounts"])
    values["mode"] = Mode(fields.get("mode", "chat"))
    values["bridge"] = Bridge(fields.get("bridge", "handover"))
    values["file_rules"] = FileRules(fields.get("file_rules", "existing-only"))
    values["profile"] = Profile(fields.get("profile", "agent"))
    if "hook" in fields:
        values["hook"] = ClaudeHook(fields["hook"]["limit"], tuple(fields["hook"]["disallowed"]))
    return SandboxSpec(**values)


def greet(listener: socket.socket, word: bytes) -> None:
    """Answers every connection with one word: the other end of a listener is really this process."""
    listener.setblocking(True)
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            connection.sendall(word)


def environment_of(running: Running, what: dict[str, Any]) -> dict[str, str]:
    """The environment as `run` builds it, with the test's own variables."""
    inside = running.inside
    built = build_environment(
        what.get("host", {}),
        endpoints=running.endpoints,
        session_id="session",
        backend=running.handle.backend,
        secret="secret",
        home=inside.home,
        path=inside.path,
        tmpdir=inside.tmpdir,
        git_config=inside.git_config,
        connect=inside.connect,
        roots=inside.roots,
        tools=inside.variables,
        set_values=what.get("set", {}),
    )
    return dict(built.values)


PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
OVER = signal.SIGUSR2


def main(file: str) -> int:
    """Runs what the file describes."""
    # Waited for, never handled: a handler's wake-up can be lost between two instructions.
    signal.pthread_sigmask(signal.SIG_BLOCK, (*PASSED_ON, OVER))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's reaches the command itself
    what = json.loads(Path(file).read_text())
    try:
        backend = from_name(what["backend"])
        running = backend.launch(build_spec(what["spec"]))
    except GatewayError as error:
        os.write(2, f"refused: {error}\n".encode())
        return 125
    for listener, word in ((running.http, b"http"), (running.socks, b"socks"), (running.gateway, b"gateway")):
        threading.Thread(target=greet, args=(listener, word), daemon=True).start()
    command = Command(
        tuple(what["argv"]),
        environment_of(running, what),
        what["workdir"],
        Stdio.INHERIT,
        foreground=True,
        ignored=what.get("ignored", ()),
    )
    execution = backend.exec(running, command)
    status: list[int] = []

    def wait() -> None:
        status.append(execution.wait())
        os.kill(os.getpid(), OVER)

    if "ready" in what:
        Path(what["ready"]).write_text(json.dumps(dataclasses.asdict(running.endpoints)))
    threading.Thread(target=wait).start()
    while (number := signal.sigwait((*PASSED_ON, OVER))) != OVER:
        execution.signal(number)
    backend.destroy(running)
    backend.destroy(running)
    return status[0]


if __name__ == "__main__":
    code = main(sys.argv[1])
    os._exit(code)
