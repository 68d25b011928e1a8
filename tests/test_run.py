"""`agent-gateway run` from outside: exit status, lines on stderr, streams, environment, records, teardown."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway import __version__
from tests.fakes.console import (
    BACKENDS,
    OFF,
    ON,
    PROGRAM,
    WAYS,
    Console,
    end,
    hear,
    read_log,
    watched,
    without_bubblewrap,
)
from tests.source_tree import ROOT

both_ways = pytest.mark.parametrize("way", WAYS, ids=BACKENDS.values())


# --- Inside another run ---------------------------------------------------------------------------


def test_a_run_inside_a_run(tmp_path: Path) -> None:
    """Another wrap cannot be made there; what the product keeps itself can, its signing key among it."""
    console = Console(tmp_path)
    inner = (PROGRAM, "run", "--quiet", "--sandbox", "off", "--", "echo", "inner")
    done = console.run(*inner, options=("--quiet", "--bind", f"{ROOT}:ro"))
    assert (done.status, done.stdout) == (0, b"inner\n"), done.said


# --- Exit status ----------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (("true",), 0, []),
        (("sh", "-c", "exit 7"), 7, []),
        (("sh", "-c", "exit 125"), 125, []),
        (("sh", "-c", "exit 255"), 255, []),
        (("sh", "-c", "kill -TERM $$"), 143, []),
        (("sh", "-c", "kill -SEGV $$"), 139, []),
        (("sh", "-c", "kill -KILL $$"), 137, []),
        (("no-such-command",), 127, ["agent-gateway: no-such-command: command not found"]),
        (("./missing",), 127, ["agent-gateway: ./missing: No such file or directory"]),
        (("",), 127, ["agent-gateway: : command not found"]),
        (("./plain",), 126, ["agent-gateway: ./plain: Permission denied"]),
        (("/usr",), 126, ["agent-gateway: /usr: Is a directory"]),
    ],
)
def test_status_is_the_commands(
    tmp_path: Path, way: tuple[str, ...], argv: tuple[str, ...], status: int, said: list[str]
) -> None:
    console = Console(tmp_path)
    (console.work / "plain").write_text("text")
    done = console.run(*argv, options=("--quiet", *way))
    assert (done.status, done.stdout, done.said) == (status, b"", [OFF if way else ON, *said])
    opened, closed = console.records("session")
    assert (opened["state"], closed["state"], closed["exit_status"]) == ("opened", "closed", status)


def test_crash_is_on_record(tmp_path: Path) -> None:
    console = Console(tmp_path)
    crash = "import os, resource, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    assert console.run(sys.executable, "-c", crash).status == 128 + signal.SIGSEGV
    assert console.records("session")[-1]["exit_status"] == 139


# --- 125: the gateway itself ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("egress: {allow: [not a host]}\nports: [80]\n", [":1: egress.allow", ":2: unknown key"]),
        ("environment: {set: {HTTPS_PROXY: x}}\n", [": environment: HTTPS_PROXY is set by the wrap"]),
        ("environment: {pass: [LD_PRELOAD]}\n", [": environment: LD_PRELOAD would redirect"]),
        ("", [":1: the file is empty"]),
    ],
)
def test_broken_config(tmp_path: Path, config: str, said: list[str]) -> None:
    console = Console(tmp_path)
    path = console.config(config)
    done = console.run("touch", "ran")
    assert (done.status, done.stdout, len(done.said)) == (125, b"", len(said))
    for line, words in zip(done.said, said, strict=True):
        assert line.startswith(f"agent-gateway: {path}{words}")
    assert not (console.work / "ran").exists()
    assert not console.state.exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--config", "/nowhere/config.yaml"), "/nowhere/config.yaml: cannot be read, there is no such file"),
        (("--repo", "/nowhere"), "--repo /nowhere: no such directory"),
        (("--repo", "/etc/passwd"), "--repo /etc/passwd: no such directory"),
        (("--repo", "/"), "--repo /: / cannot be seen from inside the wrap"),
        (("--bind", "/nowhere"), "--bind /nowhere: no such file or directory"),
        (("--bind", "nothing:ro"), "--bind nothing: no such file or directory"),
        (("--bind", "/proc:ro"), "--bind /proc:ro: /proc cannot be seen from inside the wrap"),
        (("--protect", "/nowhere"), "--protect /nowhere: no such file or directory"),
        (("--state-dir", "/nowhere"), "--state-dir /nowhere: no such file or directory"),
    ],
)
def test_what_cannot_be_used(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    console = Console(tmp_path)
    done = console.run("touch", "ran", options=options)
    assert (done.status, done.stdout, len(done.said)) == (125, b"", 1)
    assert done.said[0].startswith(f"agent-gateway: {said}")
    assert not (console.work / "ran").exists()
    assert console.records("session") == []


@pytest.mark.parametrize("place", ["/dev/null", "/dev/null/below", "/proc/audit"])
def test_audit_directory_that_cannot_be_written(tmp_path: Path, place: str) -> None:
    console = Console(tmp_path)
    console.config(f"audit: {{directory: {place}}}\n")
    done = console.run("touch", "ran")
    assert (done.status, done.stdout, len(done.said)) == (125, b"", 1)
    assert done.said[0].startswith(f"agent-gateway: the audit log cannot be written in {place}: ")
    assert not (console.work / "ran").exists()


FULL_DISK = 'mount -t tmpfs -o size=4k tmpfs "$1" && echo full >"$1/file" && shift && exec "$@"'


def test_audit_directory_on_a_full_disk(tmp_path: Path) -> None:
    console = Console(tmp_path)
    disk = tmp_path / "disk"
    disk.mkdir()
    console.config(f"audit: {{directory: {disk}}}\n")
    console.before = ("unshare", "--map-root-user", "--mount", "sh", "-c", FULL_DISK, "sh", str(disk))
    done = console.run("touch", "ran")
    assert (done.status, done.stdout, len(done.said)) == (125, b"", 1)
    assert done.said[0].startswith("agent-gateway: the audit log ")
    assert not (console.work / "ran").exists()


def test_state_directory_that_cannot_be_made(tmp_path: Path) -> None:
    console = Console(tmp_path, {"XDG_STATE_HOME": "/dev/null/state"})
    done = console.run("true")
    assert (done.status, len(done.said)) == (125, 1)
    assert done.said[0].startswith(
        "agent-gateway: the state directory /dev/null/state/agent-gateway cannot be made"
    )


def test_native_by_name_is_never_replaced(tmp_path: Path) -> None:
    console = Console(tmp_path)
    console.before = without_bubblewrap("/dev/null")
    done = console.run("touch", "ran", options=("--backend", "native"))
    assert (done.status, done.stdout, len(done.said)) == (125, b"", 1)
    assert done.said[0].startswith(
        "agent-gateway: --backend native cannot run on this host (bubblewrap is not installed: "
    )
    assert not (console.work / "ran").exists()


BROKEN_LOOP = """
import sys
from gateway.proxy import reactor

