"""PATH, first lines and install prefixes."""

import os
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.paths import (
    ALL_MARKS,
    SETTINGS_LIMIT,
    SHEBANG_LIMIT,
    SYSTEM_PATH,
    TOOLCHAIN_MARKS,
    TOOLCHAIN_PROOFS,
    base_interpreter,
    find_program,
    has_mark,
    holds_python,
    install_prefixes,
    is_program_folder,
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
    # a Python's library is no proof by itself: somebody's project may have one
    assert holds_python(str(tmp_path))
    assert not has_mark(str(tmp_path), TOOLCHAIN_PROOFS)
    (tmp_path / "lib/pkgconfig").mkdir()
    assert has_mark(str(tmp_path), TOOLCHAIN_PROOFS)
    assert not holds_python(f"{tmp_path}/lib")


# --- More of the same: odd, hostile and broken ----------------------------------------------------


@pytest.mark.parametrize(
    ("search_path", "folders"),
    [
        ("/a/../../b", ("/b",)),
        ("//a", ("//a",)),  # POSIX keeps two leading slashes
        ("/a:/a/.:/a//", ("/a",)),
        (":", ()),
        (" /a", ()),
        ("~/bin:$HOME/bin:/b", ("/b",)),
        ("/with space:/new\nline", ("/with space", "/new\nline")),
    ],
)
def test_odd_path_folders(search_path: str, folders: tuple[str, ...]) -> None:
    assert path_folders(search_path) == folders


PARTS = st.text("ab./~: ", max_size=6)


@given(st.lists(PARTS, max_size=6).map(":".join))
def test_path_folders_are_absolute_plain_and_each_once(search_path: str) -> None:
    folders = path_folders(search_path)
    assert len(set(folders)) == len(folders)
    assert all(folder.startswith("/") and folder == os.path.normpath(folder) for folder in folders)


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """Two folders of PATH: the first with what cannot be run, the second with what can."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    for name, mode in (("one/tool", 0o644), ("two/tool", 0o755), ("two/other", 0o711)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    (tmp_path / "one/folder").mkdir()
    (tmp_path / "one/loop").symlink_to("loop")
    (tmp_path / "one/gone").symlink_to("missing")
    (tmp_path / "one/link").symlink_to("../two/tool")
    os.mkfifo(tmp_path / "one/pipe", 0o777)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("tool", "two/tool"),  # a file that cannot be run does not end the search
        ("other", "two/other"),
        ("link", "one/link"),  # as written: what it leads to is looked at later
        ("folder", ""),
        ("loop", ""),
        ("gone", ""),
        ("pipe", ""),
        ("missing", ""),
        ("", ""),
        (".", ""),
        ("..", ""),
        # with a slash it is a path from the working directory, whatever its mode
        ("./tool", "one/tool"),
        ("../two/tool", "two/tool"),
        ("../one/../two/./tool", "two/tool"),
        ("./folder", ""),
        ("./missing", ""),
        ("folder/", ""),
    ],
)
def test_find_program_as_execvp_would(programs: Path, name: str, found: str) -> None:
    folders = (f"{programs}/one", f"{programs}/gone", f"{programs}/two")
    assert find_program(name, folders, f"{programs}/one") == (f"{programs}/{found}" if found else "")


def test_find_program_by_an_absolute_path(programs: Path) -> None:
    assert find_program(f"{programs}/two/tool", (), "/") == f"{programs}/two/tool"
    assert find_program(f"{programs}/two", (), "/") == ""


@pytest.mark.parametrize(
    ("path", "prefixes"),
    [
        ("/usr/bin/x", ()),  # a folder of the root is no installation
        ("/bin/x", ()),
        ("/x", ()),
        ("/opt/tool/bin/x", ("/opt/tool",)),
        ("/opt/tool/SBIN/x", ("/opt/tool",)),
        ("/opt/tool/libexec/x", ("/opt/tool",)),
        ("/opt/tool/Scripts/x", ("/opt/tool",)),
        ("/home/dev/bin/x", ("/home/dev",)),  # refused later, since it is a home
        ("/home/dev/robin/x", ()),
        ("/home/dev/bin.old/x", ()),
        ("/srv/app/node_modules/.bin/x", ("/srv/app/node_modules",)),
        ("/srv/node_modules/x", ("/srv/node_modules",)),
        ("/node_modules/x", ()),
        ("/lib/node_modules/a/cli.js", ()),
        ("/h/v/lib/node_modules/a/node_modules/b/bin/x", ("/h/v", "/h/v/lib/node_modules/a/node_modules/b")),
    ],
)
def test_more_install_prefixes(path: str, prefixes: tuple[str, ...]) -> None:
    assert install_prefixes(path) == prefixes


FOLDERS = st.sampled_from(["home", "dev", "bin", "lib", "node_modules", ".bin", "shims", "x", "Scripts"])


@given(st.lists(FOLDERS, max_size=7).map(lambda parts: "/" + "/".join((*parts, "program"))))
def test_a_prefix_is_above_the_program_and_never_the_root_or_a_folder_of_it(path: str) -> None:
    for prefix in install_prefixes(path):
        assert PurePosixPath(prefix) in PurePosixPath(path).parents
        assert len(PurePosixPath(prefix).parts) > 2


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("/x/bin", True),
        ("/x/Bin", True),
        ("/x/shims", True),
        ("/x/bins", False),
        ("/x/.bin", False),
        ("/", False),
    ],
)
def test_program_folder(folder: str, expected: bool) -> None:
    assert is_program_folder(folder) is expected


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"#!/bin/sh\r\n", ["/bin/sh"]),
        (b"#!\t/bin/sh\t-e\n", ["/bin/sh", "-e"]),
        (b"#!/usr/bin/env -S node --flag\n", ["/usr/bin/env", "-S", "node", "--flag"]),
        (b" #!/bin/sh\n", []),
        (b"\n#!/bin/sh\n", []),
        (b"#! \n", []),
        (b"#!~/bin/sh\n", []),
        (b"#!/\xff\n", ["/\udcff"]),
        (b"#!/bin/sh" + b"x" * 4096, ["/bin/sh" + "x" * (SHEBANG_LIMIT - 9)]),  # cut, as the kernel does
    ],
)
def test_odd_first_lines(tmp_path: Path, content: bytes, words: list[str]) -> None:
    (tmp_path / "x").write_bytes(content)
    assert shebang(str(tmp_path / "x")) == words


def test_first_line_of_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("pipe", "loop", "missing", "."):
        assert shebang(str(tmp_path / name)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("home = HERE\n", True),
        ("HOME=HERE\nversion = 3.13\n", True),
        ("  home  =  HERE  \n", True),
        ("home = /elsewhere\nhome = HERE\n", True),
        ("home = HERE/.\n", True),
        ("home = ../bin\n", False),
        ("home = ~/bin\n", False),
        ("home\n", False),
        ("# home = HERE\n", False),
        ("homes = HERE\n", False),
        ("x" * SETTINGS_LIMIT + "\nhome = HERE\n", False),
        ("", False),
    ],
)
def test_settings_of_a_virtual_environment(tmp_path: Path, text: str, found: bool) -> None:
    (tmp_path / "python").touch()
    (tmp_path / "pyvenv.cfg").write_text(text.replace("HERE", str(tmp_path)))
    assert (base_interpreter(f"{tmp_path}/pyvenv.cfg") != "") is found


def test_settings_that_are_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pyvenv.cfg")
    assert base_interpreter(f"{tmp_path}/pyvenv.cfg") == ""
    assert base_interpreter(f"{tmp_path}/missing/pyvenv.cfg") == ""


@pytest.mark.parametrize("mark", ALL_MARKS)
def test_every_mark_counts(tmp_path: Path, mark: str) -> None:
    (tmp_path / mark).mkdir(parents=True)
    assert is_toolchain(str(tmp_path), ALL_MARKS)
    assert is_toolchain(str(tmp_path), TOOLCHAIN_PROOFS) is (mark in TOOLCHAIN_PROOFS)


def test_marks_are_either_proofs_or_not() -> None:
    assert not set(TOOLCHAIN_MARKS) & set(TOOLCHAIN_PROOFS)


@pytest.mark.parametrize(
    "name", ["README.md", "src/main.py", "lib/helpers.py", "lib/python/x", "bin/tool", ".git/HEAD"]
)
def test_a_project_is_no_toolchain(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
    assert not is_toolchain(str(tmp_path), ALL_MARKS)


def test_path_inside_keeps_the_order_and_adds_the_systems(tmp_path: Path) -> None:
    for name in ("b", "a", "unseen"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    search = ":".join(f"{tmp_path}/{name}" for name in ("b", "unseen", "a", "file", "missing", "b"))
    inside = path_inside(f"{search}:.::/usr/bin", lambda folder: not folder.endswith("unseen")).split(":")
    assert inside[:3] == [f"{tmp_path}/b", f"{tmp_path}/a", "/usr/bin"]
    assert set(inside[3:]) <= set(SYSTEM_PATH)
    assert len(set(inside)) == len(inside)
