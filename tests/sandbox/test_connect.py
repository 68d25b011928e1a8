"""The connect helper as a process, against proxies that say what the test wants."""

import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sandbox.connect import Failure, destination, parse_address
from tests.sandbox.wrapping import PATIENCE, PYTHON, SOURCES

HELPER = [PYTHON, "-I", "-S", "-E", "-B", str(SOURCES / "sandbox/connect.py")]
GREETING = b"\x05\x01\x00"
OPENED = b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x01"

Talk = Callable[[socket.socket], None]


@contextmanager
def serving(talk: Talk) -> Iterator[str]:
    """A proxy that holds one conversation; gives its ADDRESS:PORT."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(PATIENCE)
                talk(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(PATIENCE)
        assert not thread.is_alive()


def helper(*arguments: str, data: bytes = b"", **environment: str) -> "subprocess.CompletedProcess[bytes]":
    """Runs the helper with `data` on stdin."""
    return subprocess.run(
        [*HELPER, *arguments], input=data, capture_output=True, env=environment, timeout=PATIENCE, check=False
    )


def socks(answer: bytes, request: list[bytes] | None = None, then: Talk | None = None) -> Talk:
    """A SOCKS5 proxy that gives one answer to one request."""

    def talk(connection: socket.socket) -> None:
        assert connection.recv(3, socket.MSG_WAITALL) == GREETING
        connection.sendall(b"\x05\x00")
        head = connection.recv(5, socket.MSG_WAITALL)
        size = {1: 3, 3: head[4], 4: 15}[head[3]] + 2
        (request if request is not None else []).append(head + connection.recv(size, socket.MSG_WAITALL))
        connection.sendall(answer)
        if then is not None:
            then(connection)

    return talk


def read_all(connection: socket.socket) -> bytes:
    data = b""
    while part := connection.recv(65536):
        data += part
    return data


def test_relays_both_ways_with_half_close() -> None:
    """The other side answers only after it has read our end; nothing of a large answer is lost."""
    sent = os.urandom(300_000)

    def origin(connection: socket.socket) -> None:
        connection.sendall(b"early ")
        assert read_all(connection) == sent
        connection.sendall(b"late" * 100_000)

    request: list[bytes] = []
    with serving(socks(OPENED, request, origin)) as proxy:
        done = helper(proxy, "127.0.0.1:9", "git.test", "22", data=sent)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"early " + b"late" * 100_000
    assert request == [b"\x05\x01\x00\x03\x08git.test\x00\x16"]


def test_other_side_ends_first() -> None:
    """ssh sees the end on our stdout although its own side is still open."""
    with serving(socks(OPENED, then=lambda connection: connection.sendall(b"bye"))) as proxy:
        process = subprocess.Popen(
            [*HELPER, proxy, "", "git.test", "22"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}
        )
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.read() == b"bye"
        process.stdin.close()
        process.stdout.close()
        assert process.wait(PATIENCE) == 0


def test_reads_the_environment() -> None:
    request: list[bytes] = []
    with serving(socks(OPENED, request, lambda connection: connection.sendall(b"hi"))) as proxy:
        done = helper("10.1.2.3", "2222", ALL_PROXY=f"socks5h://{proxy}", HTTP_PROXY="http://127.0.0.1:9")
    assert done.returncode == 0
    assert request == [b"\x05\x01\x00\x01\x0a\x01\x02\x03\x08\xae"]


def test_a_connection_that_is_granted_and_cut_gets_its_reason() -> None:
    """ssh to a host that is not listed as raw: the tunnel is granted, and closed at the first byte that is not TLS."""
    with serving(socks(OPENED)) as proxy:
        done = helper(proxy, "127.0.0.1:9", "git.test", "22", data=b"SSH-2.0-x\r\n")
    assert done.returncode == 1
    assert b"git.test:22" in done.stderr and b"egress.raw" in done.stderr


def http(status: str, body: bytes, seen: list[bytes]) -> Talk:
    """An HTTP proxy that gives one answer, in two pieces."""

    def talk(connection: socket.socket) -> None:
        data = b""
        while not data.endswith(b"\r\n\r\n"):
            data += connection.recv(65536)
        seen.append(data)
        connection.sendall(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        connection.sendall(body)

    return talk


@pytest.mark.parametrize(
    ("host", "target", "body", "said"),
    [
        ("git.test", b"git.test:22", {"message": "not on the list"}, b"not on the list"),
        ("2001:db8::1", b"[2001:db8::1]:22", {"message": "no literals"}, b"no literals"),
        ("git.test", b"git.test:22", {"message": "two\nlines\x1b[31m"}, b"two lines [31m"),
        ("git.test", b"git.test:22", {"code": "x"}, b"git.test:22: refused by the sandbox's policy"),
        ("git.test", b"git.test:22", [], b"git.test:22: refused by the sandbox's policy"),
    ],
)
def test_refusal_is_told_in_words(host: str, target: bytes, body: object, said: bytes) -> None:
    seen: list[bytes] = []
    with (
        serving(socks(b"\x05\x02\x00\x01" + bytes(6))) as proxy,
        serving(http("403 Forbidden", json.dumps(body).encode(), seen)) as words,
    ):
        done = helper(proxy, words, host, "22")
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"agent-gateway: " + said + b"\n")
    assert seen == [b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n\r\n" % (target, target)]


@pytest.mark.parametrize(
    ("reply", "said"),
    [(4, "host unreachable"), (5, "connection refused by the host"), (99, "the proxy answered 99")],
)
def test_other_failures_are_not_refusals(reply: int, said: str) -> None:
    with serving(socks(bytes((5, reply, 0, 1)) + bytes(6))) as proxy:
        done = helper(proxy, "127.0.0.1:9", "git.test", "22")
    assert (done.returncode, done.stderr.decode()) == (1, f"agent-gateway: git.test:22: {said}\n")


@pytest.mark.parametrize("answer", [b"", b"\x05", b"\x04\x00", b"HTTP/1.1 400 Bad Request\r\n"])
def test_proxy_that_speaks_something_else(answer: bytes) -> None:
    def talk(connection: socket.socket) -> None:
        connection.recv(3, socket.MSG_WAITALL)
        connection.sendall(answer)

    with serving(talk) as proxy:
        done = helper(proxy, "", "git.test", "22")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"agent-gateway: the proxy ")


@pytest.mark.parametrize(
    "arguments",
    [("git.test",), ("git.test", "x"), ("git.test", "0"), ("git.test", "65536"), ("git.test", "١")],
)
def test_bad_arguments(arguments: tuple[str, ...]) -> None:
    done = helper(*arguments, ALL_PROXY="socks5h://127.0.0.1:9")
    assert (done.returncode, done.stderr.startswith(b"agent-gateway: ")) == (1, True)


@pytest.mark.parametrize("text", ["", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", ":1080"])
def test_bad_proxy_address(text: str) -> None:
    with pytest.raises(Failure):
        parse_address(text)


def test_proxy_addresses() -> None:
    for text in ("socks5h://127.0.0.1:1080", "127.0.0.1:1080", "http://127.0.0.1:1080/"):
        assert parse_address(text) == ("127.0.0.1", 1080)


@pytest.mark.parametrize("host", ["", "x" * 256, "müsli.test"])
def test_names_that_cannot_be_asked_for(host: str) -> None:
    with pytest.raises(Failure):
        destination(host, 22)
