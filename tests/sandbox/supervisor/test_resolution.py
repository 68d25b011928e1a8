"""Paths, pinned: the quick ways, the slow one, and both of them against what the kernel itself finds."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.supervisor import resolution
from sandbox.supervisor.resolution import AT_FDCWD, Place, Resolver, path_of
from sandbox.supervisor.tracees import Tracees


@pytest.fixture
def tracees() -> Iterator[Tracees]:
    mask = os.umask(0o022)
    yield Tracees()
    os.umask(mask)


@pytest.fixture
def resolver(tracees: Tracees, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    """For ourselves, in a tree with links of all kinds."""
    tree = tmp_path.resolve()
    (tree / "d/e/f").mkdir(parents=True)
    (tree / "file").write_text("")
    for name, target in (
        ("l", "d"), ("up", "d/e/.."), ("absolute", str(tree / "d")), ("chain", "l"), ("d/back", "../d/e"),
        ("cwd", "/proc/self/cwd/d"), ("thread", "/proc/thread-self/cwd"), ("dangling", "no/where"), ("loop", "loop"),
        ("one", "two"), ("two", "one"), ("tofile", "file"), ("slash", "d/"), ("root", "/"),
        ("above", "../../../../../../.."),
    ):  # fmt: skip
        (tree / name).symlink_to(target)
    monkeypatch.chdir(tree)
    found = Resolver(tracees, tracees.find(os.getpid()))
    yield found
    found.close()


FOLDERS = (
    "d", "d/", "./d", "d/e/f", "d//e///f", "d/e/..", "d/e/../e/f/../..", "l", "l/e", "chain/e/f", "absolute/e",
    "up/e", "d/back/f", "cwd", "cwd/e", "thread/d", "slash/e", "root", "root/proc/self/cwd/d", "above/etc", "/",
    "/..", "/../..",
    "/proc/self/cwd", "/proc/self/root/etc", "/proc/thread-self/cwd/d", "/dev/fd/../cwd/d", "..", "../..", ".",
    "/proc/self/fd", "/proc/self/task", "/proc/mounts/..", "/proc/self/cwd/l/e",
)  # fmt: skip


@pytest.mark.parametrize("path", FOLDERS)
def test_directories_are_those_the_kernel_finds(resolver: Resolver, path: str) -> None:
    try:
        expected = os.stat(path)
    except NotADirectoryError:
        with pytest.raises(NotADirectoryError):
            resolver.whole(AT_FDCWD, path.encode())
        return
    assert os.path.samestat(os.fstat(resolver.whole(AT_FDCWD, path.encode())), expected)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("", errno.ENOENT), ("no", errno.ENOENT), ("dangling", errno.ENOENT), ("dangling/x", errno.ENOENT),
        ("loop", errno.ELOOP), ("loop/x", errno.ELOOP), ("one/x", errno.ELOOP), ("file", errno.ENOTDIR),
        ("file/x", errno.ENOTDIR), ("tofile/x", errno.ENOTDIR), ("x" * 256, errno.ENAMETOOLONG),
        ("/proc/1/root", errno.EACCES), ("/proc/self/fd/900", errno.ENOENT), ("/proc/self/exe", errno.ENOTDIR),
    ],
)  # fmt: skip
def test_errors_are_the_kernels(resolver: Resolver, path: str, error: int) -> None:
    with pytest.raises(OSError) as refused:
        resolver.whole(AT_FDCWD, path.encode())
    assert refused.value.errno == error


def test_forty_links_and_no_more(resolver: Resolver) -> None:
    os.mkdir("end")
    for number in range(41):
        os.symlink(f"n{number - 1}" if number else "end", f"n{number}")
    assert path_of(resolver.whole(AT_FDCWD, b"n39")).endswith(b"/end")
    fresh = Resolver(resolver._tracees, resolver.tracee)
    with pytest.raises(OSError) as refused:
        fresh.whole(AT_FDCWD, b"n40/.")
    assert refused.value.errno == errno.ELOOP
    fresh.close()


@pytest.mark.parametrize(
    ("path", "folder", "name", "slash"),
    [
        ("a", "", b"a", False),
        ("a/", "", b"a", True),
        ("d/a", "/d", b"a", False),
        ("l/a//", "/d", b"a", True),
        ("d/e/../a", "/d", b"a", False),
        ("d/.", "/d", b".", False),
        ("d/e/..", "/d/e", b"..", False),
        ("chain/back/new", "/d/e", b"new", False),
        ("cwd/new", "/d", b"new", False),
    ],
)
def test_places(resolver: Resolver, path: str, folder: str, name: bytes, slash: bool) -> None:
    place = resolver.place(AT_FDCWD, path.encode())
    assert (os.fsdecode(place.folder), place.name, place.slash) == (os.getcwd() + folder, name, slash)
    assert place.spelled == name + (b"/" if slash else b"")


def test_root_is_a_place(resolver: Resolver) -> None:
    for path in (b"/", b"//"):
        assert (resolver.place(AT_FDCWD, path).folder, resolver.place(AT_FDCWD, path).name) == (b"/", b".")
    assert resolver.place(AT_FDCWD, b"/etc").path == b"/etc"


def test_places_below_a_descriptor(resolver: Resolver) -> None:
    folder = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    file = os.open("file", os.O_RDONLY)
    try:
        assert resolver.place(folder, b"e/x").folder.endswith(b"/d/e")
        assert resolver.place(folder, b"back/x").folder.endswith(b"/d/e")
        assert resolver.place(folder, b"/etc/x").folder == b"/etc"
        with pytest.raises(NotADirectoryError):
            resolver.place(file, b"e/x")
        with pytest.raises(OSError) as refused:
            resolver.place(900, b"x")
        assert refused.value.errno == errno.EBADF
    finally:
        os.close(folder)
        os.close(file)


def test_links_are_followed_one_by_one(resolver: Resolver) -> None:
    step = resolver.follow(resolver.place(AT_FDCWD, b"chain"))
    assert isinstance(step, Place) and step.name == b"l"
    step = resolver.follow(step)
    assert isinstance(step, Place) and (step.name, step.slash) == (b"d", False)
    step = resolver.follow(resolver.place(AT_FDCWD, b"slash"))
    assert isinstance(step, Place) and (step.name, step.slash) == (b"d", True)
    with pytest.raises(NotADirectoryError):
        resolver.follow(resolver.place(AT_FDCWD, b"file"))


def test_magic_links_give_what_they_are_open_on(resolver: Resolver) -> None:
    file = os.open("file", os.O_RDONLY)
    try:
        for path in (
            f"/proc/self/fd/{file}",
            f"/proc/{os.getpid()}/fd/{file}",
            f"/proc/thread-self/fd/{file}",
        ):
            found = resolver.follow(resolver.place(AT_FDCWD, path.encode()))
            assert isinstance(found, int) and os.path.samestat(os.fstat(found), os.stat("file"))
        found = resolver.follow(resolver.place(AT_FDCWD, b"/proc/self"))
        assert isinstance(found, Place) and found.name == str(os.getpid()).encode()
    finally:
        os.close(file)


def test_everything_pinned_is_closed(resolver: Resolver) -> None:
    before = len(os.listdir("/proc/self/fd"))
    fresh = Resolver(resolver._tracees, resolver.tracee)
    for path in FOLDERS:
        try:
            fresh.whole(AT_FDCWD, path.encode())
        except NotADirectoryError:
            pass
    fresh.close()
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("setting", ["0", "1"])
@pytest.mark.parametrize(
    ("mode", "folder", "link", "followed"),
    [
        (0o1777, 1, 2, False),
        (0o1777, 1, 1, True),  # the directory's owner may
        (0o1777, 1, 0, True),  # and ourselves
        (0o777, 1, 2, True),
        (0o1775, 1, 2, True),
    ],
)
def test_others_links_in_a_directory_of_all(
    resolver: Resolver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, setting: str, mode: int, folder: int,
    link: int, followed: bool,
) -> None:  # fmt: skip
    """As the kernel does where it protects links. Others' files can be made by root alone; else all are our own."""
    (tmp_path / "setting").write_text(f"{setting}\n")
    monkeypatch.setattr(resolution, "PROTECTED_LINKS", str(tmp_path / "setting"))
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/l").symlink_to("../file")
    if os.geteuid() == 0:
        os.chown(tmp_path / "shared/l", link, link, follow_symlinks=False)
        os.chown(tmp_path / "shared", folder, folder)
    (tmp_path / "shared").chmod(mode)
    place = resolver.place(AT_FDCWD, b"shared/l")
    if followed or setting == "0" or os.geteuid() != 0:
        target = resolver.follow(place)
        assert isinstance(target, Place) and target.name == b"file"
    else:
        with pytest.raises(PermissionError):
            resolver.follow(place)
