"""Without a wrap: the same door, real processes on the host, and nothing left behind."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from sandbox.backends.base import Command, Execution, Stdio
from sandbox.backends.hosted import Hosted
from sandbox.backends.none import Unwrapped
from sandbox.spec import SandboxBindMount, SandboxSpec
from tests.sandbox.processes import processes, wait_for_end
from tests.sandbox.wrapping import Place, read_until, terminal

OFF = {"_backend": "none"}


def lines(done: "subprocess.CompletedProcess[str]") -> list[str]:
    """What a run printed; its stderr when it failed."""
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_listeners_are_the_launchers(place: Place) -> None:
    script = """
import os, socket
for name in ("HTTP_PROXY", "ALL_PROXY", "AGENT_GATEWAY_URL"):
    port = int(os.environ[name].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 10) as c:
        print(c.recv(64).decode())
"""
    assert lines(place.run("python3", "-c", script, **OFF)) == ["http", "socks", "gateway"]


def test_environment_is_the_same_but_for_the_places(place: Place) -> None:
    host = {"LD_PRELOAD": "/x.so", "GH_TOKEN": "t", "TERM": "dumb"}
    wrapped, plain = (
        dict(line.split("=", 1) for line in lines(place.run("env", _host=host, _backend=name)))
        for name in ("native", "none")
    )
    assert set(wrapped) == set(plain)
    assert (plain["AGENT_GATEWAY_SANDBOX"], plain["HOME"]) == ("none", str(place.home))


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("sh", "-c", "exit 7"), 7, ""),
        (("sh", "-c", "kill -TERM $$"), 143, ""),
        (("no-such-command",), 127, "agent-gateway: no-such-command: command not found\n"),
        (("/usr",), 126, "agent-gateway: /usr: Is a directory\n"),
    ],
)
def test_exit_status(place: Place, argv: tuple[str, ...], code: int, words: str) -> None:
    done = place.run(*argv, **OFF)
    assert (done.returncode, done.stderr) == (code, words)


def test_streams_pass_through(place: Place) -> None:
    done = place.run("sh", "-c", "cat; echo error >&2", text="in\0put\n", **OFF)
    assert (done.stdout, done.stderr) == ("in\0put\n", "error\n")


def test_process_has_nothing_it_should_not(place: Place) -> None:
    script = """
