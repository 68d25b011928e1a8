"""What is remembered of a configuration that is removed, and how it comes back."""

import os
import stat
from pathlib import Path

import pytest

from sandbox.supervisor.configurations import SIZE_LIMIT, Configurations


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "config"
    path.write_text("[core]\n")
    path.chmod(0o640)
    return path


def test_what_is_there_is_left_alone(config: Path) -> None:
    known = Configurations([str(config)])
    config.write_text("[other]\n")
    assert (known.restore(), config.read_text()) == ([], "[other]\n")
    config.unlink()
    config.symlink_to("elsewhere")
    assert known.restore() == []


def test_what_is_missing_comes_back(config: Path) -> None:
    known = Configurations([str(config)])
    config.unlink()
    assert known.last(os.fsencode(config)) == b"[core]\n"
    assert known.restore() == [os.fsencode(config)]
    assert (config.read_text(), stat.S_IMODE(config.stat().st_mode)) == ("[core]\n", 0o640)


def test_the_last_content_counts(config: Path) -> None:
    known = Configurations([str(config)])
    known.remember(os.fsencode(config), b"[new]\n", 0o600)
    config.unlink()
    known.restore()
    assert config.read_text() == "[new]\n"


def test_not_through_a_link(config: Path, tmp_path: Path) -> None:
    folder = tmp_path.resolve() / "git"
    folder.mkdir()
    path = folder / "config"
    path.write_text("[core]\n")
    known = Configurations([str(path)])
    path.unlink()
    folder.rmdir()
    folder.symlink_to(tmp_path / "other", target_is_directory=True)
    (tmp_path / "other").mkdir()
    assert known.restore() == []
    assert list((tmp_path / "other").iterdir()) == []


def test_nothing_is_known_of_what_cannot_be_read(config: Path, tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    large.write_bytes(b"x" * (SIZE_LIMIT + 1))
    known = Configurations([str(tmp_path), str(pipe), str(large), str(tmp_path / "absent")])
    known.remember(os.fsencode(tmp_path / "absent"), b"x", 0o644)
    assert known.restore() == []
    assert known.last(os.fsencode(tmp_path / "absent")) == b""
