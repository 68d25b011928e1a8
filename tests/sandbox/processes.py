"""Finding processes by what stands in their command line, waiting for their end without a clock, crowding this one."""

import os
import resource
import select
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def many_descriptors() -> Iterator[None]:
    """The next descriptor has a number that select() does not know."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    held: list[int] = []
    try:
        while not held or held[-1] < 1100:
            held.append(os.open("/dev/null", os.O_RDONLY))
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
