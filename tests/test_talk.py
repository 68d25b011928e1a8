"""What is said on stderr is one safe line, whatever stands in it."""

import subprocess
import sys

PROGRAM = """
import logging

from gateway.talk import log_to_stderr
log_to_stderr()
log = logging.getLogger("gateway.anything")
log.info("not said")
log.warning("a path %s", "/tmp/\\x1b[31mred\\nand another line")
try:
    raise ValueError("\\x1b]0;title\\x07")
except ValueError:
    log.exception("it failed")
"""


def test_lines_are_safe() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    first, *rest = done.stderr.splitlines()
    assert first.startswith("agent-gateway: a path /tmp/")
    assert "and another line" in first
    assert rest[0] == "agent-gateway: it failed"
    assert "ValueError" in done.stderr
    assert "\x1b" not in done.stderr
    assert "\x07" not in done.stderr
    assert "not said" not in done.stderr


def test_own_loggers_only_add_one_handler() -> None:
    """Nothing is said twice when a process sets it up twice."""
    program = PROGRAM.replace("log_to_stderr()\nlog =", "log_to_stderr()\nlog_to_stderr()\nlog =")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.count("a path") == 1
