"""The tables of system-call numbers: what can be said of them without the kernel's own (the verdict tables of
`test_seccomp.py` write every number out again)."""

import os
import platform
import subprocess
import sys

import pytest

from sandbox.system_calls import ARCHITECTURES, CALLS, LAST_KNOWN_CALL, numbers


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_numbers_of_one_machine_differ_and_are_known(machine: str) -> None:
    known = numbers(machine)
    assert len(set(known.values())) == len(known) > 40
    assert max(known.values()) <= LAST_KNOWN_CALL


@pytest.mark.parametrize("machine", ["", "i686", "armv7l", "riscv64", "amd64", "X86_64"])
def test_no_numbers_for_a_machine_without_a_table(machine: str) -> None:
    assert numbers(machine) == {}


def test_numbers_are_the_same_from_424_on() -> None:
    """Since Linux 5.1 every architecture gives a new call the same number."""
    assert all(
        x86 == arm
        for x86, arm in CALLS.values()
        if x86 is not None and arm is not None and max(x86, arm) >= 424
    )


def test_arm64_has_no_calls_without_a_directory() -> None:
    """asm-generic has only the *at form; what x86-64 has besides is from before that."""
    missing = {name for name, (_, arm) in CALLS.items() if arm is None}
    old = {"open", "creat", "rename", "link", "symlink", "mknod", "mkdir"}
    assert missing == {*old, "iopl", "ioperm"}


def test_the_kernel_agrees(tmp_path: os.PathLike[str]) -> None:
    """Calls whose result shows which call it was, made by number."""
    number = numbers(platform.machine())
    program = f"""
import ctypes, os
libc = ctypes.CDLL(None)
os.chdir({os.fspath(tmp_path)!r})
os.umask(0o123)
print(oct(libc.syscall({number["umask"]}, 0o22)))
libc.syscall({number["mkdirat"]}, -100, b"folder", 0o777)
libc.syscall({number["symlinkat"]}, b"target", -100, b"link")
descriptor = libc.syscall({number["openat"]}, -100, b"file", os.O_CREAT | os.O_WRONLY, 0o644)
os.write(descriptor, b"four")
libc.syscall({number["truncate"]}, b"file", ctypes.c_long(2))
libc.syscall({number["linkat"]}, -100, b"file", -100, b"second", 0)
libc.syscall({number["mknodat"]}, -100, b"pipe", 0o010644, 0)
libc.syscall({number["renameat"]}, -100, b"link", -100, b"moved")
libc.syscall({number["renameat2"]}, -100, b"pipe", -100, b"folder", 2)
for name in sorted(os.listdir(".")):
    found = os.lstat(name)
    print(name, oct(found.st_mode), found.st_nlink, found.st_size if os.path.isfile(name) else "")
"""
    done = subprocess.run((sys.executable, "-I", "-c", program), capture_output=True, text=True, check=True)
    said = [line.split() for line in done.stdout.splitlines()]
    assert said[0] == ["0o123"]
    assert [(line[0], line[1]) for line in said[1:]] == [
        ("file", "0o100644"),
        ("folder", "0o10644"),
        ("moved", "0o120777"),
        ("pipe", "0o40755"),
        ("second", "0o100644"),
    ]
    assert [line[2:] for line in said if line[0] in {"file", "second"}] == [["2", "2"]] * 2
