"""The wrap itself: real bwrap, real processes, as root and as an ordinary user."""

import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import termios
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import GatewayError
from gateway.session import FileRules, Mode
from sandbox.backends.base import Command, Execution, Stdio
from sandbox.backends.bubblewrap import Bubblewrap, Wrapped
from sandbox.events import Cause, Exit, Killed, Ready, SandboxEvent, Starting, Stdout, Violation
from sandbox.spec import SandboxBindMount, SandboxSpec, SandboxState
from sandbox.supervisor.client import RESERVE
from tests.sandbox.processes import processes, wait_for_end
from tests.sandbox.wrapping import NOBODY, PATIENCE, PEOPLE, PYTHON, Place, place_of, read_until, terminal


def lines(done: "subprocess.CompletedProcess[str]") -> list[str]:
    """What a run printed; its stderr when it failed."""
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# --- The network ----------------------------------------------------------------------------------

CONNECT = """
import socket, sys
for port in (3128, 1080, 3180):
    with socket.create_connection(("127.0.0.1", port), 10) as c:
        print(c.recv(64).decode())
"""
OTHERWISE_ABSENT = """
import errno, socket
for address in (("192.0.2.1", 80), ("169.254.169.254", 80)):
    try:
        socket.create_connection(address, 10)
    except OSError as error:
        print(errno.errorcode[error.errno])
print(sorted(name for _, name in socket.if_nameindex()))
try:
    socket.getaddrinfo("origin.test", 80)
except socket.gaierror:
    print("no names")
"""


def test_listeners_are_the_launchers(place: Place) -> None:
    assert lines(place.run("python3", "-c", CONNECT)) == ["http", "socks", "gateway"]


def test_network_is_otherwise_absent(place: Place) -> None:
    assert lines(place.run("python3", "-c", OTHERWISE_ABSENT)) == [
        "ENETUNREACH",
        "ENETUNREACH",
        "['lo']",
        "no names",
    ]


# --- Files ----------------------------------------------------------------------------------------


def test_worktree_is_writable_and_the_rest_is_not_there(place: Place) -> None:
    script = f"""
    echo new > {place.worktree}/file && cat {place.worktree}/file
    ls -A {place.root} {place.home}
    for name in / /usr /etc /run /root; do touch $name/x 2>/dev/null && echo wrote $name; done
    cat {place.home}/.ssh/id_ed25519 /etc/shadow 2>/dev/null
    ls /etc | grep -E 'shadow|sudoers|machine-id|ssl-private'
    ls /etc/ssl /etc/ssh | grep -E 'private|_key'
    ls /run
    true"""
    done = place.sh(script)
    assert lines(done) == [
        "new", f"{place.root}:", "home", "work", "", f"{place.home}:", ".local", "agent-gateway",
    ]  # fmt: skip
    assert (place.worktree / "file").read_text() == "new\n"


def test_home_is_private_and_kept(place: Place) -> None:
    inside = place.state / "workspaces/default/home"
    assert lines(place.sh('echo kept > "$HOME/file"; echo "$HOME"')) == [str(inside)]
    assert lines(
        place.sh('cat ~/file; stat -c %a ~; python3 -c "import pwd,os; print(pwd.getpwuid(os.getuid())[5])"')
    ) == [
        "kept",
        "700",
        str(inside),
    ]


@pytest.mark.parametrize("mode", ["review", "plan", "orchestrate"])
def test_other_modes_read_only(place: Place, mode: str) -> None:
    assert lines(place.sh("touch x 2>/dev/null || echo no; echo yes > ~/x; cat ~/x", mode=mode)) == [
        "no",
        "yes",
    ]


