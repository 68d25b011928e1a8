"""Runs inside the wrap, in the stub, for `bridge: socat`: starts a socat for each port and waits until each answers.

The stub opens no listeners then. socat listens on the ports and connects to the launcher's Unix sockets, which are
bound beside this file; whoever connects to a port speaks with the launcher. Like the stub it is mounted on its own and
imports what is built into the interpreter. The socats are children of nobody here, so that no command finds one among
its own, and they end with the wrap. They are started before wall and door, whose domain keeps all that comes after from
tracing them or reaching their memory (landlock(7), ptrace restrictions).
"""

import _socket
import posix
import time
from types import ModuleType

# What each port leads to, in the order of the ports.
NAMES = ("http", "socks", "gateway")
FOLDER = "/run/agent-gateway/bridge"
# Seconds that a connection stays when one side has said all it has to say; the gateway ends idle ones sooner.
HALF_CLOSED = 3600
# The gateway accepts at once; the queue only has to hold a burst.
BACKLOG = 1024
# Seconds until a socat that was started must listen, and between two looks; and for the launcher's answer through it.
PATIENCE, PAUSE = 10.0, 0.002


def command(program: str, port: int, name: str) -> list[str]:
    """socat's command line."""
    listen = f"TCP4-LISTEN:{port},bind=127.0.0.1,reuseaddr,nodelay,fork,backlog={BACKLOG}"
    return [program, f"-t{HALF_CLOSED}", listen, f"UNIX-CONNECT:{FOLDER}/{name}"]


def spawn(stub: ModuleType, program: str, ports: list[int]) -> None:
    """Starts them, without our descriptors and outside our session: no terminal's signal reaches them."""
    child = posix.fork()
    if child:
        posix.waitpid(child, 0)
        return
    try:
        posix.setsid()
        null = posix.open("/dev/null", posix.O_RDWR)
        for number in range(3):
            posix.dup2(null, number)
        stub.close_all_but_stdio()
        for index, port in enumerate(ports):
            if posix.fork() == 0:
                posix.execve(program, command(program, port, NAMES[index]), {})
    finally:
        posix._exit(0)


def knock(port: int, word: bytes, deadline: float) -> None:
    """Sends a byte through and waits until it comes back. OSError when it does not in time."""
    while True:
        connection = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        try:
            connection.settimeout(PATIENCE)
            connection.connect(("127.0.0.1", port))
        except ConnectionRefusedError:
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(PAUSE)
            continue
        connection.send(word)
        answer = connection.recv(1)
        connection.close()
        if answer != word:
            raise ConnectionResetError("no answer")
        return


def prove(channel: _socket.socket, ports: list[int]) -> None:
    """Waits until each of them answers, and tells on the channel that the bridge stands."""
    deadline = time.monotonic() + PATIENCE
    for index, port in enumerate(ports):
        knock(port, bytes([index]), deadline)
    channel.send(b"B")
