"""How the view of /etc becomes directories, links, copies and as few mounts as can be."""

import os
import threading
from pathlib import Path

import pytest

from sandbox import etc_layout
from sandbox.etc import view_etc
from sandbox.etc_layout import COPIES_LIMIT, COPY_LIMIT, ENTRY_LIMIT, EtcLayout
from tests.sandbox.test_etc import Tree, build


def laid_out(root: Path) -> tuple[list[str], dict[str, bytes]]:
    """The arguments and the copies, with paths relative to the root."""
    arguments, files = EtcLayout(str(root)).now()
    return (
        [argument.removeprefix(f"{root}/") for argument in arguments],
        {file.path.removeprefix(f"{root}/"): file.content for file in files},
    )


def test_small_files_are_copied(tmp_path: Path) -> None:
    build(tmp_path, {"os-release": 0o644, "shells": 0o600, "localtime": "/usr/share/zoneinfo/Etc/UTC"})
    assert laid_out(tmp_path) == (
        ["--symlink", "/usr/share/zoneinfo/Etc/UTC", "localtime"],
        {"os-release": b"content"},
    )


def test_small_directories_are_copied(tmp_path: Path) -> None:
    build(tmp_path, {"perl/a": 0o644, "perl/b/c": 0o644, "perl/b/link": "../a", "vim": None})
    assert laid_out(tmp_path) == (
        ["--dir", "perl", "--dir", "perl/b", "--symlink", "../a", "perl/b/link", "--dir", "vim"],
        {"perl/a": b"content", "perl/b/c": b"content"},
    )


@pytest.mark.parametrize(("count", "copied"), [(ENTRY_LIMIT - 1, True), (ENTRY_LIMIT, False)])
def test_large_directories_are_bound(tmp_path: Path, count: int, copied: bool) -> None:
    build(tmp_path, {f"fonts/{number}": 0o644 for number in range(count)})
    arguments, files = laid_out(tmp_path)
    assert (arguments, len(files)) == (
        (["--dir", "fonts"], count) if copied else (["--ro-bind", "fonts", "fonts"], 0)
    )


@pytest.mark.parametrize(("size", "copied"), [(COPY_LIMIT, True), (COPY_LIMIT + 1, False)])
def test_large_files_are_bound(tmp_path: Path, size: int, copied: bool) -> None:
    for name in ("magic", "maven/settings.xml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    arguments, files = laid_out(tmp_path)
    assert list(files) == (["magic", "maven/settings.xml"] if copied else [])
    assert ("--ro-bind" in arguments) is not copied


def test_no_more_copies_than_one_message_carries(tmp_path: Path) -> None:
    build(tmp_path, {f"python{number}/{name}": 0o644 for number in range(40) for name in "abcd"})
    arguments, files = laid_out(tmp_path)
    assert COPIES_LIMIT - ENTRY_LIMIT < len(files) <= COPIES_LIMIT
    assert arguments.count("--dir") + arguments.count("--ro-bind") == 40


def test_closed_part_is_not_copied(tmp_path: Path) -> None:
    build(tmp_path, {"ssl/openssl.cnf": 0o644, "ssl/private/server": 0o644, "ssl/other": 0o640})
    assert laid_out(tmp_path) == ([], {"ssl/openssl.cnf": b"content"})


def test_mode_is_looked_at_again_when_a_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the look and the copy it may have become somebody's own."""
    build(tmp_path, {"magic": 0o644})

    def later(root: str, seen: dict[str, int]) -> object:
        found = view_etc(root, seen)
        (tmp_path / "magic").chmod(0o600)
        return found

    monkeypatch.setattr(etc_layout, "view_etc", later)
    assert laid_out(tmp_path)[1] == {}


# --- What is remembered ---------------------------------------------------------------------------


def change_content(root: Path) -> None:
    (root / "magic").write_text("other")


def change_mode(root: Path) -> None:
    (root / "perl/a").chmod(0o600)


def add(root: Path) -> None:
    build(root, {"shells": 0o644})


def add_deep(root: Path) -> None:
    build(root, {"fonts/deep/down/er": 0o644})


def remove(root: Path) -> None:
    (root / "magic").unlink()


def replace_link(root: Path) -> None:
    (root / "localtime").unlink()
    (root / "localtime").symlink_to("elsewhere")


def close_directory(root: Path) -> None:
    (root / "perl").chmod(0o700)


def close_folder_of_a_name(root: Path) -> None:
    (root / "ssh").chmod(0o700)


def name_below_a_folder(root: Path) -> None:
    build(root, {"default/locale": 0o644})


def same_size_and_time(root: Path) -> None:
    """What only the time of its inode's change tells."""
    about = (root / "magic").stat()
    (root / "magic").write_text("CONTENT")
    os.utime(root / "magic", ns=(about.st_atime_ns, about.st_mtime_ns))


TREE: Tree = {
    "magic": 0o644, "perl/a": 0o644, "localtime": "/usr", "ssh/ssh_config": 0o644, "default/grub": 0o644,
    **{f"fonts/deep/down/{number}": 0o644 for number in range(20)},
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        change_content, change_mode, add, add_deep, remove, replace_link, close_directory, close_folder_of_a_name,
        name_below_a_folder, same_size_and_time,
    ],
)  # fmt: skip
def test_change_is_seen(tmp_path: Path, change: object) -> None:
    build(tmp_path, TREE)
    layout = EtcLayout(str(tmp_path))
    before = layout.now()
    assert layout.now() is before
    assert callable(change)
    wait_for_the_clock(tmp_path)
    change(tmp_path)
    after = layout.now()
    assert after is not before
    assert after == EtcLayout(str(tmp_path)).now()
    assert after != before or change is add_deep  # what is bound as a whole is bound as before


def wait_for_the_clock(folder: Path) -> None:
    """The file system's clock moves in steps: until it stands elsewhere."""
    probe = folder.parent / f"{folder.name}-clock"
    probe.touch()
    begun = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == begun:
        probe.chmod(0o600)


def test_directory_that_is_not_there(tmp_path: Path) -> None:
    layout = EtcLayout(str(tmp_path / "missing"))
    assert layout.now() == ((), ())
    build(tmp_path / "missing", {"magic": 0o644})
    assert len(layout.now()[1]) == 1


def test_from_many_threads(tmp_path: Path) -> None:
    build(tmp_path, TREE)
    layout = EtcLayout(str(tmp_path))
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(layout.now())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one == found[0] for one in found)


# --- This host ------------------------------------------------------------------------------------


def test_etc_is_shown_piece_by_piece() -> None:
    arguments, files = EtcLayout().now()
    shown = {*arguments, *(file.path for file in files)}
    assert "/etc" not in shown
    assert "/etc/nsswitch.conf" in shown
    for name in (
        "shadow",
        "gshadow",
        "sudoers",
        "machine-id",
        "passwd",
        "hosts",
        "resolv.conf",
        "ssl/private",
    ):
        assert f"/etc/{name}" not in shown
