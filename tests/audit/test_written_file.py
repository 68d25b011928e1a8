"""Whole lines or nothing, in a file that is locked while it is written."""

import os
from pathlib import Path

import pytest

from gateway.audit.written_file import UnusableFile, WrittenFile, is_written, lock


def test_it_is_made_once(tmp_path: Path) -> None:
    file = WrittenFile.make(tmp_path / "a")
    with pytest.raises(FileExistsError):
        WrittenFile.make(tmp_path / "a")
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(FileExistsError):
        WrittenFile.make(tmp_path / "link")
    file.close()
    file.close()
    assert file.descriptor == -1


def test_it_is_locked_while_it_is_open(tmp_path: Path) -> None:
    file = WrittenFile.make(tmp_path / "a")
    file.append(b"one\n")
    assert is_written(file.path)
    file.close()
    assert not is_written(file.path)
    with file.path.open("rb") as reader:
        assert lock(reader.fileno())
    with pytest.raises(FileNotFoundError):
        is_written(tmp_path / "b")


def test_it_is_dirty_until_it_is_on_the_disk(tmp_path: Path) -> None:
    file = WrittenFile.make(tmp_path / "a")
    assert not file.dirty
    file.append(b"one\n")
    assert (file.dirty, file.size) == (True, 4)
    file.bring_to_disk()
    assert not file.dirty
    file.close()
    file.bring_to_disk()


def test_a_file_that_is_not_what_it_was(tmp_path: Path) -> None:
    file = WrittenFile.make(tmp_path / "a")
    file.append(b"one\n")
    assert file.is_intact()
    with file.path.open("ab") as other:
        other.write(b"two\n")
    assert not file.is_intact()
    with pytest.raises(UnusableFile, match="another program"):
        file.append(b"three\n")
    file.path.unlink()
    with pytest.raises(UnusableFile, match="removed"):
        file.append(b"three\n")
    assert not file.is_intact()
    file.close()


def test_room_is_given_back(tmp_path: Path) -> None:
    file = WrittenFile.make(tmp_path / "a")
    file.append(b"one\n")
    if file.keeps_room(100_000, 200_000):
        assert os.fstat(file.descriptor).st_blocks * 512 >= 100_000
        assert file.room == 200_000
    file.close()
    assert file.path.read_bytes() == b"one\n"
    assert file.path.stat().st_blocks * 512 < 100_000
