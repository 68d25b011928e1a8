"""Signals and the terminal: what reaches CMD, how often, and that nothing is left of a run that is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.operator_socket import find_sockets
from tests.fakes.console import (
    BACKENDS,
    PATIENCE,
    PROGRAM,
    WAYS,
    Console,
    descendants,
    end,
    hear,
    terminal,
    wait_until_stopped,
    watched,
)
from tests.source_tree import ROOT

both_ways = pytest.mark.parametrize("way", WAYS, ids=BACKENDS.values())

# Tells each signal; ends with 9 after SIGTERM.
TELLS = """
import os, signal, sys
def tell(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
    if number == signal.SIGTERM:
        os._exit(9)
for number in (1, 2, 3, 10, 12, 15, 28):
    signal.signal(number, tell)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""
TOLD = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH)


# --- From other processes -------------------------------------------------------------------------


@both_ways
def test_signals_reach_the_command(tmp_path: Path, way: tuple[str, ...]) -> None:
    process = Console(tmp_path).start(sys.executable, "-c", TELLS, options=("--quiet", *way))
    assert hear(process) == b"ready"
    for number in TOLD:
        process.send_signal(number)
        assert hear(process) == number.name.encode()
    process.send_signal(signal.SIGTERM)
    done = end(process)
    assert (done.status, done.stdout) == (9, b"SIGTERM\n")


@both_ways
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_command_that_handles_nothing(tmp_path: Path, way: tuple[str, ...], number: signal.Signals) -> None:
    console = Console(tmp_path)
    process = console.start("sh", "-c", "echo ready; exec sleep 1000", options=way)
    assert hear(process) == b"ready"
    process.send_signal(number)
    assert end(process).status == 128 + number
    assert console.records("session")[-1]["exit_status"] == 128 + number


NOHUP = ("sh", "-c", "trap '' HUP; exec \"$@\"", "sh")


@both_ways
def test_what_was_ignored_stays_ignored(tmp_path: Path, way: tuple[str, ...]) -> None:
    """As below `nohup`: CMD starts with the signal ignored."""
    done = Console(tmp_path, before=NOHUP).run("sh", "-c", "kill -HUP $$; exit 4", options=way)
    assert done.status == 4


@both_ways
@pytest.mark.parametrize("names", ["", "ALRM TSTP CHLD USR2 TTOU RTMIN"])
def test_dispositions_are_those_of_a_bare_process(tmp_path: Path, way: tuple[str, ...], names: str) -> None:
    """All of them, those that the C library keeps for itself included."""
    trap = "".join(f"trap '' {name}; " for name in names.split())
    before = ("bash", "-c", f'{trap}exec "$@"', "bash")
    look = ("grep", "-E", "^Sig(Ign|Blk|Cgt)", "/proc/self/status")
    bare = subprocess.run((*before, *look), capture_output=True, check=True, timeout=PATIENCE).stdout
    console = Console(tmp_path, before=before)
    done = console.run(*look, options=way)
    assert (done.status, public(done.stdout)) == (0, public(bare))
    # Nor do they change whether it is wrapped.
    assert console.records("session")[0]["sandbox"]["backend"] == BACKENDS[way]


def public(status: bytes) -> list[tuple[str, int]]:
    """The sets of signals in /proc/PID/status, without the two that the C library keeps for itself: whoever was started
    by posix_spawn(3), as make does, may find them ignored, and a wrap sets them back."""
    pairs = (line.split(":\t") for line in status.decode().splitlines())
    return [(name, int(signals, 16) & ~(0b11 << 31)) for name, signals in pairs]


@both_ways
def test_what_was_ignored_is_not_passed_on(tmp_path: Path, way: tuple[str, ...]) -> None:
    """Not even to a command that would take it. Of waiting signals the lowest number comes first."""
    process = Console(tmp_path, before=NOHUP).start(sys.executable, "-c", TELLS, options=way)
    assert hear(process) == b"ready"
    for number in (signal.SIGHUP, signal.SIGUSR1):
        process.send_signal(number)
    assert hear(process) == b"SIGUSR1"
    process.send_signal(signal.SIGTERM)
    assert end(process).stdout == b"SIGTERM\n"


EARLY = (
    "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, {15}); "
    "os.kill(os.getpid(), 15); os.execv(sys.argv[1], sys.argv[1:])"
)


@both_ways
def test_signal_before_the_command_runs(tmp_path: Path, way: tuple[str, ...]) -> None:
    """It is pending when the product starts, and waits until everything that was set up can be taken down."""
    console = Console(tmp_path, before=(sys.executable, "-c", EARLY))
    done = console.run("touch", "ran", options=way)
    assert done.status == 128 + signal.SIGTERM
    assert not (console.work / "ran").exists()
    assert [record["state"] for record in console.records("session")] == ["opened", "closed"]
    assert console.left() == []


