"""Sockets, wherever they are."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.sockets import find_sockets, is_socket, sockets_among


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path is short enough for sockets."""
    root = Path(tempfile.mkdtemp(prefix="sock-", dir="/tmp")).resolve()
    yield root
    shutil.rmtree(root)


def listen(path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    return str(path)


def test_only_sockets_are_sockets(short: Path) -> None:
    listen(short / "socket")
    os.mkfifo(short / "pipe")
    (short / "file").touch()
    (short / "folder").mkdir()
    (short / "link").symlink_to("socket")
    with os.scandir(short) as listing:
        assert [entry.name for entry in listing if is_socket(entry)] == ["socket"]


def test_found_at_any_depth_and_not_behind_links(short: Path) -> None:
    expected = {listen(short / "a/s"), listen(short / "a/b/c/s"), listen(short / "a/.s")}
    listen(short / "beside/s")
    (short / "a/link").symlink_to(short / "beside")
    (short / "a/loop").symlink_to(".")
    found, count = find_sockets(f"{short}/a", 100)
    assert (set(found), count) == (expected, 7)
    assert find_sockets(f"{short}/missing", 100) == ([], 0)


def test_limit(short: Path) -> None:
    for number in range(10):
        (short / "a/b/c").mkdir(parents=True, exist_ok=True)
        (short / f"a/b/{number}").touch()
    listen(short / "a/b/c/s")
    assert find_sockets(str(short), 5) == ([], 13)


def test_sockets_among_paths(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        (tmp_path / "link").symlink_to("socket")
        names = ("file", "socket", "link", "absent")
        assert sockets_among(str(tmp_path / name) for name in names) == (str(tmp_path / "socket"),)
