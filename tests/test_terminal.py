"""Where a command stands on a terminal, whom it can reach from there, and what the terminal is like afterwards."""

import os
import signal
import sys
from pathlib import Path

import pytest

from gateway.operator_socket import find_sockets
from tests.fakes.console import BACKENDS, PROGRAM, WAYS, Console, descendants, end, hear, terminal, watched
from tests.source_tree import ROOT

both_ways = pytest.mark.parametrize("way", WAYS, ids=BACKENDS.values())
FIND = f"{sys.executable} -c 'from gateway.terminal import find_group; print(find_group())'"
PROMPT = b"what now? "
BASH = ("env", f"PS1={PROMPT.decode()}", "bash", "--norc", "-i")


# --- Where it stands ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "group"),
    [
        (f"exec {FIND}", "alone"),
        (f"{FIND}; true", "shared"),
        (f"exec {FIND} | cat", "shared"),
        (f"set -m; {FIND}; true", "alone"),
        (f"set -m; {FIND} & wait", "alone"),
        (f"set -m; ({FIND}; true) & wait", "own"),
        (f"setsid -w {FIND}; true", "session"),
        (f"exec unshare --map-root-user --pid --fork --mount-proc {FIND}", "shared"),
        (f'exec unshare --map-root-user --mount sh -c "mount -t tmpfs none /proc; exec {FIND}"', "shared"),
    ],
)
def test_groups(tmp_path: Path, script: str, group: str) -> None:
    console = Console(tmp_path, {"PYTHONPATH": str(ROOT)})
    with terminal(console, "bash", "-c", script) as shown:
        shown.see(f"{group}\r\n".encode())
        assert shown.end() == 0


# --- Whom it reaches ------------------------------------------------------------------------------

# Tries everything that means "my process group", and says how it went.
REACHES = """
import ctypes, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
def ioprio():
    call = {"x86_64": 251, "aarch64": 30}[os.uname().machine]
    if libc.syscall(call, 2, 0, 3 << 13):
        raise PermissionError
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
for name, act in (
    ("renice", lambda: os.setpriority(os.PRIO_PGRP, 0, 7)),
    ("ionice", ioprio),
    ("signal", lambda: os.kill(0, signal.SIGUSR1)),
    ("kill", lambda: os.kill(0, signal.SIGKILL)),
):
    try:
        act()
        print(name, "done", flush=True)
    except PermissionError:
        print(name, "refused", flush=True)
"""
# The script around: what reached it, and how it is afterwards.
AROUND = """
trap 'echo reached' USR1
"$@"; echo "ended $?"; ps -o ni= -p $$ | sed 's/^/nice/'; ionice -p $$
"""


def around(console: Console) -> str:
    (console.work / "reach.py").write_text(REACHES)
    command = f"{PROGRAM} run --quiet -- {sys.executable} reach.py"
    return f"set -- {command}\n{AROUND}"


def test_without_a_terminal_a_group_is_ones_own(tmp_path: Path) -> None:
    """CI and orchestrators: the script that started the run is not reached, and `kill 0` works inside."""
    console = Console(tmp_path)
    before = ("setsid", "-w", "sh", "-c", f"{AROUND.replace(chr(10), '; ').strip('; ')}", "sh")
    (console.work / "reach.py").write_text(REACHES)
    console.before = before
    done = console.run(sys.executable, "reach.py", options=("--quiet",))
    assert done.lines[:5] == ["renice done", "ionice done", "signal done", "ended 137", "nice  0"]
    assert "prio 7" not in done.lines[5] and "idle" not in done.lines[5]


def test_in_a_script_on_a_terminal_the_group_is_refused(tmp_path: Path) -> None:
    console = Console(tmp_path)
    with terminal(console, "sh", "-c", around(console)) as shown:
        for name in (b"renice", b"ionice", b"signal", b"kill"):
            shown.see(name + b" refused")
        shown.see(b"ended 0")
        shown.see(b"nice  0")
        assert shown.end() == 0
    assert b"reached" not in shown.shown and b"idle" not in shown.shown


def test_in_the_background_of_a_script_the_group_is_ones_own(tmp_path: Path) -> None:
    console = Console(tmp_path)
    (console.work / "around.sh").write_text(around(console))
    with terminal(console, "bash", "-c", "set -m; sh around.sh & wait") as shown:
        for word in (b"renice done", b"signal done", b"ended 137", b"nice  0"):
            shown.see(word)
        assert shown.end() == 0
    assert b"reached" not in shown.shown


def test_job_of_an_interactive_shell_reaches_itself_alone(tmp_path: Path) -> None:
    console = Console(tmp_path)
    (console.work / "reach.py").write_text(REACHES)
    with terminal(console, *BASH) as shown:
        shown.see(PROMPT)
        shown.type(f"{PROGRAM} run --quiet -- {sys.executable} reach.py\n".encode())
        shown.see(b"signal done")
        shown.see(b"Killed")
        shown.see(PROMPT)
        shown.type(b"ps -o ni= -p $$ | sed 's/^/nice/'\n")
        shown.see(b"nice  0")
        shown.type(b"exit 4\n")
        assert shown.end() == 4


AUTOGROUP = "cat /proc/self/autogroup; echo 9 2>/dev/null >/proc/self/autogroup"


