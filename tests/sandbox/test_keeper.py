"""The keeper by itself: what it says on its channel, and what it leaves. The rest is in backends/test_none.py."""

import ctypes
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.attendant import parent_of
from sandbox.handover import SERVE, ask_for_command, encode_word, take_attendant
from sandbox.keeper import find_strays
from tests.sandbox.processes import many_descriptors
from tests.sandbox.wrapping import PATIENCE, PYTHON, SOURCES

KEEPER = [PYTHON, "-I", "-S", "-E", "-B", str(SOURCES / "sandbox/keeper.py")]
VARIABLES = {"PATH": "/usr/bin:/bin"}


@contextmanager
def started(*files: Path) -> Iterator[tuple["subprocess.Popen[bytes]", socket.socket]]:
    """A keeper that is ready, and our end of its channel."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [*KEEPER, str(theirs.fileno()), "2", *map(str, files)], pass_fds=[theirs.fileno()], env={}
    )
    theirs.close()
    with process, ours:
        ours.settimeout(PATIENCE)
        assert ours.recv(1) == b"K"
        yield process, ours


def test_tells_the_status_and_waits_for_the_end(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with started(file) as (process, channel):
        channel.sendall(encode_word(("sh", "-c", "exit 7"), VARIABLES, "/", ()))
        status = int.from_bytes(channel.recv(4, socket.MSG_WAITALL), "big")
        assert os.waitstatus_to_exitcode(status) == 7
        channel.sendall(bytes([signal.SIGTERM]))  # too late, and no matter
        assert process.poll() is None
        assert file.exists()
        channel.shutdown(socket.SHUT_WR)
        assert process.wait(PATIENCE) == 0
        assert not file.exists()


def test_passes_signals_on() -> None:
    with started() as (process, channel):
        channel.sendall(encode_word(("sleep", "1000"), VARIABLES, "/", ()))
        channel.sendall(bytes([signal.SIGUSR1]))
        status = int.from_bytes(channel.recv(4, socket.MSG_WAITALL), "big")
        assert os.waitstatus_to_exitcode(status) == -signal.SIGUSR1
        channel.close()
        assert process.wait(PATIENCE) == 0


def test_end_of_the_channel_kills_the_command() -> None:
    with started() as (process, channel):
        channel.sendall(encode_word(("sh", "-c", "trap '' TERM HUP; sleep 1000; :"), VARIABLES, "/", ()))
        channel.shutdown(socket.SHUT_WR)
        status = int.from_bytes(channel.recv(4, socket.MSG_WAITALL), "big")
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL
        assert process.wait(PATIENCE) == 0


def test_no_word_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with started(file) as (process, channel):
        channel.shutdown(socket.SHUT_WR)
        assert process.wait(PATIENCE) == 0
        assert not file.exists()


def test_directory_goes_with_what_was_left_in_it(tmp_path: Path) -> None:
    folder, link, kept = tmp_path / "folder", tmp_path / "link", tmp_path / "kept"
    (folder / "below").mkdir(parents=True)
    (folder / "below/file").touch()
    (folder / "away").symlink_to(kept)
    kept.mkdir()
    (kept / "file").touch()
    link.symlink_to(kept)
    with started(folder, link, tmp_path / "never there") as (process, channel):
        channel.shutdown(socket.SHUT_WR)
        assert process.wait(PATIENCE) == 0
    assert sorted(tmp_path.iterdir()) == [kept]
    assert (kept / "file").exists()


def test_descriptors_beyond_the_first_thousand() -> None:
    """Whoever starts us may have many open: the keeper's channel then has a number that select() does not know."""
    with many_descriptors(), started() as (process, channel):
        channel.sendall(encode_word(("sh", "-c", "exit 7"), VARIABLES, "/", ()))
        status = int.from_bytes(channel.recv(4, socket.MSG_WAITALL), "big")
        assert os.waitstatus_to_exitcode(status) == 7
        channel.shutdown(socket.SHUT_WR)
        assert process.wait(PATIENCE) == 0


def test_many_commands_and_what_they_leave() -> None:
    """A daemon of a command that is over lives until the channel ends, and no longer."""
    reader, writer = os.pipe()
    with started() as (process, channel), open("/dev/null", "rb") as null:
        channel.sendall(SERVE)
        control, their_control = socket.socketpair()
        word = encode_word(("sh", "-c", "setsid sh -c 'sleep 1000 &'; echo ready"), VARIABLES, "/", ())
        ask_for_command(channel, word, (null.fileno(), writer, writer, their_control.fileno()))
        their_control.close()
        os.close(writer)
        with control:
            assert parent_of(str(take_attendant(control))) in (process.pid, 0)
            assert os.read(reader, 64) == b"ready\n"
            assert control.recv(4, socket.MSG_WAITALL) == bytes(4)
        channel.shutdown(socket.SHUT_WR)
        assert os.read(reader, 1) == b""
        assert process.wait(PATIENCE) == 0
    os.close(reader)


class System:
    """Stands for libSystem of macOS: processes, and what the sandbox of each lets it write (None: it is in none)."""

    def __init__(self, places: dict[int, tuple[str, ...] | None]) -> None:
        self.places = places

        def check(pid: int, operation: bytes, kind: int, path: ctypes.c_char_p) -> int:
            assert operation == b"file-write-data"
            assert kind == 5
            if pid not in places:
                return -1
            own = places[pid]
            wanted = os.fsdecode(path.value or b"")
            return int(own is not None and not any(f"{wanted}/".startswith(f"{one}/") for one in own))

        self.sandbox_check = check

    def proc_listallpids(self, numbers: "ctypes.Array[ctypes.c_int] | None", size: int) -> int:
        if numbers is not None:
            assert size == ctypes.sizeof(numbers)
            numbers[: len(self.places) + 1] = [*self.places, 999]  # the last is gone meanwhile
        return len(self.places)


def test_daemons_are_known_by_their_sandbox() -> None:
    system = System({
        1: None,
        10: None,  # in no sandbox
        11: ("/state/run/wrap-1/tmp", "/work"),
        12: ("/state/run/wrap-2/tmp", "/work"),  # of another launch
        13: ("/state", "/work"),  # of another program, which may write everything
        14: (),  # and nothing
        15: ("/state/run/wrap-1/tmp",),
    })  # fmt: skip
    assert find_strays("/state/run/wrap-1", system, 5) == [11, 15]