def test_bound_directories(place: Place) -> None:
    read, write = place.root / "read", place.root / "write"
    place.write(read / "file", "seen\n")
    write.mkdir()
    binds = [[str(place.worktree), False], [str(read), True], [str(write), False]]
    script = f"cat {read}/file; touch {read}/x 2>/dev/null || echo no; touch {write}/x && echo yes"
    assert lines(place.sh(script, bind_mounts=binds)) == ["seen", "no", "yes"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/", "whole file system"),
        ("/proc", "belongs to the wrap"),
        ("/sys/kernel", "belongs to the wrap"),
        ("/dev/shm", "belongs to the wrap"),
        ("/run", "sockets"),
        ("HOME", "holds the home directory"),
        ("HOME/.ssh", "holds secrets"),
        ("HOME/.config", "holds secrets"),
        ("HOME/.local/state", "this product's own state"),
        ("HOME/.local/state/agent-gateway/audit", "this product's own state"),
        ("HOME/missing", "No such file"),
        ("ROOT", "holds the home directory"),
    ],
)
def test_what_is_never_bound(place: Place, path: str, reason: str) -> None:
    for name in (".config", ".local/state/agent-gateway/audit"):
        (place.home / name).mkdir(parents=True, exist_ok=True)
    named = path.replace("HOME", str(place.home)).replace("ROOT", str(place.root))
    done = place.run("true", bind_mounts=[[named, True]], _workdir="/")
    assert done.returncode == 125
    assert reason in done.stderr


def test_link_to_a_secret_is_not_bound(place: Place) -> None:
    (place.root / "innocent").symlink_to(place.home / ".ssh")
    done = place.run("true", bind_mounts=[[str(place.root / "innocent"), True]], _workdir="/")
    assert (done.returncode, "holds secrets" in done.stderr) == (125, True)


def test_another_guest_path_is_an_error() -> None:
    spec = SandboxSpec("s", "w", "a", (SandboxBindMount("/usr", "/elsewhere"),))
    with pytest.raises(GatewayError, match=r"bind_mounts\[0\]\.guest_path"):
        Bubblewrap().launch(spec)


def test_protected_paths(place: Place) -> None:
    checkout = place.write(place.worktree / "a/checkout/file").parent
    script = """touch a/checkout/x 2>/dev/null || echo no
    mv a b 2>/dev/null || echo no
    touch a/x && echo yes"""
    assert lines(place.sh(script, protected_paths=[str(checkout)])) == ["no", "no", "yes"]
    assert lines(place.sh("touch x 2>/dev/null || echo no", protected_paths=[str(place.worktree)])) == ["no"]


def test_denied_names_that_exist(place: Place) -> None:
    names = (
        ".env",
        "deep/down/server.key",
        "cert.pem",
        ".vscode/tasks.json",
        ".mcp.json",
        ".claude/settings.json",
    )
    for name in names:
        place.write(place.worktree / name, "old")
    allowed = (".env.example", "node_modules/package/cacert.pem", ".claude/notes")
    for name in allowed:
        place.write(place.worktree / name, "old")
    script = "for name in {}; do echo new 2>/dev/null > $name || echo no $name; done; rm .env 2>/dev/null || echo no rm"
    denied = lines(place.sh("exec 2>/dev/null; " + script.format(" ".join((*names, *allowed)))))
    assert denied == [*(f"no {name}" for name in names), "no rm"]
    assert [(place.worktree / name).read_text() for name in names] == ["old"] * len(names)
    assert [(place.worktree / name).read_text() for name in allowed] == ["new\n"] * len(allowed)


def test_nothing_is_left_in_the_worktree(place: Place) -> None:
    place.write(place.worktree / "file")
    assert place.run("true").returncode == 0
    assert [path.name for path in place.worktree.iterdir()] == ["file"]


def test_hidden_files(place: Place) -> None:
    place.write(place.worktree / "plans.txt", "secret")
    place.write(place.worktree / "private/plans", "secret")
    script = "cat plans.txt private/plans 2>/dev/null; ls private; echo x 2>/dev/null > private/x || echo no"
    assert lines(place.sh("exec 2>/dev/null;" + script, deny_read=["plans.*", "*/private"])) == ["no"]


# --- Git ------------------------------------------------------------------------------------------

IDENTITY = (
    "-c",
    "user.name=A",
    "-c",
    "user.email=a@b.test",
    "-c",
    "init.defaultBranch=main",
    "-c",
    "gc.auto=0",
)


