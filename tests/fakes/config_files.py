"""Shipped lists of reserved names, and config files on disk, for every test of the configuration."""

from pathlib import Path

from gateway.allowlists import ShippedLists
from gateway.config import Config, ConfigError, check_config, load_config
from gateway.policy.lists import parse_list
from gateway.policy.problem import Problem

BASELINE = b"""# count base 4
api.base.test  # exact  group=base
*.wide.test  # any depth  group=base
svc.*.middle.test  # one label  group=base
ssh.base.test  # speaks ssh on the open ports  group=base raw=yes
"""
GITHUB = b"""# count github 1
hub.test  # stands for github.com  group=github
"""
DENY = b"""# count deny 6
denied.test  # exact  group=deny
*.denied.test  # zone  group=deny
bad.wide.test  # inside an allowed zone  group=deny
log.*.telemetry.test  # one label  group=deny
10.66.0.0/16  # network  group=deny
fd66::/16  # network  group=deny
"""
LISTS = ShippedLists(
    parse_list(BASELINE, "baseline.txt"), parse_list(GITHUB, "github.txt"), parse_list(DENY, "deny.txt")
)


def write(folder: Path, content: str | bytes) -> Path:
    """A `config.yaml` with this content."""
    path = folder / "config.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def load(folder: Path, content: str | bytes) -> Config:
    """The configuration that this content gives; ConfigError if it is refused."""
    return load_config(write(folder, content), LISTS)


def problems(folder: Path, content: str | bytes) -> tuple[Problem, ...]:
    """Every problem of this content."""
    return check_config(write(folder, content), LISTS)


def assert_refused(folder: Path, content: str | bytes, line: int, fragment: str) -> None:
    """One error, in this line, with this in its message; and the file gives no configuration."""
    path = write(folder, content)
    found = [problem for problem in check_config(path, LISTS) if not problem.warning]
    assert [problem.line for problem in found] == [line], found
    assert fragment in found[0].message
    place = f"{path}:{line}: " if line else f"{path}: "
    assert str(found[0]).startswith(place)
    try:
        load_config(path, LISTS)
    except ConfigError as error:
        assert error.problems == tuple(found)
        assert str(error) == str(found[0])
    else:
        raise AssertionError("the file was taken")


def assert_warned(folder: Path, content: str, line: int, fragment: str) -> None:
    """One warning, in this line, with this in its message, and no error."""
    found = problems(folder, content)
    assert [(problem.line, problem.warning) for problem in found] == [(line, True)], found
    assert fragment in found[0].message
    load(folder, content)
