"""The console script as a shell starts it: bytes in and out, signals, terminals, and a look at what it leaves behind.

Each `Console` is a machine in small: home, state, temporary files and worktree of its own, in one folder.
"""

import fcntl
import hashlib
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The script that the installation put beside the interpreter of the tests.
PROGRAM = str(Path(sys.executable).with_name("agent-gateway"))
# Seconds after which something is given up; no test waits for it to pass.
PATIENCE = 60

ON = "agent sandbox ON (bubblewrap: namespace isolation, no kernel boundary)"
OFF = "agent sandbox DISABLED by --sandbox off"
# Both ways to run: options, and the backend that is then in force.
WAYS = ((), ("--sandbox", "off"))
BACKENDS = {(): "native", ("--sandbox", "off"): "none"}

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """A process that is over. `said` are the lines of its stderr."""

    status: int
    stdout: bytes
    said: list[str]

    @property
    def lines(self) -> list[str]:
        """The lines of its stdout."""
        return self.stdout.decode().splitlines()


@dataclass
class Console:
    """Use its `environ` and `before` to set the stage: variables, and a program that becomes the product."""

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for folder in (self.home, self.work, self.tmp, self.folder / "run"):
            folder.mkdir(parents=True, exist_ok=True)
        self.environ = {
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_RUNTIME_DIR": str(self.folder / "run"),
            "TMPDIR": str(self.tmp),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LANG": "C.UTF-8",
            **self.environ,
        }

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """The current directory of everything that is started."""
        return self.folder / "work"

    @property
    def tmp(self) -> Path:
        return self.folder / "tmp"

    @property
    def state(self) -> Path:
        return self.folder / "state/agent-gateway"

    def config(self, text: str) -> Path:
        """Writes the user's own configuration."""
        path = self.home / ".config/agent-gateway/config.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def call(self, *arguments: str, text: bytes = b"", **more: Any) -> Done:
        """The product with these arguments, to its end."""
        settings: dict[str, Any] = {
            "cwd": self.work,
            "env": self.environ,
            "input": text,
            "capture_output": True,
        }
        command = (*self.before, PROGRAM, *arguments)
        done = subprocess.run(command, **settings | more, timeout=PATIENCE, check=False)
        return Done(done.returncode, done.stdout or b"", (done.stderr or b"").decode().splitlines())

    def run(self, *argv: str, options: Sequence[str] = (), text: bytes = b"", **more: Any) -> Done:
        """`run` with these options, to the end of CMD."""
        return self.call("run", *options, "--", *argv, text=text, **more)

    def start(self, *argv: str, options: Sequence[str] = (), **more: Any) -> "subprocess.Popen[bytes]":
        """`run`, going on; CMD's stdin, stdout and stderr are pipes."""
        settings: dict[str, Any] = {"cwd": self.work, "env": self.environ}
        settings |= {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen((*self.before, PROGRAM, "run", *options, "--", *argv), **settings | more)

    def records(self, event: str = "") -> list[Record]:
        """All records of all runs, file by file, each file's chain checked."""
        return [record for path in self.logs() for record in read_log(path) if event in ("", record["event"])]

    def logs(self) -> list[Path]:
        """The files of the audit log, the oldest first."""
        return sorted((self.state / "audit").glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns)

    def left(self) -> list[str]:
        """What stands in the places for temporary files and sockets, but for the empty folder of the latter."""
        sockets = self.folder / "run/agent-gateway"
        found = (path for folder in (self.tmp, self.folder / "run") for path in folder.iterdir())
        return [str(path) for path in found if path != sockets or any(sockets.iterdir())]


def read_log(path: Path) -> list[Record]:
    """One file's records; AssertionError where its chain does not hold."""
    records: list[Record] = []
    previous = "0" * 64
    for number, line in enumerate(path.read_bytes().splitlines()):
        record = json.loads(line)
        assert (record["v"], record["seq"], record["prev"]) == (1, number, previous), line
        previous = hashlib.sha256(line).hexdigest()
        records.append(record)
    # Checkpoints sign what stands before them, and say nothing that a run did.
    return [record for record in records if record["event"] != "checkpoint"]


def hear(process: "subprocess.Popen[bytes]") -> bytes:
    """The next line of CMD's stdout; what was said on stderr when there is none."""
    assert process.stdout is not None and process.stderr is not None
    line: bytes = process.stdout.readline()
    assert line, process.stderr.read()
    return line.rstrip(b"\n")


def end(process: "subprocess.Popen[bytes]", text: bytes | None = None) -> Done:
    """Waits for the end."""
    stdout, stderr = process.communicate(text, timeout=PATIENCE)
    return Done(process.returncode, stdout, (stderr or b"").decode().splitlines())


def descendants(root: int) -> list[int]:
    """A process and all below it."""
    found, pending = [root], [root]
    while pending:
        try:
            tasks = list(Path(f"/proc/{pending.pop()}/task").iterdir())
            below = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it is over
        found += below
        pending += below
    return found


def wait_until_stopped(root: int, program: str) -> None:
    """Waits until the process below `root` whose last argument is this is stopped. A shell takes a job for stopped as
    soon as its first process is; the others may be about to, and one that reads the terminal would still take what is
    typed."""
    (pid,) = (pid for pid in descendants(root) if _last_argument(pid) == program)
    given_up = time.monotonic() + PATIENCE
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < given_up, f"{program} does not stop"
        os.sched_yield()


def _last_argument(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    # Not the launcher, whose arguments end alike.
    return "" if b"run" in words else words[-1].decode(errors="replace")


@contextmanager
def watched(root: int) -> Iterator[list[int]]:
    """The processes below `root`, `root` included, which must all be gone soon after the block."""
    pids = descendants(root)
    ends = [os.pidfd_open(pid) for pid in pids]
    try:
        yield pids
        for pid, descriptor in zip(pids, ends, strict=True):
            assert select.select([descriptor], [], [], PATIENCE)[0], f"process {pid} is left"
    finally:
        for descriptor in ends:
            os.close(descriptor)


# --- Without a wrap -------------------------------------------------------------------------------


def without_bubblewrap(replacement: str) -> tuple[str, ...]:
    """A `before` in whose mount namespace another file stands where bubblewrap is."""
    bwrap = shutil.which("bwrap", path="/usr/bin:/bin:/usr/sbin")
    assert bwrap, "bubblewrap is not installed"
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    return ("unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", replacement, bwrap)


# --- On a terminal --------------------------------------------------------------------------------


class Terminal:
    """Our end of a terminal, and the process that leads the session on it."""

    def __init__(self, process: "subprocess.Popen[bytes]", ours: int) -> None:
        self.process = process
        self.shown = b""
        self._ours = ours
        self._mark = 0

    def type(self, text: bytes) -> None:
        """Keys."""
        os.write(self._ours, text)

    def see(self, word: bytes) -> None:
        """Waits until `word` is shown after what was seen before."""
        while (at := self.shown.find(word, self._mark)) < 0:
            assert select.select([self._ours], [], [], PATIENCE)[0], self.shown
            try:
                part = os.read(self._ours, 4096)
            except OSError:
                part = b""
            assert part, self.shown
            self.shown += part
        self._mark = at + len(word)

    def resize(self, rows: int, columns: int) -> None:
        """The window's new size."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self) -> None:
        """The other end of the line goes away."""
        os.close(self._ours)
        self._ours = -1

    def end(self) -> int:
        """Reads what still comes, and waits for the end of the session's leader."""
        while self._ours >= 0:
            try:
                part = os.read(self._ours, 4096)
            except OSError:
                break
            if not part:
                break
            self.shown += part
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        if self._ours >= 0:
            os.close(self._ours)


@contextmanager
def terminal(console: Console, *command: str) -> Iterator[Terminal]:
    """A command that leads a session on a terminal of its own."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            ("setsid", "--ctty", *command),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=console.work,
            env={**console.environ, "TERM": "dumb"},
        )
    finally:
        os.close(theirs)
    shown = Terminal(process, ours)
    try:
        yield shown
    finally:
        shown.close()
