"""What is open already, opened again: no more rights than the descriptor has where the wrap does not show the file."""

import json
import os
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from sandbox.supervisor.reopening import is_walled
from tests.sandbox.supervisor.supervised import TRY, ground_of
from tests.sandbox.wrapping import PATIENCE, PEOPLE, PYTHON, Place


def told(place: Place, script: str, stdin: int, stdout: int = subprocess.DEVNULL) -> dict[str, object]:
    """What came of each `t` of a script in a launch whose command has these streams."""
    argv = [PYTHON, "-I", "-S", "-B", "-c", TRY + script + "\nos.write(2, json.dumps(seen).encode())"]
    command = place.command(argv, file_rules="create-time")
    done = subprocess.run(
        command, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False,
        env={"PATH": "/usr/bin:/bin"}, stdin=stdin, stdout=stdout,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stderr)
    return found


REOPENS = """
for name in ("/proc/self/fd/0", "/dev/stdin", "/dev/fd/0"):
    t(name + " w", lambda: put(name, os.O_WRONLY))
    t(name + " rw", lambda: put(name, os.O_RDWR))
    t(name + " append", lambda: put(name, os.O_WRONLY | os.O_APPEND))
    t(name + " trunc", lambda: put(name, os.O_RDONLY | os.O_TRUNC, b""))
    t(name + " truncate", lambda: os.truncate(name, 1))
    t(name + " three", lambda: put(name, 3, b""))
t("link", lambda: os.link("/proc/self/fd/0", "mine", follow_symlinks=True))
t("r", lambda: os.read(os.open("/dev/stdin", os.O_RDONLY), 9).decode())
"""


@pytest.mark.parametrize("beside", [False, True], ids=["elsewhere", "in a directory of the wrap's name"])
def test_a_file_for_reading_stays_one(place: Place, beside: bool) -> None:
    """Also where its path means something else inside: /tmp is the wrap's own, with the worktree in it."""
    folder = place.root if beside else place.home
    path = place.write(folder / "input", "content", 0o666)
    place.give()
    with path.open() as file:
        seen = told(place, REOPENS, stdin=file.fileno())
    assert seen.pop("r") == "content"
    assert set(seen.values()) <= {"EACCES", "EXDEV"}, seen
    assert path.read_text() == "content"


def test_a_file_for_writing_stays_one(place: Place) -> None:
    path = place.write(place.root / "output", "content", 0o666)
    place.give()
    with path.open("r+") as file:
        os.truncate(file.fileno(), 0)
        with open(path, "ab") as appending:
            seen = told(
                place,
                """
t("w", lambda: put("/dev/stdout", os.O_WRONLY | os.O_APPEND))
t("rw", lambda: put("/dev/stdout", os.O_RDWR))
t("both", lambda: put("/proc/self/fd/0", os.O_RDWR | os.O_APPEND, b"+"))
t("fresh", lambda: put("/dev/stdout"))
""",
                stdin=file.fileno(),
                stdout=appending.fileno(),
            )
    assert seen == {"w": "ok", "rw": "EACCES", "both": "ok", "fresh": "ok"}
    assert path.read_text() == "new"


def test_a_file_that_is_shown_is_opened_as_ever(place: Place) -> None:
    place.write(place.worktree / "shown", "content")
    place.give()
    with (place.worktree / "shown").open() as file:
        seen = told(
            place,
            """
t("shown", lambda: put("/dev/stdin", os.O_WRONLY))
for folder in ("/tmp", "/var/tmp", "."):
    put(folder + "/own")
    kept = os.open(folder + "/own", os.O_RDONLY)
    t(folder, lambda: put(f"/dev/fd/{kept}", os.O_WRONLY))
    os.unlink(folder + "/own")
    t(folder + " without a name", lambda: put(f"/dev/fd/{kept}", os.O_WRONLY))
memory = os.memfd_create("x")
t("memory", lambda: put(f"/proc/self/fd/{memory}", os.O_RDWR))
""",
            stdin=file.fileno(),
        )
    assert set(seen.values()) == {"ok"}, seen


IN_FOLDER = """
new = os.O_WRONLY | os.O_CREAT
t("open", lambda: put("x", new, dir_fd=5))
t("existing", lambda: put("file", os.O_WRONLY, dir_fd=5))
t("trunc", lambda: put("file", os.O_RDONLY | os.O_TRUNC, b"", dir_fd=5))
t("nameless", lambda: put(".", os.O_TMPFILE | os.O_RDWR, dir_fd=5))
t("mkdir", lambda: os.mkdir("x", dir_fd=5))
t("mknod", lambda: os.mknod("x", dir_fd=5))
t("symlink", lambda: os.symlink("x", "x", dir_fd=5))
t("rename", lambda: os.rename("file", "x", src_dir_fd=5, dst_dir_fd=5))
t("link", lambda: os.link("file", "x", src_dir_fd=5, dst_dir_fd=5))
t("by procfs", lambda: put("/proc/self/fd/5/x"))
t("truncate", lambda: os.truncate("/proc/self/fd/5/file", 0))
import socket
def reach(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.connect(path)
t("socket", lambda: reach("/proc/self/fd/5/socket"))
os.fchdir(5)
t("from there", lambda: put("x"))
t("truncate there", lambda: os.truncate("file", 0))
t("socket there", lambda: reach("socket"))
print(json.dumps(seen))
"""


@pytest.mark.parametrize("above", ["/tmp", "/var/tmp"])
@pytest.mark.parametrize("person", PEOPLE)
def test_nothing_is_made_in_a_directory_that_is_not_shown(person: str, above: str) -> None:
    """Whatever its path means inside: there /var/tmp is private, and nobody is asked whom to connect to."""
    with (
        ground_of(person) as ground,
        tempfile.TemporaryDirectory(dir=above) as other,
        socket.socket(socket.AF_UNIX) as one,
    ):
        Path(other, "file").write_text("content")
        one.bind(f"{other}/socket")
        one.listen()
        for name in (other, f"{other}/file", f"{other}/socket"):
            os.chmod(name, 0o777)
        done = ground.python(TRY + IN_FOLDER, folder=other)
        assert done.code == 0, done.err
        assert set(json.loads(done.out).values()) == {"EACCES"}, done.out
        assert sorted(os.listdir(other)) == ["file", "socket"]
        assert Path(other, "file").read_text() == "content"


@pytest.mark.parametrize("flags", range(4))
@pytest.mark.parametrize("truncates", [False, True])
def test_only_what_the_wall_would_stop_is_left_to_the_kernel(flags: int, truncates: bool) -> None:
    """Landlock goes by the right to write; of truncating it knows nothing, and access mode 3 asks for no right."""
    asked = flags | (os.O_TRUNC if truncates else 0)
    assert is_walled(asked) is (flags in (os.O_WRONLY, os.O_RDWR) or (flags == os.O_RDONLY and not truncates))


def test_paths_of_the_test_differ_inside(place: Place) -> None:
    """What the tests above rest on: the place lies in /tmp, which is another one inside."""
    assert place.root.is_relative_to(Path("/tmp"))
