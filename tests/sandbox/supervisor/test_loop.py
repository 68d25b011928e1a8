"""The loop: whatever it does not understand is refused, and nothing that a caller does ends it."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.supervisor.call import Call, Door, Gone
from sandbox.supervisor.judgement import Judge
from sandbox.supervisor.loop import BROKEN, UNREADABLE, Loop
from sandbox.supervisor.report import Reporter
from sandbox.supervisor.rules import DoorRules
from sandbox.supervisor.tracee import Stale
from tests.sandbox.supervisor.supervised import Ground, ground_of, tried
from tests.sandbox.wrapping import NOBODY, PATIENCE, PEOPLE


@pytest.fixture(params=PEOPLE)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with ground_of(request.param) as found:
        yield found


def test_errors_of_our_own_are_refusals() -> None:
    """Nobody hears these answers (there is no listener); they are told all the same, and the loop goes on."""
    mask = os.umask(0o022)
    reader, writer = os.pipe()
    with open("/dev/null", "rb") as nobody:
        door = Door(nobody.fileno(), Judge(DoorRules(canary="0" * 16)), Reporter(writer, lambda: 0.0))
        loop = Loop(door, {})

        def fails(error: BaseException) -> None:
            def handler(call: Call) -> None:
                raise error

            loop.handle(1, os.getpid(), ("openat", handler), (0,) * 6)

        for error in (
            ValueError("odd"),
            MemoryError(),
            RecursionError(),
            OSError(),
            Gone(),
            Stale(),
            OverflowError(),
        ):
            fails(error)
    os.umask(mask)
    told = [json.loads(line)["violation"] for line in os.read(reader, 1 << 16).splitlines()]
    assert {line[3] for line in told} == {BROKEN}
    assert {line[1].partition("(")[0] for line in told} == {
        "ValueError",
        "MemoryError",
        "RecursionError",
        "OverflowError",
    }
    os.close(reader)
    os.close(writer)


def test_floods_are_counted(ground: Ground) -> None:
    done = ground.python(
        "import os\nfor number in range(5000):\n    try: os.open('.env', os.O_CREAT | os.O_WRONLY)\n"
        "    except OSError: pass"
    )
    assert done.code == 0
    assert {(one[0], one[1], one[2]) for one in done.violations} == {
        ("file-write-create", str(ground.root / ".env"), ".env")
    }
    assert sum(one[3] for one in done.violations) == 5000
    assert len(done.violations) < 50


def test_requests_that_make_no_sense(ground: Ground) -> None:
    seen = tried(
        ground,
        """
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(*arguments):
    if libc.syscall(*(ctypes.c_long(one) if isinstance(one, int) else one for one in arguments)) < 0:
        raise OSError(ctypes.get_errno(), "")
X = os.uname().machine == "x86_64"
OPENAT, RENAMEAT2, MKDIRAT, LINKAT, CONNECT = (257, 316, 258, 265, 42) if X else (56, 276, 34, 37, 203)
t("no path", lambda: call(OPENAT, -100, 0, 1, 0))
t("kernel's memory", lambda: call(OPENAT, -100, -4096, 1, 0))
t("all ones", lambda: call(OPENAT, -1, -1, -1, -1))
t("wide descriptor", lambda: call(OPENAT, (1 << 40) | 77, b"x", 0o101, 0o600))
t("wide flags", lambda: call(OPENAT, -100, b"wide", (1 << 40) | 0o101, 0o600))
t("all flags", lambda: call(OPENAT, -100, b"all", 0o101 | 0x70000000, 0o600))
t("negative", lambda: call(MKDIRAT, -7, b"x", 0o700))
t("rename nothing", lambda: call(RENAMEAT2, -100, 0, -100, 0, 0))
t("link nothing", lambda: call(LINKAT, -100, b"", -100, b"x", 0x1000))
t("connect nothing", lambda: call(CONNECT, 0, 0, 0))
t("connect far", lambda: call(CONNECT, 77, b"\\1\\0/x", 4))
t("afterwards", lambda: put("a"))
""",
    )
    assert seen.pop("afterwards") == "ok"
    assert seen.pop("wide flags") == "ok"
    assert seen.pop("all flags") == "ok"
    assert seen.pop("link nothing") in ("ENOENT", "EPERM", "EACCES", "EISDIR")
    assert set(seen.values()) <= {"EFAULT", "EBADF", "EINVAL", "ENOTSOCK"}


@pytest.mark.parametrize("person", [person for person in PEOPLE if os.geteuid() == 0])
def test_programs_that_cannot_be_read(person: str) -> None:
    """Their memory is closed to us: everything they create is refused, and told as what it is."""
    with ground_of(person) as ground:
        place = Path(shutil.copy("/usr/bin/touch", ground.root.parent / "touch"))
        command, violations = ground.command([str(place), "made"])
        os.chown(place, 0 if person == "ordinary" else NOBODY, 0)
        place.chmod(0o711)
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert done.returncode != 0
        assert "Permission denied" in done.stderr
        told = [json.loads(line) for line in violations.read_text().splitlines()]
        assert [one[2] for one in told] == [UNREADABLE]
        assert not (ground.root / "made").exists()
