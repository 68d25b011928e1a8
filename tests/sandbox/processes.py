"""Finding processes by what stands in their command line, and waiting for their end without a clock."""

import os
import select
from pathlib import Path

from tests.sandbox.wrapping import PATIENCE


def processes(mark: str) -> list[int]:
    """The processes whose command line holds a mark."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                text = Path("/proc", name, "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in text:
                found.append(int(name))
    return found


def wait_for_end(numbers: list[int]) -> None:
    """Waits until processes are gone: their descriptors become readable."""
    for number in numbers:
        try:
            descriptor = os.pidfd_open(number)
        except ProcessLookupError:
            continue
        try:
            assert select.select([descriptor], [], [], PATIENCE)[0], f"{number} lives"
        finally:
            os.close(descriptor)
