"""Places for the doctor: a home, a state directory and a configuration in a folder of the test's, on this very host."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.doctor.findings import Finding, Verdict
from gateway.doctor.place import Place, find_place
from sandbox.probing.host_files import Host
from tests.fakes.console import Console

Shown = tuple[str, str]


def place_in(folder: Path, config: str = "", *, worktree: Path | None = None, **changes: Any) -> Place:
    """A place whose configuration has this text; `changes` are fields of `Place`."""
    home = folder / "home"
    file = home / ".config/agent-gateway/config.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(config or "sandbox: on\n")
    environ = {
        "HOME": str(home),
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "XDG_STATE_HOME": str(folder / "state"),
    }
    found = find_place(None, environ)
    return replace(found, worktree=str(worktree or ""), host=Host(administrator=os.geteuid() == 0), **changes)


def program(folder: Path, name: str, script: str) -> Path:
    """A program of the test's own, a shell script."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def only(findings: Sequence[Finding]) -> Finding:
    """The one finding."""
    assert len(findings) == 1, findings
    return findings[0]


def verdicts(findings: Sequence[Finding]) -> list[Verdict]:
    """What they say, in order."""
    return [finding.verdict for finding in findings]


def asked(console: Console, *options: str) -> Mapping[str, Mapping[str, str]]:
    """The findings of the console's doctor, by name; of several by one name the last."""
    done = console.call("doctor", "--json", *options)
    assert done.status in (0, 1), done.said
    answer = json.loads(done.stdout)
    assert (done.status == 1) == (answer["verdict"] == "failed")
    return {finding["name"]: finding for finding in answer["findings"]}
