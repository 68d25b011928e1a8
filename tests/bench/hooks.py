"""The hook's round trip inside a session, as an agent has it: its shell line, with the start of its processes."""

import json
import statistics
import tempfile
from pathlib import Path
from typing import Final

from tests.bench.measures import Results, Scale
from tests.fakes.hook_inputs import hook_input
from tests.fakes.product import PYTHON, Product

HOOK: Final = "guardrails-hook"
# Calls of one round, beside a few that warm up what is read from the disk.
CALLS: Final = 50
WARM: Final = 5

# Runs inside: the line of the managed settings, with a call that is allowed. Prints seconds, one number a line.
SCRIPT: Final = f"""
import json, subprocess, sys, time
settings = json.load(open("/etc/claude-code/managed-settings.json"))
line = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
call = sys.stdin.buffer.read()
for number in range({CALLS + WARM}):
    begun = time.perf_counter()
    done = subprocess.run(line, shell=True, input=call, capture_output=True)
    took = time.perf_counter() - begun
    if (done.returncode, done.stdout) != (0, b""):
        sys.exit(done.stderr.decode())
    if number >= {WARM}:
        print(took)
"""


def measure_hook(scale: Scale, results: Results) -> None:
    """Milliseconds, the median of each round."""
    call = json.dumps(hook_input("Bash", {"command": "git status && ls -l src | head"}))
    for _ in range(scale.rounds):
        with tempfile.TemporaryDirectory(prefix="agw-bench-") as folder:
            product = Product(Path(folder, "machine"), "on")
            done = product.run(PYTHON, "-I", "-c", SCRIPT, text=call)
        if done.status:
            results.problems.append(f"{HOOK}, gateway: {done.stderr.strip()}")
            return
        results.add(HOOK, "gateway", statistics.median(map(float, done.stdout.split())) * 1e3)
