"""The attack program against a real launch with file rules at creation time, and the controls that show it is
sensitive: what holds it off is taken away, one thing at a time, and it gets through.

Two judges: the program itself, inside, after each route, and `breaches`, outside, when all is over.
"""

import json
import os
import platform
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox.attacking import (
    ATTACKS,
    COMPILER,
    WITH_SOCKETS,
    breaches,
    build,
    listening,
    plant,
    reached,
    routes,
)
from tests.sandbox.wrapping import HERE, PEOPLE, PYTHON, Place, as_ordinary, place_of

PATIENCE = 300
PORT = [PYTHON, str(ATTACKS / "attack.py")]
# Races of one run are 13 times this: two people make 60,000, and write and execute 3,000 programs.
ROUNDS = 2_250
SCRATCH = "/var/tmp"  # private in every wrap, also where the worktree lies in /tmp
# By chance, only now and then, or nowhere: not what a control can be measured by.
UNSURE = {
    "dumps-core", "flips-names", "flips-private", "turns-links", "turns-directories", "changes-directory",
    "turns-descriptors", "addresses", "git-racing-config", "storms-of-forks", "storms-of-signals",
    "writes-and-executes", "own-directories",
}  # fmt: skip


# 32-bit and x32 calls, and a tracer that changes the call, are written for this machine alone.
if platform.machine() != "x86_64":
    UNSURE |= {"other-conventions", "traced"}


