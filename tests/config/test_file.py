"""Which file is taken, and what a file must be before anything in it is read."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from gateway.config import ConfigError, check_config, find_config, load_config
from gateway.config.file import MAX_FILE, VARIABLE
from gateway.errors import UsageError
from tests.fakes.config_files import LISTS, assert_refused, load, write

NOBODY = 65534


def below(folder: Path) -> Path:
    """The config file's place below a config home, with its folder made."""
    path = folder / "agent-gateway" / "config.yaml"
    path.parent.mkdir(parents=True)
    return path


def test_option_beats_variable_beats_home(tmp_path: Path) -> None:
    below(tmp_path / "xdg").write_text("{}")
    below(tmp_path / "home" / ".config").write_text("{}")
    environ = {
        VARIABLE: "/named/by/variable.yaml",
        "XDG_CONFIG_HOME": str(tmp_path / "xdg"),
        "HOME": str(tmp_path / "home"),
    }
    assert find_config("given.yaml", environ) == Path("given.yaml")
    assert find_config(None, environ) == Path("/named/by/variable.yaml")
    assert find_config(None, environ | {VARIABLE: ""}) == tmp_path / "xdg/agent-gateway/config.yaml"
    for unset in ("", "relative"):
        found = find_config(None, environ | {VARIABLE: "", "XDG_CONFIG_HOME": unset})
        assert found == tmp_path / "home/.config/agent-gateway/config.yaml"


@pytest.mark.parametrize(
    "environ", [{"HOME": "{tmp}"}, {"HOME": "{tmp}/missing"}, {"XDG_CONFIG_HOME": "{tmp}"}]
)
def test_no_file_in_the_home_means_defaults(tmp_path: Path, environ: Mapping[str, str]) -> None:
    filled = {name: value.format(tmp=tmp_path) for name, value in environ.items()}
    assert find_config(None, filled) is None


def test_what_stands_in_the_home_counts_even_if_broken(tmp_path: Path) -> None:
    path = below(tmp_path)
    path.symlink_to(tmp_path / "gone")
    assert find_config(None, {"XDG_CONFIG_HOME": str(tmp_path)}) == path
    with pytest.raises(ConfigError, match="symbolic link to a file that does not exist"):
        load_config(path, LISTS)


def test_working_directory_never_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "sandbox: off")
    below(tmp_path / ".config").write_text("sandbox: off")
    monkeypatch.chdir(tmp_path)
    assert find_config(None, {"XDG_CONFIG_HOME": ".config", "HOME": str(tmp_path / "home")}) is None
    with pytest.raises(UsageError, match="relative path"):
        find_config(None, {VARIABLE: "config.yaml"})


def test_empty_option_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="empty"):
        find_config("", {})


