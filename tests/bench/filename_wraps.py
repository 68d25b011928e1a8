"""`python -m tests.bench.filename_wraps FOLDER ROUNDS HEAVY OPERATIONS`: one job after another in two wraps that only
differ in their file rules, in turns. Prints a line of JSON for each figure. Started by `filenames`, in a mount
namespace of its own. ROUNDS are those of quick jobs, HEAVY of long ones, OPERATIONS files made while memory is
looked at.

`direct` is bubblewrap with rules for what exists, of which there is nothing here: no mask, no filter's notification, no
supervisor. `gateway` is the same with rules for what is created. Seconds are taken inside, so that no start counts.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gateway.errors import GatewayError
from gateway.session import FileRules
from sandbox.backends.base import Backend, Command, Running
from sandbox.events import Exit, Stderr, Stdout
from sandbox.launch import from_name
from sandbox.spec import SandboxBindMount, SandboxSpec
from sandbox.supervisor.starting import SOURCES
from tests.bench.filename_material import make_material
from tests.bench.memory import process_tree, resident
from tests.bench.toolchain import find_node

SUBJECTS = {"direct": FileRules.EXISTING_ONLY, "gateway": FileRules.CREATE_TIME}
PATH = "/usr/local/bin:/usr/bin:/bin"
# Files of one measurement of the single create, and of the warming-up before memory is read.
CREATES = 3_000
WARM = 50_000
JOB_SECONDS = 900.0

# Runs one command and says how many seconds it took, on the last line.
TIMED = """
import subprocess, sys, time
start = time.perf_counter()
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(time.perf_counter() - start)
sys.exit(status)
"""
# Makes files one after another and says how many microseconds each took.
CREATE = """
import os, sys, time
folder, count = sys.argv[1], int(sys.argv[2])
os.makedirs(folder)
start = time.perf_counter()
for number in range(count):
    os.close(os.open(f"{folder}/{number}", os.O_WRONLY | os.O_CREAT))
print((time.perf_counter() - start) / count * 1e6)
"""
# The same few files over and over, in more folders than anybody remembers, and names that are refused among them.
MANY = """
import os, sys
folder, count = sys.argv[1], int(sys.argv[2])
for number in range(3000):
    os.makedirs(f"{folder}/{number}", exist_ok=True)
for number in range(count):
    try:
        name = number // 3000 % 2 if number % 100 else f".env.{number}"
        os.close(os.open(f"{folder}/{number % 3000}/{name}", os.O_WRONLY | os.O_CREAT))
    except PermissionError:
        pass
"""


@dataclass(frozen=True, slots=True)
class Job:
    """A figure and the shell words it is: before (not timed) and timed. `M` is the material, `W` a folder of the
    subject's own, in memory or `on_disk`."""

    figure: str
    before: str
    script: str
    heavy: bool = True
    on_disk: bool = False


def jobs(python: str, npm: str) -> tuple[Job, ...]:
    """All of them, by the programs that are to be used."""
    clone = "git clone -q $M/repo.git $W/clone"
    return (
        Job("names-clone", "rm -rf $W/clone", clone),
        # What the round before left to be written would be paid for in this one.
        Job("names-clone-disk", "rm -rf $W/clone; sync", clone, on_disk=True),
        Job(
            "names-grep",
            "test -d $W/clone",
            "for n in 1 2 3 4 5; do grep -r needle $W/clone || :; done",
            heavy=False,
        ),
        Job(
            "names-npm",
            'rm -rf $W/npm; mkdir $W/npm; echo "{}" >$W/npm/package.json',
            f"cd $W/npm && {npm} install --offline --no-audit --no-fund --ignore-scripts --loglevel=error"
            " $M/many-1.0.0.tgz",
        ),
        Job(
            "names-pip",
            "rm -rf $W/pip",
            f"{python} -m pip install -q --disable-pip-version-check --no-index --no-deps --ignore-installed"
            " --no-warn-script-location --prefix $W/pip $M/many-1.0-py3-none-any.whl",
        ),
        Job("names-make", "rm -rf $W/c; cp -r $M/c $W/c", "make -s -j2 -C $W/c"),
        Job(
            "names-python",
            "true",
            "for n in $(seq 100); do /usr/bin/env python3 -I -c pass; done",
            heavy=False,
        ),
    )


