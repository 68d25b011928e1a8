"""Opening what exists through the door: nothing makes the supervisor wait, neither a lease of the host's nor a
pipe that comes in a file's place."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.sandbox.supervisor.supervised import Ground, ground_of, tried
from tests.sandbox.wrapping import PATIENCE, PEOPLE, PYTHON, as_ordinary


@pytest.fixture(params=PEOPLE)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with ground_of(request.param) as found:
        yield found


# Takes a lease, says when somebody wants the file, and gives it up once somebody has been let in meanwhile.
HOLDER = """
import fcntl, os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGIO})
file = os.open("leased", os.O_RDONLY if sys.argv[1] == "read" else os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK if sys.argv[1] == "read" else fcntl.F_WRLCK)
print("held", flush=True)
signal.sigwait({signal.SIGIO})
os.open("asked", os.O_WRONLY)
os.open("done", os.O_RDONLY)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
"""


@contextmanager
def leased(ground: Ground, kind: str) -> Iterator[None]:
    """A process of the same person outside with a lease on `leased`."""
    ground.write("leased", "content")
    for name in ("asked", "done"):
        os.mkfifo(ground.root / name)
    ground.give()
    command = [PYTHON, "-I", "-S", "-c", HOLDER, kind]
    holder = subprocess.Popen(
        command if ground.person == "root" else as_ordinary(command), cwd=ground.root, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        yield
        assert holder.wait(PATIENCE) == 0
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.parametrize("kind", ["read", "write"])
@pytest.mark.parametrize(
    "how",
    [
        "put('leased', os.O_WRONLY)",
        "put('leased')",
        "put(f'/proc/self/fd/{pinned}', os.O_WRONLY | os.O_APPEND)",
        "os.truncate('leased', 3)",
        "os.truncate(f'/proc/self/fd/{pinned}', 3)",
    ],
)
def test_a_lease_holds_up_who_asks_and_nobody_else(ground: Ground, kind: str, how: str) -> None:
    with leased(ground, kind):
        seen = tried(
            ground,
            f"""
import threading
order = []
pinned = os.open("leased", os.O_PATH)
def ask():
    t("asked", lambda: {how})
    order.append("asked")
thread = threading.Thread(target=ask)
thread.start()
os.open("asked", os.O_RDONLY)
t("meanwhile", lambda: put("a"))
order.append("meanwhile")
os.open("done", os.O_WRONLY)
thread.join()
seen["order"] = order
seen["content"] = open("leased").read()
""",
        )
    content = "con" if "truncate" in how else "new" if "('leased')" in how else ""
    content = content or ("contentnew" if "APPEND" in how else "newtent")
    assert seen == {"asked": "ok", "meanwhile": "ok", "order": ["meanwhile", "asked"], "content": content}


def test_who_does_not_wait_is_told_of_the_lease(ground: Ground) -> None:
    with leased(ground, "read"):
        seen = tried(
            ground,
            """
t("at once", lambda: put("leased", os.O_WRONLY | os.O_NONBLOCK))
os.open("asked", os.O_RDONLY)
os.open("done", os.O_WRONLY)
""",
        )
    assert seen == {"at once": "EAGAIN"}


def test_who_waits_for_a_lease_can_be_killed(ground: Ground) -> None:
    with leased(ground, "write"):
        seen = tried(
            ground,
            f"""
child = os.fork()
if not child:
    os.open("leased", os.O_WRONLY)
    os._exit(0)
os.open("asked", os.O_RDONLY)
os.kill(child, {int(signal.SIGKILL)})
seen["child"] = os.waitpid(child, 0)[1]
t("afterwards", lambda: put("a"))
os.open("done", os.O_WRONLY)
""",
        )
    assert seen == {"child": int(signal.SIGKILL), "afterwards": "ok"}


def test_a_pipe_in_a_files_place_holds_nobody_up(ground: Ground) -> None:
    """In a private mount names change while the supervisor looks. Truncating for reading is performed there too."""
    seen = tried(
        ground,
        """
import threading
os.mkfifo("/var/tmp/pipe")
put("/var/tmp/file")
put("/var/tmp/x")
over = threading.Event()
def swap():
    while not over.is_set():
        for kind in ("pipe", "file"):
            os.link("/var/tmp/" + kind, "/var/tmp/new")
            os.rename("/var/tmp/new", "/var/tmp/x")
            os.unlink("/var/tmp/new") if os.path.lexists("/var/tmp/new") else None
thread = threading.Thread(target=swap)
thread.start()
for _ in range(3000):
    try:
        os.close(os.open("/var/tmp/x", os.O_RDONLY | os.O_TRUNC | os.O_NONBLOCK))
    except OSError as error:
        assert error.errno in (errno.EACCES, errno.ENOENT), error
over.set()
thread.join()
t("afterwards", lambda: put("a"))
""",
    )
    assert seen == {"afterwards": "ok"}


def test_flags_of_what_was_opened_without_blocking(ground: Ground) -> None:
    ground.write("f")
    seen = tried(
        ground,
        """
import fcntl
def status(flags):
    file = os.open("f", flags)
    return fcntl.fcntl(file, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_APPEND | os.O_NONBLOCK | os.O_NOATIME)
for flags in (os.O_WRONLY, os.O_RDWR | os.O_APPEND, os.O_WRONLY | os.O_NONBLOCK, os.O_RDWR | os.O_NOATIME):
    seen[str(flags)] = status(flags)
    seen[str(flags | os.O_CREAT)] = status(flags | os.O_CREAT)
""",
    )
    assert all(int(asked) & ~os.O_CREAT == told for asked, told in seen.items()) and len(seen) == 8


def test_others_files_in_a_directory_of_all() -> None:
    """protected_fifos, protected_regular: whoever says O_CREAT does not get what somebody else has put there."""
    with ground_of("ordinary") as ground:
        shared = ground.root / "shared"
        shared.mkdir()
        os.mkfifo(shared / "pipe")
        (shared / "file").touch()
        command, _ = ground.command([PYTHON, "-I", "-S", "-c", PIPES])
        for name in ("pipe", "file"):
            (shared / name).chmod(0o666)
            if os.geteuid() == 0:
                os.chown(shared / name, 1, 1)
        shared.chmod(0o1777)
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    settings = [Path(f"/proc/sys/fs/protected_{name}").read_text().strip() for name in ("fifos", "regular")]
    refused = [os.geteuid() == 0 and value != "0" for value in settings]
    assert done.stdout.split() == ["EACCES" if one else "ok" for one in refused], done.stderr


PIPES = """
import errno, os
for name in ("pipe", "file"):
    try:
        os.close(os.open("shared/" + name, os.O_RDWR | os.O_CREAT))
        print("ok")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""
