"""open through the door: what is opened, with what, and what is refused."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from tests.sandbox.supervisor.supervised import TRY, Ground, ground_of, tried
from tests.sandbox.wrapping import PATIENCE, PEOPLE


@pytest.fixture(params=PEOPLE)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with ground_of(request.param) as found:
        yield found


def test_what_is_denied_and_what_is_not(ground: Ground) -> None:
    ground.write(".env", "secret")
    ground.write("link.txt").unlink()
    (ground.root / "link.txt").symlink_to(".env")
    (ground.root / "new-link").symlink_to("absent.key")
    seen = tried(
        ground,
        """
t("create", lambda: put("a"))
t("denied", lambda: put("b.key"))
t("existing", lambda: put(".env"))
t("without creating", lambda: put(".env", os.O_WRONLY))
t("truncating", lambda: put(".env", os.O_RDONLY | os.O_TRUNC, b""))
t("truncate", lambda: os.truncate(".env", 0))
t("by a link", lambda: put("link.txt"))
t("truncate by a link", lambda: os.truncate("link.txt", 0))
t("by a dangling link", lambda: put("new-link"))
t("reading", lambda: open(".env").read())
t("template", lambda: put(".env.example"))
t("below", lambda: os.mkdir("d"))
t("below, denied", lambda: put("d/.ENV"))
t("spelled", lambda: put("d/../d/./.env"))
t("absolute", lambda: put(os.getcwd() + "/d/x.pem"))
t("reopened", lambda: put(f"/proc/self/fd/{os.open('.env', os.O_RDONLY)}", os.O_WRONLY))
t("truncated by descriptor", lambda: os.truncate(f"/dev/fd/{os.open('.env', os.O_RDONLY)}", 0))
t("nameless", lambda: put(".", os.O_TMPFILE | os.O_RDWR))
t("private", lambda: put("/var/tmp/x.key"))
t("private truncated", lambda: put("/var/tmp/x.key", os.O_RDONLY | os.O_TRUNC, b""))
t("private size", lambda: os.stat("/var/tmp/x.key").st_size)
t("outside", lambda: put("/usr/x"))
""",
    )
    denied = (
        "denied", "existing", "without creating", "truncating", "truncate", "by a link", "truncate by a link",
        "by a dangling link", "below, denied", "spelled", "absolute", "reopened", "truncated by descriptor",
    )  # fmt: skip
    assert {name: seen.pop(name) for name in denied} == dict.fromkeys(denied, "EACCES")
    assert seen.pop("reading") == "secret"
    assert seen.pop("private size") == 0
    assert seen.pop("outside") == "EROFS"
    assert set(seen.values()) == {"ok"}
    assert (ground.root / ".env").read_text() == "secret"
    assert sorted(path.name for path in ground.root.iterdir()) == [
        ".env",
        ".env.example",
        "a",
        "d",
        "link.txt",
        "new-link",
    ]


def test_descriptors_are_as_without_the_door(ground: Ground) -> None:
    script = """
import fcntl
ground = {}
put("f0")
for flags in (os.O_WRONLY, os.O_RDWR | os.O_APPEND, os.O_WRONLY | os.O_CLOEXEC, os.O_WRONLY | os.O_NONBLOCK,
              os.O_WRONLY | os.O_NOFOLLOW, os.O_WRONLY | os.O_SYNC | os.O_NOATIME):
    for more in (0, os.O_CREAT, os.O_CREAT | os.O_TRUNC):
        number = os.open("f%d" % more, flags | more)
        ground[f"{flags} {more}"] = [number, fcntl.fcntl(number, fcntl.F_GETFL), fcntl.fcntl(number, fcntl.F_GETFD)]
os.umask(0o027)
for mode in (0o666, 0o777, 0o4755, 0o600):
    ground[f"mode {mode}"] = oct(os.fstat(os.open(f"m{mode}", os.O_CREAT | os.O_WRONLY, mode)).st_mode)
print(json.dumps(ground))
"""
    with_door = ground.python(TRY + script)
    with ground_of(ground.person) as other:
        without = other.python(TRY + script, door=False)
    assert with_door.code == without.code == 0
    assert json.loads(with_door.out) == json.loads(without.out)


def test_limits_of_the_caller_hold(ground: Ground) -> None:
    seen = tried(
        ground,
        """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
