"""Which Linux distribution this is, and its command that installs a package. It reads os-release and starts nothing."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

# os-release(5): the first that exists counts.
OS_RELEASE = ("etc/os-release", "usr/lib/os-release")
# Of a file of the host's own; a bound for whatever else may stand there.
READ_LIMIT = 64 << 10
# A system that is an image: packages are layered onto it (ostree(1)).
OSTREE_BOOTED = "run/ostree-booted"

# ID or a word of ID_LIKE -> command before the package names. The first line that fits counts, so what is derived
# stands before what it is derived from.
INSTALL: tuple[tuple[str, str], ...] = (
    ("debian", "apt-get install"),
    ("ubuntu", "apt-get install"),
    ("fedora", "dnf install"),
    ("rhel", "dnf install"),
    ("centos", "dnf install"),
    ("suse", "zypper install"),
    ("opensuse", "zypper install"),
    ("opensuse-leap", "zypper install"),
    ("opensuse-tumbleweed", "zypper install"),
    ("sles", "zypper install"),
    ("arch", "pacman -S"),
    ("manjaro", "pacman -S"),
    ("alpine", "apk add"),
    ("postmarketos", "apk add"),
    ("wolfi", "apk add"),
    ("chimera", "apk add"),
    ("void", "xbps-install -S"),
    ("gentoo", "emerge"),
    ("solus", "eopkg install"),
    ("mageia", "dnf install"),
    ("openmandriva", "dnf install"),
    ("azurelinux", "tdnf install"),
    ("mariner", "tdnf install"),
    ("photon", "tdnf install"),
)
# Commands that stand in for one that the system does not have, oldest systems last.
STAND_INS: Mapping[str, tuple[str, ...]] = {"dnf": ("microdnf", "yum")}
# Where it is called otherwise: (command, package) -> name.
PACKAGE_NAMES: Mapping[tuple[str, str], str] = {
    ("emerge", "bubblewrap"): "sys-apps/bubblewrap",
    ("emerge", "socat"): "net-misc/socat",
}
# Distributions whose configuration is a text: nothing is installed by a command for good.
DECLARED: Mapping[str, str] = {
    "nixos": "add pkgs.{} to environment.systemPackages and run nixos-rebuild switch",
    "guix": "add {} to the packages of the system configuration and run guix system reconfigure",
}
PROGRAM_FOLDERS = ("usr/bin", "bin", "usr/sbin", "sbin", "run/current-system/sw/bin")
# What an ordinary user puts before a command for root, in this order.
ELEVATIONS = ("sudo", "doas")


@dataclass(frozen=True, slots=True)
class Distribution:
    """`identifiers`: ID, then the words of ID_LIKE; empty when nothing says. `root`: the directory it was read from.

    `administrator`: whether commands are run by root.
    """

    identifiers: tuple[str, ...] = ()
    root: str = "/"
    administrator: bool = False

    def install_command(self, packages: Sequence[str]) -> str:
        """What to do to have these packages, in the words of this distribution."""
        for identifier in self.identifiers:
            if identifier in DECLARED:
                return " ".join(DECLARED[identifier].format(package) for package in packages)
        manager = self._manager()
        if not manager:
            return f"install {' and '.join(packages)}"
        program = manager.partition(" ")[0]
        names = [PACKAGE_NAMES.get((program, package), package) for package in packages]
        return self.as_root(f"{manager} {' '.join(names)}")

    def as_root(self, *commands: str) -> str:
        """Commands for root, one after the other, as the present user has to type them."""
        if self.administrator:
            return " && ".join(commands)
        for program in ELEVATIONS:
            if self._has_program(program):
                return " && ".join(f"{program} {command}" for command in commands)
        return f"as root: {' && '.join(commands)}"

    def _manager(self) -> str:
        """The installing command; without a known name, that of a package manager that is there."""
        if os.path.lexists(os.path.join(self.root, OSTREE_BOOTED)) and self._has_program("rpm-ostree"):
            return "rpm-ostree install"
        by_name = dict(INSTALL)
        for identifier in self.identifiers:
            if identifier in by_name:
                return self._present(by_name[identifier])
        for command in dict.fromkeys(by_name.values()):
            if self._has_program(command.partition(" ")[0]):
                return command
        return ""

    def _present(self, command: str) -> str:
        program, _, rest = command.partition(" ")
        if not self._has_program(program):
            for other in STAND_INS.get(program, ()):
                if self._has_program(other):
                    return f"{other} {rest}"
        return command

    def _has_program(self, name: str) -> bool:
        return any(os.access(os.path.join(self.root, folder, name), os.X_OK) for folder in PROGRAM_FOLDERS)


def read_distribution(root: str = "/", *, administrator: bool = False) -> Distribution:
    """The distribution whose files lie below `root`."""
    for name in OS_RELEASE:
        with suppress(OSError), open(os.path.join(root, name), "rb") as file:
            fields = parse_os_release(file.read(READ_LIMIT).decode(errors="replace"))
            names = (fields.get("ID", ""), *fields.get("ID_LIKE", "").split())
            return Distribution(tuple(name.lower() for name in names if name), root, administrator)
    return Distribution((), root, administrator)


def parse_os_release(text: str) -> dict[str, str]:
    """NAME=value lines, the value perhaps in quotes (os-release(5)); what is neither is passed over."""
    fields = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            fields[name] = value
    return fields
