"""Sockets of an operator: for one user alone, found again, long paths, and what a killed run left."""

import os
import socket
import stat
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.operator_socket import (
    OperatorSocket,
    connect,
    find_sockets,
    listen,
    session_socket,
    socket_folder,
)


def folder_of(tmp_path: Path, length: int = 0) -> Path:
    """A folder that is not there yet, its path at least so long."""
    name = "x" * max(1, length - len(str(tmp_path)) - 1)
    return Path(tmp_path, *(name[start : start + 200] for start in range(0, len(name), 200)))


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/u"}, "/run/user/7/agent-gateway"),
        ({"XDG_RUNTIME_DIR": "relative", "HOME": "/home/u"}, "/home/u/.local/state/agent-gateway/run"),
        ({"XDG_STATE_HOME": "/s", "HOME": "/home/u"}, "/s/agent-gateway/run"),
    ],
)
def test_folder(environ: dict[str, str], folder: str) -> None:
    assert socket_folder(environ) == Path(folder)


@pytest.mark.parametrize("length", [0, 150, 600], ids=["short", "long", "very long"])
def test_a_socket_is_for_its_user_alone_and_found_again(tmp_path: Path, length: int) -> None:
    path = session_socket(folder_of(tmp_path, length), "s" * 64)
    with listen(path) as listening:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert find_sockets(path.parent) == (OperatorSocket(path, "s" * 64),)
        with connect(path) as client:
            client.sendall(b"hello")
            listening.setblocking(True)
            for _ in range(2):  # the look of find_sockets was a connection too
                served, _ = listening.accept()
                with served:
                    served.settimeout(5)
                    received = served.recv(5)
            assert received == b"hello"


def test_a_folder_that_others_can_look_into_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    listen(session_socket(folder, "a")).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    dead, alive = session_socket(folder, "dead"), session_socket(folder, "alive")
    listen(dead).close()
    with listen(alive):
        assert [found.session for found in find_sockets(folder)] == ["alive"]
        assert not dead.exists()


def test_its_name_can_be_used_again_but_not_twice(tmp_path: Path) -> None:
    path = session_socket(folder_of(tmp_path), "a")
    listen(path).close()
    with listen(path), pytest.raises(GatewayError, match="cannot be made"):
        listen(path)


def test_one_that_is_being_made_is_not_taken_for_one_that_was_left(tmp_path: Path) -> None:
    path = session_socket(folder_of(tmp_path), "a")
    path.parent.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as unfinished:
        unfinished.bind(os.fspath(path.with_suffix(".new")))
        assert find_sockets(path.parent) == ()
        assert path.with_suffix(".new").exists()
    with listen(path):  # the other one was killed in the middle
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_what_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    listen(session_socket(folder, "a")).close()
    for name in ("run-x.sock", "operator.sock", "other.sock", "run-.sock"):
        (folder / name).write_text("mine")
    (folder / "run-link.sock").symlink_to("/dev/null")
    assert find_sockets(folder) == ()
    assert (folder / "run-x.sock").read_text() == "mine"
    with pytest.raises(GatewayError):
        listen(session_socket(folder, "x"))


def test_an_appliance_is_found(tmp_path: Path) -> None:
    path = tmp_path / "operator.sock"
    with listen(path):
        assert find_sockets(tmp_path) == (OperatorSocket(path, ""),)


def test_a_folder_that_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GatewayError, match=r"cannot be made|is not a directory"):
        listen(session_socket(tmp_path / "file", "a"))
    assert find_sockets(tmp_path / "missing") == ()


@pytest.mark.parametrize("link", [True, False], ids=["link", "somebody else's"])
def test_a_folder_that_is_not_this_user_s(tmp_path: Path, link: bool) -> None:
    folder = tmp_path / "folder"
    if link:
        (tmp_path / "other").mkdir()
        folder.symlink_to(tmp_path / "other")
    elif os.geteuid() == 0:
        folder.mkdir()
        os.chown(folder, 12345, 12345)
    else:
        folder = Path("/")
    with pytest.raises(GatewayError):
        listen(session_socket(folder, "a"))


def test_where_too_many_wait_one_waits_as_well(tmp_path: Path) -> None:
    path = session_socket(folder_of(tmp_path), "a")
    with listen(path) as listening, ExitStack() as stack:
        with pytest.raises(BlockingIOError):
            while True:
                stack.enter_context(connect(path, 0))
        assert [found.session for found in find_sockets(path.parent)] == ["a"]
        listening.setblocking(True)
        thread = threading.Thread(target=lambda: listening.accept()[0].close())
        thread.start()
        connect(path, 30).close()
        thread.join(30)


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        connect(tmp_path / "none")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.fspath(tmp_path / "bound"))
        with pytest.raises(ConnectionRefusedError):
            connect(tmp_path / "bound")