@pytest.fixture(scope="module")
def program() -> Iterator[list[str]]:
    """The attack program: compiled where there is a compiler, the Python port elsewhere."""
    with tempfile.TemporaryDirectory(prefix="attack-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield build(Path(folder))


@dataclass
class Outcome:
    """Of one run: its breaches as the program saw them, as we see them, and sockets of ours that were reached."""

    done: "subprocess.CompletedProcess[str]"
    inside: list[str]
    outside: list[str]
    reached: list[str]

    @property
    def routes(self) -> set[str]:
        """The routes that got through, by either judge."""
        return {line.split(":")[0].removeprefix("BREACH ") for line in self.inside}


def let_loose(place: Place, program: list[str], wanted: list[str], rounds: int, **options: Any) -> Outcome:
    """The program on trees in the worktree. With `_guarded` the small wrap of guarded.py, whose parts can be left
    out; otherwise a launch as it is."""
    names = wanted or routes(program)
    trees = place.worktree / "trees"
    plant(trees, names)
    copy = place.worktree / os.path.basename(program[-1])
    shutil.copy(program[-1], copy)
    argv = [*program[:-1], str(copy), str(trees), SCRATCH, str(rounds), *wanted]
    guarded = options.pop("_guarded", None)
    with listening(trees) as sockets:
        if guarded is None:
            command = place.command(argv, file_rules="create-time", **options)
        else:
            command = guarded_command(place, argv, names, guarded)
        done = subprocess.run(
            command, capture_output=True, text=True, errors="backslashreplace", timeout=PATIENCE, check=False,
            env={"PATH": "/usr/bin:/bin"}, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        found = reached(sockets)
    lines = [line for line in done.stdout.splitlines() if line.startswith("BREACH")]
    return Outcome(done, lines, breaches(trees, names), found)


def guarded_command(place: Place, argv: list[str], names: list[str], parts: dict[str, Any]) -> list[str]:
    """The command line of guarded.py for a person."""
    trees = place.worktree / "trees"
    what = {
        "roots": [str(place.worktree)],
        "argv": argv,
        "sealed": [str(trees / name / ".git" / one) for name in names for one in ("hooks", "commondir")],
        "git_configs": [str(trees / name / ".git/config") for name in names],
        **parts,
    }
    file = place.write(place.root / "guarded.json", json.dumps(what))
    place.give()
    command = [PYTHON, "-B", str(HERE / "guarded.py"), str(file)]
    return command if place.person == "root" else as_ordinary(command)


@pytest.fixture
def anybody() -> Iterator[Place]:
    """One person is enough where the kernel's mechanism is looked at."""
    with place_of(PEOPLE[-1]) as place:
        yield place


def test_no_route_gets_through(place: Place, program: list[str]) -> None:
    outcome = let_loose(place, program, [], ROUNDS)
    assert outcome.inside == []
    assert outcome.outside == []
    assert outcome.reached == []
    assert outcome.done.returncode == 0, outcome.done.stderr


def test_no_route_of_the_port_gets_through(anybody: Place) -> None:
    """The port is what runs where there is no compiler; here it runs besides."""
    outcome = let_loose(anybody, PORT, [], 300)
    assert (outcome.inside, outcome.outside, outcome.reached) == ([], [], [])
    assert outcome.done.returncode == 0, outcome.done.stderr


# --- Controls: every one of these must breach, or the tests above prove nothing -------------------


@pytest.mark.parametrize("kind", ["compiled", "port"])
def test_plain_bubblewrap_stops_nothing(anybody: Place, program: list[str], kind: str) -> None:
    used = program if kind == "compiled" else PORT
    outcome = let_loose(anybody, used, [], 20, _guarded={"door": False})
    sure = set(routes(used)) - UNSURE
    assert sure - outcome.routes == set()
    assert len(outcome.outside) > 80
    assert {Path(name).name for name in outcome.reached} == {"host.sock", "host.dgram"}


def test_without_the_wall_races_get_through(anybody: Place, program: list[str]) -> None:
    """What is let through to the kernel can be changed before it looks; and sockets are never asked for."""
    outcome = let_loose(anybody, program, ["flips-private", "binds-socket"], 2_000, _guarded={"wall": False})
    assert "flips-private" in outcome.routes
    assert COMPILER is None or "binds-socket" in outcome.routes


def test_small_wrap_with_all_its_parts_holds(anybody: Place, program: list[str]) -> None:
    """The same as above and below, with nothing left out: it is that which makes the difference."""
    wanted = ["flips-private", *(["binds-socket", "storms-of-signals"] if COMPILER else [])]
    outcome = let_loose(anybody, program, wanted, 1_000, _guarded={})
    assert (outcome.inside, outcome.outside) == ([], [])
    assert outcome.done.returncode == 0, outcome.done.stderr


def test_without_waiting_through_signals_files_seem_to_exist(anybody: Place, program: list[str]) -> None:
    """A call that begins again is performed twice. Of the port, which has no such route, there is nothing to see."""
    if COMPILER:
        outcome = let_loose(anybody, program, ["storms-of-signals"], 2_000, _guarded={"killable": False})
        assert "storms-of-signals" in outcome.routes


# --- The supervisor's end -------------------------------------------------------------------------

# Tries until it is ended; says once that it has begun. Leaves a trace of every success.
RELENTLESS = """
import os
print("began", flush=True)
number = 0
while True:
    number += 1
    for name in (".env", f"{number}.key"):
        try:
            os.close(os.open(name, os.O_CREAT | os.O_WRONLY))
        except OSError:
            pass
    os.rename("a", "b")
    os.rename("b", "a")
"""


def test_killed_supervisor_ends_the_wrap_and_opens_nothing(place: Place) -> None:
    """What it leaves behind cannot be written in the moment that is left (`test_confine.py`), and is over at once."""
    place.write(place.worktree / "a")
    process = place.popen("python3", "-c", RELENTLESS, file_rules="create-time")
    assert process.stdout is not None and process.stdout.readline() == "began\n"
    os.kill(supervisor_of(process.pid), signal.SIGKILL)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 125
    assert output == ""
    assert [name for name in os.listdir(place.worktree) if name not in ("a", "b")] == []


def supervisor_of(driver: int) -> int:
    """The process between a launcher and its bubblewrap."""
    parents = {}
    names = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            name, _, rest = (folder / "stat").read_text().rpartition(")")
            parents[int(folder.name)] = int(rest.split()[1])
            names[int(folder.name)] = name.partition("(")[2]
    (found,) = {
        parents[number]
        for number, name in names.items()
        if name == "bwrap"
        and names.get(parents[number]) != "bwrap"
        and parents.get(parents[number]) == driver
    }
    return found


# --- What the program is made of ------------------------------------------------------------------


def test_port_has_the_compiled_program_s_names(program: list[str]) -> None:
    port = set(routes(PORT))
    assert port - set(routes(program)) == set()
    assert set(WITH_SOCKETS) - {"addresses"} <= port
