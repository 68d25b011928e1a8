"""`bridge: socat`: the same listeners for the wrapped process, other ways to the gateway."""

import os
import socket
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.session import Bridge, FileRules
from sandbox import bridge as bridge_module
from sandbox.bridge import PREFIX, SocatBridge, find_socat, open_bridge, probe_bridge
from sandbox.bridge_inside import NAMES
from sandbox.handover import open_channel
from sandbox.spec import SandboxSpec
from tests.sandbox.processes import processes, wait_for_end
from tests.sandbox.wrapping import NOBODY, PATIENCE, PEOPLE, PYTHON, SOURCES, Place, as_ordinary

SOCAT = "socat"
CONNECT = """
import socket
for port in (3128, 1080, 3180):
    with socket.create_connection(("127.0.0.1", port), 10) as c:
        print(c.recv(64).decode())
"""


def lines(done: "subprocess.CompletedProcess[str]") -> list[str]:
    """What a run printed; its stderr when it failed."""
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# --- In a wrap ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", list(FileRules))
def test_listeners_are_the_launchers(place: Place, rules: FileRules) -> None:
    """From the command's first moment on."""
    for _ in range(2):
        done = place.run("python3", "-c", CONNECT, bridge=SOCAT, file_rules=rules)
        assert lines(done) == ["http", "socks", "gateway"]


TRACING = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
number = min(int(name) for name in os.listdir("/proc") if name.isdigit()
    and b"/socat\\0" in open(f"/proc/{name}/cmdline", "rb").read())
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
for request in (16, 0x4206):  # PTRACE_ATTACH, PTRACE_SEIZE
    print(libc.ptrace(request, number, None, None), errno.errorcode[ctypes.get_errno()])
for name, flags in (("mem", os.O_RDWR), ("fd/0", os.O_RDONLY), ("root/etc", os.O_RDONLY), ("environ", os.O_RDONLY)):
    try:
        print(os.open(f"/proc/{number}/{name}", flags))
    except OSError as error:
        print(name, errno.errorcode[error.errno])
"""


def test_what_is_started_before_the_door_is_out_of_reach(place: Place) -> None:
    """The file rules do not bind socat, so nothing they bind may become a part of it."""
    done = place.run("python3", "-c", TRACING, bridge=SOCAT, file_rules="create-time")
    refused = ["-1 EPERM"] * 2 + [f"{name} EACCES" for name in ("mem", "fd/0", "root/etc", "environ")]
    assert lines(done) == refused


def test_many_connections_at_once(place: Place) -> None:
    script = """
import socket
held = [socket.create_connection(("127.0.0.1", 3128), 20) for _ in range(60)]
print({c.recv(64).decode() for c in held})
"""
    assert lines(place.run("python3", "-c", script, bridge=SOCAT)) == ["{'http'}"]


def test_network_is_otherwise_absent(place: Place) -> None:
    script = """
import errno, socket
try:
    socket.create_connection(("192.0.2.1", 80), 10)
except OSError as error:
    print(errno.errorcode[error.errno])
print(sorted(name for _, name in socket.if_nameindex()))
"""
    assert lines(place.run("python3", "-c", script, bridge=SOCAT)) == ["ENETUNREACH", "['lo']"]


def test_command_finds_no_child_of_ours(place: Place) -> None:
    script = """
