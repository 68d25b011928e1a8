"""Answers: what a caller can and cannot see of the fact that somebody else did it."""

from collections.abc import Iterator

import pytest

from tests.sandbox.supervisor.supervised import Ground, ground_of, tried
from tests.sandbox.wrapping import PEOPLE


@pytest.fixture(params=PEOPLE)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with ground_of(request.param) as found:
        yield found


def test_what_was_written_can_be_executed_at_once(ground: Ground) -> None:
    """Nobody but the caller holds the file open when it runs on."""
    seen = tried(
        ground,
        """
program = open("/bin/true", "rb").read()
failed = []
for number in range(400):
    put("p", text=program, mode=0o755)
    try:
        child = os.posix_spawn("p", ["p"], {})
    except OSError as error:
        failed.append(errno.errorcode[error.errno])
        continue
    os.waitpid(child, 0)
seen["failed"] = failed
""",
    )
    assert seen == {"failed": []}


def test_signals_make_nothing_happen_twice(ground: Ground) -> None:
    """Handlers thousands of times a second, which ask for a restart: an exclusive creation never meets itself."""
    seen = tried(
        ground,
        """
import signal
signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
count = [0]
def handler(*_): count[0] += 1
signal.signal(signal.SIGALRM, handler)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
failed = []
for number in range(2000):
    for call in (lambda: put(f"f{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, b""), lambda: os.mkdir(f"d{number}"),
                 lambda: os.rename(f"f{number}", f"g{number}"), lambda: os.symlink("x", f"l{number}")):
        try:
            call()
        except OSError as error:
            failed.append(errno.errorcode[error.errno])
    os.unlink(f"g{number}"); os.unlink(f"l{number}"); os.rmdir(f"d{number}")
    if count[0] > 400 and number > 300:
        break
signal.setitimer(signal.ITIMER_REAL, 0)
seen["failed"] = failed
seen["signals"] = count[0] > 50
""",
    )
    assert seen == {"failed": [], "signals": True}


def test_many_at_once(ground: Ground) -> None:
    """Processes and threads with directories and umasks of their own."""
    seen = tried(
        ground,
        """
import threading
def work(number):
    os.mkdir(f"w{number}")
    os.chdir(f"w{number}")
    os.umask(0o22 if number % 2 else 0o77)
    for file in range(50):
        put(f"f{file}", mode=0o666)
    modes = {os.stat(f"f{file}").st_mode & 0o777 for file in range(50)}
    os._exit(0 if modes == {0o644 if number % 2 else 0o600} else 1)
children = []
for number in range(16):
    child = os.fork()
    if not child:
        work(number)
    children.append(child)
seen["processes"] = [os.waitpid(child, 0)[1] for child in children]
CLONE_FS = 0x200
import ctypes
libc = ctypes.CDLL(None)
home = os.getcwd()
def apart(number):
    libc.unshare(CLONE_FS)
    os.mkdir(f"t{number}")
    os.chdir(f"t{number}")
    os.umask(0o77 if number else 0o27)
    for file in range(50):
        put(f"f{file}", mode=0o666)
threads = [threading.Thread(target=apart, args=(number,)) for number in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
def modes(number):
    return sorted({oct(os.stat(f"{home}/t{number}/f{file}").st_mode & 0o777) for file in range(50)})
seen["threads"] = [modes(number) for number in range(2)]
seen["home"] = os.getcwd() == home
""",
    )
    assert seen == {"processes": [0] * 16, "threads": [["0o640"], ["0o600"]], "home": True}


def test_umask_of_every_moment(ground: Ground) -> None:
    seen = tried(
        ground,
        """
import threading
bad = []
for number in range(200):
    mask = (0, 0o22, 0o77, 0o27)[number % 4]
    os.umask(mask)
    made = []
    def other():
        put(f"o{number}", mode=0o666)
    thread = threading.Thread(target=other); thread.start(); thread.join()
    put(f"f{number}", mode=0o666)
    os.mkdir(f"d{number}", 0o777)
    found = [os.stat(f"{kind}{number}").st_mode & 0o777 for kind in "ofd"]
    if found != [0o666 & ~mask, 0o666 & ~mask, 0o777 & ~mask]:
        bad.append(found)
seen["bad"] = bad
seen["read back"] = [os.umask(0o123), os.umask(0)]
""",
    )
    assert seen == {"bad": [], "read back": [0o27, 0o123]}


def test_callers_stay_on_their_processors(ground: Ground) -> None:
    seen = tried(
        ground,
        """
before = sorted(os.sched_getaffinity(0))
for number in range(300): put("f")
seen["same"] = sorted(os.sched_getaffinity(0)) == before
os.sched_setaffinity(0, before[:1])
for number in range(300): put("f")
seen["chosen"] = sorted(os.sched_getaffinity(0)) == before[:1]
""",
    )
    assert seen == {"same": True, "chosen": True}
