"""The keeper by itself: what it says on its channel, and the tree it finds. The rest is in backends/test_none.py."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.handover import encode_word
from sandbox.keeper import descendants, parent_of, parents
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
