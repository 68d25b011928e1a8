"""A host as its files show it."""

import os
from pathlib import Path

from sandbox.probing.host_files import READ_LIMIT, Host
from tests.sandbox.hosts import CAPABLE, FILTERED, ORDINARY, host_with


def test_what_is_not_there_is_empty(tmp_path: Path) -> None:
    host = Host(str(tmp_path))
    assert (host.read("/proc/x"), host.variable("X"), host.status("Seccomp")) == ("", "", "")
    assert (host.has("/proc/x"), host.capable(), host.filtered) == (False, False, False)


def test_environment(tmp_path: Path) -> None:
    host = host_with(tmp_path, {"/proc/self/environ": "A=1\0AB=2\0B=x=y\0"})
    assert [host.variable(name) for name in ("A", "AB", "B", "C")] == ["1", "2", "x=y", ""]


def test_status(tmp_path: Path) -> None:
    assert not host_with(tmp_path, {"/proc/self/status": ORDINARY}).capable()
    assert host_with(tmp_path, {"/proc/self/status": CAPABLE}).capable()
    assert host_with(tmp_path, {"/proc/self/status": FILTERED}).filtered


def test_long_file_is_cut(tmp_path: Path) -> None:
    host = host_with(tmp_path, {"/proc/x": "x" * (READ_LIMIT + 1)})
    assert len(host.read("/proc/x")) == READ_LIMIT


def test_dangling_link_is_something(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("nowhere")
    assert Host(str(tmp_path)).has("/x")


def test_this_process() -> None:
    assert Host().status("Pid") == str(os.getpid())
    assert Host().variable("PATH") != ""
