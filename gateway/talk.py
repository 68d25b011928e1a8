"""What the gateway's processes say on stderr: warnings and errors, one safe line each."""

import logging
import sys
from typing import Any

from gateway.policy.wording import printable, printable_lines


class _Formatter(logging.Formatter):
    """Lines in which nothing of a path, an error or a traceback can speak to the terminal."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        return printable_lines(super().formatException(ei))


def log_to_stderr() -> None:
    """Warnings and errors of every module."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("agent-gateway: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