import os
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("none")
print(sorted(os.listdir("/run/agent-gateway/bridge")), os.access("/run/agent-gateway/bridge", os.W_OK))
"""
    assert lines(place.run("python3", "-c", script, bridge=SOCAT)) == [
        "none",
        "['gateway', 'http', 'socks'] False",
    ]


def test_without_it_there_is_nothing_of_it(place: Place) -> None:
    assert lines(place.sh("ls /run/agent-gateway | grep -c bridge; true")) == ["0"]


def bridges(place: Place) -> list[Path]:
    """The directories of bridges on the host."""
    return list(place.state.rglob(f"{PREFIX}*"))


def test_nothing_of_it_is_on_the_host_while_it_runs(place: Place) -> None:
    process = place.popen("sh", "-c", "echo up; read line", bridge=SOCAT)
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    assert (place.state / "run").is_dir()
    assert bridges(place) == []
    process.communicate("\n")
    assert process.returncode == 0


@pytest.mark.parametrize("ending", ["command", "killed launcher"])
def test_no_process_is_left(place: Place, ending: str) -> None:
    mark = f"mark-{place.root.name}"
    process = place.popen("sh", "-c", f"echo up; read line; : {mark}", bridge=SOCAT)
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    (command,) = [
        number
        for number in processes(mark)
        if Path(f"/proc/{number}/cmdline").read_bytes().startswith(b"sh\0")
    ]
    namespace = os.readlink(f"/proc/{command}/ns/pid")
    inside = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.readlink(f"/proc/{name}/ns/pid") == namespace:
                inside.append(int(name))
        except OSError:
            continue
    assert len(inside) == 5  # init, the command, three socats
    if ending == "killed launcher":
        process.kill()
    process.communicate("\n")
    wait_for_end(inside)
    assert bridges(place) == []


def test_another_sessions_wrap_has_its_own(place: Place) -> None:
    """Two wraps of one person at the same time: neither's sockets are the other's."""
    script = "stat -c %i /run/agent-gateway/bridge/*; read line"
    both = [place.popen("sh", "-c", script, bridge=SOCAT, session_id=name) for name in ("one", "two")]
    seen = []
    for process in both:
        assert process.stdout is not None
        seen.append({process.stdout.readline() for _ in NAMES})
    assert not seen[0] & seen[1]
    for process in both:
        process.communicate("\n")


def test_exit_status(place: Place) -> None:
    assert place.sh("exit 7", bridge=SOCAT).returncode == 7
    assert place.run("no-such-command", bridge=SOCAT).returncode == 127


# --- On the host ----------------------------------------------------------------------------------


def spec_at(folder: Path) -> SandboxSpec:
    """A spec whose bridge is made below a directory."""
    return SandboxSpec("s", "w", "a", (), runtime_dir=str(folder), bridge=Bridge.SOCAT)


def opened(folder: Path) -> SocatBridge:
    """A bridge there."""
    made = open_bridge(spec_at(folder))
    assert made is not None
    return made


def test_nobody_else_may_enter(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    place = tmp_path / "run"
    bridge = opened(place)
    (folder,) = place.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(entry.name for entry in folder.iterdir()) == sorted(NAMES)
    if os.geteuid() == 0:
        script = "import socket,sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        done = subprocess.run(
            ["setpriv", f"--reuid={NOBODY}", "--clear-groups", "/usr/bin/env", "python3", "-c", script,
             f"{folder}/http"],
            capture_output=True, text=True, timeout=PATIENCE, check=False, cwd="/",
        )  # fmt: skip
        assert "PermissionError" in done.stderr
    bridge.remove()
    bridge.remove()
    assert list(place.iterdir()) == []


def test_long_place(tmp_path: Path) -> None:
    """Longer than an address of a Unix socket can be."""
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    bridge = opened(deep)
    assert [stat.S_ISSOCK(path.stat().st_mode) for path in next(deep.iterdir()).iterdir()] == [True] * 3
    bridge.remove()


def test_what_a_killed_launcher_left_is_removed(tmp_path: Path) -> None:
    left, other = tmp_path / f"{PREFIX}left", tmp_path / "operator.sock"
    left.mkdir()
    (left / "http").touch()
    other.touch()
    (tmp_path / f"{PREFIX}link").symlink_to(other)
    first = opened(tmp_path)
    second = opened(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert len(names) == 4
    assert {other.name, f"{PREFIX}link"} < names
    assert left.name not in names
    first.remove()
    second.remove()


def test_place_that_cannot_be_written() -> None:
    with pytest.raises(GatewayError, match="sockets of the bridge"):
        open_bridge(spec_at(Path("/proc/nowhere")))


def test_handover_has_no_bridge() -> None:
    assert open_bridge(SandboxSpec("s", "w", "a", ())) is None
    assert probe_bridge(Bridge.HANDOVER) is None


# --- The start ------------------------------------------------------------------------------------


def speak(
    folder: Path, channel: socket.socket, words: dict[str, bytes], last: bytes, answers: list[bytes]
) -> None:
    """The stub's part: through each socket its word, and then the last one."""
    for name, word in words.items():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(folder / name))
            connection.send(word)
            answers.append(connection.recv(1))
    if last:
        channel.send(last)
    channel.close()


