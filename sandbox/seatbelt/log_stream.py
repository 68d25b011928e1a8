"""Refusals as the system's log tells them: one process of `log stream` for each launch, asked for the launch's tag.

    launcher ─ thread ◄─ /bin/sh ─► /usr/bin/log stream

The shell ends the other when the launcher closes its input or is gone itself. What a line says was put together by the
kernel from names that wrapped processes choose: it is only ever told as a violation.
"""

import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import IO

from sandbox.events import SandboxViolation
from sandbox.seatbelt.policy import FilePolicy, Operation
from sandbox.violations import WINDOW, Coalescer

PROGRAM = ("/usr/bin/log",)
# Runs what follows beside itself, and ends it at the end of the input.
SUPERVISE = '"$@" & exec >&- 2>&-; read -r _; kill $! 2>/dev/null'
# How the program begins what is in its way; whatever else it says first means that it reads.
COMPLAINT = b"log: "
# Seconds for `log stream` to say that it is there, before commands may start; usually a tenth of one.
READY_DEADLINE = 2.0
# Seconds in which what was refused last still comes after the last command has ended.
DRAIN = 0.3
# Seconds for the two processes to be gone.
END_DEADLINE = 5.0
# Bytes of one line; a path has 1024 at most, and some fields stand around it.
LINE_LIMIT = 64 << 10

# What any program does on a Mac without meaning anything by it, in a wrap where nobody answers: action, target.
NOISE: tuple[tuple[str, str], ...] = (
    ("mach-lookup", r"com\.apple\.(analyticsd|diagnosticd|logd(\..*)?|spindump|tccd(\.system)?)"),
    ("mach-lookup", r"com\.apple\.(dnssd\.service|lsd\.mapdb|coreservices\.launchservicesd|SecurityServer)"),
    ("network-outbound", r"(/private)?/var/run/(mDNSResponder|syslog)"),
    ("process-info.*", r".*"),
    ("sysctl-read", r".*"),
    ("file-write-data", r"/dev/(dtracehelper|auditpipe|oslog)"),
    ("file-write-(create|data)", r"/private/var/folders/.*/(xcrun_db|com\.apple\..*)"),
    ("user-preference-write", r"kCFPreferencesAnyApplication"),
)
_NOISE = re.compile("|".join(f"{action} {target}" for action, target in NOISE)).fullmatch
# "Sandbox: NAME(PID) deny(1) OPERATION TARGET", and a count before it when it came again and again.
_MESSAGE = re.compile(
    r"(?:(?P<count>\d+) duplicate reports? for )?"
    r"Sandbox: .*?\(\d+\) deny\(\d+\) (?P<action>[a-z][a-z*-]*)(?: (?P<target>.*))?",
    re.DOTALL,
)


def command(tag: str, program: Sequence[str] = PROGRAM) -> tuple[str, ...]:
    """What shows this launch's refusals, one JSON object a line."""
    predicate = f'eventMessage ENDSWITH "{tag}"'
    return (*program, "stream", "--style", "ndjson", "--level", "default", "--predicate", predicate)


def parse_line(line: bytes, tag: str) -> SandboxViolation | None:
    """The violation that a line tells of; None for anything else, and for noise."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    text = entry.get("eventMessage") if isinstance(entry, dict) else None
    if not isinstance(text, str) or not text.endswith(tag):
        return None
    text = text[: -len(tag)].rstrip()
    found = _MESSAGE.fullmatch(text)
    if found is None:
        return None
    # Of a family that is denied as a whole the log tells the family's name.
    action, target = found["action"].removesuffix("*"), found["target"] or ""
    if _NOISE(f"{action} {target}"):
        return None
    return SandboxViolation(action, target, text, count=int(found["count"] or 1))


def name_rule(violation: SandboxViolation, policy: FilePolicy) -> SandboxViolation:
    """The violation with the rule of the policy that it offended, where that is one about files."""
    if violation.action not in list(Operation) or not violation.target.startswith("/"):
        return violation
    operation = Operation(violation.action)
    rule = policy.refusal(operation, violation.target) or policy.refusal(
        operation, violation.target, is_folder=True
    )
    return replace(violation, rule=rule)


class Tap:
    """The log of one launch. `tell` is called from a thread of its own, until `close` returns."""

    def __init__(self, tag: str, program: Sequence[str] = PROGRAM) -> None:
        self._tag = tag
        self._heard = threading.Event()  # it has said something, or it is over
        self._is_heard = False
        self._told = threading.Event()
        self._tell: Callable[[SandboxViolation], None] | None = None
        self._policy: FilePolicy | None = None
        self._coalescer = Coalescer(time.monotonic)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        # In a session of its own: what a terminal sends to the command is not for these two.
        self._process = subprocess.Popen(
            ("/bin/sh", "-c", SUPERVISE, "sh", *command(tag, program)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": "/usr/bin:/bin"},
            start_new_session=True,
        )
        self._threads = [threading.Thread(target=self._read, name="sandbox-log", daemon=True)]
        self._threads[0].start()

    def wait_until_heard(self, deadline: float = READY_DEADLINE) -> bool:
        """Whether the log is being read: it says something of itself first. False after the deadline (seconds), or when
        it ended."""
        return self._heard.wait(deadline) and self._is_heard

    def listen(self, policy: FilePolicy, tell: Callable[[SandboxViolation], None]) -> None:
        """From now on violations are told, beginning with those that have come already."""
        self._policy, self._tell = policy, tell
        self._told.set()
        self._threads.append(
            threading.Thread(target=self._tell_counts, name="sandbox-log-counts", daemon=True)
        )
        self._threads[1].start()

    def close(self) -> None:
        """Waits for what is still on its way, and ends both processes. May be called again."""
        if self._closing.is_set():
            return
        if self._told.is_set() and self._process.poll() is None:
            self._closing.wait(DRAIN)
        self._closing.set()
        stdin = self._process.stdin
        if stdin is not None:
            with suppress(OSError):
                stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_DEADLINE)
        self._told.set()
        for thread in self._threads:
            thread.join(END_DEADLINE)
        with self._lock:
            self._pass(list(self._coalescer.due(everything=True)))
            self._tell = None

    def _read(self) -> None:
        """The thread: every line until the end."""
        stream: IO[bytes] | None = self._process.stdout
        if stream is None:
            return
        with stream:
            while line := stream.readline(LINE_LIMIT):
                self._is_heard |= not line.startswith(COMPLAINT)
                self._heard.set()
                violation = parse_line(line, self._tag)
                if violation is not None:
                    self._told.wait()
                    self._add(violation)
        self._heard.set()

    def _add(self, violation: SandboxViolation) -> None:
        with self._lock:
            if self._policy is not None:
                violation = name_rule(violation, self._policy)
            told = self._coalescer.add(violation)
            self._pass([told] if told is not None else [])

    def _pass(self, violations: Sequence[SandboxViolation]) -> None:
        for violation in violations:
            if self._tell is not None:
                self._tell(violation)

    def _tell_counts(self) -> None:
        """The thread: what only was counted is told when its time is over."""
        while not self._closing.wait(WINDOW):
            with self._lock:
                self._pass(list(self._coalescer.due()))
