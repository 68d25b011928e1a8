"""The installing command of each distribution."""

from pathlib import Path

import pytest

from sandbox.probing.distribution import parse_os_release, read_distribution
from tests.sandbox.hosts import DEBIAN, UBUNTU, host_with

SILVERBLUE = {"/etc/os-release": "ID=fedora\n", "/run/ostree-booted": "", "/usr/bin/rpm-ostree*": ""}


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"/etc/os-release": DEBIAN}, "apt-get install bubblewrap socat"),
        ({"/etc/os-release": UBUNTU}, "apt-get install bubblewrap socat"),
        ({"/etc/os-release": 'ID=linuxmint\nID_LIKE="ubuntu debian"\n'}, "apt-get install bubblewrap socat"),
        ({"/etc/os-release": "ID=fedora\n"}, "dnf install bubblewrap socat"),
        ({"/etc/os-release": 'ID="rocky"\nID_LIKE="rhel centos fedora"\n'}, "dnf install bubblewrap socat"),
        ({"/etc/os-release": "ID=rhel\n", "/usr/bin/dnf*": ""}, "dnf install bubblewrap socat"),
        ({"/etc/os-release": "ID=centos\n", "/usr/bin/yum*": ""}, "yum install bubblewrap socat"),
        ({"/etc/os-release": "ID=rhel\n", "/usr/bin/microdnf*": ""}, "microdnf install bubblewrap socat"),
        (SILVERBLUE, "rpm-ostree install bubblewrap socat"),
        ({"/etc/os-release": 'ID="opensuse-leap"\nID_LIKE="suse opensuse"\n'}, "zypper install bubblewrap socat"),
        ({"/etc/os-release": "ID=sles\n"}, "zypper install bubblewrap socat"),
        ({"/etc/os-release": "ID=arch\n"}, "pacman -S bubblewrap socat"),
        ({"/etc/os-release": "ID=endeavouros\nID_LIKE=arch\n"}, "pacman -S bubblewrap socat"),
        ({"/etc/os-release": "ID=alpine\n"}, "apk add bubblewrap socat"),
        ({"/etc/os-release": "ID=gentoo\n"}, "emerge sys-apps/bubblewrap net-misc/socat"),
        ({"/etc/os-release": "ID=void\n"}, "xbps-install -S bubblewrap socat"),
        ({"/etc/os-release": "ID=azurelinux\n"}, "tdnf install bubblewrap socat"),
        ({"/usr/lib/os-release": DEBIAN}, "apt-get install bubblewrap socat"),
        ({"/etc/os-release": "ID=ours\n", "/usr/bin/zypper*": ""}, "zypper install bubblewrap socat"),
        ({"/usr/bin/pacman*": ""}, "pacman -S bubblewrap socat"),
        ({"/etc/os-release": "ID=ours\n", "/usr/bin/zypper": "not a program"}, "install bubblewrap and socat"),
        ({}, "install bubblewrap and socat"),
    ],
)  # fmt: skip
def test_install_command(tmp_path: Path, files: dict[str, str], command: str) -> None:
    host = host_with(tmp_path, files, administrator=True)
    assert host.install("bubblewrap", "socat") == command


def test_distribution_that_is_declared(tmp_path: Path) -> None:
    host = host_with(tmp_path, {"/etc/os-release": "ID=nixos\n", "/usr/bin/sudo*": ""})
    assert host.install("bubblewrap") == (
        "add pkgs.bubblewrap to environment.systemPackages and run nixos-rebuild switch"
    )


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"/usr/bin/sudo*": "", "/usr/bin/doas*": ""}, "sudo apt-get install bubblewrap"),
        ({"/usr/bin/doas*": ""}, "doas apt-get install bubblewrap"),
        ({}, "as root: apt-get install bubblewrap"),
    ],
)
def test_ordinary_user(tmp_path: Path, files: dict[str, str], command: str) -> None:
    assert host_with(tmp_path, {"/etc/os-release": DEBIAN, **files}).install("bubblewrap") == command


def test_each_of_several_commands_is_elevated(tmp_path: Path) -> None:
    host = host_with(tmp_path, {"/usr/bin/sudo*": ""})
    assert host.as_root("one", "two") == "sudo one && sudo two"
    assert host_with(tmp_path, {}, administrator=True).as_root("one", "two") == "one && two"


def test_os_release_is_parsed() -> None:
    text = '# a comment\nID=\'x y\'\n\nID_LIKE="a b"\nEMPTY=\nQUOTE="\nno value\n#ID=no\n'
    assert parse_os_release(text) == {"ID": "x y", "ID_LIKE": "a b", "EMPTY": "", "QUOTE": '"'}


def test_os_release_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_bytes(b"ID=\xff\xfe\n\0\n" * 100_000)
    assert len(read_distribution(str(tmp_path)).identifiers) == 1


def test_this_host_is_known() -> None:
    assert "bubblewrap" in read_distribution(administrator=True).install_command(("bubblewrap",))