def git(place: Place, *arguments: str, cwd: Path | None = None) -> None:
    """Git on the host, before anything is given to the person."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(place.root), "GIT_CONFIG_NOSYSTEM": "1"}
    command = ("git", *IDENTITY, *arguments)
    subprocess.run(command, cwd=cwd or place.worktree, check=True, capture_output=True, env=environment)


COMMIT = (
    "git -c user.name=A -c user.email=a@b.test commit -q --allow-empty -m inside && git log --format=%s -1"
)


def test_repository(place: Place) -> None:
    git(place, "init", "-q")
    script = f"""{COMMIT}
    exec 2>/dev/null
    echo evil > .git/hooks/post-commit || echo no hook
    git config core.hooksPath /tmp || echo no config
    mv .git elsewhere || echo no move
    mv .git/hooks .git/other || echo no move
    rm -rf .git/hooks .git/config; ls -d .git/hooks .git/config
    git init -q new && echo x > new/.git/hooks/x && echo new"""
    assert lines(place.sh(script)) == [
        "inside",
        "no hook",
        "no config",
        "no move",
        "no move",
        ".git/config",
        ".git/hooks",
        "new",
    ]


def test_linked_worktree_commits(place: Place) -> None:
    main = place.root / "main"
    git(place, "init", "-q", str(main))
    git(place, "commit", "-q", "--allow-empty", "-m", "first", cwd=main)
    place.worktree.rmdir()
    git(place, "worktree", "add", "-q", str(place.worktree), cwd=main)
    place.write(main / "unrelated", "not for the agent")
    script = f"""{COMMIT}
    exec 2>/dev/null
    cat {main}/unrelated || echo invisible
    echo evil > {main}/.git/hooks/post-commit || echo no hook
    echo evil >> {main}/.git/config || echo no config
    echo gitdir: /tmp > .git || echo no pointer
    echo /tmp > {main}/.git/worktrees/work/commondir || echo no pointer"""
    assert lines(place.sh(script)) == [
        "inside",
        "invisible",
        "no hook",
        "no config",
        "no pointer",
        "no pointer",
    ]


def test_pointer_that_does_not_point_back(place: Place) -> None:
    other = place.root / "other"
    git(place, "init", "-q", str(other))
    place.write(place.worktree / ".git", f"gitdir: {other}/.git\n")
    done = place.run("true")
    assert (done.returncode, "does not point back" in done.stderr) == (125, True)
    binds = [[str(place.worktree), False], [str(other / ".git"), False]]
    assert place.run("true", bind_mounts=binds).returncode == 0


# --- The process ----------------------------------------------------------------------------------


def test_environment_is_clean(place: Place) -> None:
    host = {
        "LD_PRELOAD": "/x.so",
        "GH_TOKEN": "t",
        "TERM": "dumb",
        "ANTHROPIC_API_KEY": "k",
        "PYTHONPATH": "/x",
    }
    found = dict(line.split("=", 1) for line in lines(place.run("env", _host=host)))
    assert not {"LD_PRELOAD", "GH_TOKEN", "PYTHONPATH"} & set(found)
    assert (found["TERM"], found["ANTHROPIC_API_KEY"], found["AGENT_GATEWAY_SANDBOX"]) == (
        "dumb",
        "k",
        "native",
    )
    assert (found["HTTPS_PROXY"], found["TMPDIR"]) == ("http://127.0.0.1:3128", "/tmp")


def test_process_has_nothing_it_should_not(place: Place) -> None:
    script = """