class Loop(reactor.GatewayLoop):
    def run_forever(self):
        self.add_reader(0, self.break_down)
        super().run_forever()

    def break_down(self):
        self.remove_reader(0)
        raise RuntimeError("a fault")

reactor.GatewayLoop = Loop
from gateway.cli import main
main(sys.argv[1:])
"""


@both_ways
def test_fault_in_the_loop_kills_the_command(tmp_path: Path, way: tuple[str, ...]) -> None:
    """The fault comes with a line on stdin, once CMD has said that it runs."""
    console = Console(tmp_path)
    script = "exec sleep 1000 <&- & echo ready; exec sleep 1000 <&-"
    argv = (sys.executable, "-c", BROKEN_LOOP, "run", *way, "--", "sh", "-c", script)
    process = subprocess.Popen(
        argv, cwd=console.work, env=console.environ,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert hear(process) == b"ready"
    with watched(process.pid) as pids:
        assert len(pids) > 2
        done = end(process, b"now\n")
    assert done.status == 125
    assert done.said[0] == (OFF if way else ON)
    assert "RuntimeError: a fault" in done.said
    assert done.said[-1].startswith("agent-gateway: the gateway failed, so the command was killed")
    assert console.records("session")[-1]["exit_status"] is None
    assert console.left() == []


# --- Lines on stderr ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "variable", "config", "line", "backend"),
    [
        ((), "", "", ON, "native"),
        (("--sandbox", "on"), "off", "sandbox: off\n", ON, "native"),
        (("--backend", "native"), "", "", ON, "native"),
        ((), "on", "sandbox: off\n", ON, "native"),
        (("--sandbox", "off"), "on", "", OFF, "none"),
        (("--backend", "none"), "", "", "agent sandbox DISABLED by --backend none", "none"),
        (
            ("--sandbox", "off", "--backend", "none"),
            "",
            "",
            "agent sandbox DISABLED by --backend none",
            "none",
        ),
        ((), "off", "", "agent sandbox DISABLED by CC_SERVER_SANDBOX", "none"),
        ((), "", "sandbox: off\n", "agent sandbox DISABLED by config", "none"),
        ((), "", "sandbox: false\n", "agent sandbox DISABLED by config", "none"),
    ],
)
def test_start_line_names_what_chose(
    tmp_path: Path, options: tuple[str, ...], variable: str, config: str, line: str, backend: str
) -> None:
    console = Console(tmp_path, {"CC_SERVER_SANDBOX": variable} if variable else {})
    if config:
        console.config(config)
    done = console.run("sh", "-c", "echo $AGENT_GATEWAY_SANDBOX", options=("--quiet", *options))
    assert (done.status, done.said, done.lines) == (0, [line], [backend])
    stamp = {"backend": backend, "file_rules": "create-time" if backend == "native" else "none"}
    assert [record["sandbox"] for record in console.records("session")] == [stamp, stamp]


@pytest.mark.parametrize(
    ("file", "hint"),
    [
        ("/dev/null", "bubblewrap is not installed: .+"),
        ("/bin/false", ".*bwrap cannot run here .+"),
    ],
)
def test_start_line_without_a_wrap(tmp_path: Path, file: str, hint: str) -> None:
    console = Console(tmp_path)
    console.before = without_bubblewrap(file)
    done = console.run("sh", "-c", "echo $AGENT_GATEWAY_SANDBOX", options=("--quiet",))
    assert (done.status, done.lines, len(done.said)) == (0, ["none"], 1)
    assert re.fullmatch(rf"no OS-native agent sandbox on this host \({hint}\)", done.said[0])


@both_ways
def test_closing_line(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    done = console.run("true", options=way)
    (log,) = console.logs()
    closing = f"agent-gateway: 0 connections allowed, 0 denied; 0 pushes forwarded, 0 refused; 0 violations; log: {log}"
    assert done.said == [OFF if way else ON, closing]
    assert console.run("true", options=("--quiet", *way)).said == [OFF if way else ON]


ASK = "curl -s -o /dev/null -w '%{http_code}\\n' http://refused.test/"


@both_ways
def test_closing_line_counts(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    done = console.run("sh", "-c", f"{ASK}; {ASK}", options=way)
    assert (done.lines, done.said[1].partition(";")[0]) == (
        ["403", "403"],
        "agent-gateway: 0 connections allowed, 2 denied",
    )
    refused = [(record["state"], record["host"], record["code"]) for record in console.records("egress")]
    assert refused == [("refused", "refused.test", "not_listed")] * 2


def test_what_git_would_obey_is_moved_aside_and_recorded(tmp_path: Path) -> None:
    """A new `.git/commondir` gives git on the host another configuration; rules for what exists cannot forbid it."""
    console = Console(tmp_path)
    console.config("file_rules: existing-only\n")
    trap = "mkdir evil && cp -r .git/HEAD .git/objects .git/refs .git/config evil/ && echo ../evil >.git/commondir"
    subprocess.run(["git", "init", "-q", str(console.work)], check=True)
    done = console.run("sh", "-c", trap)
    assert done.status == 0
    assert not (console.work / ".git/commondir").exists()
    assert "commondir" in done.said[1] and "1 violations" in done.said[2]
    (record,) = console.records("violation")
    assert record["action"] == "file-write-create"
    assert record["target"] == str(console.work / ".git/commondir")
    assert str(record["raw"]).startswith(f"{record['target']} was not there before: renamed to commondir")


@both_ways
def test_tracked_files_that_may_not_be_written_are_listed_once(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    subprocess.run(["git", "init", "-q", str(console.work)], check=True)
    (console.work / ".env").touch()
    subprocess.run(["git", "-C", str(console.work), "add", ".env"], check=True)
    done = console.run("true", options=way)
    lines = [line for line in done.said if "tracked files that cannot be written inside: .env; " in line]
    assert (done.status, len(lines)) == (0, int(BACKENDS[way] == "native"))


def test_refusals_are_recorded_while_the_command_runs(tmp_path: Path) -> None:
    """They reach the log from another thread, with their rule, and the closing line has their sum."""
    console = Console(tmp_path)
    done = console.run("sh", "-c", "for i in 1 2 3; do touch .env; done; touch server.pem; true")
    assert done.status == 0
    records = console.records("violation")
    counts: dict[str, int] = {}
    for record in records:
        assert (record["action"], bool(record["rule"])) == ("file-write-create", True)
        counts[str(record["target"])] = counts.get(str(record["target"]), 0) + int(str(record["count"]))
    assert counts == {str(console.work / ".env"): 3, str(console.work / "server.pem"): 1}
    assert "; 4 violations; " in done.said[-1]
    assert "touch: cannot touch '.env': Permission denied" in done.said


# --- Streams --------------------------------------------------------------------------------------


DOUBLE = (
    "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data); sys.stderr.buffer.write(data)"
)


@both_ways
def test_streams_are_untouched(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    data = bytes(range(256)) * 4096
    process = console.start(sys.executable, "-c", DOUBLE, options=("--quiet", *way))
    assert process.communicate(data) == (data, f"{OFF if way else ON}\n".encode() + data)


@both_ways
def test_streams_are_the_very_same(tmp_path: Path, way: tuple[str, ...]) -> None:
    """CMD gets the files themselves: no pipe, no copy in between."""
    console = Console(tmp_path)
    stat = "stat -L -c '%d %i' /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2; ls /proc/self/fd"
    files = [console.work / name for name in ("in", "out", "err")]
    for file in files:
        file.touch()
    with open(files[0]) as stdin, open(files[1], "w") as stdout, open(files[2], "w") as stderr:
        console.run("sh", "-c", stat, options=way, input=None, capture_output=False,
                    stdin=stdin, stdout=stdout, stderr=stderr)  # fmt: skip
    *seen, zero, one, two, listing = files[1].read_text().splitlines()
    assert seen == [f"{file.stat().st_dev} {file.stat().st_ino}" for file in files]
    assert [zero, one, two] == ["0", "1", "2"]
    assert listing == "3"  # ls's own


LINKS = """
import os
with open("links", "w") as file:
    file.writelines(os.readlink(f"/proc/self/fd/{number}") + "\\n" for number in range(3))
