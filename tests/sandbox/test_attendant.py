"""The attendant by itself, on the host: requests and broken ones, status and signals, and the tree it finds."""

import array
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sandbox.attendant import DESCRIPTORS, descendants, parent_of, parents
from sandbox.handover import SERVE, ask_for_command, encode_word, take_attendant
from tests.sandbox.processes import many_descriptors
from tests.sandbox.wrapping import PATIENCE, PYTHON, SOURCES

STUB = [PYTHON, "-I", "-S", "-E", "-B", str(SOURCES / "sandbox/stub.py")]
VARIABLES = {"PATH": "/usr/bin:/bin"}


@contextmanager
def serving() -> Iterator[tuple["subprocess.Popen[bytes]", socket.socket]]:
    """A stub that serves, and our end of its channel."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen([*STUB, str(theirs.fileno()), "2"], pass_fds=[theirs.fileno()], env={})
    theirs.close()
    with process, ours:
        ours.settimeout(PATIENCE)
        assert ours.recv(1) == b"L"
        ours.sendall(SERVE)
        yield process, ours
        process.kill()


@contextmanager
def asked(channel: socket.socket, *argv: str) -> Iterator[tuple[socket.socket, int, int]]:
    """A command: our end of its control socket, what it writes, its attendant."""
    control, their_control = socket.socketpair()
    reader, writer = os.pipe()
    with open("/dev/null", "rb") as null:
        word = encode_word(argv, VARIABLES, "/", ())
        ask_for_command(channel, word, (null.fileno(), writer, writer, their_control.fileno()))
    their_control.close()
    os.close(writer)
    with control:
        control.settimeout(PATIENCE)
        yield control, reader, take_attendant(control)
    os.close(reader)


def status(control: socket.socket) -> int:
    """How the command ended, as subprocess tells it; then the attendant is gone."""
    told = control.recv(4, socket.MSG_WAITALL)
    assert control.recv(1) == b""
    return os.waitstatus_to_exitcode(int.from_bytes(told, "big"))


def test_many_commands_one_after_the_other() -> None:
    with serving() as (process, channel):
        for code in (0, 7, 255):
            with asked(channel, "sh", "-c", f"echo word; exit {code}") as (control, output, attendant):
                assert os.read(output, 64) == b"word\n"
                assert parent_of(str(attendant)) in (process.pid, 0)
                assert status(control) == code
        channel.close()
        assert process.wait(PATIENCE) == 0


def test_signals_and_the_end_of_the_control_socket() -> None:
    with serving() as (_, channel):
        with asked(channel, "sleep", "1000") as (control, _, _):
            control.sendall(bytes([signal.SIGUSR1]))
            assert status(control) == -signal.SIGUSR1
        with asked(channel, "sh", "-c", "trap '' TERM; sleep 1000 & echo ready; wait") as (
            control,
            output,
            _,
        ):
            assert os.read(output, 64) == b"ready\n"
            control.shutdown(socket.SHUT_WR)
            assert status(control) == -signal.SIGKILL
            assert os.read(output, 1) == b""


def test_status_comes_when_nothing_is_left() -> None:
    script = "setsid sh -c 'sleep 1000 & echo ready' & wait; sleep 1000"
    with serving() as (_, channel), asked(channel, "sh", "-c", script) as (control, output, attendant):
        assert os.read(output, 64) == b"ready\n"
        assert len(descendants(attendant)) >= 2
        control.shutdown(socket.SHUT_WR)
        assert control.recv(4, socket.MSG_WAITALL)
        os.set_blocking(output, False)
        assert os.read(output, 1) == b""


def test_signals_that_are_none() -> None:
    script = (
        "trap 'kill $!; exit 3' CONT; sleep 1000 & echo ready; wait"  # it is there until the last has come
    )
    with (
        serving() as (_, channel),
        asked(channel, "sh", "-c", script) as (control, output, _),
    ):
        assert os.read(output, 64) == b"ready\n"
        control.sendall(bytes([0, 255, 200, signal.SIGCONT]))
        assert status(control) == 3


def request(channel: socket.socket, data: bytes, count: int) -> None:
    """A request with this many descriptors."""
    with open("/dev/null", "rb") as null:
        numbers = array.array("i", [null.fileno()] * count)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)] if count else []
        channel.sendmsg([data], ancillary)


WORD = encode_word(("true",), VARIABLES, "/", ())
BROKEN = {
    "another letter": (b"Y", DESCRIPTORS, WORD),
    "no descriptors": (b"X", 0, WORD),
    "too few": (b"X", DESCRIPTORS - 1, WORD),
    "too many": (b"X", DESCRIPTORS + 1, WORD),
    "no word": (b"X", DESCRIPTORS, bytes(4)),
    "half a word": (b"X", DESCRIPTORS, WORD[:-1]),
    "another serve": (b"S", 0, b"ERV"),
}


@pytest.mark.parametrize(("data", "count", "word"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_request_ends_it(data: bytes, count: int, word: bytes) -> None:
    """The launcher speaks of something else: that is the end of the wrap."""
    with serving() as (process, channel):
        request(channel, data, count)
        channel.sendall(word)
        channel.shutdown(socket.SHUT_WR)
        assert process.wait(PATIENCE) == 0
        assert descendants(process.pid) == []


def test_attendant_and_command_die_with_the_server() -> None:
    with (
        serving() as (process, channel),
        asked(channel, "sh", "-c", "echo ready; exec sleep 1000") as (
            control,
            output,
            _,
        ),
    ):
        assert os.read(output, 64) == b"ready\n"
        process.kill()
        assert control.recv(4) == b""
        assert os.read(output, 1) == b""


def test_command_has_its_own_streams_alone() -> None:
    script = "ls /proc/self/fd | tr '\\n' ' '"
    with serving() as (_, channel), asked(channel, "sh", "-c", script) as (control, output, _):
        assert os.read(output, 64) == b"0 1 2 3 "  # 3 is the listing's own
        assert status(control) == 0


def test_descriptors_beyond_the_first_thousand() -> None:
    with (
        many_descriptors(),
        serving() as (_, channel),
        asked(channel, "sh", "-c", "exit 7") as (control, _, _),
    ):
        assert status(control) == 7


# --- The tree -------------------------------------------------------------------------------------


def test_finds_the_tree() -> None:
    script = "sh -c 'sleep 1000 & echo $!; wait' & wait"
    with subprocess.Popen(("sh", "-c", script), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        grandchild = int(process.stdout.readline())
        found = descendants(process.pid)
        above = parent_of(str(found[0])), parents()[process.pid]
        for number in (*found, process.pid):
            os.kill(number, signal.SIGKILL)
    assert (len(found), found[-1]) == (2, grandchild)
    assert above == (process.pid, os.getpid())


def test_tree_of_a_look_that_was() -> None:
    assert descendants(1, {2: 1, 3: 2, 4: 3, 5: 9, 9: 5}) == [2, 3, 4]
    assert descendants(7, {2: 1}) == []


def test_odd_names_do_not_mislead(tmp_path: Path) -> None:
    """A process may be named as if its parent were somebody else."""
    program = tmp_path / "x) S 1 ("
    program.symlink_to("/bin/sleep")
    with subprocess.Popen((str(program), "1000")) as process:
        name, parent = Path(f"/proc/{process.pid}/comm").read_text(), parent_of(str(process.pid))
        process.kill()
    assert (name, parent) == ("x) S 1 (\n", os.getpid())


def test_process_that_is_gone_has_no_parent() -> None:
    with subprocess.Popen(("true",)) as process:
        process.wait()
    assert parent_of(str(process.pid)) == 0
