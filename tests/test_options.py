"""The options of `run`: names, contradictions, what is not offered, variables."""

from typing import Any

import pytest

from gateway.config import Config
from gateway.config.values import EnvironmentConfig
from gateway.errors import GatewayError, UsageError
from gateway.options import RunOptions, check_options, check_variables, read_variables

TERMINAL = {"profile": "terminal"}


def options(**given: Any) -> RunOptions:
    return RunOptions(command=("true",), **given)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"mode": "plan", "repo": "/r", "allow": ("a.test",), "network": False},
        {"space": "s", "agent": "a", "mode": "review"},
        {"worktree": "in-place"},
        TERMINAL,
        {**TERMINAL, "bind": ("/b",), "protect": ("/p",), "state_dirs": ("/s",), "exec_grants": ("/e",)},
        {**TERMINAL, "agent": "a", "workspace": "w", "session": "s", "worktree": "in-place"},
    ],
)
def test_what_goes_together(given: dict[str, Any]) -> None:
    check_options(options(**given))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**TERMINAL, "mode": "plan"}, "--mode plan contradicts --profile terminal"),
        ({**TERMINAL, "repo": "/r"}, "--repo contradicts --profile terminal"),
        ({**TERMINAL, "allow": ("a.test",)}, "--allow contradicts --profile terminal"),
        ({**TERMINAL, "network": False}, "--no-network contradicts --profile terminal"),
        ({**TERMINAL, "space": "s"}, "--space contradicts --profile terminal"),
        ({"space": "s", "repo": "/r"}, "--repo contradicts --space"),
        ({"space": "a/b"}, "--space takes a name"),
        ({"space": ""}, "--space takes a name"),
        ({"agent": ".."}, "--agent takes a name"),
    ],
)
def test_what_contradicts_itself(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_options(options(**given))


@pytest.mark.parametrize("worktree", ["cow", "git"])
def test_what_is_not_offered(worktree: str) -> None:
    with pytest.raises(GatewayError, match="not available in this version") as caught:
        check_options(options(worktree=worktree))
    assert not isinstance(caught.value, UsageError)


def test_only_a_terminal_opens_a_shell() -> None:
    assert options(**TERMINAL).opens_shell
    assert not options().opens_shell


def test_variables() -> None:
    assert read_variables(options(env=("A", "B=1", "A=2", "B", "C=x=y", "D="))) == (
        ("B",),
        {"A": "2", "C": "x=y", "D": ""},
    )


@pytest.mark.parametrize(
    ("name", "agent", "terminal"),
    [
        ("HTTPS_PROXY", False, True),
        ("LD_PRELOAD", False, True),
        ("AGENT_GATEWAY_URL", False, False),
        ("EDITOR", True, True),
    ],
)
def test_variables_that_nobody_sets(name: str, agent: bool, terminal: bool) -> None:
    """A person's own shell has neither proxies of ours nor an agent in it."""
    config = Config(environment=EnvironmentConfig(pass_=(name,)))
    for profile, is_fine in (("agent", agent), ("terminal", terminal)):
        given = options(profile=profile, env=(f"{name}=x",))
        if is_fine:
            assert read_variables(given) == ((), {name: "x"})
            check_variables(given, config)
            continue
        with pytest.raises(UsageError, match=f"^--env: {name} "):
            read_variables(given)
        with pytest.raises(GatewayError, match=f"environment: {name} ") as caught:
            check_variables(given, config)
        assert not isinstance(caught.value, UsageError)


def test_values_do_not_show() -> None:
    assert "hush" not in repr(options(env=("A=hush",)))
