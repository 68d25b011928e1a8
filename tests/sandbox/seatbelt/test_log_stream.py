"""Refusals read from the system's log, in the words that the kernel has for them; the processes that read it end."""

import json
import queue
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sandbox.events import SandboxViolation
from sandbox.seatbelt.log_stream import Tap, command, name_rule, parse_line
from tests.sandbox.seatbelt.launches import CHAT, WORK

TAG = "agent-gateway-0123456789abcdef"
PATIENCE = 60


def line(message: object) -> bytes:
    return json.dumps({"traceID": 1, "eventMessage": message, "processID": 0}).encode() + b"\n"


def violation(action: str, target: str, raw: str, count: int = 1) -> SandboxViolation:
    return SandboxViolation(action, target, raw, count=count)


MESSAGES = (
    ("Sandbox: touch(1) deny(1) file-write-create /w/.env", "file-write-create", "/w/.env", 1),
    ("Sandbox: my tool (x)(1) deny(1) file-read-data /w/a b", "file-read-data", "/w/a b", 1),
    ("Sandbox: sh(1) deny(1) file-write-data /w/a\nb", "file-write-data", "/w/a\nb", 1),
    ("Sandbox: curl(12345) deny(1) network-outbound *:443", "network-outbound", "*:443", 1),
    (
        "Sandbox: git(1) deny(2) mach-lookup com.apple.pasteboard.1",
        "mach-lookup",
        "com.apple.pasteboard.1",
        1,
    ),
    ("Sandbox: kill(1) deny(1) signal others [launchd(1)]", "signal", "others [launchd(1)]", 1),
    ("Sandbox: sh(1) deny(1) lsopen", "lsopen", "", 1),
    ("Sandbox: sandbox-exec(1) deny(1) process-exec* /w/a.out", "process-exec", "/w/a.out", 1),
    ("37 duplicate reports for Sandbox: cat(1) deny(1) file-read-data /x", "file-read-data", "/x", 37),
    ("1 duplicate report for Sandbox: cat(1) deny(1) file-read-data /x", "file-read-data", "/x", 1),
)


@pytest.mark.parametrize(("message", "action", "target", "count"), MESSAGES)
def test_messages(message: str, action: str, target: str, count: int) -> None:
    assert parse_line(line(f"{message}\n{TAG}"), TAG) == violation(action, target, message, count)


@pytest.mark.parametrize(
    "data",
    [
        b'Filtering the log data using "eventMessage ENDSWITH x"\n',
        b"",
        b"[]\n",
        b"{\n",
        b"\xff\xfe\n",
        line(None),
        line(TAG),
        line("Sandbox: touch(1) deny(1) file-write-create /w/.env"),
        line("Sandbox: touch(1) deny(1) file-write-create /w/.env\nagent-gateway-another"),
        line(f"Sandbox: touch(1) allow file-write-create /w/.env\n{TAG}"),
        line(f"Somebody says deny(1) file-write-create /w/.env\n{TAG}"),
    ],
)
def test_everything_else_is_nothing(data: bytes) -> None:
    assert parse_line(data, TAG) is None


@pytest.mark.parametrize(
    "words",
    [
        "mach-lookup com.apple.diagnosticd",
        "mach-lookup com.apple.dnssd.service",
        "network-outbound /private/var/run/mDNSResponder",
        "process-info-pidinfo launchd",
        "sysctl-read kern.tty.ptmx_max",
        "file-write-data /dev/dtracehelper",
    ],
)
def test_noise_is_dropped(words: str) -> None:
    assert parse_line(line(f"Sandbox: node(1) deny(1) {words}\n{TAG}"), TAG) is None


@pytest.mark.parametrize(
    ("action", "target", "rule"),
    [
        ("file-write-create", f"{WORK}/.env", ".env"),
        ("file-read-data", "/Users/me/.ssh/id_rsa", "/Users/me/.ssh"),
        ("process-exec", f"{WORK}/a.out", "writable directory"),
        ("file-write-mode", f"{WORK}/.env", ""),
        ("network-outbound", "*:443", ""),
        ("file-write-create", "not a path", ""),
    ],
)
def test_rules_are_named(action: str, target: str, rule: str) -> None:
    assert name_rule(violation(action, target, ""), CHAT) == SandboxViolation(action, target, "", rule)


