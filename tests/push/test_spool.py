"""The spool: a file nobody can open, with a bound, gone with its descriptor."""

import os
from pathlib import Path

import pytest

from gateway.push.spool import PIECE, Spool, SpoolError


def test_what_was_written_is_read(tmp_path: Path) -> None:
    data = bytes(range(256)) * 3000
    with Spool(tmp_path) as spool:
        spool.write(data[:1000])
        spool.write(data[1000:])
        assert spool.size == len(data)
        spool.rewind()
        assert b"".join(iter(spool.read, b"")) == data
        spool.rewind()
        assert len(spool.read()) == PIECE


def test_the_file_has_no_name(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.write(b"x")
        assert list(tmp_path.iterdir()) == []


def test_a_bound(tmp_path: Path) -> None:
    with Spool(tmp_path, limit=10) as spool:
        spool.write(b"123456789")
        with pytest.raises(SpoolError, match="GiB, not more"):
            spool.write(b"01")
        spool.write(b"0")


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="no room on its disk"):
        Spool(tmp_path / "missing")


def test_a_disk_that_fails() -> None:
    """A pipe that nobody reads takes nothing either."""
    spool = Spool(None)
    spool.close()
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "r+b", buffering=0) as broken:
        spool._file = broken
        with pytest.raises(SpoolError, match="no room on its disk"):
            spool.write(b"x")
        with pytest.raises(SpoolError, match="disk failed"):
            spool.read()


def test_closing_twice() -> None:
    spool = Spool(None)
    spool.close()
    spool.close()
