"""Whether the kernel has killed for want of memory: its counters, before and after. It limits nothing."""

import re
from dataclasses import dataclass, field

CGROUPS = "/sys/fs/cgroup"
OWN_CGROUP = "/proc/self/cgroup"
VMSTAT = "/proc/vmstat"
# Of either file; they have some hundred short lines at most.
SIZE_LIMIT = 64 << 10


def oom_kills(cgroups: str = CGROUPS, own: str = OWN_CGROUP, vmstat: str = VMSTAT) -> int:
    """Kills so far: in this process's cgroup, which its commands share (memory.events, cgroup v2), and on the whole
    machine (vmstat) where that says nothing. 0 where nothing counts them, as on macOS."""
    place = re.search(r"^0::(/.*)$", _text(own), re.MULTILINE)
    counts = _text(f"{cgroups}{place[1].rstrip('/')}/memory.events") if place else ""
    found = re.search(r"^oom_kill (\d+)$", counts, re.MULTILINE)
    if found is None:
        found = re.search(r"^oom_kill (\d+)$", _text(vmstat), re.MULTILINE)
    return int(found[1]) if found else 0


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(SIZE_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""


@dataclass(frozen=True, slots=True)
class OomWatch:
    """Looks at the counter when it is made, and again when it is asked."""

    before: int = field(default_factory=oom_kills)

    def happened(self) -> bool:
        """Whether something was killed since. Together with a SIGKILL that nobody here sent that is good evidence."""
        return oom_kills() > self.before
