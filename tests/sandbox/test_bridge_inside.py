"""The inner half of the bridge by itself, on the host: how it starts socat, and how it waits."""

import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from sandbox.bridge_inside import FOLDER, NAMES, command, knock
from tests.sandbox.wrapping import PATIENCE, PYTHON, SOURCES


def test_each_port_has_a_socket_of_its_own() -> None:
    line = command("/usr/bin/socat", 3128, "http")
    assert line[0] == "/usr/bin/socat"
    # Half a connection stays open: a client that has said all it has to say still gets its answer.
    assert "-t3600" in line
    assert line[2].startswith("TCP4-LISTEN:3128,bind=127.0.0.1,")
    assert line[3] == f"UNIX-CONNECT:{FOLDER}/http"
    assert len({command("x", 1, name)[3] for name in NAMES}) == 3


def answering(listener: socket.socket, answer: bytes) -> threading.Thread:
    """Answers one connection's byte with this one."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1)
            connection.send(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.mark.parametrize(("answer", "right"), [(b"\1", True), (b"\2", False)])
def test_knock(answer: bytes, right: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE)
        thread = answering(listener, answer)
        if right:
            knock(listener.getsockname()[1], b"\1", 0)
        else:
            with pytest.raises(ConnectionResetError):
                knock(listener.getsockname()[1], b"\1", 0)
        thread.join()


def test_knock_waits_for_a_listener_and_not_for_ever() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            knock(port, b"\1", time.monotonic())
        knocking = threading.Thread(target=knock, args=(port, b"\1", time.monotonic() + PATIENCE))
        knocking.start()
        free.listen()
        thread = answering(free, b"\1")
        knocking.join(PATIENCE)
        thread.join(PATIENCE)
        assert not knocking.is_alive()


SPAWN = """
import os, sys
from sandbox import bridge_inside, stub
held = os.open("/dev/null", os.O_RDONLY)
os.set_inheritable(held, True)
bridge_inside.spawn(stub, sys.argv[1], [1])
with open(sys.argv[2]) as reader:
    *descriptors, parent, session, count = reader.read().split()
print(str(held) in descriptors, parent == str(os.getpid()), session == str(os.getsid(0)), count)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child")
"""


def test_what_is_started_is_nothing_of_the_starters(tmp_path: Path) -> None:
    """Neither its child, nor with its descriptors or in its session."""
    program, told = tmp_path / "socat", tmp_path / "told"
    os.mkfifo(told)
    listing = 'for one in /proc/$$/fd/*; do echo "${one##*/}"; done'
    program.write_text(f"#!/bin/sh\n({listing}; cut -d' ' -f4,6 /proc/$$/stat; echo $#) > {told}\n")
    program.chmod(0o755)
    done = subprocess.run(
        [PYTHON, "-B", "-c", SPAWN, str(program), str(told)],
        capture_output=True, text=True, timeout=PATIENCE, check=False, env={"PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("False False False 3\nno child\n", "")