import os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines())
print(status["CapEff"], status["CapBnd"], status["NoNewPrivs"], status["Seccomp"])
print(status["SigBlk"], hex(int(status["SigIgn"], 16) & 0x7fffffff))  # 32 is the C library's own
print(sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1])
print(len([name for name in os.listdir("/proc") if name.isdigit()]))
"""
    # Python itself ignores SIGPIPE (13) and SIGXFSZ (25).
    assert lines(place.run("python3", "-c", script)) == [
        "0000000000000000 0000000000000000 1 2",
        "0000000000000000 0x1001000",
        "[0, 1, 2]",
        "2",
    ]


def test_streams_pass_through(place: Place) -> None:
    done = place.run("sh", "-c", "cat; echo error >&2", text="in\0put\n")
    assert (done.stdout, done.stderr) == ("in\0put\n", "error\n")


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("sh", "-c", "exit 7"), 7, ""),
        (("sh", "-c", "exit 125"), 125, ""),
        (("sh", "-c", "kill -KILL $$"), 137, ""),
        (("sh", "-c", "kill -TERM $$"), 143, ""),
        (("no-such-command",), 127, "agent-gateway: no-such-command: command not found\n"),
        (("./missing",), 127, "agent-gateway: ./missing: No such file or directory\n"),
        (("/usr",), 126, "agent-gateway: /usr: Is a directory\n"),
        (("./plain",), 126, "agent-gateway: ./plain: Permission denied\n"),
        (("./format",), 126, "agent-gateway: ./format: Exec format error\n"),
        (("./script",), 126, "agent-gateway: ./script: bad interpreter: No such file or directory\n"),
        (("sh", "-c", "x" * 140_000), 126, "agent-gateway: sh: Argument list too long\n"),
    ],
)  # fmt: skip
def test_exit_status(place: Place, argv: tuple[str, ...], code: int, words: str) -> None:
    place.write(place.worktree / "plain", "text")
    place.write(place.worktree / "format", "no format\n", 0o755)
    place.write(place.worktree / "script", "#!/no/such/interpreter\n", 0o755)
    done = place.run(*argv)
    assert (done.returncode, done.stderr) == (code, words)


# A user namespace in which no further one can be made.
NO_MORE = ("unshare", "--user", "--map-root-user", "sh", "-c")
NO_MORE_SCRIPT = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'


def test_bubblewraps_own_failure_is_not_the_commands(place: Place) -> None:
    place.before = (*NO_MORE, NO_MORE_SCRIPT, "sh")
    done = place.run("sh", "-c", "exit 7")
    assert done.returncode == 125
    assert done.stderr.startswith("refused: bubblewrap could not set the wrap up: bwrap: ")


def test_probe() -> None:
    from sandbox.backends.bubblewrap import Bubblewrap
    from sandbox.probing.trial import NOTE

    probe = Bubblewrap().probe()
    assert (probe.available, probe.note, probe.requires_install) == (True, NOTE, ())
    assert Bubblewrap().probe() is probe


HANDLES = """
import os, signal, sys
def note(number, frame):
    os.write(1, signal.Signals(number).name.encode() + b"\\n")
    if number == signal.SIGTERM:
        sys.exit(9)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, note)
print("ready", flush=True)
while True:
    signal.pause()
"""


def test_signals_reach_the_command(place: Place) -> None:
    process = place.popen("python3", "-c", HANDLES)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    for number in (signal.SIGHUP, signal.SIGUSR1):
        process.send_signal(number)
        assert process.stdout.readline() == f"{number.name}\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate()[0] == "SIGTERM\n"
    assert process.returncode == 9


def test_default_disposition(place: Place) -> None:
    process = place.popen("sh", "-c", "echo ready; read line")
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGHUP)
    # Not communicate(): it ends CMD's input at once, and `read` may see that before the signal.
    assert process.wait() == 128 + signal.SIGHUP
    process.communicate()


def test_ignored_signals_stay_ignored(place: Place) -> None:
    assert lines(place.sh("kill -HUP $$; echo alive", _ignored=[int(signal.SIGHUP)])) == ["alive"]


# --- Ways out -------------------------------------------------------------------------------------

ATTACKS = """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    result = getattr(libc, name)(*arguments)
    print(name, "done" if result >= 0 else errno.errorcode[ctypes.get_errno()])
def opened(path, mode):
    try:
        open(path, mode).close()
        print(path, "opened")
    except OSError as error:
        print(path, errno.errorcode[error.errno])
call("unshare", 0x10000000)
call("unshare", 0x00020000)
call("mount", b"none", b"/tmp", b"tmpfs", 0, None)
call("umount2", b"/proc/sys", 2)
call("chroot", b"/tmp")
call("setns", 0, 0)
for family in (socket.AF_VSOCK, socket.AF_PACKET, 38):
    try:
        socket.socket(family, socket.SOCK_STREAM)
        print(int(family), "opened")
    except OSError as error:
        print(int(family), errno.errorcode[error.errno])
call("syscall", 425, 1, None)
call("syscall", 435, None, 0)
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory", "/proc/sysrq-trigger"):
    opened(path, "r+b")
