"""`agent-gateway demo`: the real thing with and without a wrap, what it leaves, and that it tells a failure."""

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway import demo
from gateway.demo import Outcome, Step
from gateway.errors import GatewayError
from tests.fakes.console import OFF, ON, PATIENCE, PROGRAM, Console, hear, watched, without_bubblewrap
from tests.sandbox.wrapping import as_ordinary, place_of

PROXIED = [
    ("GET http://allowed.test", "allowed", "config.yaml:3"),
    ("TLS to allowed.test, by CONNECT", "allowed", "config.yaml:3"),
    ("TLS to allowed.test, by SOCKS5", "allowed", "config.yaml:3"),
    ("GET http://unlisted.test", "refused: not_listed", "default"),
    ("TLS to unlisted.test, by SOCKS5", "refused: not_listed", "default"),
    ("GET http://metadata.google.internal", "refused: denied", "deny.txt:"),
    ("GET http://192.0.2.7, an address", "refused: ip_literal", "default"),
    ("GET http://inward.test, which leads here", "refused: resolved_address", "built-in"),
    ("TLS to other.test in a tunnel to allowed.test", "refused: sni_mismatch", "built-in"),
]
WRAPPED = [
    ("connecting without the proxies", "failed: Connection refused", "the wrap"),
    ("reading ~/.ssh/id_ed25519", "failed: No such file or directory", "the wrap"),
]
UNWRAPPED = [
    ("connecting without the proxies", "possible (connected)", "not in force here: no wrap"),
    ("reading ~/.ssh/id_ed25519", "possible (23 bytes)", "not in force here: no wrap"),
]
WRITING = ("writing a file in the worktree", "written", "")


@pytest.mark.parametrize("way", ["wrapped", "off", "missing"])
def test_demo(tmp_path: Path, way: str) -> None:
    console = Console(tmp_path)
    start = {
        "wrapped": ON,
        "off": OFF.replace("--sandbox off", "CC_SERVER_SANDBOX"),
        "missing": "no OS-native",
    }[way]
    if way == "off":
        console.environ["CC_SERVER_SANDBOX"] = "off"
    elif way == "missing":
        console.before = without_bubblewrap("/dev/null")
    done = console.call("demo")
    assert (done.status, done.said) == (0, [])
    assert len(done.lines) <= 56
    assert start in done.stdout.decode()
    rows = [
        line for line in done.lines if line.startswith(("GET ", "TLS ", "connecting", "reading", "writing"))
    ]
    expected = [*PROXIED, *(WRAPPED if way == "wrapped" else UNWRAPPED), WRITING]
    assert len(rows) == len(expected)
    for row, (tried, happened, rule) in zip(rows, expected, strict=True):
        assert row.startswith(tried)
        text, _, by = row[len(tried) :].strip().partition("   ")
        assert (text, by.strip().startswith(rule)) == (happened, True), row
    missing = "" if way == "wrapped" else ", but 2 of them would fail with a wrap, which is not in force here"
    assert f"All 12 steps did what they must{missing}." in done.lines
    # The plain request leaves two where it takes long, or where no room for one can be kept on the disk.
    assert re.search(r": 1[78] records\n", done.stdout.decode())
    assert '"sni": "allowed.test"' in done.stdout.decode()