# --- On a terminal --------------------------------------------------------------------------------

# Says how many interrupts came when it is asked by SIGUSR1.
COUNTS = """
import os, signal
came = []
def note(number, frame):
    came.append(number)
    os.write(1, b"interrupted\\n")
def tell(number, frame):
    os.write(1, b"%d in all\\n" % len(came))
    os._exit(5)
signal.signal(signal.SIGINT, note)
signal.signal(signal.SIGUSR1, tell)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


@both_ways
def test_interrupt_reaches_the_command_once(tmp_path: Path, way: tuple[str, ...]) -> None:
    """Whatever the gateway would pass on as well comes before what it is sent afterwards."""
    console = Console(tmp_path)
    with terminal(console, PROGRAM, "run", *way, "--", sys.executable, "-c", COUNTS) as shown:
        shown.see(b"ready")
        shown.type(b"\x03")
        shown.see(b"interrupted")
        shown.process.send_signal(signal.SIGUSR1)
        shown.see(b"1 in all")
        assert shown.end() == 5


@both_ways
def test_interrupt_without_a_handler(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    with terminal(console, PROGRAM, "run", *way, "--", "sh", "-c", "echo ready; exec sleep 1000") as shown:
        shown.see(b"ready")
        shown.type(b"\x03")
        assert shown.end() == 130
    assert console.records("session")[-1]["exit_status"] == 130


SIZES = """
import os, signal
def tell(*_):
    size = os.get_terminal_size(0)
    os.write(1, b"%d rows of %d\\n" % (size.lines, size.columns))
signal.signal(signal.SIGWINCH, tell)
tell()
while True:
    signal.pause()
"""


@both_ways
def test_window_size(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    with terminal(console, PROGRAM, "run", *way, "--", sys.executable, "-c", SIZES) as shown:
        shown.see(b"0 rows of 0")
        shown.resize(33, 111)
        shown.see(b"33 rows of 111")
        shown.type(b"\x03")
        assert shown.end() == 130


# What is typed before the shell waits for it may be lost.
PROMPT = b"what now? "
BASH = ("env", f"PS1={PROMPT.decode()}", "bash", "--norc", "-i")

# Reads a line, then asks for a page.
TALKS = """
import urllib.error, urllib.request
print("running", flush=True)
print("got", input().upper(), flush=True)
try:
    urllib.request.urlopen("http://refused.test/")
except urllib.error.HTTPError as error:
    print("answered", error.code, flush=True)
"""


@both_ways
def test_stopped_and_continued(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    (console.work / "talk.py").write_text(TALKS)
    command = " ".join((PROGRAM, "run", *way, "--", sys.executable, "talk.py"))
    with terminal(console, *BASH) as shown:
        shown.see(PROMPT)
        shown.type(command.encode() + b"\n")
        shown.see(b"running")
        shown.type(b"\x1a")
        shown.see(b"Stopped")
        shown.see(PROMPT)
        wait_until_stopped(shown.process.pid, "talk.py")
        shown.type(b"fg\n")
        shown.type(b"word\n")
        shown.see(b"got WORD")
        shown.see(b"answered 403")
        shown.see(b"0 connections allowed, 1 denied")
        shown.see(PROMPT)
        shown.type(b"exit 4\n")
        assert shown.end() == 4


WAITS = """
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
print("running", flush=True)
signal.sigwait({signal.SIGUSR1})
"""


@both_ways
def test_end_in_the_background_leaves_the_terminal_alone(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    (console.work / "wait.py").write_text(WAITS)
    command = " ".join((PROGRAM, "run", *way, "--", sys.executable, "wait.py"))
    with terminal(console, *BASH) as shown:
        shown.see(PROMPT)
        shown.type(command.encode() + b"\n")
        shown.see(b"running")
        shown.type(b"\x1a")
        shown.see(b"Stopped")
        shown.see(PROMPT)
        shown.type(b"bg\n")
        shown.see(PROMPT)
        with watched(descendants(shown.process.pid)[1]) as pids:
            os.kill(pids[0], signal.SIGUSR1)
        shown.type(b"echo still $((40 + 2))\n")
        shown.see(b"still 42")
        shown.see(PROMPT)
        shown.type(b"exit 4\n")
        assert shown.end() == 4


def test_terminal_comes_back_from_a_killed_shell(tmp_path: Path) -> None:
    """An interactive shell inside makes the terminal its own; without job control around it nobody else would take it
    back, and the next reader would be stopped for good."""
    console = Console(tmp_path)
    inner = f"{PROGRAM} run -- bash --norc -ic 'kill -KILL $$'"
    with terminal(console, "sh", "-c", f'{inner}; read line; echo "got $line"') as shown:
        shown.see(b"0 connections allowed")
        shown.type(b"word\n")
        shown.see(b"got word")
        assert shown.end() == 0


HANGS = """
import os, signal
def note(number, frame):
    open("hung-up", "a").write("once\\n")
    os._exit(6)
