"""The host as its files show it: settings of the kernel, this process's status, the distribution. It runs nothing."""

import os
from contextlib import suppress
from dataclasses import dataclass

from sandbox.probing.distribution import read_distribution

# Of a file of the kernel's or the host's own; a bound for whatever else may stand there.
READ_LIMIT = 256 << 10
# linux/capability.h
CAP_SYS_ADMIN, CAP_SETFCAP = 21, 31


@dataclass(frozen=True, slots=True)
class Host:
    """The host as its files show it: `root` is the directory they lie below, `administrator` whether this is root."""

    root: str = "/"
    administrator: bool = False

    def at(self, path: str) -> str:
        """Where the host's absolute `path` lies."""
        return os.path.join(self.root, path.lstrip("/"))

    def read(self, path: str) -> str:
        """The text of a file; empty when there is none to be read."""
        with suppress(OSError), open(self.at(path), "rb") as file:
            return file.read(READ_LIMIT).decode(errors="replace")
        return ""

    def has(self, path: str) -> bool:
        """Whether something stands at the path."""
        return os.path.lexists(self.at(path))

    def variable(self, name: str, process: str = "self") -> str:
        """A variable of the environment a process was started with; empty when it is not set or not to be read."""
        for entry in self.read(f"/proc/{process}/environ").split("\0"):
            key, _, value = entry.partition("=")
            if key == name:
                return value
        return ""

    def status(self, field: str) -> str:
        """A line of /proc/self/status."""
        for line in self.read("/proc/self/status").splitlines():
            key, _, value = line.partition(":")
            if key == field:
                return value.strip()
        return ""

    def capable(self, capability: int = CAP_SYS_ADMIN) -> bool:
        """Whether this process has a capability; by default the one that what is forbidden to users is free to."""
        with suppress(ValueError):
            return bool(int(self.status("CapEff"), 16) >> capability & 1)
        return False

    @property
    def filtered(self) -> bool:
        """Whether this process already has a system-call filter, somebody else's."""
        return self.status("Seccomp") == "2"

    def as_root(self, *commands: str) -> str:
        """Commands for root, as the present user types them on this distribution."""
        return read_distribution(self.root, administrator=self.administrator).as_root(*commands)

    def install(self, *packages: str) -> str:
        """What installs packages here."""
        return read_distribution(self.root, administrator=self.administrator).install_command(packages)
