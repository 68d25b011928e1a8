"""The supervisor's life: what it has given up, and that wrap, supervisor and launcher end together."""

import array
import os
import select
import signal
import socket
import subprocess
from collections.abc import Iterator

import pytest

from sandbox.supervisor.life import receive_listener
from tests.sandbox.supervisor.supervised import Ground, ground_of
from tests.sandbox.wrapping import HERE, PATIENCE, PEOPLE, PYTHON, SOURCES, place_of


@pytest.fixture(params=PEOPLE)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with ground_of(request.param) as found:
        yield found


def processes_below(pid: int) -> list[int]:
    """All that come from a process."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children") as file:
            for child in map(int, file.read().split()):
                found += [child, *processes_below(child)]
    return found


def supervisor_of(pid: int) -> int:
    """The process of the supervisor below the launcher."""
    for one in processes_below(pid):
        with open(f"/proc/{one}/cmdline", "rb") as file:
            if b"/proc/self/fd/" in file.read():
                return one
    raise AssertionError("there is no supervisor")


def wait_for_end(ends: list[int]) -> None:
    for end in ends:
        assert select.select([end], [], [], PATIENCE)[0], "a process stays"
        os.close(end)


class Started:
    """A wrap whose command says that it runs, then reads lines."""

    def __init__(self, ground: Ground, script: str | list[str]) -> None:
        argv = ["/bin/sh", "-c", f"echo runs; {script}"] if isinstance(script, str) else script
        command, _ = ground.command(argv)
        self.launcher = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.read() == "runs"
        self.supervisor = supervisor_of(self.launcher.pid)

    def read(self) -> str:
        assert self.launcher.stdout is not None
        return self.launcher.stdout.readline().strip()


def test_privileges_are_given_up(ground: Ground) -> None:
    started = Started(ground, "read line")
    with open(f"/proc/{started.supervisor}/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    assert {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Threads"] == "1"
    assert int(status["VmHWM"].split()[0]) <= 20 << 10
    assert os.getsid(started.supervisor) == started.supervisor
    for number in (0, 1):
        assert os.readlink(f"/proc/{started.supervisor}/fd/{number}") == "/dev/null"
    assert started.launcher.communicate("\n", timeout=PATIENCE)[0] == ""
    assert started.launcher.returncode == 0


def test_killed_supervisor_ends_the_wrap(ground: Ground) -> None:
    started = Started(ground, "while :; do cat /etc/hostname > /dev/null; done")
    ends = [os.pidfd_open(pid) for pid in processes_below(started.launcher.pid)]
    os.kill(started.supervisor, signal.SIGKILL)
    wait_for_end(ends)
    started.launcher.communicate(timeout=PATIENCE)
    assert started.launcher.returncode != 0


def test_killed_launcher_ends_everything(ground: Ground) -> None:
    started = Started(ground, "sleep 1000 & exec sleep 1000")
    ends = [os.pidfd_open(pid) for pid in processes_below(started.launcher.pid)]
    assert len(ends) >= 4
    started.launcher.kill()
    started.launcher.communicate(timeout=PATIENCE)
    wait_for_end(ends)


def test_stopped_supervisor_lets_reads_through_and_nothing_else(ground: Ground) -> None:
    ground.write("here", "content")
    started = Started(
        ground, "read line; cat here; (echo x > new; echo created) & sleep 0.2; ls new; read line; wait"
    )
    os.kill(started.supervisor, signal.SIGSTOP)
    assert started.launcher.stdin is not None
    started.launcher.stdin.write("\n")
    started.launcher.stdin.flush()
    assert started.read() == "contentls: cannot access 'new': No such file or directory"
    os.kill(started.supervisor, signal.SIGCONT)
    rest = started.launcher.communicate("\n", timeout=PATIENCE)[0]
    assert "created" in rest


@pytest.mark.parametrize("script", ["exit 7", "kill -KILL $$", "exit 0"])
def test_status_is_the_commands(ground: Ground, script: str) -> None:
    assert ground.sh(script).code == {"exit 7": 7, "kill -KILL $$": 137, "exit 0": 0}[script]


def test_terminal_signals_are_not_the_supervisors(ground: Ground) -> None:
    started = Started(ground, "trap '' INT TSTP; read line; echo x > made; ls made")
    for number in (signal.SIGTSTP, signal.SIGINT, signal.SIGTTOU):
        os.kill(started.supervisor, number)
    out = started.launcher.communicate("\n", timeout=PATIENCE)[0]
    assert out.split() == ["made"]


WORK = r"""
import os, sys
print("runs", flush=True)
for line in sys.stdin:
    for number in range(int(line)):
        folder = f"folder-{number}"
        os.mkdir(folder)
        os.close(os.open(f"{folder}/file-{number}", os.O_CREAT | os.O_WRONLY))
        try:
            os.rename(f"{folder}/file-{number}", f"{folder}/{number}.key")
        except OSError:
            pass
        os.unlink(f"{folder}/file-{number}")
        os.rmdir(folder)
        if number % 10 == 0:
            child = os.fork()
            if not child:
                os.close(os.open("of-child", os.O_CREAT | os.O_WRONLY))
                os._exit(0)
            os.waitpid(child, 0)
    print("done", flush=True)
