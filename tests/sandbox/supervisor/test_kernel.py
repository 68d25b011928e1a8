"""The system calls without a name in Python: what they return and how they fail."""

import errno
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.supervisor import kernel
from sandbox.system_calls import CALLS
from tests.sandbox.wrapping import PYTHON, SOURCES

PIN = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


def test_numbers_are_those_of_the_table() -> None:
    for name, row in kernel.NUMBERS.items():
        if name in CALLS:
            assert CALLS[name] == row


def test_paths_stay_below_the_pinned_root(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "away").symlink_to("/a")
    (tmp_path / "up").symlink_to("../../../../a")
    root = os.open(tmp_path, PIN)
    try:
        for path in (b"/a/b", b"away/b", b"up/b", b"/../../a/b", b"a/../../a/b"):
            found = kernel.openat2(root, path, PIN, kernel.IN_ROOT | kernel.NO_MAGIC_LINKS)
            assert os.readlink(f"/proc/self/fd/{found}") == str(tmp_path / "a/b")
            os.close(found)
        with pytest.raises(OSError, match="symbolic") as refused:
            kernel.openat2(root, b"away/b", PIN, kernel.NO_SYMLINKS)
        assert refused.value.errno == errno.ELOOP
        with pytest.raises(FileNotFoundError):
            kernel.openat2(root, b"absent", PIN, kernel.IN_ROOT)
    finally:
        os.close(root)


def test_rename_with_flags(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    folder = os.open(tmp_path, PIN)
    try:
        with pytest.raises(FileExistsError):
            kernel.rename(folder, b"a", folder, b"b", 1)
        kernel.rename(folder, b"a", folder, b"b", 2)
        assert (tmp_path / "a").read_text() == "b"
        kernel.rename(folder, b"a", folder, b"c", 0)
    finally:
        os.close(folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "c"]


@pytest.mark.parametrize(
    ("path", "is_proc"), [("/proc", True), ("/proc/self/status", True), ("/", False), ("/dev/null", False)]
)
def test_procfs_is_told_from_others(path: str, is_proc: bool) -> None:
    descriptor = os.open(path, os.O_PATH)
    try:
        assert kernel.is_process_file_system(descriptor) is is_proc
    finally:
        os.close(descriptor)


def test_sockets() -> None:
    with (
        socket.socket(socket.AF_UNIX) as local,
        socket.socket(socket.AF_INET) as inet,
        open("/dev/null") as file,
    ):
        assert kernel.socket_domain(local.fileno()) == socket.AF_UNIX
        assert kernel.socket_domain(inet.fileno()) == socket.AF_INET
        with pytest.raises(OSError) as refused:
            kernel.socket_domain(file.fileno())
        assert refused.value.errno == errno.ENOTSOCK
        with pytest.raises(FileNotFoundError):
            kernel.connect(local.fileno(), b"\1\0/absent/socket\0")


def test_descriptor_of_another_process(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = subprocess.Popen(("/bin/cat",), stdin=reader, stdout=subprocess.DEVNULL)
    os.close(reader)
    process = os.pidfd_open(child.pid)
    try:
        copy = kernel.take_descriptor(process, 0)
        assert os.fstat(copy).st_ino == os.fstat(writer).st_ino
        assert not os.get_inheritable(copy)
        os.close(copy)
        with pytest.raises(OSError) as refused:
            kernel.take_descriptor(process, 900)
        assert refused.value.errno == errno.EBADF
    finally:
        os.close(process)
        os.close(writer)
        child.wait()


DROP = """
import sys
sys.path.insert(0, sys.argv[1])
from sandbox.supervisor import kernel
kernel.drop_capabilities()
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith(("Cap", "NoNewPrivs"))))
"""


def test_capabilities_are_given_up_for_good() -> None:
    told = subprocess.run(
        (PYTHON, "-I", "-S", "-c", DROP, str(SOURCES)), capture_output=True, text=True, check=True
    )
    inherited, permitted, effective, bounding, ambient, no_new = told.stdout.split()
    assert {inherited, permitted, effective, ambient} == {"0" * 16}
    assert bounding == "0" * 16 or os.geteuid() != 0
    assert no_new == "1"


def test_answers_fail_on_what_is_no_listener() -> None:
    with open("/dev/null", "rb") as file:
        assert not kernel.is_valid(file.fileno(), 1)
        assert not kernel.wake_in_place(file.fileno())
        with pytest.raises(OSError):
            kernel.receive(file.fileno())
        with pytest.raises(OSError):
            kernel.Processor().lend(file.fileno(), 1, os.getpid(), file.fileno(), True)


def lend(processor: kernel.Processor, thread: int, times: int) -> None:
    """So many descriptors for a thread that waits for none: it is moved and moved back all the same."""
    theirs = os.sched_getaffinity(thread)
    with open("/dev/null", "rb") as file:
        for _ in range(times):
            with pytest.raises(OSError):
                processor.lend(file.fileno(), 1, thread, file.fileno(), True)
            assert os.sched_getaffinity(thread) == theirs


@pytest.fixture
def sleeping() -> Iterator[int]:
    """A process that waits for its end."""
    child = subprocess.Popen(("/bin/cat",), stdin=subprocess.PIPE)
    yield child.pid
    child.communicate()


FEW, ROUND = 8, 64


@pytest.mark.parametrize("times", [1, FEW, FEW + ROUND], ids=["once", "few", "a whole round"])
def test_processors_are_given_back(sleeping: int, times: int) -> None:
    before = os.sched_getaffinity(0)
    lend(kernel.Processor(), sleeping, times)
    assert os.sched_getaffinity(0) == before


def test_who_makes_few_files_finds_us_on_no_processor_of_our_own(sleeping: int) -> None:
    """A compiler after a checkout: we would wait for the processor that the checkout left us on."""
    before, processor = os.sched_getaffinity(0), kernel.Processor()
    lend(processor, sleeping, FEW + 1)
    assert len(os.sched_getaffinity(0)) == 1
    with open("/dev/null", "rb") as file, pytest.raises(OSError):
        processor.lend(file.fileno(), 1, os.getpid(), file.fileno(), True)
    assert os.sched_getaffinity(0) == before


def test_threads_that_are_counted_are_bounded() -> None:
    processor = kernel.Processor()
    for thread in range(1_000_000, 1_001_000):  # of none that is there
        with open("/dev/null", "rb") as file, pytest.raises(OSError):
            processor.lend(file.fileno(), 1, thread, file.fileno(), True)
    assert len(processor._taken) <= 256


def test_nothing_is_missing_here() -> None:
    before = os.listdir("/proc/self/fd")
    assert kernel.find_missing() is None
    assert os.listdir("/proc/self/fd") == before
