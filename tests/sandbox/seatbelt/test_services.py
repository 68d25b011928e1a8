"""The lists of what acts for others: complete in what every one must hold, and well-formed."""

import re

import pytest

from sandbox.seatbelt import services


@pytest.mark.parametrize(
    "name", ["osascript", "open", "launchctl", "security", "sandbox-exec", "sudo", "crontab", "log"]
)
def test_programs_that_are_never_executed(name: str) -> None:
    assert name in {path.rpartition("/")[2] for path in services.DANGEROUS_PROGRAMS}


def test_paths_are_absolute_and_stand_once() -> None:
    for paths in (
        services.DANGEROUS_PROGRAMS,
        services.DEVICES,
        services.SYSTEM_ROOTS,
        services.SYSTEM_SECRETS,
    ):
        assert all(re.fullmatch(r"(/[A-Za-z0-9_. -]+)+", path) for path in paths)
        assert len(set(paths)) == len(paths)
    assert not any(path.startswith("/") for path in services.SECRET_PLACES)


def test_services_are_named_and_stand_once() -> None:
    names = (*services.DANGEROUS_SERVICES, services.RESOLVER_SERVICE)
    assert all(re.fullmatch(r"com\.apple(\.[A-Za-z0-9-]+)+", name) for name in names)
    assert len(set(names)) == len(names)


def test_command_that_types_into_a_terminal() -> None:
    """_IOW('t', 114, char) of sys/ioccom.h."""
    assert 0x80000000 | 1 << 16 | ord("t") << 8 | 114 == services.TIOCSTI


def test_disks_are_no_devices_for_everybody() -> None:
    assert not any(re.search(r"disk|mem|bpf", path) for path in services.DEVICES)
    assert not any(re.match(pattern, "/dev/disk0") for pattern in services.DEVICE_PATTERNS)


@pytest.mark.parametrize("name", ["kern.procargs", "kern.procargs2", "kern.proc.all", "kern.proc.uid.501"])
def test_other_processes_are_not_among_the_system_values(name: str) -> None:
    """Nor are they below a tree that may be asked."""
    assert name not in services.SYSTEM_VALUES
    assert not name.startswith(services.SYSTEM_TREES)
