"""A report is there whole, or what was there before it is."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.review.report.writing import write_page


def test_written_for_its_owner(tmp_path: Path) -> None:
    place = tmp_path / "out.html"
    write_page(place, "héllo\n")
    assert place.read_bytes() == "héllo\n".encode()
    assert place.stat().st_mode & 0o777 == 0o600
    write_page(place, "again\n")
    assert place.read_text() == "again\n"
    assert [one.name for one in tmp_path.iterdir()] == ["out.html"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    place = tmp_path / "out.html"
    place.symlink_to(victim)
    write_page(place, "x")
    assert (victim.read_text(), place.read_text(), place.is_symlink()) == ("precious", "x", False)


def test_text_that_is_no_text(tmp_path: Path) -> None:
    write_page(tmp_path / "out.html", "a\ud800b")
    assert (tmp_path / "out.html").read_text() == "a\\ud800b"


@pytest.mark.parametrize("name", ["", "missing/out.html", "pipe"])
def test_places_that_are_no_files(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(GatewayError):
        write_page(tmp_path / name, "x")
    assert [one.name for one in tmp_path.iterdir()] == ["pipe"]


def test_no_room_leaves_what_was_there(tmp_path: Path) -> None:
    place = tmp_path / "out.html"
    place.write_text("before")
    program = (
        "import resource, signal, sys; from pathlib import Path; from gateway.errors import GatewayError\n"
        "from gateway.review.report.writing import write_page\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n    write_page(Path(sys.argv[1]), 'x' * 5000)\n"
        "except GatewayError as error:\n    print(error.message)\n"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] > 5000 or resource.RLIM_INFINITY == -1
    done = subprocess.run(
        [sys.executable, "-c", program, str(place)], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"the report cannot be written to {place}: File too large\n"
    assert place.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["out.html"]
