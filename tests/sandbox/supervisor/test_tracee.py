"""What is looked up of a waiting process: memory, directories, descriptors, umask; and when it stops being that one."""

import ctypes
import errno
import mmap
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.supervisor.tracee import KNOWN_LIMIT, PATH_LIMIT, Stale, Tracee, Tracees
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
def ourselves() -> Iterator[Tracee]:
    tracee = Tracee(os.getpid(), os.open("/proc/self", os.O_PATH | os.O_DIRECTORY))
    yield tracee
    tracee.close()


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


def test_paths_are_read_up_to_their_end(ourselves: Tracee) -> None:
    for length in (0, 1, 255, 256, 257, 4000, PATH_LIMIT - 1):
        text = ctypes.create_string_buffer(b"x" * length)
        assert ourselves.read_path(ctypes.addressof(text)) == b"x" * length
        assert ourselves.is_sure
    for length in (PATH_LIMIT, 5000):
        text = ctypes.create_string_buffer(b"x" * length)
        with pytest.raises(OSError) as refused:
            ourselves.read_path(ctypes.addressof(text))
        assert refused.value.errno == errno.ENAMETOOLONG


@pytest.mark.parametrize("address", [0, 1, 1 << 46, (1 << 64) - 4096, (1 << 64) - 1])
def test_no_memory_is_a_fault(ourselves: Tracee, address: int) -> None:
    with pytest.raises(OSError) as refused:
        ourselves.read_path(address)
    assert refused.value.errno == errno.EFAULT


def test_end_of_memory(ourselves: Tracee) -> None:
    """A path may end where the memory does; one without an end is a fault."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    start = libc.mmap(
        None, 8192, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
    )
    libc.munmap(start + 4096, 4096)
    ctypes.memmove(start + 4096 - 5, b"name\0", 5)
    assert ourselves.read_path(start + 4096 - 5) == b"name"
    assert ourselves.read(start + 4096 - 5, 5) == b"name\0"
    ctypes.memmove(start + 4096 - 5, b"names", 5)
    reads: tuple[Callable[[], bytes], ...] = (
        lambda: ourselves.read_path(start + 4096 - 5),
        lambda: ourselves.read(start + 4096 - 5, 6),
    )
    for read in reads:
        with pytest.raises(OSError) as refused:
            read()
        assert refused.value.errno == errno.EFAULT
    libc.munmap(start, 4096)


def test_directories_and_descriptors(ourselves: Tracee, tmp_path: Path) -> None:
    pinned = ourselves.working_directory()
    assert os.path.samestat(os.fstat(pinned), os.stat("."))
    os.close(pinned)
    with open(tmp_path / "f", "w") as file:
        pinned = ourselves.descriptor(file.fileno())
        assert os.path.samestat(os.fstat(pinned), os.fstat(file.fileno()))
        os.close(pinned)
    for number in (-1, 9999):
        with pytest.raises(OSError) as refused:
            ourselves.descriptor(number)
        assert refused.value.errno == errno.EBADF


def test_numbers(ourselves: Tracee) -> None:
    ourselves.status()
    assert ourselves.process == os.getpid()
    assert all(number > 0 for number in ourselves.inside)


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
