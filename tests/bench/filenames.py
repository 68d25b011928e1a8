"""What the file rules cost: everyday jobs in a wrap that judges names as they are created, against the same without.

Both wraps run in a process of their own (`filename_wraps`), in turns, on a file system in memory and on the checkout's
disk; this module starts it and reads what it says.
"""

import json
import os
import subprocess
import sys
import tempfile

from tests.bench.measures import Results, Scale
from tests.bench.processes import last_words
from tests.bench.subjects import Stage
from tests.bench.toolchain import CACHE, ROOT, Unavailable, find_program

# Figure, title, digits, and how often it may take what the same wrap without the rules takes.
FILENAMES: tuple[tuple[str, str, int, float], ...] = (
    ("names-clone", "git clone of 5,000 files in memory, s", 2, 3.3),
    ("names-clone-disk", "the same on the disk, s", 2, 1.6),
    ("names-npm", "npm install of 12,000 files, s", 2, 1.6),
    ("names-pip", "pip install of 1,500 modules with their bytecode, s", 2, 1.4),
    ("names-make", "make of 120 C files, s", 2, 1.12),
    ("names-python", "python -c pass × 100, s", 2, 1.1),
    ("names-grep", "grep over 5,000 files × 5, s", 2, 1.25),
    ("names-create", "creating one file in memory, µs", 1, 14.0),
)
MEMORY, GROWTH = "names-memory", "names-growth"
FILENAME_FIGURES = (*(figure for figure, *_ in FILENAMES), MEMORY, GROWTH)

# Rounds of jobs that take seconds each, at most.
HEAVY = 5
# Files made while the supervisor's memory is looked at: for a record, and for a look.
OPERATIONS, FEW_OPERATIONS = 1_000_000, 50_000


def measure_filenames(stage: Stage, scale: Scale, results: Results) -> None:
    """All of it. `Unavailable` where nothing can be mounted."""
    if sys.platform != "linux":
        raise Unavailable("rules for names that are created cost what Seatbelt costs elsewhere: Linux only")
    find_program("bwrap", "apt-get install bubblewrap")
    unshare = find_program("unshare", "apt-get install util-linux")
    own = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    heavy = min(scale.pairs, HEAVY)
    operations = OPERATIONS if scale.pairs > HEAVY else FEW_OPERATIONS
    CACHE.mkdir(parents=True, exist_ok=True)
    # Not below /tmp, which is the wrap's own: a bind there would make it a governed place.
    with tempfile.TemporaryDirectory(prefix="names-", dir=CACHE) as folder:
        argv = (
            unshare, *own, "--mount", "--propagation", "private", sys.executable, "-m", "tests.bench.filename_wraps",
            folder, *map(str, (scale.rounds, heavy, operations)),
        )  # fmt: skip
        log = stage.folder / "filenames.stderr"
        with (
            log.open("w") as stderr,
            subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=stderr, text=True) as child,
        ):
            assert child.stdout is not None
            for line in child.stdout:
                take(json.loads(line), results)
        if child.returncode:
            results.problems.append(f"filenames, gateway: {last_words(log.read_text(errors='replace'))}")
    results.notes.append(
        f"filenames: {operations:,} files were made or opened before the supervisor's memory was read"
    )


def take(said: dict[str, object], results: Results) -> None:
    """One figure, or why there is none."""
    figure, subject, value = str(said["figure"]), str(said["subject"]), said["value"]
    if said["problem"]:
        results.problems.append(f"{figure}, gateway: {said['problem']}")
    elif isinstance(value, int | float):
        results.add(figure, subject, float(value))