class Wrap:
    """One subject's wrap, for as long as the block runs."""

    def __init__(self, name: str, rules: FileRules, root: Path, tools: tuple[Path, ...]) -> None:
        self.name = name
        self._root = root
        self._places = {"memory": root / "memory" / name, "disk": root / "disk" / name}
        state = root / "disk" / f"state-{name}"
        for place in (*self._places.values(), state):
            place.mkdir(parents=True)
        shown = [SandboxBindMount(str(place), str(place)) for place in self._places.values()]
        shown += [SandboxBindMount(str(path), str(path), True) for path in (root / "memory/material", *tools)]
        self._backend: Backend = from_name("native")
        self._running: Running = self._backend.launch(
            SandboxSpec(
                "bench", "default", "", tuple(shown),
                home=str(state / "workspaces/default/home"), state_dir=str(state), user_home=os.path.expanduser("~"),
                command=(sys.executable,), search_path=PATH, file_rules=rules,
            )
        )  # fmt: skip

    def close(self) -> None:
        self._backend.destroy(self._running)

    def run(self, argv: tuple[str, ...], on_disk: bool = False) -> str:
        """What it prints. RuntimeError when it fails."""
        place = str(self._places["disk" if on_disk else "memory"])
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{PATH}",
            "HOME": self._running.inside.home, "TMPDIR": self._running.inside.tmpdir,
            "M": str(self._root / "memory/material"), "W": place, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*", "PYTHONDONTWRITEBYTECODE": "",
        }  # fmt: skip
        out, errors, status = bytearray(), bytearray(), None
        command = Command(argv, environment, place, timeout=JOB_SECONDS, stdin=b"")
        for event in self._backend.exec(self._running, command):
            match event:
                case Stdout(data):
                    out += data
                case Stderr(data):
                    errors += data
                case Exit(code):
                    status = code
        if status != 0:
            raise RuntimeError(
                f"{argv[-1][:120]} ended with {status}: {errors.decode(errors='replace')[-300:]}"
            )
        return out.decode()

    def timed(self, job: Job) -> float:
        self.run(("/bin/sh", "-c", job.before), job.on_disk)
        said = self.run((sys.executable, "-I", "-c", TIMED, "/bin/sh", "-ec", job.script), job.on_disk)
        return float(said.split()[-1])

    def create(self, count: int) -> float:
        """Microseconds for each of so many new files."""
        place = str(self._places["memory"] / "new")
        self.run(("rm", "-rf", place))
        return float(self.run((sys.executable, "-I", "-c", CREATE, place, str(count))))

    def open_many(self, count: int) -> None:
        """So many files, many of them for the first time and some refused."""
        self.run((sys.executable, "-I", "-c", MANY, str(self._places["memory"] / "many"), str(count)))

    def denies(self) -> bool:
        """Whether a denied name cannot be created: without that there is nothing to measure."""
        return self.run(("/bin/sh", "-c", "(: >$W/.env) 2>/dev/null && rm $W/.env && echo made; true")) == ""

    def supervisor(self) -> int:
        """The process id of the supervisor: not of one in reserve, which has started nothing."""
        for pid in process_tree(os.getpid(), without=-1):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if SOURCES.encode() in words and Path(f"/proc/{pid}/task/{pid}/children").read_text():
                return pid
        raise RuntimeError("there is no supervisor")


def say(figure: str, subject: str = "", value: float = 0.0, problem: str = "") -> None:
    """One line for whoever started this."""
    sys.stdout.write(
        json.dumps({"figure": figure, "subject": subject, "value": value, "problem": problem}) + "\n"
    )
    sys.stdout.flush()


def measure(root: Path, rounds: int, heavy: int, operations: int) -> None:
    """Everything, in turns; the first round of each figure warms up and is not said."""
    node = find_node()
    tools = tuple(path for path in {Path(sys.prefix), Path(node.binary).parents[1]} if path.parts[1] != "usr")
    wraps: list[Wrap] = []
    try:
        for name, rules in SUBJECTS.items():
            wraps.append(Wrap(name, rules, root, tools))
        if wraps[0].denies() or not wraps[1].denies():
            raise RuntimeError("the file rules are not as they should be: there is nothing to compare")
        for job in jobs(sys.executable, " ".join(node.npm)):
            attempt(job.figure, wraps, heavy if job.heavy else rounds, partial(Wrap.timed, job=job))
        attempt("names-create", wraps, rounds, lambda wrap: wrap.create(CREATES))
        measure_memory(wraps[1], operations)
    finally:
        for wrap in wraps:
            wrap.close()


def attempt(figure: str, wraps: Sequence[Wrap], rounds: int, take: Callable[[Wrap], float]) -> None:
    """One figure of every wrap, in turns. What fails costs this figure alone."""
    try:
        for number in range(-1, rounds):
            for wrap in wraps if number % 2 else reversed(wraps):
                value = take(wrap)
                if number >= 0:
                    say(figure, wrap.name, value)
    except RuntimeError as error:
        say(figure, problem=str(error))


def measure_memory(wrap: Wrap, operations: int) -> None:
    """The supervisor's memory after so many operations, and how much it grew since it was warm; in MB."""
    try:
        wrap.open_many(WARM)
        pid = wrap.supervisor()
        before = resident(pid)
        wrap.open_many(operations)
        after = resident(pid)
        say("names-memory", "gateway", after / 1e6)
        say("names-growth", "gateway", (after - before) / 1e6)
    except RuntimeError as error:
        say("names-memory", problem=str(error))


def main() -> int:
    """Mounts a file system in memory, makes the material, measures, and leaves nothing."""
    root = Path(sys.argv[1])
    rounds, heavy, operations = map(int, sys.argv[2:])
    memory = root / "memory"
    memory.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "mode=755,size=2g", "tmpfs", str(memory)), check=True)
    try:
        (memory / "material").mkdir()
        make_material(memory / "material")
        measure(root, rounds, heavy, operations)
    except (RuntimeError, GatewayError) as error:
        sys.exit(str(error))
    finally:
        shutil.rmtree(root / "disk", ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
