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
