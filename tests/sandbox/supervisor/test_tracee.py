"""What is looked up of a waiting process: memory, directories, descriptors, umask; and when it stops being that one."""

import ctypes
import errno
import mmap
import os
import resource
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sandbox.supervisor import tracee
from sandbox.supervisor.tracee import PATH_LIMIT, Stale, Tracee


@pytest.fixture
def ourselves() -> Iterator[Tracee]:
    tracee = Tracee(os.getpid(), os.open("/proc/self", os.O_PATH | os.O_DIRECTORY))
    yield tracee
    tracee.close()


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


def test_descriptors_are_taken_from_the_thread_itself(ourselves: Tracee, tmp_path: Path) -> None:
    with open(tmp_path / "f", "w") as file:
        copy = ourselves.take(file.fileno())
        assert os.path.samestat(os.fstat(copy), os.fstat(file.fileno()))
        os.close(copy)
    with pytest.raises(OSError) as refused:
        ourselves.take(9999)
    assert refused.value.errno == errno.EBADF


def test_before_threads_could_be_held_the_process_has_to_do(
    ourselves: Tracee, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flag no kernel knows stands for one that is too new for this one. A thread whose descriptors are not its
    process's is refused, or another file would be taken."""
    monkeypatch.setattr(tracee, "PIDFD_THREAD", 1 << 30)
    ours = os.open(os.devnull, os.O_RDONLY)
    os.close(ourselves.take(ours))
    pipe = os.pipe()
    begun, over = threading.Event(), threading.Event()
    numbers = []

    def apart() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.unshare(0x400) == 0  # CLONE_FILES
        os.dup2(pipe[0], ours)
        numbers.append(threading.get_native_id())
        begun.set()
        over.wait()

    thread = threading.Thread(target=apart)
    thread.start()
    begun.wait()
    other = Tracee(numbers[0], os.open(f"/proc/{numbers[0]}", os.O_PATH | os.O_DIRECTORY))
    try:
        with pytest.raises(OSError) as refused:
            other.take(ours)
        assert refused.value.errno == errno.EBADF
    finally:
        other.close()
        over.set()
        thread.join()
        for number in (ours, *pipe):
            os.close(number)


@pytest.mark.parametrize("limit", [1 << 20, resource.RLIM_INFINITY])
def test_limit_of_file_sizes(limit: int) -> None:
    with subprocess.Popen(
        ("/bin/cat",),
        stdin=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1)),
    ) as child:
        found = Tracee(child.pid, os.open(f"/proc/{child.pid}", os.O_PATH | os.O_DIRECTORY))
        assert found.file_size_limit() == (tracee.NO_LIMIT if limit == resource.RLIM_INFINITY else limit)
        found.exceed_file_size()
        assert child.wait() == -signal.SIGXFSZ
        with pytest.raises(Stale):
            found.file_size_limit()
        found.exceed_file_size()  # nobody is there
        found.close()
