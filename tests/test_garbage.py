"""A process that serves collects seldom, and never what start-up left."""

import subprocess
import sys

PROGRAM = """
import gc
from gateway.garbage import settle_garbage
settle_garbage()
print(gc.get_threshold()[0], gc.isenabled(), gc.get_freeze_count() > 0)
"""


def test_settled() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["10000", "True", "True"]
