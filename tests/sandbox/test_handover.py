"""The launcher's end: what it takes, and what it does not take for a hand-over."""

import array
import os
import signal
import socket
import subprocess
import threading

import pytest

from gateway.errors import GatewayError
from sandbox.handover import (
    SHIELDED,
    WORD_LIMIT,
    Child,
    ask_for_command,
    encode_word,
    open_channel,
    read_complaint,
    still_open,
    take_attendant,
    take_listeners,
)


def listeners(count: int) -> list[socket.socket]:
    return [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]


def send(channel: socket.socket, sockets: list[socket.socket], data: bytes = b"L") -> None:
    numbers = array.array("i", [sock.fileno() for sock in sockets])
    channel.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)] if sockets else [])


def test_takes_listeners_and_learns_the_sender() -> None:
    ours, theirs = open_channel()
    sent = listeners(3)
    send(theirs, sent)
    taken, pid = take_listeners(ours, 3, 10)
    assert pid == os.getpid()
    for one, other in zip(sent, taken, strict=True):
        assert one.getsockname() == other.getsockname()
        assert not other.get_inheritable()
        assert not other.getblocking()
    for sock in (ours, theirs, *sent, *taken):
        sock.close()


@pytest.mark.parametrize("count", [0, 2, 4, 40])
def test_another_number_of_sockets(count: int) -> None:
    ours, theirs = open_channel()
    sent = listeners(count)
    send(theirs, sent)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(GatewayError):
        take_listeners(ours, 3, 10)
    assert len(os.listdir("/proc/self/fd")) == before
    for sock in (ours, theirs, *sent):
        sock.close()


def test_sockets_that_do_not_listen() -> None:
    ours, theirs = open_channel()
    sent = [*listeners(2), socket.socket()]
    send(theirs, sent)
    with pytest.raises(GatewayError):
        take_listeners(ours, 3, 10)
    for sock in (ours, theirs, *sent):
        sock.close()


def test_other_end_gone_and_other_end_silent() -> None:
    ours, theirs = open_channel()
    with pytest.raises(TimeoutError):
        take_listeners(ours, 3, 0.001)
    assert still_open(ours)
    theirs.close()
    assert not still_open(ours)
    ours.setblocking(True)
    with pytest.raises(EOFError):
        take_listeners(ours, 3, 10)
    ours.close()


def test_word() -> None:
    word = encode_word(("a", ""), {"X": "1", "Y": ""}, "/w", (13, 1))
    assert word[4:] == b"/w\0" + b"1,13\0" + b"0\0" + b"2\0a\0\0X=1\0Y="
    assert int.from_bytes(word[:4], "big") == len(word) - 4


@pytest.mark.parametrize(
    ("argv", "environment", "workdir"),
    [
        ((), {}, "/"),
        (("a\0",), {}, "/"),
        (("a\ud800",), {}, "/"),
        (("a",), {"X": "\ud800"}, "/"),
        (("a",), {"X": "\0"}, "/"),
        (("a",), {"": "x"}, "/"),
        (("a",), {"X=Y": "x"}, "/"),
        (("a",), {}, "/\0"),
        (("a", "x" * WORD_LIMIT), {}, "/"),
    ],
)
def test_word_that_cannot_be_said(argv: tuple[str, ...], environment: dict[str, str], workdir: str) -> None:
    with pytest.raises(GatewayError):
        encode_word(argv, environment, workdir, ())


def test_request_carries_descriptors_and_word() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, open("/dev/null", "rb") as null:
        ask_for_command(ours, b"\0\0\0\1w", [null.fileno()] * 4)
        data, numbers, _, _ = socket.recv_fds(theirs, 1, 10)
        assert (data, len(numbers), theirs.recv(64)) == (b"X", 4, b"\0\0\0\1w")
        for number in numbers:
            os.close(number)


def test_attendant_is_whom_the_kernel_names() -> None:
    """Not whom the message names."""
    ours, theirs = open_channel()
    with ours, theirs:
        theirs.sendall((1).to_bytes(4, "big"))
        assert take_attendant(ours) == os.getpid()