def test_without_a_terminal_the_session_is_ones_own(tmp_path: Path) -> None:
    """The kernel's scheduling group is the session's, and may be written by everybody in it."""
    console = Console(tmp_path)
    console.before = ("setsid", "-w", "sh", "-c", '"$@"; cat /proc/self/autogroup', "sh")
    inside, outside = console.run("sh", "-c", AUTOGROUP, options=("--quiet",)).lines
    assert outside.endswith("nice 0") and inside.split()[0] != outside.split()[0]


TELLS = """
import os, signal
signal.signal(signal.SIGINT, lambda *_: (os.write(1, b"interrupted\\n"), os._exit(5)))
os.write(1, b"ready %d\\n" % (os.getpgrp() == os.getpid()))
while True:
    signal.pause()
"""


@both_ways
def test_signal_for_the_whole_group_is_passed_on(tmp_path: Path, way: tuple[str, ...]) -> None:
    """As an orchestrator sends it."""
    process = Console(tmp_path).start(sys.executable, "-c", TELLS, options=way, start_new_session=True)
    assert hear(process) == b"ready 1"
    os.killpg(process.pid, signal.SIGINT)
    done = end(process)
    assert (done.status, done.stdout) == (5, b"interrupted\n")


@both_ways
def test_killed_group_leaves_no_process(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    process = console.start(
        "sh", "-c", "sleep 1000 & echo ready; exec sleep 1000", options=way, start_new_session=True
    )
    assert hear(process) == b"ready"
    with watched(process.pid) as pids:
        assert len(pids) >= 4
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    # Its socket is what nobody was left to remove: whoever looks for sockets next does.
    assert find_sockets(console.folder / "run/agent-gateway") == ()
    assert console.left() == []


# --- What keeps the wrap from ending --------------------------------------------------------------

ATTACHES = """
import ctypes, errno, os, signal
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
def attach(request, pid):
    return libc.ptrace(request, pid, 0, 0) and errno.errorcode[ctypes.get_errno()]
child = os.fork()
if not child:
    signal.pause()
print(attach(16, 1), attach(0x4206, 1), attach(16, child))
os.kill(child, signal.SIGKILL)
"""


def test_init_is_not_traced(tmp_path: Path) -> None:
    assert Console(tmp_path).run(sys.executable, "-c", ATTACHES).lines == ["EPERM EPERM 0"]


def test_stopped_init_is_a_killed_command(tmp_path: Path) -> None:
    """However somebody manages to stop it: no traceback, a whole log, nothing left."""
    console = Console(tmp_path)
    process = console.start("sh", "-c", "echo ready; read line")
    assert hear(process) == b"ready"
    with watched(process.pid) as pids:
        _, init = [pid for pid in pids if Path(f"/proc/{pid}/comm").read_text() == "bwrap\n"]
        os.kill(init, signal.SIGSTOP)
        done = end(process, b"go\n")
    assert done.status == 137
    assert len(done.said) == 2 and done.said[1].startswith("agent-gateway: 0 connections allowed")
    assert console.records("session")[-1]["exit_status"] == 137


# --- As it was ------------------------------------------------------------------------------------

SPOILS = """
import os, signal, sys, tty
tty.setraw(0)
os.set_blocking(0, False)
os.write(1, b"spoilt")
os.kill(os.getpid(), signal.SIGKILL)
"""
LOOKS = "import os, termios; a = termios.tcgetattr(0); print(a[:4], *map(os.get_blocking, range(3)))"


@both_ways
def test_terminal_is_as_it_was(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    for name, text in (("spoil.py", SPOILS), ("look.py", LOOKS)):
        (console.work / name).write_text(text)
    look = f"{sys.executable} look.py"
    run = " ".join((PROGRAM, "run", "--quiet", *way, "--", sys.executable, "spoil.py"))
    with terminal(console, "sh", "-c", f"{look}; {run}; echo ended $?; {look}; echo over") as shown:
        shown.see(b"over")
        assert shown.end() == 0
    before, *_, after, _ = [
        line for line in shown.shown.decode().split("\r\n") if line and line != "over"
    ] + [""]
    assert b"spoilt" in shown.shown and b"ended 137" in shown.shown
    assert before == after and before.endswith("True True True")


def test_terminal_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    """The run ends in the background: what is set now is the foreground's."""
    console = Console(tmp_path)
    (console.work / "wait.py").write_text(
        "import os; print('running', flush=True); os.read(os.open('pipe', 0), 1)"
    )
    os.mkfifo(console.work / "pipe")
    run = f"{PROGRAM} run -- {sys.executable} wait.py"
    with terminal(console, *BASH) as shown:
        shown.see(PROMPT)
        shown.type(run.encode() + b"\n")
        shown.see(b"running")
        shown.type(b"\x1a")
        shown.see(b"Stopped")
        shown.see(PROMPT)
        shown.type(b"bg; sh -c 'stty -echo; echo >pipe; read line; stty -a | grep -o -e -echo; stty echo'\n")
        shown.see(b"0 connections allowed")
        with watched(descendants(shown.process.pid)[0]):
            shown.type(b"\n")
            shown.see(b"-echo")
            shown.see(PROMPT)
            shown.type(b"exit 4\n")
            assert shown.end() == 4
