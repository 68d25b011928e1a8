"""Bounded reading: whatever stands at the path, it neither blocks nor raises nor reads more than was asked."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.reading import read_start, read_whole

LIMIT = 8


@pytest.mark.parametrize(
    ("content", "start", "whole"),
    [
        (b"", b"", ""),
        (b"short", b"short", "short"),
        (b"12345678", b"12345678", "12345678"),
        (b"123456789", b"12345678", ""),
        (b"x" * 100_000, b"x" * LIMIT, ""),
        (b"a\0b\r\n", b"a\0b\r\n", "a\0b\r\n"),
        (b"\xff\xfe", b"\xff\xfe", "\udcff\udcfe"),
    ],
    ids=["empty", "short", "at the limit", "one more", "much more", "NUL and CR", "not UTF-8"],
)
def test_regular_file(tmp_path: Path, content: bytes, start: bytes, whole: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    assert read_start(str(path), LIMIT) == start
    assert read_whole(str(path), LIMIT) == whole


@given(st.binary(max_size=64), st.integers(0, 48))
def test_never_more_than_asked_and_all_or_nothing(content: bytes, limit: int) -> None:
    descriptor = os.memfd_create("content")
    try:
        os.write(descriptor, content)
        path = f"/proc/self/fd/{descriptor}"
        assert read_start(path, limit) == content[:limit]
        assert read_whole(path, limit) == (os.fsdecode(content) if len(content) <= limit else "")
    finally:
        os.close(descriptor)


def make_nothing(path: Path) -> None:
    """Nothing stands there."""


def make_fifo_without_writer(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def make_dangling_link(path: Path) -> None:
    path.symlink_to("missing")


def make_loop(path: Path) -> None:
    path.symlink_to(path.name)


def make_link_to_terminal(path: Path) -> None:
    path.symlink_to("/dev/ptmx")


def make_link_to_endless_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize(
    "make",
    [
        make_nothing, Path.mkdir, make_fifo_without_writer, make_socket, make_dangling_link, make_loop,
        make_link_to_terminal, make_link_to_endless_device,
    ],
)  # fmt: skip
def test_what_is_no_file_reads_as_empty(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "name"
    make(path)
    assert (read_start(str(path), LIMIT), read_whole(str(path), LIMIT)) == (b"", "")


@pytest.mark.parametrize("name", ["", "file/below", "x" * 300, "x/" * 3000])
def test_path_that_leads_nowhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    assert read_start(f"{tmp_path}/{name}", LIMIT) == b""


def test_unreadable_file(tmp_path: Path) -> None:
    """The kernel's own file that not even root may read."""
    assert read_start("/proc/self/clear_refs", LIMIT) == b""


def test_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    assert read_whole(str(tmp_path / "link"), LIMIT) == "text"


def test_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    before = os.listdir("/proc/self/fd")
    for path in (tmp_path / "file", tmp_path, tmp_path / "missing"):
        read_whole(str(path), LIMIT)
    assert os.listdir("/proc/self/fd") == before
