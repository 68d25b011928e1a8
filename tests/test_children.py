"""Whatever this process was started with, it hears of the end of its children."""

import signal
import subprocess
import sys

import pytest

from gateway.signals import Signals

SAYS = """
import signal, subprocess
from gateway.children import mind_children, minded
from gateway.signals import Signals
before = subprocess.run(["false"], check=False).returncode
mind_children()
after = subprocess.run(["false"], check=False).returncode
print(before, after, sorted(map(int, minded())), signal.SIGCHLD in Signals().ignored)
"""


@pytest.mark.parametrize(
    ("trap", "told"), [("", "1 1 [] False"), ("trap '' CHLD; ", f"0 1 [{int(signal.SIGCHLD)}] True")]
)
def test_children_are_minded(trap: str, told: str) -> None:
    command = ("bash", "-c", f'{trap}exec "$@"', "bash", sys.executable, "-c", SAYS)
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{told}\n"


def test_nothing_is_told_where_nothing_was_ignored() -> None:
    assert signal.SIGCHLD not in Signals().ignored
