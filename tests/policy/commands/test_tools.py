"""Tools as data."""

import re

import pytest

from gateway.policy.commands.tools import GIT_COMMAND_KEYS, GIT_HIDING_KEYS, SAME, VALUES


def test_other_names_lead_to_one() -> None:
    assert not set(SAME) & set(SAME.values())


def test_options_begin_with_a_dash() -> None:
    assert all(option.startswith("-") for options in VALUES.values() for option in options)


@pytest.mark.parametrize(
    "key",
    ["core.pager", "core.sshcommand", "pager.log", "credential.helper", "filter.x.smudge", "diff.x.textconv"],
)
def test_keys_that_run_something(key: str) -> None:
    assert re.fullmatch(GIT_COMMAND_KEYS, key)


@pytest.mark.parametrize("key", ["include.path", "includeif.gitdir:x.path", "core.hookspath", "alias.x"])
def test_keys_that_hide_something(key: str) -> None:
    assert re.fullmatch(GIT_HIDING_KEYS, key)


@pytest.mark.parametrize("key", ["user.name", "color.ui", "core.autocrlf"])
def test_other_keys(key: str) -> None:
    assert not re.fullmatch(GIT_COMMAND_KEYS, key) and not re.fullmatch(GIT_HIDING_KEYS, key)