os.write(1, b"out\\n")
os.write(2, b"err\\n")
os._exit(3)
"""


@both_ways
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_streams(tmp_path: Path, way: tuple[str, ...], closed: tuple[int, ...]) -> None:
    """The next file that is opened, an audit file say, must not become one of CMD's streams."""
    console = Console(tmp_path)
    closing = " ".join(f"{number}>&-" for number in closed)
    console.before = ("sh", "-c", f'exec "$@" {closing}', "sh")
    done = console.run(sys.executable, "-c", LINKS, options=("--quiet", *way))
    links = (console.work / "links").read_text().splitlines()
    assert [link == "/dev/null" for link in links] == [number in closed for number in range(3)]
    assert (done.status, done.stdout) == (3, b"" if 1 in closed else b"out\n")
    assert done.said == ([] if 2 in closed else [OFF if way else ON, "err"])
    assert [record["event"] for record in console.records()] == ["config", "session", "session"]


@both_ways
def test_nobody_reads_stderr(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = console.run("sh", "-c", "echo out; exit 3", options=way, capture_output=False,
                           stdout=subprocess.PIPE, stderr=gone)  # fmt: skip
    assert (done.status, done.stdout) == (3, b"out\n")


# --- Environment ----------------------------------------------------------------------------------

# The word of the contract, by what is known in advance.
SET_BY_THE_WRAP = {
    "HTTP_PROXY": r"http://127\.0\.0\.1:(\d+)",
    "HTTPS_PROXY": r"http://127\.0\.0\.1:(\d+)",
    "http_proxy": r"http://127\.0\.0\.1:(\d+)",
    "https_proxy": r"http://127\.0\.0\.1:(\d+)",
    "ALL_PROXY": r"socks5h://127\.0\.0\.1:(\d+)",
    "all_proxy": r"socks5h://127\.0\.0\.1:(\d+)",
    "NO_PROXY": r"localhost,127\.0\.0\.1,::1",
    "no_proxy": r"localhost,127\.0\.0\.1,::1",
    "NODE_USE_ENV_PROXY": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "8",
    "GIT_CONFIG_KEY_0": r"credential\.helper",
    "GIT_CONFIG_VALUE_0": "",
    "GIT_CONFIG_KEY_1": r"credential\.https://github\.com\.helper",
    "GIT_CONFIG_KEY_3": r"http\.http://127\.0\.0\.1:(\d+)/git/\.extraHeader",
    "GIT_CONFIG_VALUE_3": "",
    "GIT_CONFIG_VALUE_4": "X-Agent-Gateway-Session: [A-Za-z0-9_-]{43}",
    "GIT_CONFIG_KEY_5": r"http\.http://127\.0\.0\.1:(\d+)/git/\.proxy",
    "GIT_CONFIG_VALUE_5": "",
    "GH_PROMPT_DISABLED": "1",
    "GH_CONFIG_DIR": "/.+",
    "GIT_CONFIG_GLOBAL": "/.+",
    "GIT_SSH_COMMAND": r"ssh .*-o 'ProxyCommand=.+ 127\.0\.0\.1:(\d+) 127\.0\.0\.1:(\d+) .+'",
    "AGENT_GATEWAY_SESSION": "[0-9a-f]{12}",
    "AGENT_GATEWAY_SANDBOX": "native|none",
    "AGENT_GATEWAY_URL": r"http://127\.0\.0\.1:(\d+)",
    "AGENT_GATEWAY_SECRET": "[A-Za-z0-9_-]{43}",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}
HOSTILE = {
    "LD_PRELOAD": "", "PYTHONPATH": "/x", "NODE_OPTIONS": "--x", "BASH_ENV": "/x", "PERL5OPT": "-x",
    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.pager", "GIT_CONFIG_VALUE_0": "x", "GIT_SSH": "/x",
    "GH_TOKEN": "t", "AWS_SECRET_ACCESS_KEY": "s", "SSH_AUTH_SOCK": "/x", "https_proxy": "http://other.test:1",
    "NO_PROXY": "*", "CC_SERVER_SANDBOX": "", "AGENT_GATEWAY_SECRET": "other", "SOME_PASSWORD": "p",
}  # fmt: skip
LISTENING = (
    "import os, socket, json; "
    "print(json.dumps(dict(os.environ))); "
    "[socket.create_connection(('127.0.0.1', int(u.rpartition(':')[2])), 10) "
    "for u in (os.environ[n] for n in ('HTTP_PROXY', 'ALL_PROXY', 'AGENT_GATEWAY_URL'))]"
)


@both_ways
def test_environment(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path, {**HOSTILE, "ANTHROPIC_API_KEY": "sk-ant-mine", "TERM": "dumb"})
    console.environ.pop("LD_PRELOAD")
    done = console.run(sys.executable, "-c", LISTENING, options=way)
    assert done.status == 0, done.said
    found = json.loads(done.lines[0])
    for name, pattern in SET_BY_THE_WRAP.items():
        assert re.fullmatch(pattern, found[name]), (name, found[name])
    gone = set(HOSTILE) - set(SET_BY_THE_WRAP) | {"GIT_CONFIG_PARAMETERS", "XDG_STATE_HOME"}
    assert gone & set(found) == set()
    assert (found["ANTHROPIC_API_KEY"], found["TERM"]) == ("sk-ant-mine", "dumb")
    assert found["AGENT_GATEWAY_SANDBOX"] == BACKENDS[way]
    ports = {re.sub(r".*:", "", found[name]) for name in ("HTTP_PROXY", "ALL_PROXY", "AGENT_GATEWAY_URL")}
    assert len(ports) == 3
    opened = console.records("session")[0]
    assert opened["session"] == found["AGENT_GATEWAY_SESSION"]
    assert {"ANTHROPIC_API_KEY", "TERM", "LANG"} <= set(opened["environment_kept"])
    assert {"GH_TOKEN", "PYTHONPATH", "SSH_AUTH_SOCK"} <= set(opened["environment_dropped"])
    log = b"".join(path.read_bytes() for path in console.logs())
    assert b"sk-ant" not in log and found["AGENT_GATEWAY_SECRET"].encode() not in log


def test_env_option(tmp_path: Path) -> None:
    console = Console(tmp_path, {"MINE": "host", "OTHER": "host", "EXTRA": "host"})
    console.config("environment: {pass: [EXTRA], set: {FIXED: config, BOTH: config}}\n")
    options = ("--env", "MINE", "--env", "SET=a=b", "--env", "EMPTY=", "--env", "ABSENT", "--env", "BOTH=option",
               "--env", "TWICE=1", "--env", "TWICE=2")  # fmt: skip
    names = ("MINE", "SET", "EMPTY", "ABSENT", "BOTH", "TWICE", "OTHER", "EXTRA", "FIXED")
    script = "import json, os, sys; print(json.dumps({n: os.environ.get(n) for n in sys.argv[1:]}))"
    done = console.run(sys.executable, "-c", script, *names, options=options)
    assert json.loads(done.stdout) == {
        "MINE": "host", "SET": "a=b", "EMPTY": "", "ABSENT": None, "BOTH": "option", "TWICE": "2",
        "OTHER": None, "EXTRA": "host", "FIXED": "config",
    }  # fmt: skip


# --- Options --------------------------------------------------------------------------------------


def status_of(console: Console, url: str, *options: str) -> tuple[str, str]:
    """What a GET is answered with, and the code of its record."""
    before = len(console.records("egress"))
    script = f"curl -s -o /dev/null -w '%{{http_code}}' {url}"
    done = console.run("sh", "-c", script, options=options)
    return done.stdout.decode(), console.records("egress")[before:][0]["code"]


def test_allow_and_no_network(tmp_path: Path) -> None:
    """An allowed name that leads to loopback gets past the list, and no further."""
    console = Console(tmp_path)
    console.config("egress: {hosts: {extra.test: 127.0.0.1, below.wide.test: 127.0.0.1}}\n")
    assert status_of(console, "http://extra.test/") == ("403", "not_listed")
    assert status_of(console, "http://extra.test/", "--allow", "extra.test") == ("403", "resolved_address")
    both = ("--allow", "extra.test", "--allow", "*.wide.test")
    assert status_of(console, "http://below.wide.test/", *both) == ("403", "resolved_address")
    assert status_of(console, "http://extra.test/", "--allow", "extra.test", "--no-network") == (
        "403",
        "network_off",
    )
    networks = [record["network"] for record in console.records("session") if record["state"] == "opened"]
    assert networks == [True, True, True, False]


def test_bind(tmp_path: Path) -> None:
    console = Console(tmp_path)
    for name in ("read", "write", "odd:ro", "unseen"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(f"{name}\n")
    binds = ("--bind", f"{tmp_path}/read:ro", "--bind", "../write", "--bind", f"{tmp_path}/odd:ro:rw")
    script = """cd "$1"; cat read/file write/file odd:ro/file unseen/file 2>/dev/null
    for name in read write odd:ro; do echo new 2>/dev/null >$name/new && echo wrote $name; done; true"""
    done = console.run("sh", "-c", script, "sh", str(tmp_path), options=binds)
    assert done.lines == ["read", "write", "odd:ro", "wrote write", "wrote odd:ro"]
    assert (tmp_path / "write/new").read_text() == "new\n"


def test_mode_that_only_reads(tmp_path: Path) -> None:
    console = Console(tmp_path)
    state = tmp_path / "agent"
    state.mkdir()
    script = f"touch x 2>/dev/null || echo no; touch {state}/x && echo yes"
    options = ("--mode", "plan", "--state-dir", str(state))
    assert console.run("sh", "-c", script, options=options).lines == ["no", "yes"]
    assert [record["mode"] for record in console.records("session")] == ["plan", "plan"]
    assert list(console.work.iterdir()) == []


PLANTS = """
place=$(python3 -c 'import site; print(site.getusersitepackages())')
mkdir -p "$place" && echo 'open("planted", "w")' >"$place/usercustomize.py" && echo yes"""


@pytest.mark.parametrize("mode", ["chat", "plan", "review"])
def test_what_a_run_plants_runs_in_no_other_repository(tmp_path: Path, mode: str) -> None:
    console = Console(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    assert console.run("sh", "-c", PLANTS, options=("--mode", mode)).lines == ["yes"]
    assert console.run("python3", "-c", "", cwd=other).status == 0
    assert list(other.iterdir()) == []
    homes = list((console.state / "workspaces").rglob("home"))
    assert len(homes) == (2 if mode == "chat" else 1)


def test_throwaway_home(tmp_path: Path) -> None:
    """It can be written, is empty each time, and leaves nothing."""
    console = Console(tmp_path)
    script = 'cd "$HOME" && ls -A && touch x && mkdir .cache && echo wrote'
    for _ in range(2):
        assert console.run("sh", "-c", script, options=("--mode", "plan")).lines == ["wrote"]
    kept = ["audit", "audit-key", "audit-key.pub", "audit-looked", "audit-register", "known-hosts"]
    assert sorted(path.name for path in console.state.iterdir()) == kept
    assert console.left() == []


def test_repo_and_identity(tmp_path: Path) -> None:
    console = Console(tmp_path)
    repo = tmp_path / "repo"
    repo.mkdir()
    options = ("--repo", str(repo), "--session", "s-1", "--workspace", "team.a", "--agent", "coder_7")
    done = console.run("sh", "-c", 'pwd; echo "$HOME" "$AGENT_GATEWAY_SESSION"; touch made', options=options)
    home = console.state.joinpath("workspaces", "team.a", "home")
    assert done.lines == [str(repo), f"{home} s-1"]
    assert (repo / "made").exists()
    for record in console.records("session"):
        found = [record[name] for name in ("session", "workspace", "agent", "worktree")]
        assert found == ["s-1", "team.a", "coder_7", str(repo)]


def test_command_starts_where_the_user_is(tmp_path: Path) -> None:
    console = Console(tmp_path)
    subprocess.run(("git", "init", "-q", str(console.work)), env=console.environ, check=True)
    below = console.work / "deep/down"
    below.mkdir(parents=True)
    done = console.run("sh", "-c", "pwd; touch ../../here", cwd=below)
    assert (done.status, done.lines) == (0, [str(below)])
    assert (console.work / "here").exists()
    assert console.records("session")[0]["worktree"] == str(console.work)


@pytest.mark.parametrize(
    "name", ["config.yaml", ".config/agent-gateway/config.yaml", "agent-gateway/config.yaml"]
)
def test_config_is_never_read_from_the_working_directory(tmp_path: Path, name: str) -> None:
    console = Console(tmp_path)
    path = console.work / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("sandbox: off\negress: {allow: [refused.test]}\n")
    assert status_of(console, "http://refused.test/") == ("403", "not_listed")
    (record,) = console.records("config")
    assert (record["state"], record["source"], record["new"]) == ("loaded", "built-in defaults", None)


def test_config_and_log_are_out_of_the_commands_hands(tmp_path: Path) -> None:
    """The log is not even shown: a configuration that would have it among what is shown is refused."""
    console = Console(tmp_path)
    config, audit = console.work / "kept/mine.yaml", tmp_path / "audit"
    config.parent.mkdir()
    config.write_text(f"audit: {{directory: {audit}}}\n")
    script = f"""exec 2>/dev/null
    echo x >>kept/mine.yaml || echo no; rm kept/mine.yaml || echo no
    ls {audit} || echo no; mv kept other || echo no; touch elsewhere && echo yes"""
    done = console.run("sh", "-c", script, options=("--config", "kept/mine.yaml"))
    assert done.lines == ["no", "no", "no", "no", "yes"]
    (log,) = audit.iterdir()
    records = read_log(log)
    refused = [record for record in records if record["event"] == "violation"]
    assert [record["event"] for record in records if record not in refused] == [
        "config",
        "session",
        "session",
    ]
    assert {record["target"] for record in refused} <= {str(config), str(config.parent)}
    config.write_text(f"audit: {{directory: {console.work}/inside}}\n")
    done = console.run("touch", "ran", options=("--config", "kept/mine.yaml"))
    assert (done.status, done.stdout, len(done.said)) == (125, b"", 1)
    assert "it holds this product's own state" in done.said[0]
    assert sorted(path.name for path in console.work.iterdir()) == ["elsewhere", "kept"]


# --- Records and teardown -------------------------------------------------------------------------


def test_records(tmp_path: Path) -> None:
    console = Console(tmp_path)
    path = console.config("egress: {allow: [extra.test]}\n")
    console.run("sh", "-c", f"{ASK}; exit 4")
    config, opened, egress, closed = console.records()
    assert (config["event"], config["state"], config["source"], config["session"]) == (
        "config",
        "loaded",
        str(path),
        None,
    )
    assert re.fullmatch("[0-9a-f]{64}", config["new"])
    assert (opened["event"], opened["state"], opened["mode"], opened["network"]) == (
        "session",
        "opened",
        "chat",
        True,
    )
    assert (egress["event"], egress["verdict"], egress["rule"]) == ("egress", "deny", "default")
    assert (closed["event"], closed["state"], closed["exit_status"]) == ("session", "closed", 4)
    assert {record["session"] for record in (opened, egress, closed)} == {opened["session"]}
    assert opened["workspace"] == "default" and opened["agent"] is None


def test_everything_kept_is_private(tmp_path: Path) -> None:
    console = Console(tmp_path)
    audit = tmp_path / "elsewhere"
    console.config(f"audit: {{directory: {audit}}}\n")
    assert console.run("true", preexec_fn=lambda: os.umask(0)).status == 0
    (log,) = audit.iterdir()
    modes = {path: path.stat().st_mode & 0o777 for path in (console.state, audit, log)}
    assert modes == {console.state: 0o700, audit: 0o700, log: 0o600}


@both_ways
def test_nothing_is_left(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    script = "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo ready; read line; exit 3"
    process = console.start("sh", "-c", script, options=way)
    assert hear(process) == b"ready"
    with watched(process.pid) as pids:
        assert len(pids) >= 3
        assert end(process, b"go\n").status == 3
    assert console.left() == []
    assert list(console.work.iterdir()) == []


@both_ways
def test_two_at_once(tmp_path: Path, way: tuple[str, ...]) -> None:
    console = Console(tmp_path)
    script = f"echo ready; read line; {ASK}; exit $1"
    processes = [
        console.start("sh", "-c", script, "sh", str(status), options=("--session", f"s{status}", *way))
        for status in (1, 2)
    ]
    for process in processes:
        assert hear(process) == b"ready"
    dones = [end(process, b"go\n") for process in processes]
    assert [(done.status, done.lines) for done in dones] == [(1, ["403"]), (2, ["403"])]
    found: dict[str, list[str]] = {}
    for path in console.logs():
        _, *records = read_log(path)
        (session,) = {record["session"] for record in records}
        found[session] = [record["event"] for record in records]
    assert found == {name: ["session", "egress", "session"] for name in ("s1", "s2")}
    assert console.left() == []


def test_command_keeps_its_own_limits(tmp_path: Path) -> None:
    """The gateway's are raised, CMD's are not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = min(soft, 512)
    done = Console(tmp_path).run(
        "sh", "-c", "ulimit -Sn", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (low, hard))
    )
    assert done.lines == [str(low)]


def test_module_is_the_same_program(tmp_path: Path) -> None:
    console = Console(tmp_path)
    command = (sys.executable, "-m", "gateway", "--version")
    done = subprocess.run(command, cwd=ROOT, env=console.environ, capture_output=True, text=True, check=True)
    assert done.stdout == f"agent-gateway {__version__}\n"


# A network of its own, in which the name server is this program's stdin and never answers.
NO_ANSWER = """
import fcntl, os, socket, struct, subprocess, sys
resolv, nsswitch = sys.argv[1:3]
for file in (resolv, nsswitch):
    subprocess.run(("mount", "--bind", file, "/etc/" + os.path.basename(file)), check=True)
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
fcntl.ioctl(server, 0x8914, struct.pack("16sH14x", b"lo", 0x41))  # SIOCSIFFLAGS: up and running
server.bind(("127.0.0.1", 53))
os.dup2(server.fileno(), 0)
os.execv(sys.argv[3], sys.argv[3:])
"""
ASKS_AND_LEAVES = """
import os, socket
with socket.create_connection(("127.0.0.1", int(os.environ["HTTP_PROXY"].rpartition(":")[2]))) as proxy:
    proxy.sendall(b"CONNECT slow.test:443 HTTP/1.1\\r\\nHost: slow.test:443\\r\\n\\r\\n")
    socket.socket(fileno=0).recv(512)  # the question to the name server
    os._exit(3)
"""


def test_lookup_under_way_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """The system's resolver goes on waiting for minutes, and cannot be stopped."""
    console = Console(tmp_path)
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:5\n")
    (tmp_path / "nsswitch.conf").write_text("hosts: files dns\n")
    files = (str(tmp_path / "resolv.conf"), str(tmp_path / "nsswitch.conf"))
    console.before = (
        "unshare",
        "--map-root-user",
        "--net",
        "--mount",
        sys.executable,
        "-c",
        NO_ANSWER,
        *files,
    )
    options = ("--sandbox", "off", "--allow", "slow.test")
    assert console.run(sys.executable, "-c", ASKS_AND_LEAVES, options=options).status == 3


def test_directory_without_git_is_on_record(tmp_path: Path) -> None:
    console = Console(tmp_path)
    console.run("true")
    assert {record["worktree"] for record in console.records("session")} == {str(console.work)}


def test_last_line_of_a_terminal_counts_nothing(tmp_path: Path) -> None:
    console = Console(tmp_path)
    done = console.run("true", options=("--profile", "terminal"))
    last = "agent-gateway: connections and pushes of a terminal are not governed, so not counted; log: "
    assert (done.status, done.said[-1]) == (0, f"{last}{console.logs()[0]}")


@pytest.mark.parametrize("variable", ["XDG_STATE_HOME", "XDG_RUNTIME_DIR"])
def test_own_state_in_the_worktree_leaves_nothing_there(tmp_path: Path, variable: str) -> None:
    console = Console(tmp_path)
    console.environ[variable] = str(console.work / "own")
    done = console.run("touch", "ran")
    assert (done.status, done.stdout, len(done.said)) == (125, b"", 1)
    assert done.said[0].startswith("agent-gateway: the current directory: ")
    assert list(console.work.iterdir()) == []


def test_folders_of_the_products_own_are_the_users_alone(tmp_path: Path) -> None:
    console = Console(tmp_path)
    console.run("true")
    console.run("true", options=("--space", "team"))
    made = [path for path in console.state.rglob("*") if path.is_dir()]
    assert {"workspaces", "worktrees", "home", "spaces", "team", "repos", "audit"} <= {
        path.name for path in made
    }
    assert [str(path) for path in (*made, console.state) if path.stat().st_mode & 0o077] == []
