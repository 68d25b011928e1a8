"""Directories of the product's own."""

import os
import stat
from pathlib import Path

import pytest

from sandbox.folders import make_private


def test_all_that_is_missing_is_for_this_user_alone(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir(mode=0o755)
    former = os.umask(0o002)
    try:
        make_private(str(tmp_path / "there/one/two/three"))
    finally:
        os.umask(former)
    modes = [
        stat.S_IMODE((tmp_path / path).stat().st_mode)
        for path in ("there", "there/one", "there/one/two", "there/one/two/three")
    ]
    assert modes == [0o755, 0o700, 0o700, 0o700]
    make_private(str(tmp_path / "there/one/two/three"))


@pytest.mark.parametrize("path", ["file", "file/below", "link"])
def test_something_else_in_its_place(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(OSError):
        make_private(str(tmp_path / path))
    assert not (tmp_path / "nowhere").exists()