@pytest.fixture
def powerless() -> Iterator[None]:
    """Root may read everything, so that as root the test goes on as nobody."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    yield
    os.seteuid(user)


@pytest.fixture
def unreadable(tmp_path: Path) -> Path:
    """A config file without any right, below a folder that may be searched by its owner only."""
    path = below(tmp_path / "home")
    path.write_text("{}")
    path.chmod(0)
    tmp_path.chmod(0o700)
    return path


def test_permission_denied_is_reported_as_such(unreadable: Path, powerless: None) -> None:
    found = check_config(unreadable, LISTS)
    assert [str(problem) for problem in found] == [
        f"{unreadable}: cannot be read, permission denied: let the user who runs the gateway read it"
    ]
    with pytest.raises(ConfigError):
        load_config(unreadable, LISTS)


@pytest.fixture
def closed_home(unreadable: Path) -> Iterator[Path]:
    """A config home that may not even be searched."""
    home = unreadable.parent.parent
    home.chmod(0)
    yield home
    home.chmod(0o700)


def test_home_that_may_not_be_searched_is_no_missing_file(closed_home: Path, powerless: None) -> None:
    found = find_config(None, {"XDG_CONFIG_HOME": str(closed_home)})
    assert found == closed_home / "agent-gateway" / "config.yaml"
    assert "permission denied" in check_config(found, LISTS)[0].message


def missing(folder: Path) -> Path:
    return folder / "gone" / "config.yaml"


def directory(folder: Path) -> Path:
    return folder


def pipe(folder: Path) -> Path:
    path = folder / "pipe.yaml"
    os.mkfifo(path)
    return path


def device(_: Path) -> Path:
    return Path("/dev/null")


def broken_link(folder: Path) -> Path:
    path = folder / "link.yaml"
    path.symlink_to(folder / "gone.yaml")
    return path


def circle(folder: Path) -> Path:
    path = folder / "circle.yaml"
    path.symlink_to(path)
    return path


def below_a_file(folder: Path) -> Path:
    return write(folder, "{}") / "config.yaml"


def too_long_a_name(folder: Path) -> Path:
    return folder / ("x" * 300)


@pytest.mark.parametrize(
    ("make", "fragment"),
    [
        (missing, "there is no such file"),
        (directory, "a directory, not a file"),
        (pipe, "a socket or a device, not a file"),
        (device, "a socket or a device, not a file"),
        (broken_link, "a symbolic link to a file that does not exist"),
        (circle, "leads in a circle"),
        (below_a_file, "is not a directory"),
        (too_long_a_name, "see to it that it can be read"),
    ],
)
def test_what_is_no_readable_file_is_refused(
    tmp_path: Path, make: Callable[[Path], Path], fragment: str
) -> None:
    path = make(tmp_path)
    found = check_config(path, LISTS)
    assert [(problem.file, problem.line) for problem in found] == [(str(path), 0)]
    assert "cannot be read" in found[0].message
    assert fragment in found[0].message
    with pytest.raises(ConfigError):
        load_config(path, LISTS)


def test_link_to_a_file_is_followed(tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(write(tmp_path, "sandbox: off"))
    assert load_config(link, LISTS).sandbox is False


CONTENT_REFUSED = (
    ("empty", b"", 1, "the file is empty"),
    ("only a mark", b"\xef\xbb\xbf", 1, "the file is empty"),
    ("only comments", b"# sandbox: on\n\n", 1, "the file is empty"),
    ("only spaces", b"   \n\n", 1, "the file is empty"),
    ("only a document start", b"---\n", 1, "the file is empty"),
    ("null", b"null\n", 1, "the file is empty"),
    ("NUL", b"sandbox: on\npush: {label: a\0b}\n", 2, "a NUL byte"),
    ("UTF-16", "sandbox: on\n".encode("utf-16"), 1, "a NUL byte"),
    ("a program", b"\x7fELF\x02\x01\x01" + bytes(9), 1, "a NUL byte"),
    ("Latin-1", b"sandbox: on\n# caf\xe9\n", 2, "a byte that is not UTF-8"),
    ("a surrogate", b"# \xed\xa0\x80\n", 1, "a byte that is not UTF-8"),
    ("an overlong slash", b"a\n\r\n# \xc0\xaf\n", 3, "a byte that is not UTF-8"),
    ("BEL", b"sandbox: on\n# \x07\n", 2, "an invisible character, U+0007"),
    ("ESC", b"# \x1b[2J\n", 1, "an invisible character, U+001B"),
    ("reordered text", "# \u202e\n".encode(), 1, "an invisible character, U+202E"),
    ("line separator", "sandbox: on\n\n# \u2028\n".encode(), 3, "an invisible character, U+2028"),
    ("next line", "# \x85\n".encode(), 1, "an invisible character, U+0085"),
    (
        "a mark inside",
        "sandbox: on\n\ufeffworktree: in-place\n".encode(),
        2,
        "an invisible character, U+FEFF",
    ),
    ("two marks", b"\xef\xbb\xbf\xef\xbb\xbfsandbox: on\n", 1, "an invisible character, U+FEFF"),
    ("too large", b"sandbox: on\n" + b"#" * MAX_FILE, 0, "more than 1048576 bytes"),
)


@pytest.mark.parametrize(
    ("content", "line", "fragment"),
    [row[1:] for row in CONTENT_REFUSED],
    ids=[row[0] for row in CONTENT_REFUSED],
)
def test_content_is_refused_with_its_line(tmp_path: Path, content: bytes, line: int, fragment: str) -> None:
    assert_refused(tmp_path, content, line, fragment)


def test_every_line_with_an_invisible_character_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, "# \x01\x02\n\n# \x03\n")
    assert [problem.line for problem in check_config(path, LISTS)] == [1, 3]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfsandbox: off\npush: {label: x}\n",
        b"sandbox: off\r\npush: {label: x}\r\n",
        b"sandbox: off\rpush: {label: x}\r",
        b"\xef\xbb\xbf# x\r\n---\r\nsandbox: off\r\npush:\r\n  label: x",
        "# ü → 漢\nsandbox: off\npush: {label: x}\n".encode(),
        b"sandbox: off\npush: {label: x}\n#" + b"x" * (MAX_FILE - 100),
    ],
)
def test_marks_and_line_ends_do_not_matter(tmp_path: Path, content: bytes) -> None:
    config = load(tmp_path, content)
    assert (config.sandbox, config.push.label) == (False, "x")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_counted_alike_for_every_line_end(tmp_path: Path, end: str) -> None:
    assert_refused(tmp_path, end.join(["# one", "", "sandbox: on", "nothing: 1", ""]), 4, "unknown key")


def test_paths_are_shown_printable(tmp_path: Path) -> None:
    path = tmp_path / "con\nfig.yaml"
    path.write_text("x: 1")
    with pytest.raises(ConfigError) as caught:
        load_config(path, LISTS)
    assert "\n" not in str(caught.value)