for path in ("/proc/kmsg", "/proc/kcore", "/dev/mem", "/proc/1/environ", "/dev/kvm"):
    opened(path, "rb")
print(os.path.exists("/sys"), os.path.exists("/run/agent-gateway/stub.pyc"))
status = dict(line.split(":\\t", 1) for line in open("/proc/1/status").read().splitlines())
print("init", status["CapEff"], status["Seccomp"])
"""


def test_ways_out_are_closed(place: Place) -> None:
    done = lines(place.run("python3", "-c", ATTACKS))
    # What is not there at all on this kernel is as good as closed.
    closed = {"EPERM", "EACCES", "ENOENT", "ENOSYS", "EAFNOSUPPORT", "EROFS", "ENXIO"}
    open_ways = [
        line for line in done[:-2] if line.split()[-1] not in closed and line != "/proc/1/environ opened"
    ]
    assert open_ways == []
    assert done[:6] == [
        f"{name} EPERM" for name in ("unshare", "unshare", "mount", "umount2", "chroot", "setns")
    ]
    assert done[6:11] == [
        "40 EAFNOSUPPORT",
        "17 EAFNOSUPPORT",
        "38 EAFNOSUPPORT",
        "syscall ENOSYS",
        "syscall ENOSYS",
    ]
    assert done[-2:] == ["False True", "init 0000000000000000 2"]


def test_sockets_of_the_host_are_not_reached(place: Place) -> None:
    """A service listens in the worktree, and one on an abstract name."""
    abstract = f"\0agent-gateway-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX) as nameless:
        named.bind(str(place.worktree / "service"))
        nameless.bind(abstract)
        named.listen()
        nameless.listen()
        (place.worktree / "service").chmod(0o777)
        script = """
import socket, sys
for address in ("service", sys.argv[1].replace("@", "\\0")):
    try:
        socket.socket(socket.AF_UNIX).connect(address)
        print("connected")
    except OSError as error:
        print(error.strerror)
"""
        done = place.run("python3", "-c", script, abstract.replace("\0", "@"))
        assert lines(done) == ["Connection refused", "Connection refused"]


def test_stopped_init_does_not_hold_the_launcher(place: Place) -> None:
    script = """
import ctypes
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace(16, 1, None, None)
"""
    assert place.run("python3", "-c", script).returncode in (0, 137)


def test_race_for_a_masked_name_is_noticed(place: Place) -> None:
    """Somebody swaps a masked file for a link while wraps are made: each run is right or refused."""
    place.write(place.home / "notes", "private")
    place.write(place.worktree / ".env", "old")
    swap = f"""
import os
while True:
    os.rename("{place.worktree}/.env", "{place.worktree}/aside")
    os.symlink("{place.home}/notes", "{place.worktree}/.env")
    os.unlink("{place.worktree}/.env")
    os.rename("{place.worktree}/aside", "{place.worktree}/.env")
"""
    swapper = subprocess.Popen([PYTHON, "-c", swap])
    try:
        for _ in range(6):
            done = place.sh("cat .env aside 2>/dev/null; true")
            assert done.returncode in (0, 125), done.stderr
            assert "private" not in done.stdout
    finally:
        swapper.kill()
        swapper.wait()


# --- The end --------------------------------------------------------------------------------------


DAEMON = "setsid sh -c 'exec sleep 1000{mark}' & echo ready; exec sleep 2000{mark}"


def test_killed_launcher_leaves_no_process(place: Place) -> None:
    mark = str(os.getpid())
    process = place.popen("sh", "-c", DAEMON.format(mark=mark))
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    while len(left := processes(f"000{mark}")) != 2:
        pass  # a process has no command line for a moment when it becomes another program
    process.kill()
    process.wait()
    wait_for_end(left)
    for stream in (process.stdin, process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def test_end_of_the_command_ends_its_daemons(place: Place) -> None:
    mark = str(os.getpid())
    done = place.sh(f"setsid sleep 3000{mark} >/dev/null 2>&1 & exit 3")
    assert done.returncode == 3
    assert processes(f"3000{mark}") == []


def test_destroy_leaves_nothing() -> None:
    """In this process: descriptors, threads' children, listeners."""
    with place_of(PEOPLE[0]) as place:
        before = sorted(os.listdir("/proc/self/fd"))
        running = launch(place)
        mark = f"4000{os.getpid()}"
        execution = start(running, "sleep", mark)
        address = running.http.getsockname()
        running.destroy()
        running.destroy()
        assert execution.wait() == 137
        execution.signal(signal.SIGTERM)
        assert address == ("127.0.0.1", 3128)
        assert processes(mark) == []
        RESERVE.empty()
        assert sorted(os.listdir("/proc/self/fd")) == before


