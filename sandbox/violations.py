"""Violations: storms made into counts, and refusals read from what a command writes on stderr.

What stderr says is only a hint: the command chose the words. It is read where something is really wrapped, and where
the caller reads the stream anyway; nothing here changes what the stream says.
"""

import posixpath
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from sandbox.events import SandboxViolation

# Seconds in which the same violation is only counted after it was told.
WINDOW = 5.0
# Different violations counted at a time; what comes beyond them is counted by its action alone.
MOST_KINDS = 512
# Bytes of one line that are looked at: a refusal stands in a short one.
LINE_LIMIT = 2048
# What a violation beyond MOST_KINDS is told to have happened to.
MANY = "(many)"

# The words of strerror(3) for EPERM, EACCES and EROFS (what the kernel says of a read-only mount: nobody else is asked
# about it), and the names that Node and others print.
REFUSALS = re.compile(
    rb"Operation not permitted|Permission denied|Read-only file system|\bEPERM\b|\bEACCES\b|\bEROFS\b"
    rb"|operation not permitted|read-only file system"
)
# What the wrap's own programs begin their lines with: a command that cannot be executed was refused by nobody.
OWN_WORDS = b"agent-gateway: "
# The operation by words that programs use beside the refusal; the first that is found counts.
ACTIONS: tuple[tuple[str, str], ...] = (
    ("network-outbound", r"\b(connect|connection|socket|sendto|network|resolve)\b"),
    ("file-write-unlink", r"\b(remove|unlink|rmdir|rename|move|delete)\b"),
    ("file-write-mode", r"\b(chmod|chown|permissions of|ownership of|utime|setting times)\b"),
    ("file-write-create", r"\b(touch|create|mkdir|mkfifo|mknod|link|symlink|cannot create|creating)\b"),
    ("file-write-data", r"\b(write|writing|truncate|append|save)\b"),
    ("process-exec", r"\b(exec|execute|execve|spawn|interpreter)\b"),
    ("file-read-data", r"\b(read|reading|open|opening|stat|access|scandir|opendir|list|cannot open)\b"),
)
# Quoted names first, then a path that stands before the refusal as the shell and coreutils write it.
_QUOTED = re.compile(r"['\"‘“`]([^'\"’”`\n]+)['\"’”`]")
_SAID = r"(?:[Oo]peration not permitted|Permission denied|[Rr]ead-only file system)"
_BEFORE = re.compile(rf"([^\s:]+):\s*{_SAID}")
_AFTER = re.compile(rf"{_SAID}[:,]\s*(?:\w+\s+)?(\S+)")
# What stands around names in such a line.
_AROUND = re.compile(r"[\s'\"‘’“”`:,;()\[\]]+")


class Coalescer:
    """Counts what repeats. Each violation is told at once; the same again within WINDOW is told later, with its count.

    `clock` gives seconds that only grow. Not for several threads at once.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # What was told last, when that was, and how many of it came since.
        self._told: dict[tuple[str, str, str], tuple[SandboxViolation, float, int]] = {}

    def add(self, violation: SandboxViolation) -> SandboxViolation | None:
        """What is to be told of it now; None when it is only counted."""
        now = self._clock()
        key = (violation.rule, violation.target, violation.action)
        if key not in self._told and len(self._told) >= MOST_KINDS:
            violation = replace(violation, target=MANY, raw="")
            key = (violation.rule, MANY, violation.action)
        first, since, count = self._told.get(key, (violation, now, 0))
        if key in self._told and now - since < WINDOW:
            self._told[key] = (first, since, count + violation.count)
            return None
        self._told[key] = (first, now, 0)
        return replace(violation, count=count + violation.count)

    def due(self, everything: bool = False) -> Iterator[SandboxViolation]:
        """Counts whose window is over, or all of them at the end; what did not repeat is forgotten."""
        now = self._clock()
        for key, (first, since, count) in list(self._told.items()):
            if not everything and now - since < WINDOW:
                continue
            del self._told[key]
            if count:
                self._told[key] = (first, now, 0)
                yield replace(first, count=count)


class Told:
    """What was told lately by who refuses, with the rule: a line on stderr about it is no second violation. Used from
    several threads. `clock` gives seconds that only grow."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._names: dict[str, float] = {}

    def note(self, violation: SandboxViolation) -> None:
        """One that was told. Without a target it stands for many, whose names are not known."""
        with self._lock:
            name = posixpath.basename(violation.target)
            self._names.pop(name, None)  # the order is that of time
            self._names[name] = self._clock()
            if len(self._names) > MOST_KINDS:
                del self._names[next(iter(self._names))]

    def knows(self, violation: SandboxViolation) -> bool:
        """Whether the line speaks of one of them: programs print names as they were given, so the last part counts."""
        since = self._clock() - WINDOW
        with self._lock:
            lately = [name for name, moment in self._names.items() if moment >= since]
        words = {posixpath.basename(word.rstrip("/")) for word in _AROUND.split(violation.raw)}
        return any(
            not name or name in words or (_AROUND.search(name) and name in violation.raw) for name in lately
        )


class RefusalReader:
    """Finds refusals in the pieces of a stream."""

    def __init__(self) -> None:
        self._line = b""

    def read(self, data: bytes) -> list[SandboxViolation]:
        """The refusals in the lines that this piece completes."""
        whole, end, rest = (self._line + data).rpartition(b"\n")
        self._line = rest[-LINE_LIMIT:]
        if not end or not REFUSALS.search(whole):
            return []
        found = [parse_refusal(line[-LINE_LIMIT:]) for line in whole.split(b"\n") if is_the_commands(line)]
        return [violation for violation in found if violation is not None]

    def end(self) -> list[SandboxViolation]:
        """What stands in a last line without an end."""
        line, self._line = self._line, b""
        violation = parse_refusal(line) if is_the_commands(line) else None
        return [violation] if violation is not None else []


def is_the_commands(line: bytes) -> bool:
    """Whether a line is none of the wrap's own."""
    return not line.startswith(OWN_WORDS)


def parse_refusal(line: bytes) -> SandboxViolation | None:
    """The violation that a line of stderr tells of: target and action where they can be found, else empty and
    `unknown`. None for a line without a refusal."""
    if not REFUSALS.search(line):
        return None
    text = line.decode("utf-8", "replace").strip()
    lowered = text.lower()
    action = next((name for name, words in ACTIONS if re.search(words, lowered)), "unknown")
    quoted = [name for name in _QUOTED.findall(text) if not REFUSALS.search(name.encode())]
    if quoted:
        return SandboxViolation(action, quoted[-1], text)
    found = _BEFORE.search(text) or _AFTER.search(text)
    return SandboxViolation(action, found[1] if found else "", text)
