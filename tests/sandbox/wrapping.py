"""What the tests of the wrap share: people, places on the host, and runs of `driver.py` as one of the people."""

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1]
PYTHON = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
# An account of every Linux that owns nothing.
NOBODY = 65534
# A patience, not a measurement: a run that takes longer hangs.
PATIENCE = 60

# Root wraps as root and as somebody ordinary; anybody else as themselves.
PEOPLE = ("root", "ordinary") if os.geteuid() == 0 else ("ordinary",)


@dataclass
class Place:
    """A host in small, owned by one person: a home with secrets, a state directory, a worktree."""

    person: str
    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": "/usr/local/bin:/usr/bin:/bin"})
    before: tuple[str, ...] = ()  # a program of the host that becomes the driver

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def worktree(self) -> Path:
        return self.root / "work"

    @property
    def state(self) -> Path:
        return self.home / ".local/state/agent-gateway"

    def write(self, path: Path, text: str = "", mode: int = 0o644) -> Path:
        """A file of the person, with the directories above it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def give(self) -> None:
        """Makes everything the person's own."""
        if os.geteuid() == 0 and self.person == "ordinary":
            for folder, _, files in os.walk(self.root):
                for name in (folder, *(os.path.join(folder, file) for file in files)):
                    with suppress(FileNotFoundError):  # a test may move files about meanwhile
                        os.chown(name, NOBODY, NOBODY, follow_symlinks=False)

    def describe(self, argv: Sequence[str], options: dict[str, Any]) -> dict[str, Any]:
        """What the driver is told; options of the spec are named as its fields, others with a leading "_"."""
        spec = {
            "session_id": "session",
            "workspace_id": "default",
            "agent_id": "",
            "bind_mounts": [[str(self.worktree), False]],
            "home": str(self.state / "workspaces/default/home"),
            "state_dir": str(self.state),
            "user_home": str(self.home),
            "command": list(argv),
            "search_path": self.environment["PATH"],
        }
        spec |= {name: value for name, value in options.items() if not name.startswith("_")}
        more = {name[1:]: value for name, value in options.items() if name.startswith("_")}
        return {"backend": "native", "spec": spec, "argv": list(argv), "workdir": str(self.worktree), **more}

    def command(self, argv: Sequence[str], **options: Any) -> list[str]:
        """The command line of a driver run as the person."""
        descriptor, name = tempfile.mkstemp(dir=self.root, suffix=".json")
        with os.fdopen(descriptor, "w") as file:
            json.dump(self.describe(argv, options), file)
        self.give()
        driver = [*self.before, PYTHON, "-B", str(HERE / "driver.py"), name]
        return driver if self.person == "root" else as_ordinary(driver)

    def run(self, *argv: str, text: str = "", **options: Any) -> "subprocess.CompletedProcess[str]":
        """Runs argv in the wrap as the person."""
        return subprocess.run(
            self.command(argv, **options),
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={"PATH": "/usr/bin:/bin"},
        )

    def sh(self, script: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        """Runs a shell script in the wrap as the person."""
        return self.run("/bin/sh", "-c", script, **options)

    def popen(self, *argv: str, **options: Any) -> "subprocess.Popen[str]":
        """Starts argv in the wrap as the person."""
        return subprocess.Popen(
            self.command(argv, **options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": "/usr/bin:/bin"},
        )


def as_ordinary(command: list[str], *more: str) -> list[str]:
    """The command as an ordinary user who can read the interpreter, the sources and the folders named besides."""
    if os.geteuid() != 0:
        return command
    prefix = os.path.realpath(sys.base_prefix)
    enter = ["unshare", "--mount", "--propagation", "private", PYTHON, "-B", str(HERE / "ordinary.py")]
    return [*enter, str(NOBODY), prefix, str(SOURCES), *more, "--", *command]


@contextmanager
def place_of(person: str) -> Iterator[Place]:
    """A fresh place, removed afterwards. Not below pytest's own directory, which only its owner can enter."""
    root = Path(tempfile.mkdtemp(prefix="wrap-", dir="/tmp")).resolve()
    root.chmod(0o755)
    place = Place(person, root)
    try:
        place.worktree.mkdir()
        place.write(place.home / ".ssh/id_ed25519", "the key", 0o600)
        place.home.chmod(0o700)
        yield place
    finally:
        shutil.rmtree(root)


@contextmanager
def terminal(command: list[str]) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Runs a command on a terminal of its own; gives the process and our end of the terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", *command],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={"PATH": "/usr/bin:/bin", "TERM": "dumb"},
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(descriptor: int, word: bytes) -> bytes:
    """Reads until `word` has come; fails at the end of the stream with what came instead."""
    data = b""
    while word not in data:
        assert select.select([descriptor], [], [], PATIENCE)[0], data.decode(errors="replace")
        try:
            part = os.read(descriptor, 4096)
        except OSError:
            part = b""
        assert part, data.decode(errors="replace")
        data += part
    return data