def test_destroy_before_start() -> None:
    with place_of(PEOPLE[0]) as place:
        running = launch(place)
        running.destroy()
        with pytest.raises(GatewayError):
            start(running, "true")


def launch(place: Place, rules: FileRules = FileRules.CREATE_TIME) -> Wrapped:
    """A wrap in this process."""
    binds = (SandboxBindMount(str(place.worktree), str(place.worktree)),)
    spec = SandboxSpec("s", "w", "a", binds, user_home=str(place.home), search_path="/usr/bin:/bin")
    return Bubblewrap().launch(replace(spec, file_rules=rules))


def start(running: Wrapped, *argv: str) -> Execution:
    """A command in the foreground."""
    environment = {"PATH": "/usr/bin:/bin"}
    return running.exec(Command(argv, environment, "", Stdio.INHERIT, foreground=True))


def piped(running: Wrapped, script: str) -> Execution:
    """A shell script beside others."""
    return running.exec(Command(("/bin/sh", "-c", script), {"PATH": "/usr/bin:/bin"}))


# --- Our own processes inside, and commands that turn on them -------------------------------------

# The stub is the parent of the attendant, which is the parent of the command.
STUB = "read -r stat </proc/$PPID/stat; set -- ${stat##*) }; echo $2"
KEPT_FROM = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
attendant = os.getppid()
stub = int(open(f"/proc/{attendant}/stat").read().rpartition(")")[2].split()[1])
for number in (attendant, stub):
    for request in (16, 0x4206):
        print(libc.ptrace(request, number, None, None), errno.errorcode[ctypes.get_errno()])
    for name in ("mem", "environ"):
        try:
            open(f"/proc/{number}/{name}", "rb").close()
            print("opened", name)
        except OSError as error:
            print(errno.errorcode[error.errno])
    try:
        print(os.readlink(f"/proc/{number}/fd/3"))
    except OSError as error:
        print(errno.errorcode[error.errno])
    print(libc.syscall(438, os.pidfd_open(number), 3, 0), errno.errorcode[ctypes.get_errno()])
"""


def test_commands_cannot_take_our_processes_over() -> None:
    """Of the same user, and yet neither traced nor read: what they do is not the agent's doing."""
    with place_of(PEOPLE[0]) as place:
        running = launch(place)
        try:
            command = Command(("python3", "-c", KEPT_FROM), {"PATH": "/usr/bin:/bin"})
            events = list(running.exec(command))
        finally:
            running.destroy()
    found = b"".join(event.data for event in events if isinstance(event, Stdout)).decode().splitlines()
    assert found == ["-1 EPERM", "-1 EPERM", "EACCES", "EACCES", "EACCES", "-1 EPERM"] * 2, events


def test_killed_stub_ends_the_wrap() -> None:
    told: list[SandboxEvent] = []
    with place_of(PEOPLE[0]) as place:
        binds = (SandboxBindMount(str(place.worktree), str(place.worktree)),)
        spec = SandboxSpec("s", "w", "a", binds, user_home=str(place.home), search_path="/usr/bin:/bin")
        running = Bubblewrap().launch(spec, told.append)
        other = piped(running, "exec sleep 1000")
        killer = piped(running, f"kill -9 $({STUB})")
        assert list(other) == [Killed(Cause.MANUAL), Exit(125)]
        assert killer.wait() in (0, 125)
        stream = running.events()
        assert [next(stream) for _ in range(3)] == [Starting(), Ready(), Killed(Cause.MANUAL)] == told
        assert (running.handle.state, bool(running.handle.error)) == (SandboxState.ERROR, True)
        with pytest.raises(GatewayError, match="is error"):
            piped(running, "true")
        running.destroy()
        assert running.handle.state == SandboxState.DESTROYED


