"""Mounts of the wrap and the supervisor, who has none of them: what the kernel would answer to the command (EBUSY for a
mount point, EXDEV between binds, EROFS in a read-only one) has to hold when somebody outside makes the call."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.sandbox.supervisor.supervised import TRY
from tests.sandbox.wrapping import PATIENCE, PYTHON, Place

# Where the wraps' worktrees lie: both directories are the wrap's own inside.
WORK = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
number = {"x86_64": 316, "aarch64": 276}[os.uname().machine]
def exchange(one, other):
    if libc.syscall(number, -100, os.fsencode(one), -100, os.fsencode(other), 2) < 0:
        raise OSError(ctypes.get_errno(), "")
work = os.getcwd()
beside = os.path.dirname(work)
put("plain")
os.mkdir("folder")
os.mkdir(beside + "/mine")
"""

BINDS = {"write": False, "read": True, "read/write": False, "holder/deep/read": True, "one.txt": False}
# Mount points and what holds them: (path, what could take its place).
HELD = (
    ("write", "folder"), ("read", "folder"), ("holder", "folder"), ("holder/deep", "folder"), ("hidden", "folder"),
    ("one.txt", "plain"), ("secret.token", "plain"), ("masked", "folder"),
    ("../other", "../mine"), ("../closed", "../mine"), ("../work", "../mine"),
)  # fmt: skip
MOVES = """
for path, other in held:
    t(path + " away", lambda: os.rename(path, path + "-gone"))
    t(path + " replaced", lambda: os.rename(other, path))
    t(path + " exchanged", lambda: exchange(path, other))
    t(path + " exchanged for", lambda: exchange(other, path))
pinned = os.open(".", os.O_PATH)
for way in ("/proc/self/cwd/", f"/proc/self/root{work}/", f"/proc/self/fd/{pinned}/", "write/../"):
    t(way + "write", lambda: os.rename(way + "write", way + "gone"))
inside = os.open("write", os.O_PATH)
t("from inside", lambda: os.rename("../write", "../gone", src_dir_fd=inside, dst_dir_fd=inside))
"""
OTHERS = """
t("link between binds", lambda: os.link("plain", "write/x"))
plain = f"/proc/self/fd/{os.open('plain', os.O_RDONLY)}"
t("link by descriptor", lambda: os.link(plain, "write/x", follow_symlinks=True))
t("link from the read-only", lambda: os.link("read/file", "x"))
t("rename between binds", lambda: os.rename("plain", "../other/x"))
t("exchange between binds", lambda: exchange("plain", "write/file"))
t("file in the read-only", lambda: put("read/new"))
t("existing in the read-only", lambda: put("read/file", os.O_WRONLY))
t("truncate in the read-only", lambda: os.truncate("read/file", 0))
t("denied name in the read-only", lambda: put("read/.env"))
t("nameless in the read-only", lambda: put("read", os.O_TMPFILE | os.O_RDWR))
t("directory in the read-only", lambda: os.mkdir("read/new"))
t("link in the read-only", lambda: os.symlink("x", "read/new"))
t("file in the closed", lambda: put("../closed/new"))
t("link to the read-only", lambda: os.symlink("read/file", "alias"))
t("link to all of the read-only", lambda: os.symlink("read", "alias"))
t("remove a mount point", lambda: os.rmdir("write"))
t("remove a mask", lambda: os.unlink("secret.token"))
t("make a mount point", lambda: os.mkdir("write"))
t("node there", lambda: os.mknod("write"))
t("link there", lambda: os.symlink("x", "read"))
t("open a directory for writing", lambda: put("write"))
t("in a writable bind", lambda: put("write/new"))
t("in a writable bind below", lambda: put("read/write/new"))
t("denied name below", lambda: put("read/write/.env"))
t("file that is a bind", lambda: put("one.txt"))
t("file that is a bind, once more", lambda: put("one.txt", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
t("beside", lambda: put(beside + "/new"))
"""
EXPECTED = {
    "link between binds": "EXDEV", "link by descriptor": "EXDEV", "link from the read-only": "EXDEV",
    "rename between binds": "EXDEV", "exchange between binds": "EXDEV", "file in the read-only": "EROFS",
    "existing in the read-only": "EROFS", "truncate in the read-only": "EROFS",
    "denied name in the read-only": "EROFS", "nameless in the read-only": "EROFS",
    "directory in the read-only": "EROFS", "link in the read-only": "EROFS", "file in the closed": "EROFS",
    "link to the read-only": "EACCES", "link to all of the read-only": "EACCES", "remove a mount point": "EBUSY",
    "remove a mask": "EBUSY", "make a mount point": "EEXIST", "node there": "EEXIST", "link there": "EEXIST",
    "open a directory for writing": "EISDIR", "in a writable bind": "ok", "in a writable bind below": "ok",
    "denied name below": "EACCES", "file that is a bind": "ok", "file that is a bind, once more": "EEXIST",
    "beside": "ok",
}  # fmt: skip


