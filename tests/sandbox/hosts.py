"""Hosts in small: directories with the files of a kernel, a distribution and a container runtime, for the probe."""

from collections.abc import Mapping
from pathlib import Path

from sandbox.probing.host_files import Host

# /proc/self/status of an ordinary process, and of one that may do everything.
ORDINARY = "Name:\tpython\nCapEff:\t0000000000000000\nNoNewPrivs:\t0\nSeccomp:\t0\n"
CAPABLE = ORDINARY.replace("CapEff:\t0000000000000000", "CapEff:\t000001ffffffffff")
FILTERED = ORDINARY.replace("Seccomp:\t0", "Seccomp:\t2")

DEBIAN = 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nID=debian\nVERSION_ID="12"\n'
UBUNTU = 'NAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n'


def host_with(root: Path, files: Mapping[str, str], *, administrator: bool = False) -> Host:
    """A host below `root` with these files; a path that ends in "/" is a directory, one in "*" a program."""
    for path, text in files.items():
        place = root / path.lstrip("/").rstrip("*")
        if path.endswith("/"):
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        if path.endswith("*"):
            place.chmod(0o755)
    return Host(str(root), administrator)