def test_killed_attendant_is_the_end_of_its_command() -> None:
    with place_of(PEOPLE[0]) as place:
        running = launch(place)
        try:
            execution = piped(running, "kill -9 $PPID; exec sleep 1000")
            assert list(execution) == [Killed(Cause.MANUAL), Exit(125)]
            assert piped(running, "exit 3").wait() == 3
        finally:
            running.destroy()


@pytest.mark.parametrize(
    "folder", ["/proc/self/cwd", "/proc/self/root/usr/bin", "/dev/fd", "/sys/class", "/run/agent-gateway"]
)
def test_what_is_the_wraps_own_on_the_path(place: Place, folder: str) -> None:
    """No link of the host's is made there."""
    place.environment["PATH"] = f"{folder}:/usr/bin:/bin"
    done = place.sh("echo runs")
    assert (done.returncode, done.stdout) == (0, "runs\n"), done.stderr


WRITES = """
echo x > new; mkdir folder; ln -s a link; echo x >> there; mv there moved; : > there; touch /usr/x; rm there
"""


@pytest.mark.parametrize("mode", [Mode.REVIEW, Mode.CHAT])
def test_refusals_of_read_only_binds_are_told(mode: Mode) -> None:
    """As far as somebody is asked: nobody is before something is removed. Of the system's folders nothing is told."""
    told: list[SandboxEvent] = []
    with place_of(PEOPLE[0]) as place:
        place.write(place.worktree / "there", "content")
        binds = (SandboxBindMount(str(place.worktree), str(place.worktree), read_only=mode is Mode.CHAT),)
        spec = SandboxSpec(
            "s", "w", "a", binds, mode=mode, user_home=str(place.home), search_path="/usr/bin:/bin"
        )
        running = Bubblewrap().launch(spec, told.append)
        # Not by pipes, of which one would be read for refusals as well.
        command = ("/bin/sh", "-c", f"exec 2>/dev/null; {WRITES}")
        environment = {"PATH": "/usr/bin:/bin"}
        running.exec(Command(command, environment, "", Stdio.INHERIT, foreground=True)).wait()
        running.destroy()
        names = {"new", "folder", "link", "there", "moved"}
        expected = {(f"{place.worktree}/{name}", "read-only bind") for name in names}
        assert (place.worktree / "there").read_text() == "content"
    found = [event.violation for event in told if isinstance(event, Violation)]
    assert {(violation.target, violation.rule) for violation in found} == expected


# The launcher's child is the supervisor, then come bubblewrap's two; with the weaker rules it is the first of those,
# whose second cannot be told from the command.
OWN_PROCESSES = [
    (FileRules.CREATE_TIME, 0, "supervisor"),
    (FileRules.CREATE_TIME, 1, "monitor"),
    (FileRules.CREATE_TIME, 2, "init"),
    (FileRules.EXISTING_ONLY, 0, "monitor"),
]


@pytest.mark.parametrize("foreground", [True, False], ids=["foreground", "piped"])
@pytest.mark.parametrize(
    ("rules", "depth"),
    [(rules, depth) for rules, depth, _ in OWN_PROCESSES],
    ids=[f"{rules}-{name}" for rules, _, name in OWN_PROCESSES],
)
def test_killed_process_of_the_wrap_is_no_end_of_the_commands_own(
    rules: FileRules, depth: int, foreground: bool
) -> None:
    with place_of(PEOPLE[0]) as place:
        running = launch(place, rules)
        try:
            execution = start(running, "sleep", "1000") if foreground else piped(running, "exec sleep 1000")
            victim = running._child.pid
            for _ in range(depth):
                (victim,) = map(int, Path(f"/proc/{victim}/task/{victim}/children").read_text().split())
            os.kill(victim, signal.SIGKILL)
            assert list(execution) == [Killed(Cause.MANUAL), Exit(125)]
            assert execution.wait() == 125
            assert select.select([running._init_end], [], [], PATIENCE)[0], "something is left"
            if foreground:
                assert "killed from outside" in running.handle.error
        finally:
            running.destroy()


