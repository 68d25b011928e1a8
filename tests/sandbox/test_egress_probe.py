"""What the probe sees: in networks with a way out, with none, and with servers that answer as they like."""

import array
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sandbox import egress_probe
from tests.sandbox.wrapping import PATIENCE, PYTHON, SOURCES

PROGRAM = str(SOURCES / "sandbox/egress_probe.py")
# In a new network: gives the loopback the address and mask that are named (netdevice(7)), then looks.
LOOK = """
import fcntl, socket, struct, sys
from sandbox.egress_probe import routes
def tell(request, value):
    fcntl.ioctl(sock.fileno(), request, struct.pack("16s24s", b"lo", value))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    tell(0x8914, struct.pack("h", 0x49))
    for request, text in zip((0x8916, 0x891c), sys.argv[1:]):
        tell(request, struct.pack("hH4s", socket.AF_INET, 0, socket.inet_aton(text)))
print(routes())
"""


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ((), ""),
        (("192.0.2.7", "255.255.255.0"), "192.0.2.1"),
        (("10.0.0.7", "255.0.0.0"), "10.0.0.1"),
    ],
)
def test_routes(address: tuple[str, ...], found: str) -> None:
    command = ("unshare", "--map-root-user", "--net", PYTHON, "-B", "-c", LOOK, *address)
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == found


@contextmanager
def saying(answer: bytes) -> Iterator[int]:
    """A server that answers one client so."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            thread.join()


REFUSAL = b"HTTP/1.1 403 Forbidden\r\nX-Agent-Gateway: deny; code=not_listed\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (REFUSAL, "403", "deny; code=not_listed"),
        (b"HTTP/1.1 200 OK\r\n\r\nx-agent-gateway: deny", "200", ""),
        (b"SSH-2.0-x\r\n", "SSH-2.0-x\r\n", ""),
        (b"", "nothing", ""),
    ],
)
def test_answers(answer: bytes, status: str, code: str) -> None:
    with saying(answer) as port:
        told = egress_probe.ask(port, "GET / HTTP/1.1\r\n\r\n")
    assert (egress_probe.status(told), egress_probe.code(told)) == (status, code)


def test_nobody_is_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert egress_probe.ask(port, "x") == "closed"


def run(data: bytes, descriptors: list[int]) -> bytes:
    """The program with one message; what it says."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            command = (PYTHON, "-I", "-S", "-E", "-B", PROGRAM, str(theirs.fileno()))
            process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), stderr=subprocess.PIPE)
        if data:
            ancillary = (
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
            )
            ours.sendmsg([data], ancillary)
        ours.shutdown(socket.SHUT_WR)
        told = b""
        while part := ours.recv(4096):
            told += part
        _, said = process.communicate(timeout=PATIENCE)
    assert (process.returncode, said) == (0, b"")
    return told


@pytest.mark.parametrize("data", [b"", b"orders", b"1\0a\0b", b"1\0a\0b\x002"])
def test_what_is_no_order(data: bytes) -> None:
    assert run(data, []) == b""


def orders(number: int) -> bytes:
    return "\0".join((str(number), "1", "a", "b", "2")).encode()


@pytest.fixture
def null() -> Iterator[int]:
    """A descriptor of no process."""
    with open(os.devnull, "rb") as file:
        yield file.fileno()


def test_a_process_in_the_same_network(null: int) -> None:
    assert run(orders(os.getpid()), [null]) == b"shared yes"


def test_a_process_that_has_ended(null: int) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    assert run(orders(ended.pid), [null]).startswith(b"failed [Errno 2] No such file or directory")


def test_what_is_no_process(null: int) -> None:
    """In another network, so that it has to be entered."""
    command = ("unshare", "--map-root-user", "--net", "cat")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as elsewhere:
        assert elsewhere.stdin is not None
        assert elsewhere.stdout is not None
        elsewhere.stdin.write(b"x\n")
        elsewhere.stdin.flush()
        assert elsewhere.stdout.readline() == b"x\n"
        assert run(orders(elsewhere.pid), [null]) == b"failed [Errno 22] Invalid argument"
        elsewhere.stdin.close()