def test_as_an_ordinary_user() -> None:
    with place_of("ordinary") as place:
        temporary = place.root / "tmp"
        temporary.mkdir()
        place.give()
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(place.home), "TMPDIR": str(temporary)}
        done = subprocess.run(
            as_ordinary([PROGRAM, "demo"]), env=environ, cwd=place.worktree,
            capture_output=True, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert f"  {ON}\n" in done.stdout
        assert "All 12 steps did what they must.\n" in done.stdout
        assert list(temporary.iterdir()) == []


def test_nothing_of_the_users_is_touched(tmp_path: Path) -> None:
    console = Console(tmp_path, {"AGENT_GATEWAY_CONFIG": "/nowhere/config.yaml", "GIT_DIR": "/nowhere"})
    (console.home / ".gitconfig").write_text("broken [\n")
    assert console.call("demo").status == 0
    left = [path.name for folder in (console.home, console.work, console.tmp) for path in folder.iterdir()]
    assert left == [".gitconfig"]
    assert not (tmp_path / "state").exists()


def test_without_git(tmp_path: Path) -> None:
    console = Console(tmp_path, {"PATH": str(tmp_path)})
    assert console.call("demo").status == 0


def test_a_run_that_fails_is_told(tmp_path: Path) -> None:
    console = Console(tmp_path, {"CC_SERVER_SANDBOX": "maybe"})
    done = console.call("demo")
    assert (done.status, done.said) == (1, [])
    assert done.lines == [
        "The demo failed: the run ended with 2 after 0 steps:",
        "agent-gateway: CC_SERVER_SANDBOX is on or off, not 'maybe'",
    ]
    assert console.left() == []


# A demo whose agent says on a pipe that it runs, and then does nothing more.
HELD_UP = """
import os, sys
from gateway import demo

def run(place, environ, steps, whole=demo._run):
    pipe = place / "worktree" / "pipe"
    os.mkfifo(pipe)
    (place / "worktree" / "agent.py").write_text("import signal; open('pipe', 'w').write('!'); signal.pause()")
    print(pipe, flush=True)
    return whole(place, environ, steps)

demo._run = run
sys.exit(demo.demo(dict(os.environ)))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_interrupted(tmp_path: Path, number: signal.Signals) -> None:
    """No file and no process stays."""
    console = Console(tmp_path)
    process = subprocess.Popen(
        (sys.executable, "-c", HELD_UP), cwd=console.work, env=console.environ,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    pipe = os.open(hear(process), os.O_RDONLY | os.O_NONBLOCK)
    assert select.select([pipe], [], [], PATIENCE)[0]
    os.close(pipe)
    with watched(process.pid) as pids:
        assert len(pids) > 2
        process.send_signal(number)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGINT
    assert console.left() == []


# --- The judgement --------------------------------------------------------------------------------

ALLOWED = Step("a", ("fetch",))
REFUSED = Step("r", ("fetch",), "not_listed")


@pytest.mark.parametrize(
    ("step", "result", "record", "outcome"),
    [
        (ALLOWED, {"ok": True}, {"verdict": "allow"}, Outcome("allowed", "l:1", True)),
        (ALLOWED, {"ok": False, "said": "cut"}, {"verdict": "allow", "code": "unreachable"},
         Outcome("allowed, but failed: cut unreachable", "l:1", False)),
        (ALLOWED, {"ok": False, "said": "403"}, {"verdict": "deny", "code": "denied"},
         Outcome("refused: denied", "l:1", False)),
        (ALLOWED, {"ok": True, "said": "200"}, {}, Outcome("not on record (the agent saw: 200)", "", False)),
        (REFUSED, {"ok": False, "code": "not_listed"}, {"verdict": "deny", "code": "not_listed"},
         Outcome("refused: not_listed", "l:1", True)),
        (REFUSED, {"ok": False}, {"verdict": "deny", "code": "not_listed"},
         Outcome("refused: not_listed", "l:1", True)),
        (REFUSED, {"ok": False, "code": "port"}, {"verdict": "deny", "code": "not_listed"},
         Outcome("refused: not_listed", "l:1", False)),
        (REFUSED, {"ok": False, "code": "port"}, {"verdict": "deny", "code": "port"},
         Outcome("refused: port", "l:1", False)),
        (REFUSED, {"ok": True}, {"verdict": "deny", "code": "not_listed"},
         Outcome("refused: not_listed", "l:1", False)),
        (REFUSED, {"ok": True}, {"verdict": "allow"}, Outcome("allowed", "l:1", False)),
    ],
)  # fmt: skip
def test_judgement(
    step: Step, result: Mapping[str, Any], record: Mapping[str, Any], outcome: Outcome
) -> None:
    full = {"code": "", "rule": "l:1", **record} if record else record
    assert demo._judge_connection(step, {"said": "", **result}, full) == outcome


def judged(steps: tuple[Step, ...], results: list[bool], backend: str, connections: int) -> list[bool]:
    """Which of the steps are fine, given the agent's results and as many allowed connections on record."""
    records: list[Mapping[str, Any]] = [{"event": "session", "session": "s", "sandbox": {"backend": backend}}]
    for number in range(connections):
        egress = {"event": "egress", "connection": number, "verdict": "allow", "rule": "", "code": ""}
        records.append({**records[0], **egress})
    said = [{"ok": ok, "said": ""} for ok in results]
    return [outcome.fine for outcome in demo._judge(steps, said, records)]


def test_judgement_of_all_steps() -> None:
    outside = Step("o", ("read",), proxied=False, wrap=True)
    inside = Step("i", ("write",), proxied=False)
    steps = (ALLOWED, outside, inside)
    assert judged(steps, [True, False, True], "native", 1) == [True, True, True]
    assert judged(steps, [True, True, True], "native", 1) == [True, False, True]
    assert judged(steps, [True, True, True], "none", 1) == [True, True, True]
    assert judged(steps, [True, False, False], "native", 1) == [True, True, False]
    assert judged(steps, [True, False, True], "native", 0) == [False, True, True]
    with pytest.raises(GatewayError, match="connections that no step made"):
        judged(steps, [True, False, True], "native", 2)


def test_broken_chain_is_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "state/agent-gateway/audit"
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text('{"seq": 0, "prev": "' + "0" * 64 + '"}\n{"seq": 1, "prev": "1"}\n')
    with pytest.raises(GatewayError, match="broken at record 1"):
        demo._read_log(tmp_path)


def test_verdict_names_what_is_wrong() -> None:
    steps = (ALLOWED, REFUSED)
    wrong = demo._verdict(steps, [Outcome("", "", True), Outcome("", "", False)])
    assert wrong == ["1 of 2 steps did not do what they must: r."]
