"""Apple's developer tools are found where `xcode-select` says, and come before the programs that look them up."""

from pathlib import Path

import pytest

from sandbox.seatbelt.developer_tools import PROGRAMS, SDKS, find_sdk, find_tools, put_first


def furnish(folder: Path, *ends: str) -> str:
    for end in ends:
        (folder / end).mkdir(parents=True)
    return str(folder)


def test_what_was_selected_counts(tmp_path: Path) -> None:
    plain = furnish(tmp_path / "plain", PROGRAMS[0])
    selected = furnish(tmp_path / "selected", PROGRAMS[0])
    (tmp_path / "link").symlink_to(selected)
    assert find_tools((str(tmp_path / "link"), plain)) == selected
    (tmp_path / "link").unlink()
    assert find_tools((str(tmp_path / "link"), plain)) == plain
    assert find_tools((str(tmp_path / "link"),)) == ""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/opt/bin:/usr/bin:/bin", "/opt/bin:T/usr/bin:/usr/bin:/bin"),
        ("/usr/bin", "T/usr/bin:/usr/bin"),
        ("T/usr/bin:/usr/bin", "T/usr/bin:/usr/bin"),
        ("/opt/bin", "/opt/bin"),
        ("", ""),
    ],
)
def test_place_on_path(tmp_path: Path, path: str, expected: str) -> None:
    tools = furnish(tmp_path / "tools", PROGRAMS[0])
    assert put_first(path.replace("T", tools), tools) == expected.replace("T", tools)
    assert put_first(path, "") == path


def test_compilers_of_a_whole_toolchain(tmp_path: Path) -> None:
    tools = furnish(tmp_path / "tools", *PROGRAMS)
    assert put_first("/usr/bin", tools) == f"{tools}/{PROGRAMS[0]}:{tools}/{PROGRAMS[1]}:/usr/bin"


@pytest.mark.parametrize("end", SDKS)
def test_headers_and_libraries(tmp_path: Path, end: str) -> None:
    assert find_sdk(furnish(tmp_path / "tools", end)) == str(tmp_path / "tools" / end)


def test_no_headers(tmp_path: Path) -> None:
    assert find_sdk(furnish(tmp_path / "tools")) == ""
    assert find_sdk("") == ""