"""


def test_memory_does_not_grow(ground: Ground) -> None:
    """Callers, directories, paths and violations come and go; what is remembered of them is bounded."""
    started = Started(ground, [PYTHON, "-I", "-S", "-c", WORK])
    sizes = []
    for count in (300, 300, 300):
        assert started.launcher.stdin is not None
        started.launcher.stdin.write(f"{count}\n")
        started.launcher.stdin.flush()
        assert started.read() == "done"
        with open(f"/proc/{started.supervisor}/status") as file:
            sizes.append(next(int(line.split()[1]) for line in file if line.startswith("VmRSS")))
    started.launcher.communicate(timeout=PATIENCE)
    assert sizes[2] <= sizes[1] + 200  # kilobytes: what the allocator rounds


def test_listener_is_one_descriptor() -> None:
    reader, writer = os.pipe()
    for word, descriptors in ((b"N", ()), (b"X", (reader,)), (b"N", (reader, writer))):
        ours, theirs = socket.socketpair()
        passed = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        )
        theirs.sendmsg([word], passed)
        theirs.close()
        with pytest.raises(OSError, match="something other than its listener"):
            receive_listener(ours.fileno())
        ours.close()
    ours, theirs = socket.socketpair()
    socket.send_fds(theirs, [b"N"], [reader])
    found = receive_listener(ours.fileno())
    assert found is not None
    assert os.path.samestat(os.fstat(found), os.fstat(reader)) and not os.get_inheritable(found)
    theirs.close()
    assert receive_listener(ours.fileno()) is None
    for number in (found, reader, writer):
        os.close(number)
    ours.close()


@pytest.mark.parametrize(
    "what",
    ["pidfd_open", "pidfd_getfd", "pidfd_getfd denied", "openat2", "renameat2", "memfd_create"],
)
@pytest.mark.parametrize("person", PEOPLE)
def test_what_the_kernel_or_an_outer_filter_has_not_is_named(person: str, what: str) -> None:
    """Before the command: a launch that could not keep its rules, or would refuse what they allow, is none."""
    with place_of(person) as place:
        place.before = (PYTHON, "-B", str(HERE / "refusing.py"), what)
        command = place.command(["/bin/sh", "-c", "echo ran"], file_rules="create-time")
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=False,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(SOURCES)},
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (125, "")
    name, _, denied = what.partition(" ")
    assert f"there is no {name}(2) here ({'EPERM' if denied else 'ENOSYS'})" in done.stderr
    assert "`file_rules: existing-only`" in done.stderr and "`--sandbox off`" in done.stderr


# A child that waits for its own child for ever, as bubblewrap's first moments may be left.
ENDS = """
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from sandbox.supervisor import kernel
from sandbox.supervisor.life import end_wrap, has_children
kernel.take_orphans_in()
script = "cat <&0 & echo began; wait"
child = subprocess.Popen(("/bin/sh", "-c", script), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
end_wrap(child.pid)
print(has_children(), flush=True)
os._exit(0)
"""


def test_what_bubblewrap_leaves_behind_ends_too() -> None:
    command = (PYTHON, "-I", "-S", "-c", ENDS, str(SOURCES))
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (0, "False\n"), done.stderr
