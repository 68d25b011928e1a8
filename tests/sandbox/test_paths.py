"""PATH, first lines and install prefixes."""

from pathlib import Path

import pytest

from sandbox.paths import (
    ALL_MARKS,
    TOOLCHAIN_PROOFS,
    base_interpreter,
    find_program,
    install_prefixes,
    is_toolchain,
    path_folders,
    path_inside,
    shebang,
)


@pytest.mark.parametrize(
    ("search_path", "folders"),
    [
        ("/a:/b", ("/a", "/b")),
        ("/a:.:b::/a/:/a/../c", ("/a", "/c")),
        ("", ()),
    ],
)
def test_path_folders(search_path: str, folders: tuple[str, ...]) -> None:
    assert path_folders(search_path) == folders


def test_find_program(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "program").write_text("")
    (tmp_path / "program").chmod(0o755)
    folders = (str(tmp_path),)
    assert find_program("program", folders, "/") == str(tmp_path / "program")
    assert find_program("plain", folders, "/") == ""
    assert find_program("folder", folders, "/") == ""
    assert find_program("", folders, "/") == ""
    assert find_program("./plain", (), str(tmp_path)) == str(tmp_path / "plain")


def test_system_folders_close_the_path() -> None:
    assert path_inside("", lambda folder: True).split(":")[0] in ("/usr/local/bin", "/usr/bin")


@pytest.mark.parametrize(
    ("path", "prefixes"),
    [
        ("/h/.nvm/v1/lib/node_modules/a/cli.js", ("/h/.nvm/v1",)),
        ("/h/p/node_modules/a/bin/x", ("/h/p/node_modules", "/h/p/node_modules/a")),
        ("/h/.pyenv/shims/x", ("/h/.pyenv",)),
        ("/h/tools/x", ()),
        ("/opt/bin/x", ()),  # that would be all of /opt
    ],
)
def test_install_prefixes(path: str, prefixes: tuple[str, ...]) -> None:
    assert install_prefixes(path) == prefixes


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#!/usr/bin/env node\nrest", ["/usr/bin/env", "node"]),
        ("#! /bin/sh -e", ["/bin/sh", "-e"]),
        ("#!relative", []),
        ("#!", []),
        ("\x7fELF", []),
        ("", []),
    ],
)
def test_shebang(tmp_path: Path, line: str, words: list[str]) -> None:
    (tmp_path / "x").write_text(line)
    assert shebang(str(tmp_path / "x")) == words


def test_base_interpreter(tmp_path: Path) -> None:
    (tmp_path / "python3").write_text("")
    settings = tmp_path / "pyvenv.cfg"
    for text, found in (
        (f"Home = {tmp_path}\n", str(tmp_path / "python3")),
        ("home = bin\n", ""),
        ("home=/no\n", ""),
    ):
        settings.write_text(text)
        assert base_interpreter(str(settings)) == found


def test_marks(tmp_path: Path) -> None:
    assert not is_toolchain(str(tmp_path), ALL_MARKS)
    (tmp_path / "release").write_text("")
    assert is_toolchain(str(tmp_path), ALL_MARKS)
    assert not is_toolchain(str(tmp_path), TOOLCHAIN_PROOFS)
    (tmp_path / "lib/python3.13").mkdir(parents=True)
    assert is_toolchain(str(tmp_path), TOOLCHAIN_PROOFS)