def laid_out(place: Place) -> list[list[object]]:
    """What is bound, in the form of a spec."""
    work = place.worktree
    for folder in ("write", "read/write", "holder/deep/read", "masked", "hidden", "../other", "../closed"):
        (work / folder).mkdir(parents=True)
    for name in (
        "write/file",
        "read/file",
        "one.txt",
        "secret.token",
        "masked/secret.token",
        "../closed/file",
    ):
        place.write(work / name, "before")
    binds: list[list[object]] = [[str(work), False], [str(place.root / "other"), False]]
    binds += [[str(work / name), read_only] for name, read_only in BINDS.items()]
    return [*binds, [str(place.root / "closed"), True]]


def told(place: Place, script: str) -> dict[str, str]:
    """What came of each `t` of a script."""
    program = f"{TRY}{WORK}\nheld = {HELD!r}\n{script}\ntold()"
    binds = laid_out(place)
    done = place.run(
        PYTHON, "-I", "-S", "-B", "-c", program,
        file_rules="create-time", bind_mounts=binds, deny_read=["*.token", "hidden"],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen: dict[str, str] = json.loads(done.stdout)
    return seen


def portrait(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else ""
        for path in folder.rglob("*")
    }


def test_nothing_is_moved_from_where_a_mount_is(place: Place) -> None:
    """It would come out from under its mask, its bind, or the rules that are found by its path."""
    seen = told(place, MOVES)
    assert len(seen) == 4 * len(HELD) + 5
    assert set(seen.values()) == {"EACCES"}, {
        name: found for name, found in seen.items() if found != "EACCES"
    }
    after = portrait(place.worktree)
    assert sorted(after) == sorted((
        "folder", "hidden", "holder", "holder/deep", "holder/deep/read", "masked", "masked/secret.token", "one.txt",
        "plain", "read", "read/file", "read/write", "secret.token", "write", "write/file",
    ))  # fmt: skip
    assert {after[name] for name in ("secret.token", "masked/secret.token", "one.txt", "read/file")} == {
        "before"
    }


def test_the_kernel_s_answers_are_the_wrap_s(place: Place) -> None:
    assert told(place, OTHERS) == EXPECTED
    after = portrait(place.worktree)
    assert (after["one.txt"], after["read/file"], after["secret.token"]) == ("new", "before", "before")
    assert (place.root / "closed/file").read_text() == "before"


@pytest.mark.parametrize("above", ["/var/tmp"])
def test_a_worktree_in_another_of_the_wrap_s_mounts(place: Place, above: str) -> None:
    """The same as in /tmp, where the tests' places lie."""
    done = subprocess.run(
        ("mktemp", "-d", f"{above}/wrap-XXXXXX"), check=True, capture_output=True, text=True, timeout=PATIENCE
    )
    elsewhere = Place(place.person, Path(done.stdout.strip()))
    try:
        elsewhere.root.chmod(0o755)
        elsewhere.worktree.mkdir()
        elsewhere.write(elsewhere.home / ".ssh/id", "key", 0o600)
        elsewhere.home.chmod(0o700)
        seen = told(elsewhere, MOVES)
        assert set(seen.values()) == {"EACCES"}, seen
    finally:
        subprocess.run(("rm", "-rf", str(elsewhere.root)), check=True, timeout=PATIENCE)