@pytest.mark.parametrize("rules", FileRules)
def test_command_that_kills_itself_has_done_so(rules: FileRules) -> None:
    with place_of(PEOPLE[0]) as place:
        running = launch(place, rules)
        try:
            assert list(start(running, "/bin/sh", "-c", "kill -9 $$")) == [Exit(137)]
            assert running.handle.error == ""
        finally:
            running.destroy()


@pytest.mark.parametrize("who", ["$PPID", f"$({STUB})"], ids=["attendant", "stub"])
def test_stopped_processes_of_ours_hold_nobody(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be killed or started in time ends with the whole wrap."""
    monkeypatch.setattr("sandbox.backends.execution.TEARDOWN_DEADLINE", 0.2)
    monkeypatch.setattr("sandbox.backends.wrap.WORD_DEADLINE", 0.2)
    with place_of(PEOPLE[0]) as place:
        running = launch(place)
        execution = piped(running, f"kill -STOP {who}; echo stopped; exec sleep 1000")
        assert next(iter(execution)) == Stdout(b"stopped\n")
        if who == "$PPID":
            execution.kill()
        else:
            with pytest.raises(GatewayError, match="could not be started"):
                piped(running, "true")
        status = 137 if who == "$PPID" else 125  # killed from here, or lost with the wrap
        assert list(execution) == [Killed(Cause.MANUAL), Exit(status)]
        assert running.handle.state is SandboxState.ERROR
        running.destroy()


# --- The terminal ---------------------------------------------------------------------------------

ON_TERMINAL = """
import fcntl, os, signal, struct, sys, termios
print("size", *struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, b"\\0" * 8))[:2], flush=True)
for name, number, argument in (("TIOCSTI", 0x5412, b"x"), ("TIOCLINUX", 0x541C, b"\\3")):
    try:
        fcntl.ioctl(0, number, argument)
        print(name, "done", flush=True)
    except OSError as error:
        print(name, error.strerror, flush=True)
signal.signal(signal.SIGWINCH, lambda *_: os.write(1, b"resized %d %d" % os.get_terminal_size(0)[::-1]))
signal.signal(signal.SIGINT, lambda *_: (os.write(1, b"interrupted"), os._exit(5)))
print("ready", flush=True)
while True:
    signal.pause()
"""


def test_terminal(place: Place) -> None:
    with terminal(place.command(("python3", "-c", ON_TERMINAL))) as (process, ours):
        shown = read_until(ours, b"ready")
        assert b"TIOCSTI Operation not permitted" in shown
        assert b"TIOCLINUX Operation not permitted" in shown
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
        read_until(ours, b"resized 33 111")
        os.write(ours, b"\x03")
        read_until(ours, b"interrupted")
        assert process.wait() == 5


def test_interrupt_without_a_handler(place: Place) -> None:
    with terminal(place.command(("sh", "-c", "echo ready; exec sleep 1000"))) as (process, ours):
        read_until(ours, b"ready")
        os.write(ours, b"\x03")
        assert process.wait() == 130


def test_job_control(place: Place) -> None:
    """A shell inside stops and continues its own jobs: the terminal is a terminal."""
    with terminal(place.command(("bash", "--norc", "-i"))) as (process, ours):
        os.write(ours, b"sh -c 'echo run\\ning; read line; echo got-$line'\n")
        read_until(ours, b"running")
        os.write(ours, b"\x1a")
        read_until(ours, b"Stopped")
        os.write(ours, b"fg\n")
        os.write(ours, b"word\n")
        read_until(ours, b"got-word")
        os.write(ours, b"exit 4\n")
        read_until(ours, b"exit")
        assert process.wait() == 4


def test_ordinary_user_is_not_root(place: Place) -> None:
    expected = "0" if place.person == "root" else str(NOBODY if os.geteuid() == 0 else os.geteuid())
    assert lines(place.run("id", "-u")) == [expected]


def test_endpoints_are_told(place: Place) -> None:
    ready = place.root / "ready"
    ready.touch()
    assert place.run("true", _ready=str(ready)).returncode == 0
    assert json.loads(ready.read_text()) == {"http_port": 3128, "socks_port": 1080, "gateway_port": 3180}