KNOCKS = {name: bytes([index]) for index, name in enumerate(NAMES)}


def taken(
    folder: Path, bridge: SocatBridge, words: dict[str, bytes], last: bytes, deadline: float = PATIENCE
) -> tuple[list[socket.socket], int, list[bytes]]:
    """What the launcher takes when the stub speaks so."""
    ours, theirs = open_channel()
    answers: list[bytes] = []
    arguments = (next(folder.iterdir()), theirs, words, last, answers)
    stub = threading.Thread(target=speak, args=arguments)
    stub.start()
    try:
        with ours:
            listeners, pid = bridge.take(ours, deadline)
    finally:
        stub.join(PATIENCE)
        bridge.remove()
    return listeners, pid, answers


def test_taken_when_everything_came_through(tmp_path: Path) -> None:
    listeners, pid, answers = taken(tmp_path, opened(tmp_path), KNOCKS, b"B")
    assert (pid, answers, len(listeners)) == (os.getpid(), [b"\0", b"\1", b"\2"], 3)
    assert [listener.getblocking() for listener in listeners] == [False] * 3
    for listener in listeners:
        with pytest.raises(BlockingIOError):
            listener.accept()
        listener.close()


def test_mixed_up_sockets_are_not_answered(tmp_path: Path) -> None:
    *_, answers = taken(tmp_path, opened(tmp_path), {"http": b"\1", "socks": b"x", "gateway": b"\0"}, b"B")
    assert answers == [b""] * 3


@pytest.mark.parametrize(
    ("last", "error"), [(b"", EOFError), (b"L", GatewayError)], ids=("gone", "another word")
)
def test_stub_that_does_not_say_so(tmp_path: Path, last: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        taken(tmp_path, opened(tmp_path), KNOCKS, last)
    assert list(tmp_path.iterdir()) == []


def test_silent_stub(tmp_path: Path) -> None:
    bridge = opened(tmp_path)
    ours, theirs = open_channel()
    with ours, theirs, pytest.raises(TimeoutError):
        bridge.take(ours, 0.0)
    bridge.remove()


# --- The probe ------------------------------------------------------------------------------------

LOOK = """
from gateway.session import Bridge, FileRules
from sandbox.bridge import open_bridge, probe_bridge
from sandbox.spec import SandboxSpec
print(probe_bridge(Bridge.SOCAT))
try:
    open_bridge(SandboxSpec("s", "w", "a", (), bridge=Bridge.SOCAT))
except Exception as error:
    print(error)
"""


@pytest.mark.parametrize("person", PEOPLE)
def test_missing_socat_is_named(person: str) -> None:
    hide = f'mount --bind /dev/null {find_socat()} && exec "$@"'
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        hide,
        "sh",
        PYTHON,
        "-B",
        "-c",
        LOOK,
    ]
    done = subprocess.run(
        as_ordinary(command) if person == "ordinary" else command,
        capture_output=True, text=True, timeout=PATIENCE, check=False, cwd=SOURCES,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(SOURCES)},
    )  # fmt: skip
    probe, refusal = lines(done)
    assert "available=False" in probe and "requires_install=('socat',)" in probe
    assert "socat is not installed: " in probe
    assert refusal.startswith("bridge: socat cannot run on this host (socat is not installed: ")


def test_socat_is_there() -> None:
    assert probe_bridge(Bridge.SOCAT) is None
    assert os.access(find_socat(), os.X_OK)


def test_socat_that_the_wrap_would_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge_module, "find_program", lambda name: f"/opt/{name}")
    assert find_socat() == ""