@pytest.mark.parametrize("data", [b"", b"abc"])
def test_attendant_that_says_too_little(data: bytes) -> None:
    ours, theirs = open_channel()
    with ours:
        theirs.sendall(data)
        theirs.close()
        with pytest.raises(ConnectionResetError):
            take_attendant(ours)


def test_attendant_that_is_silent() -> None:
    ours, theirs = open_channel()
    with ours, theirs:
        ours.settimeout(0.001)
        with pytest.raises(TimeoutError):
            take_attendant(ours)


@pytest.mark.parametrize("count", [1, 3, 40])
def test_descriptors_of_an_attendant_are_not_taken(count: int) -> None:
    ours, theirs = open_channel()
    with ours, theirs, open("/dev/null", "rb") as null:
        before = len(os.listdir("/proc/self/fd"))
        socket.send_fds(theirs, [bytes(4)], [null.fileno()] * count)
        assert take_attendant(ours) == os.getpid()
        assert len(os.listdir("/proc/self/fd")) == before


def test_child_tells_its_end() -> None:
    """Once, in its own thread; at once if it is over."""
    reader, writer = os.pipe()
    child = Child(("/bin/bash", "-c", f"read line <&{reader}"), (reader,), None)  # sh knows ten numbers only
    ends: list[str] = []
    child.at_end(lambda: ends.append(threading.current_thread().name))
    assert child.pid > 0
    os.close(writer)
    child.settle(60)
    os.close(reader)
    assert ends == ["sandbox-child"]
    child.at_end(lambda: ends.append("after"))
    assert ends == ["sandbox-child", "after"]


def test_child_is_shielded_and_outlives_the_calling_thread() -> None:
    """The kernel's death signal goes by the spawning thread, which is the child's own here."""
    made: list[Child] = []
    shielded = [int(number) for number in SHIELDED]
    script = (
        "import ctypes, signal; ctypes.CDLL(None).prctl(1, signal.SIGKILL);"
        f"print(set({shielded}) <= signal.pthread_sigmask(signal.SIG_BLOCK, ()), flush=True); input()"
    )
    wants, gives = os.pipe()
    shown, shows = os.pipe()
    command = ("/bin/bash", "-c", f"PATH=/usr/bin:/bin exec python3 -c '{script}' <&{wants} >&{shows}")
    caller = threading.Thread(target=lambda: made.append(Child(command, (wants, shows), None)))
    caller.start()
    caller.join()
    (child,) = made
    os.close(wants)
    os.close(shows)
    with os.fdopen(shown) as said:
        assert said.readline() == "True\n"
        assert child.wait(0) is None
        os.write(gives, b"\n")
        os.close(gives)
        assert child.wait(60) == 0
    child.kill()


def test_calling_thread_keeps_its_mask() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert Child(("/bin/true",), (), None).wait(60) == 0
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_child_that_cannot_be_started() -> None:
    with pytest.raises(GatewayError, match="cannot start /no/such"):
        Child(("/no/such",), (), None)


def test_child_has_no_environment() -> None:
    read, write = os.pipe()
    child = Child(("/usr/bin/env",), (), write)
    os.close(write)
    assert child.wait(60) == 0
    with os.fdopen(read, "rb") as said:
        assert said.read() == b""


@pytest.mark.parametrize(
    ("data", "text"),
    [(b"", "no message"), (b"first\nlast\n\n", "last"), (b"a\x1b[31m\xff", "a\\x1b[31m\N{REPLACEMENT CHARACTER}")],
)  # fmt: skip
def test_complaint(data: bytes, text: str) -> None:
    read, write = os.pipe()
    os.write(write, data)
    assert read_complaint(read) == text
    os.close(read)
    os.close(write)


def test_nothing_else_is_inherited() -> None:
    """Not even what this process was given without the close-on-exec flag."""
    leak = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(leak, True)
    read, write = os.pipe()
    child = Child(("/bin/sh", "-c", f"test -e /proc/self/fd/{leak} && echo leaked >&2"), (), write)
    os.close(write)
    child.wait(60)
    os.close(leak)
    with os.fdopen(read, "rb") as said:
        assert said.read() == b""
    assert subprocess.run(("true",), check=False).returncode == 0
