"""The callers the supervisor knows: who is remembered, who is gone, whose umask is worn."""

import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from sandbox.supervisor.tracee import Stale
from sandbox.supervisor.tracees import KNOWN_LIMIT, Tracees
from tests.sandbox.wrapping import PYTHON

# Sets its umask when told to; a second thread, whose number it says, shares it.
UMASK = """
import _thread, os, sys
lock = _thread.allocate_lock()
lock.acquire()
_thread.start_new_thread(lock.acquire, ())
for line in sys.stdin:
    os.umask(int(line, 8))
    print(flush=True)
"""


@pytest.fixture
def tracees() -> Iterator[Tracees]:
    mask = os.umask(0o022)
    found = Tracees()
    yield found
    os.umask(mask)


class Other:
    """Another process, which sets its umask when told to."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            (PYTHON, "-I", "-S", "-c", UMASK), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.set(0o022)

    def set(self, mask: int) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{mask:o}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()


@pytest.fixture
def other() -> Iterator[Other]:
    found = Other()
    yield found
    found.process.communicate()


def test_one_that_is_gone_is_noticed(tracees: Tracees) -> None:
    child = subprocess.Popen(("/bin/cat",), stdin=subprocess.PIPE)
    tracee = tracees.find(child.pid)
    assert tracee.is_alive()
    child.communicate()
    assert not tracee.is_alive()
    looks: tuple[Callable[[], object], ...] = (
        tracee.working_directory,
        tracee.status,
        lambda: tracee.descriptor(0),
        lambda: tracee.read_path(4096),
        lambda: tracees.wear_mask(tracee),
    )
    for look in looks:
        with pytest.raises(Stale):
            look()
    tracees.forget(child.pid)
    with pytest.raises(Stale):
        tracees.find(child.pid)


def test_only_some_are_remembered(tracees: Tracees) -> None:
    before = len(os.listdir("/proc/self/fd"))
    children = [subprocess.Popen(("/bin/cat",), stdin=subprocess.PIPE) for _ in range(3)]
    for child in children:
        assert tracees.find(child.pid) is tracees.find(child.pid)
        child.communicate()
    assert len(tracees._known) == 3 <= KNOWN_LIMIT
    for child in children:
        tracees.forget(child.pid)
    assert len(os.listdir("/proc/self/fd")) == before + 1  # the root


def worn() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_umask_is_the_callers(tracees: Tracees, other: Other) -> None:
    tracee = tracees.find(other.process.pid)
    tracees.wear_mask(tracee)
    assert worn() == 0o022
    tracees.mask_changes(tracee, 0o077)  # as the call would be notified, before the kernel does it
    tracees.wear_mask(tracee)
    assert worn() == 0o077
    other.set(0o077)
    tracees.wear_mask(tracee)
    assert worn() == 0o077


def test_umask_of_somebody_who_shares_it(tracees: Tracees, other: Other) -> None:
    """Whoever shares a umask does not show yet what another one has asked for: it is not remembered until it does."""
    (thread,) = set(map(int, os.listdir(f"/proc/{other.process.pid}/task"))) - {other.process.pid}
    caller, sharer = tracees.find(other.process.pid), tracees.find(thread)
    tracees.wear_mask(sharer)
    tracees.mask_changes(caller, 0o027)  # notified, and not done yet
    tracees.wear_mask(sharer)
    assert worn() == 0o022
    other.set(0o027)
    tracees.wear_mask(sharer)
    assert worn() == 0o027


def test_umask_that_two_threads_change_is_never_remembered(tracees: Tracees, other: Other) -> None:
    (thread,) = set(map(int, os.listdir(f"/proc/{other.process.pid}/task"))) - {other.process.pid}
    caller, sharer = tracees.find(other.process.pid), tracees.find(thread)
    tracees.mask_changes(caller, 0o027)
    tracees.mask_changes(sharer, 0o077)
    for mask in (0o027, 0o077, 0o022):
        other.set(mask)
        for tracee in (caller, sharer):
            tracees.wear_mask(tracee)
            assert worn() == mask
