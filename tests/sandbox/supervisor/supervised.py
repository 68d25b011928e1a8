"""What the supervisor's tests share: a command in a small wrap with the door (`guarded.py`), run as a person."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.sandbox.wrapping import HERE, NOBODY, PATIENCE, PYTHON, as_ordinary

GUARDED = HERE / "guarded.py"


# What every script begins with: `t(name, call)` notes what came of it, and `told()` prints all of it.
TRY = """
import errno, json, os, sys
seen = {}
def t(name, call):
    try:
        seen[name] = call()
    except OSError as error:
        seen[name] = errno.errorcode[error.errno]
    else:
        seen[name] = "ok" if seen[name] is None else seen[name]
def told():
    print(json.dumps(seen))
def put(path, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC, text=b"new", mode=0o644, **more):
    descriptor = os.open(path, flags, mode, **more)
    try:
        if text:
            os.write(descriptor, text)
    finally:
        os.close(descriptor)
"""


@dataclass(frozen=True)
class Outcome:
    """What a command left: its output, and the violations as (action, target, rule, count)."""

    code: int
    out: str
    err: str
    violations: list[tuple[str, str, str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Ground:
    """A directory that can be written inside, owned by one person."""

    person: str
    root: Path

    def write(self, name: str, text: str = "", mode: int = 0o644) -> Path:
        """A file below it."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def give(self) -> None:
        """Makes everything the person's own."""
        if os.geteuid() == 0 and self.person == "ordinary":
            for folder, _, files in os.walk(self.root.parent):
                for name in (folder, *(os.path.join(folder, file) for file in files)):
                    with suppress(FileNotFoundError):
                        os.chown(name, NOBODY, NOBODY, follow_symlinks=False)

    def command(self, argv: Sequence[str], **what: Any) -> tuple[list[str], Path]:
        """The command line of a run, and where its violations will be."""
        folder = self.root.parent
        violations = folder / "violations"
        violations.unlink(missing_ok=True)
        described = {"argv": list(argv), "roots": [str(self.root)], "violations": str(violations), **what}
        descriptor, name = tempfile.mkstemp(dir=folder, suffix=".json")
        with os.fdopen(descriptor, "w") as file:
            json.dump(described, file)
        self.give()
        command = [PYTHON, "-B", str(GUARDED), name]
        return (command if self.person == "root" else as_ordinary(command)), violations

    def run(self, *argv: str, text: str = "", **what: Any) -> Outcome:
        """Runs argv inside; `what` is guarded.py's."""
        command, violations = self.command(argv, **what)
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={"PATH": "/usr/bin:/bin"},
        )
        told = violations.read_text().splitlines() if violations.exists() else []
        return Outcome(done.returncode, done.stdout, done.stderr, [tuple(json.loads(line)) for line in told])

    def python(self, script: str, *arguments: str, **what: Any) -> Outcome:
        """Runs a Python program inside."""
        return self.run(PYTHON, "-I", "-S", "-B", "-c", script, *arguments, **what)

    def sh(self, script: str, **what: Any) -> Outcome:
        """Runs a shell script inside."""
        return self.run("/bin/sh", "-c", script, **what)


@contextmanager
def ground_of(person: str) -> Iterator[Ground]:
    """A fresh one, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="door-", dir="/tmp")).resolve()
    folder.chmod(0o755)
    try:
        root = folder / "root"
        root.mkdir()
        yield Ground(person, root)
    finally:
        shutil.rmtree(folder)


def tried(ground: Ground, script: str, **what: Any) -> dict[str, object]:
    """What came of each `t` of a script."""
    done = ground.python(TRY + script + "\ntold()", **what)
    assert done.code == 0, done.err
    seen: dict[str, object] = json.loads(done.out)
    return seen