held = []
def fill():
    while True:
        held.append(os.open("f", os.O_WRONLY | os.O_CREAT))
t("fill", fill)
seen["held"] = max(held)
""",
    )
    assert seen == {"fill": "EMFILE", "held": 7}


def test_pipes_are_waited_for_and_hold_nobody_up(ground: Ground) -> None:
    done = ground.sh(
        "mkfifo p q; (echo one > p; echo two > q) & echo other > f; cat f p q;"
        "mkfifo r; sh -c 'echo never > r' & writer=$!; kill $writer; wait $writer;"
        "echo after > g; cat g;"
        "python3 -c 'import os; os.open(\"r\", os.O_WRONLY | os.O_NONBLOCK)' 2>&1 | grep -o 'Errno 6'"
    )
    assert (done.code, done.out.split()) == (0, ["other", "one", "two", "after", "Errno", "6"])


def test_standard_streams_opened_again(ground: Ground) -> None:
    """Pipes of the caller's own: those of the test may be another person's."""
    done = ground.sh(
        "{ echo a > /dev/stdout; echo b > /dev/stderr; echo c > /proc/self/fd/1; echo d | tee /dev/stderr > /dev/null;"
        " exec 3> kept; echo e > /dev/fd/3; cat kept; echo f > /dev/full || echo g; } 2>&1 | cat"
    )
    assert [line for line in done.out.splitlines() if len(line) == 1] == ["a", "b", "c", "d", "e", "g"]


def test_standard_streams_that_are_devices_of_the_host(ground: Ground) -> None:
    """They are no mount inside, so the wall does not know them: a copy of the caller's own descriptor does."""
    command, _ = ground.command(["/bin/sh", "-c", "echo a > /dev/stdout && echo b > /proc/self/fd/1"])
    with open("/dev/null", "r+b") as null:
        done = subprocess.run(
            command, stdin=null, stdout=null, stderr=subprocess.PIPE, check=False, timeout=PATIENCE
        )
    assert (done.returncode, done.stderr) == (0, b"")
    command, _ = ground.command(["/bin/sh", "-c", "echo a > /dev/stdin"])
    with open("/dev/null", "rb") as null:
        done = subprocess.run(command, stdin=null, stderr=subprocess.PIPE, check=False, timeout=PATIENCE)
    assert done.returncode != 0  # a copy for reading cannot write


def test_files_of_the_host_behind_standard_streams(ground: Ground) -> None:
    log = ground.write("../log")
    command, _ = ground.command(["/bin/sh", "-c", "echo one; echo two >> /dev/stdout"])
    with log.open("a") as file:
        done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, check=False, timeout=PATIENCE)
    assert (done.returncode, log.read_text().split()) == (0, ["one", "two"])


def test_other_processes_and_their_entries(ground: Ground) -> None:
    seen = tried(
        ground,
        """
import subprocess
child = subprocess.Popen(("/bin/cat",), stdin=subprocess.PIPE)
t("own", lambda: put("/proc/self/cwd/own"))
t("own memory", lambda: put("/proc/self/mem", os.O_RDWR, b""))
t("own setting", lambda: put("/proc/self/oom_score_adj", os.O_WRONLY, b"1000"))
t("another's", lambda: put(f"/proc/{child.pid}/cwd/x"))
t("the first one's", lambda: put("/proc/1/root/x"))
t("no process", lambda: put("/proc/99999/cwd/x"))
t("no descriptor", lambda: put("/proc/self/fd/77"))
t("a directory", lambda: put(f"/proc/self/fd/{os.open('.', os.O_RDONLY)}", os.O_WRONLY))
t("below a directory", lambda: put(f"/proc/self/fd/{os.open('.', os.O_RDONLY)}/y"))
t("exclusively", lambda: put(f"/proc/self/fd/{os.open('own', os.O_RDONLY)}", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
t("not following", lambda: put(f"/proc/self/fd/{os.open('own', os.O_RDONLY)}", os.O_WRONLY | os.O_NOFOLLOW))
child.communicate()
""",
    )
    assert seen == {
        "own": "ok", "own memory": "ok", "own setting": "ok", "another's": "EACCES", "the first one's": "EACCES",
        "no process": "ENOENT", "no descriptor": "ENOENT", "a directory": "EISDIR", "below a directory": "ok",
        "exclusively": "EEXIST", "not following": "ELOOP",
    }  # fmt: skip