signal.signal(signal.SIGHUP, note)
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""


@both_ways
def test_hang_up_reaches_the_command(tmp_path: Path, way: tuple[str, ...]) -> None:
    """The kernel tells the session's leader alone, which is the gateway here."""
    console = Console(tmp_path)
    with terminal(console, PROGRAM, "run", *way, "--", sys.executable, "-c", HANGS) as shown:
        shown.see(b"ready")
        shown.hang_up()
        assert shown.end() == 6
    assert (console.work / "hung-up").read_text() == "once\n"
    assert console.records("session")[-1]["exit_status"] == 6


# --- Nothing is left ------------------------------------------------------------------------------

DAEMONS = "setsid sleep 1000 & sleep 1000 & echo ready; exec sleep 1000"
SETTINGS = "[user]\n\tname = A\n"  # so that there is a generated file to remove


@both_ways
def test_killed_gateway_leaves_no_process(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    (console.home / ".gitconfig").write_text(SETTINGS)
    process = console.start("sh", "-c", DAEMONS, options=way)
    assert hear(process) == b"ready"
    with watched(process.pid) as pids:
        assert len(pids) >= 5
        process.kill()
        process.communicate(timeout=PATIENCE)
    # Nobody was left to remove its socket: whoever looks for sockets next does.
    assert [path for path in console.left() if not path.endswith("/run/agent-gateway")] == []
    assert find_sockets(console.folder / "run/agent-gateway") == ()
    assert console.left() == []


@both_ways
def test_ended_gateway_leaves_nothing(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    (console.home / ".gitconfig").write_text(SETTINGS)
    process = console.start("sh", "-c", DAEMONS, options=way)
    assert hear(process) == b"ready"
    assert (len(console.left()) > 1) == bool(
        way
    )  # besides the socket: without a wrap files stand on the host
    with watched(process.pid):
        process.send_signal(signal.SIGTERM)
        assert end(process).status == 143
    assert console.left() == []
    assert console.records("session")[-1]["exit_status"] == 143


def test_killed_wrap_is_no_killed_command(tmp_path: Path) -> None:
    console = Console(tmp_path)
    process = console.start("sh", "-c", DAEMONS, options=("--quiet",))
    assert hear(process) == b"ready"
    with watched(process.pid) as pids:
        (monitor, *_) = [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text() == "bwrap\n"]
        os.kill(monitor, signal.SIGKILL)
        done = end(process)
    assert (done.status, "a process of the wrap itself was killed" in done.said[-1]) == (125, True)


# --- The class itself -----------------------------------------------------------------------------

CLASS = """
import asyncio, os, signal
from gateway.signals import PASSED_ON, Signals

async def main(signals):
    came = asyncio.Queue()
    take = lambda number, from_terminal: came.put_nowait((int(number), from_terminal))
    loop = asyncio.get_running_loop()
    os.kill(os.getpid(), signal.SIGUSR1)
    signals.attach(loop, take)
    print(await came.get())
    signals.detach()
    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGTERM)
    signals.attach(loop, take)
    print(await came.get(), came.qsize())

before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with Signals() as signals:
    print(sorted(map(int, signals.ignored)), signal.pthread_sigmask(signal.SIG_BLOCK, ()) >= PASSED_ON)
    asyncio.run(main(signals))
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before)
os.kill(os.getpid(), signal.SIGTERM)
"""


def test_signals_are_held_until_somebody_takes_them() -> None:
    done = subprocess.run(
        (sys.executable, "-c", CLASS), cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout.splitlines() == ["[1] True", "(10, False)", "(15, False) 0", "True"], done.stderr
    assert done.returncode == -signal.SIGTERM


def test_descendants_are_found() -> None:
    """What the tests above rest on."""
    process = subprocess.Popen(
        ("sh", "-c", "sleep 1000 & echo ready; read line"), stdin=-1, stdout=-1, stderr=-1
    )
    assert hear(process) == b"ready"
    assert len(descendants(process.pid)) == 2
    with watched(process.pid) as pids:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        process.communicate()
