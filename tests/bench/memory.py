"""Memory of a running subject, as Linux accounts for it: proportional set size over all its processes."""

import threading
from pathlib import Path

from tests.bench.subjects import Subject
from tests.bench.toolchain import Unavailable


def pause(seconds: float) -> None:
    """Between two samples there is nothing to wait for but time."""
    threading.Event().wait(seconds)


def process_tree(root: int, without: int) -> list[int]:
    """The process ids of `root` and everything below it, less the subtree `without`. Linux."""
    below: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        below.setdefault(int(fields[1]), []).append(int(folder.name))
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        if pid != without:
            found.append(pid)
            todo.extend(below.get(pid, ()))
    return found


def memory(subject: Subject) -> int:
    """The subject's proportional set size in bytes, over all its processes. Linux."""
    total = 0
    for pid in process_tree(subject.pid, subject.holder):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError as error:
            raise Unavailable(f"no memory figures of process {pid}: {error}") from error
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return total


def resident(pid: int) -> int:
    """The resident set of one process in bytes. Linux."""
    return _of_status(pid, "VmRSS:")


def highest_resident(pid: int) -> int:
    """The largest it has been, since it began or `forget_highest`. Linux."""
    return _of_status(pid, "VmHWM:")


def forget_highest(pid: int) -> None:
    """From now on the largest counts anew (proc(5), clear_refs). Linux."""
    try:
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    except OSError as error:
        raise Unavailable(f"no memory figures of process {pid}: {error}") from error


def _of_status(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
    except (OSError, StopIteration) as error:
        raise Unavailable(f"no memory figures of process {pid}: {error}") from error
