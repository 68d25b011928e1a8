"""Room on a real disk: kept without making the file longer, usable, and given back."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.disk import keep_room

ROOM = 1 << 20
# Elsewhere no room is kept, and nobody is told otherwise.
KEEPS = sys.platform == "linux"
TEXT = b"a record\n"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    """A file with a record in it, open for appending."""
    descriptor = os.open(tmp_path / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, TEXT)
    yield descriptor
    os.close(descriptor)


def on_disk(descriptor: int) -> int:
    """Bytes that the file takes on the disk."""
    return os.fstat(descriptor).st_blocks * 512


def test_kept_and_given_back(file: int) -> None:
    before = on_disk(file)
    assert keep_room(file, len(TEXT), ROOM) is KEEPS
    assert os.fstat(file).st_size == len(TEXT)
    assert on_disk(file) >= (ROOM if KEEPS else 0)
    os.ftruncate(file, len(TEXT))
    assert on_disk(file) <= before


def test_what_is_appended_goes_into_the_room(file: int, tmp_path: Path) -> None:
    keep_room(file, len(TEXT), ROOM)
    before = on_disk(file)
    for _ in range(1000):
        os.write(file, TEXT)
    assert (tmp_path / "log").read_bytes() == TEXT * 1001
    assert on_disk(file) == before or not KEEPS


def test_more_of_what_is_kept_already(file: int) -> None:
    for length in (ROOM, ROOM, ROOM // 2, ROOM * 2):
        assert keep_room(file, len(TEXT), length) is KEEPS
    assert os.fstat(file).st_size == len(TEXT)


def test_no_room(file: int) -> None:
    """Nobody has a disk of that size."""
    assert keep_room(file, len(TEXT), 1 << 62) is False
    assert os.fstat(file).st_size == len(TEXT)


@pytest.mark.parametrize(("start", "length"), [(0, 0), (-1, 10), (0, -1)])
def test_what_cannot_be_meant(file: int, start: int, length: int) -> None:
    assert keep_room(file, start, length) is False


def test_what_is_no_file_to_write(tmp_path: Path) -> None:
    reading = os.open(tmp_path, os.O_RDONLY)
    near, far = os.pipe()
    for descriptor in (reading, near, far):
        assert keep_room(descriptor, 0, ROOM) is False
        os.close(descriptor)
        assert keep_room(descriptor, 0, ROOM) is False
    assert keep_room(-1, 0, ROOM) is False