def test_the_log_is_asked_for_one_launch() -> None:
    assert command(TAG) == (
        "/usr/bin/log", "stream", "--style", "ndjson", "--level", "default",
        "--predicate", f'eventMessage ENDSWITH "{TAG}"',
    )  # fmt: skip


# Says that it is there, then what is told it, then lives until somebody ends it. The tag is its last argument's.
LOG = """
import sys, time
print("Filtering", flush=True)
for message in sys.argv[1].splitlines():
    print(message, flush=True)
time.sleep(1000)
"""


def tap(*messages: bytes) -> Tap:
    return Tap(TAG, (sys.executable, "-c", LOG, b"".join(messages).decode()))


def test_violations_are_told_from_the_first_on() -> None:
    told: queue.Queue[SandboxViolation] = queue.Queue()
    heard = tap(line(f"Sandbox: sh(1) deny(1) file-write-create {WORK}/.env\n{TAG}"), b"nonsense\n")
    assert heard.wait_until_heard(PATIENCE)
    heard.listen(CHAT, told.put)
    assert told.get(timeout=PATIENCE).rule == ".env"
    heard.close()
    heard.close()


def test_a_storm_is_counted() -> None:
    told: queue.Queue[SandboxViolation] = queue.Queue()
    one = line(f"Sandbox: sh(1) deny(1) file-write-create {WORK}/.env\n{TAG}")
    heard = tap(
        *(one for _ in range(500)), line(f"Sandbox: sh(1) deny(1) file-write-create {WORK}/a.pem\n{TAG}")
    )
    heard.listen(CHAT, told.put)
    found = [told.get(timeout=PATIENCE), told.get(timeout=PATIENCE)]
    heard.close()
    while not told.empty():
        found.append(told.get())
    assert len(found) == 3
    assert sum(violation.count for violation in found) == 501


@pytest.mark.parametrize(
    "script",
    [
        "exit 64",
        "exec sleep 1000",
        "echo 'log: Must be admin to run this' >&2; exit 64",
        "echo 'log: no' >&2; sleep 1000",
    ],
)
def test_log_that_says_nothing(script: str) -> None:
    silent = Tap(TAG, ("/bin/sh", "-c", script))
    assert not silent.wait_until_heard(0.1)
    silent.close()


def test_log_that_speaks_on_stderr_is_heard() -> None:
    heard = Tap(TAG, ("/bin/sh", "-c", "echo Filtering >&2; exec sleep 1000"))
    assert heard.wait_until_heard(PATIENCE)
    heard.close()


def test_log_that_ends_is_not_waited_for() -> None:
    """Nobody else holds its pipe open."""
    silent = Tap(TAG, ("/bin/sh", "-c", "exit 64"))
    assert not silent.wait_until_heard(PATIENCE)
    assert silent._heard.is_set()
    silent.close()


READER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from sandbox.seatbelt.log_stream import Tap
tap = Tap(sys.argv[2], (sys.executable, "-c", "import time; print(1, flush=True); time.sleep(1000)", sys.argv[3]))
print(tap.wait_until_heard(60), flush=True)
time.sleep(1000)
"""


def test_both_processes_end_with_whoever_reads_them(tmp_path: Path) -> None:
    """Also when it is killed."""
    root, mark = str(Path(__file__).resolve().parents[3]), str(tmp_path)
    with subprocess.Popen((sys.executable, "-c", READER, root, TAG, mark), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said, running = process.stdout.readline(), _named(mark)
        process.kill()
    assert said == b"True\n"
    assert running
    end = time.monotonic() + PATIENCE
    while _named(mark):
        assert time.monotonic() < end


def _named(mark: str) -> list[str]:
    listing = subprocess.run(("ps", "-axww", "-o", "args"), capture_output=True, text=True, check=True).stdout
    return [one for one in listing.splitlines() if mark in one]