import os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
print(status["SigBlk"], hex(int(status["SigIgn"], 16) & 0x7fffffff))
print(sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1])
"""
    assert lines(place.run("python3", "-c", script, **OFF)) == ["0000000000000000 0x1001000", "[0, 1, 2]"]


def test_signals_reach_the_command(place: Place) -> None:
    script = "trap 'echo usr1' USR1; trap 'exit 9' TERM; echo ready; while :; do read line; done"
    process = place.popen("bash", "-c", script, **OFF)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "usr1\n"
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 9


def test_interrupt_reaches_the_command_alone(place: Place) -> None:
    """Keeper and launcher are in the same process group and must live on."""
    script = "trap 'echo interrupted; exit 5' INT; echo ready; while :; do read line; done"
    with terminal(place.command(("bash", "-c", script), **OFF)) as (process, ours):
        read_until(ours, b"ready")
        os.write(ours, b"\x03")
        read_until(ours, b"interrupted")
        assert process.wait() == 5


DAEMONS = """
setsid sh -c 'exec sleep 5000{mark}' >/dev/null 2>&1 &
(setsid sh -c '(exec sleep 6000{mark}) & :' >/dev/null 2>&1 &)
python3 -c 'import os
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.execvp("sleep", ["sleep", "7000{mark}"])' >/dev/null 2>&1
while [ "$(pgrep -cf '^sleep [567]000{mark}')" != 3 ]; do :; done
echo ready
"""


def test_destroy_kills_daemons(place: Place) -> None:
    mark = str(os.getpid())
    done = place.run("bash", "-c", DAEMONS.format(mark=mark) + "exit 3", **OFF)
    assert (done.returncode, done.stdout) == (3, "ready\n")
    assert processes(f"000{mark}") == []


def test_killed_launcher_leaves_no_process_and_no_file(place: Place) -> None:
    mark = str(os.getpid())
    script = DAEMONS.format(mark=mark) + f'echo "$GIT_CONFIG_GLOBAL"; exec sleep 8000{mark}'
    process = place.popen("bash", "-c", script, **OFF, git_config="[user]\n\tname = x\n")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    file = Path(process.stdout.readline().strip())
    assert file.exists()
    keepers = [
        number
        for number in processes("keeper.py")
        if str(file) in Path(f"/proc/{number}/cmdline").read_text()
    ]
    left = [*processes(f"000{mark}"), *keepers]
    assert len(keepers) == 1
    process.kill()
    process.communicate()
    wait_for_end(left)
    assert not file.exists()


def test_killed_keeper_takes_the_command_along(tmp_path: Path) -> None:
    running = launch(tmp_path)
    try:
        execution = start(running, "sleep", f"9000{os.getpid()}")
        (keeper,) = [
            number for number in processes("keeper.py")
            if f"PPid:\t{os.getpid()}\n" in Path(f"/proc/{number}/status").read_text()
        ]  # fmt: skip
        os.kill(keeper, signal.SIGKILL)
        assert execution.wait() == 125
        wait_for_end(processes(f"9000{os.getpid()}"))
    finally:
        running.destroy()


def launch(folder: Path, git_config: str = "") -> Hosted:
    """A wrapless wrap in this process."""
    binds = (SandboxBindMount(str(folder), str(folder)),)
    return Unwrapped().launch(
        SandboxSpec("s", "w", "a", binds, git_config=git_config, search_path="/usr/bin:/bin")
    )


def start(running: Hosted, *argv: str) -> Execution:
    """A command in the foreground."""
    environment = {"PATH": "/usr/bin:/bin"}
    return running.exec(Command(argv, environment, "/", Stdio.INHERIT, foreground=True))


def test_git_configuration_is_a_private_file(tmp_path: Path) -> None:
    running = launch(tmp_path, "[user]\n\tname = x\n")
    file = Path(running.inside.git_config)
    assert file.read_text() == "[user]\n\tname = x\n"
    assert file.stat().st_mode & 0o777 == 0o600
    running.destroy()
    assert not file.exists()


def test_destroy_leaves_nothing(tmp_path: Path) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    running = launch(tmp_path)
    execution = start(running, "sleep", "1000")
    port = running.endpoints.http_port
    with pytest.raises(GatewayError):
        start(running, "true")
    running.destroy()
    running.destroy()
    execution.signal(signal.SIGTERM)
    assert execution.wait() == 137
    assert sorted(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


def test_destroy_before_start(tmp_path: Path) -> None:
    running = launch(tmp_path)
    running.destroy()
    with pytest.raises(GatewayError):
        start(running, "true")


@pytest.mark.parametrize("argv", [(), ("a\0b",), ("x" * (9 << 20),)])
def test_what_cannot_be_said(tmp_path: Path, argv: tuple[str, ...]) -> None:
    running = launch(tmp_path)
    try:
        with pytest.raises(GatewayError):
            start(running, *argv)
    finally:
        running.destroy()


def test_probe() -> None:
    probe = Unwrapped().probe()
    assert (probe.available, probe.hint) == (True, "")


def test_listeners_are_inherited_by_nobody(tmp_path: Path) -> None:
    running = launch(tmp_path)
    try:
        for listener in (running.http, running.socks, running.gateway):
            assert not listener.get_inheritable()
            assert not listener.getblocking()
            assert listener.getsockname()[0] == "127.0.0.1"
        assert running.inside.connect[0] == sys.executable
    finally:
        running.destroy()
