"""What is allowed behaves as without the door: the same random work in plain bubblewrap and in a wrap with wall and
door, operation by operation, and then both trees in every detail.

Names are harmless ones, so nothing is denied. Which of two errors is told where both apply may differ.
"""

import json
import os
import stat
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.wrapping import HERE, NOBODY, PYTHON, Place, as_ordinary

PATIENCE = 120
COUNT = 400
SEEDS = (1, 2, 3, 4, 5, 6)
# Of operations that fail on both sides, those that may give another reason.
OTHER_ERRORS = 0.08


# Of a directory of a group that the wrap does not have.
OTHERS_GROUP = 12_345
# linux/posix_acl_xattr.h: version, then (tag, rights, id): what new files allow in a directory. Their owner all, the
# user NOBODY reading, a group and everybody else to the last of them writing, whatever the file mask says.
DEFAULT_LIST = struct.pack(
    "<I" + 6 * "HHI", 2,
    *(0x01, 7, 0xFFFFFFFF), *(0x02, 4, NOBODY), *(0x04, 6, 0xFFFFFFFF), *(0x08, 6, 0), *(0x10, 6, 0xFFFFFFFF),
    *(0x20, 2, 0xFFFFFFFF),
)  # fmt: skip
LISTS = ("system.posix_acl_access", "system.posix_acl_default")


def prepare(place: Place) -> None:
    """Directories in which new files get more than their maker's mode and group."""
    for name, mode in (("shared", 0o3777), ("listed", 0o2755)):
        folder = place.worktree / name
        folder.mkdir()
        if os.geteuid() == 0:
            os.chown(folder, NOBODY if place.person == "ordinary" else 0, OTHERS_GROUP)
        folder.chmod(mode)
    os.setxattr(place.worktree / "listed", "system.posix_acl_default", DEFAULT_LIST)


def lists_of(path: Path) -> dict[str, str]:
    """The access lists of an entry."""
    found = os.listxattr(path, follow_symlinks=False)
    return {name: os.getxattr(path, name, follow_symlinks=False).hex() for name in LISTS if name in found}


def work(place: Place, seed: int, door: bool) -> list[list[Any]]:
    """Runs the operations of a seed; what each was and what came of it."""
    argv = [
        PYTHON,
        "-I",
        "-S",
        "-B",
        str(place.root / "operations.py"),
        str(seed),
        str(COUNT),
        str(place.worktree),
    ]
    what = {"roots": [str(place.worktree)], "argv": argv, "door": door}
    file = place.write(place.root / "guarded.json", json.dumps(what))
    place.write(place.root / "operations.py", (HERE / "operations.py").read_text())
    place.give()
    prepare(place)
    command = [PYTHON, "-B", str(HERE / "guarded.py"), str(file)]
    done = subprocess.run(
        command if place.person == "root" else as_ordinary(command), capture_output=True, text=True,
        timeout=PATIENCE, check=False, env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def portrait(tree: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a directory: kind and mode, owner, content, and which names are the same file."""
    found: dict[str, tuple[object, ...]] = {".": (oct(tree.stat().st_mode), tree.stat().st_nlink)}
    first: dict[int, str] = {}
    for folder, folders, files in os.walk(tree):
        for name in sorted((*folders, *files)):
            path = Path(folder, name)
            about = path.lstat()
            content: object = None
            if stat.S_ISREG(about.st_mode):
                content = path.read_bytes()
            elif stat.S_ISLNK(about.st_mode):
                content = os.readlink(path)
            shown = str(path.relative_to(tree))
            same = first.setdefault(about.st_ino, shown) if not stat.S_ISDIR(about.st_mode) else shown
            who = (about.st_uid, about.st_gid)
            found[shown] = (oct(about.st_mode), *who, about.st_nlink, content, same, lists_of(path))
    return found


def clear(tree: Path) -> None:
    """Empties a directory whatever the modes below it, and makes it as it was."""
    tree.chmod(0o755)
    subprocess.run(
        ("find", str(tree), "-mindepth", "1", "-type", "d", "-exec", "chmod", "700", "{}", "+"), check=True
    )
    subprocess.run(("find", str(tree), "-mindepth", "1", "-delete"), check=True)


def failed(result: object) -> bool:
    """Whether an operation gave an error, or one of its parts did."""
    return isinstance(result, str)


@pytest.mark.parametrize("seed", SEEDS)
def test_same_work_comes_to_the_same(place: Place, seed: int) -> None:
    plain = work(place, seed, door=False)
    expected = portrait(place.worktree)
    clear(place.worktree)
    guarded = work(place, seed, door=True)
    assert len(plain) == len(guarded) == COUNT
    others = 0
    for number, (one, other) in enumerate(zip(plain, guarded, strict=True)):
        assert one[0] == other[0], f"operation {number}: they parted before"
        if failed(one[1]) and failed(other[1]):
            others += one[1] != other[1]
        else:
            assert one == other, f"operation {number} of seed {seed}"
    assert portrait(place.worktree) == expected
    assert sum(not failed(result) for _, result in plain) > COUNT / 8, "hardly anything succeeded"
    assert others <= OTHER_ERRORS * COUNT
    clear(place.worktree)
