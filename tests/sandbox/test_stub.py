"""The stub by itself, on the host: the hand-over, the word, and what it does with a broken one."""

import array
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sandbox import stub
from sandbox.handover import SERVE, WORD_LIMIT, encode_word
from tests.sandbox.wrapping import PATIENCE, PYTHON, SOURCES

STUB = [PYTHON, "-I", "-S", "-E", "-B", str(SOURCES / "sandbox/stub.py")]


@contextmanager
def started(*ports: int) -> Iterator[tuple["subprocess.Popen[bytes]", socket.socket]]:
    """A stub and our end of its channel."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [*STUB, str(theirs.fileno()), "2", *map(str, ports)],
        pass_fds=[theirs.fileno()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={},
    )
    theirs.close()
    with process, ours:
        ours.settimeout(PATIENCE)
        yield process, ours
        process.kill()


def test_hands_over_listeners_that_work() -> None:
    with started(0, 0) as (_, channel):
        data, ancillary, _, _ = channel.recvmsg(1, 1024)
        numbers = array.array("i", ancillary[0][2])
        assert (data, len(numbers)) == (b"L", 2)
        for number in numbers:
            meet(socket.socket(fileno=number))


def meet(listener: socket.socket) -> None:
    """A client and a server find each other at the listener."""
    with listener, socket.create_connection(listener.getsockname()) as client:
        connection, (host, _) = listener.accept()
        with connection:
            connection.sendall(b"x")
            assert (host, client.recv(1)) == ("127.0.0.1", b"x")


def test_becomes_the_command() -> None:
    with started() as (process, channel):
        channel.recv(1)
        script = 'echo "$0 $1|$WORD|$(pwd)"; cat /proc/self/environ | tr "\\0" "\\n"'
        variables = {"PATH": "/usr/bin:/bin", "WORD": "a=b\n\udcff", "EMPTY": ""}
        channel.sendall(encode_word(("sh", "-c", script, "näme", ""), variables, "/usr", ()))
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, b"")
    assert out.startswith("näme |a=b\n".encode() + b"\xff|/usr\n")
    assert b"EMPTY=\n" in out


BROKEN = {
    "nothing": b"",
    "half a length": b"\0\0",
    "no length": bytes(4),
    "too long": (WORD_LIMIT + 1).to_bytes(4, "big"),
    "longer than it says": (99).to_bytes(4, "big") + b"/\0\0" + b"0\0" + b"1\0sh",
    "no fields": (3).to_bytes(4, "big") + b"abc",
    "no count": (10).to_bytes(4, "big") + b"/\0\0" + b"0\0x\0sh\0",
    "nowhere to stand": (11).to_bytes(4, "big") + b"/\0\0" + b"3\0" + b"1\0true",
    "no command": (8).to_bytes(4, "big") + b"/\0\0" + b"0\0" + b"0\0x",
}


@pytest.mark.parametrize("word", BROKEN.values(), ids=BROKEN.keys())
def test_broken_word_starts_nothing(word: bytes) -> None:
    with started() as (process, channel):
        channel.recv(1)
        channel.sendall(word)
        channel.shutdown(socket.SHUT_WR)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (125, b"", b"")


def test_launchers_death_ends_it() -> None:
    with started() as (process, channel):
        channel.recv(1)
        channel.close()
        assert process.wait(PATIENCE) == 125


def test_working_directory_that_is_gone() -> None:
    with started() as (process, channel):
        channel.recv(1)
        channel.sendall(encode_word(("true",), {"PATH": "/usr/bin:/bin"}, "/no/such\ndir", ()))
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 125
    assert err == b"agent-gateway: cannot start in /no/such?dir: No such file or directory\n"


def test_taken_port_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, started(taken.getsockname()[1]) as (process, _):
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode not in (0, None)
    assert b"Address already in use" in err


def test_serves_until_the_launcher_is_gone() -> None:
    """It gives up the caller's own streams: whoever reads them shall not wait for it."""
    with started() as (process, channel):
        channel.recv(1)
        channel.sendall(SERVE)
        assert process.stdout is not None
        assert process.stdout.read() == b""
        assert process.poll() is None
        channel.shutdown(socket.SHUT_WR)
        assert process.wait(PATIENCE) == 0


def test_path_is_the_new_environments() -> None:
    """Empty entries are not the working directory."""
    for path, code in ((":", 127), ("", 127), ("/usr/bin:/bin", 0)):
        with started() as (process, channel):
            channel.recv(1)
            channel.sendall(encode_word(("true",), {"PATH": path}, "/usr/bin", ()))
            process.communicate(timeout=PATIENCE)
        assert process.returncode == code, path


def test_imports_next_to_nothing() -> None:
    """Every start waits for it: no module of the standard library but those the interpreter has loaded anyway."""
    script = (
        "import sys; before = set(sys.modules); sys.path.insert(0, sys.argv[1]); import stub;"
        "print(*sorted(set(sys.modules) - before))"
    )
    command = [PYTHON, "-I", "-S", "-E", "-B", "-c", script, str(SOURCES / "sandbox")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= {"_signal", "_socket", "errno", "stub"}


def test_both_ends_have_one_limit() -> None:
    assert stub.WORD_LIMIT == WORD_LIMIT
    assert stub.SERVE == SERVE
    assert int.from_bytes(SERVE, "big") > WORD_LIMIT  # no length of a word


def test_says_one_line_whatever_the_name() -> None:
    ours, theirs = os.pipe()
    kept = os.dup(2)
    try:
        sys.stderr.flush()
        os.dup2(theirs, 2)
        stub.say(b"a\nb\x1b[31m\xff: command not found")
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(theirs)
    with os.fdopen(ours, "rb") as said:
        assert said.read() == b"agent-gateway: a?b?[31m?: command not found\n"
