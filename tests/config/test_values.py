"""The defaults, spelled out once more: they are the contract's, and an operator relies on them."""

from dataclasses import FrozenInstanceError, fields

import pytest

from gateway.config.values import Bridge, Config, EnvironmentConfig, GitHubConfig, Workspace, Worktree
from gateway.policy.limits import Limits
from gateway.policy.repositories import RepositoryName
from gateway.policy.rules import RuleSet
from gateway.session import FileRules


def test_defaults_are_the_contracts() -> None:
    config = Config()
    assert config.sandbox is True
    assert (config.worktree, config.file_rules, config.bridge) == (
        Worktree.IN_PLACE,
        FileRules.CREATE_TIME,
        Bridge.HANDOVER,
    )
    assert (config.files.deny_write, config.files.allow_write, config.files.deny_read) == ((), (), ())
    assert (config.environment.pass_, config.environment.set_) == ((), {})
    assert (config.egress.allow, config.egress.deny, config.egress.denied_networks) == ((), (), ())
    assert config.egress.ports == {80, 443}
    assert (config.egress.raw, config.egress.addresses, config.egress.hosts) == ({}, {}, {})
    assert config.egress.upstream_proxy is None
    assert config.egress.limits == Limits(tunnels=256, new_per_second=50, burst=200, idle=3600)
    assert config.github == GitHubConfig("https://github.com", "https://api.github.com", None, None, ())
    assert config.push.label == "Control Center"
    assert config.workspaces == {"default": Workspace((), ())}
    assert (config.rules, config.managed_rules_file, config.managed_rules) == ((), None, ())
    assert config.rule_set == RuleSet()
    assert (config.approvals.timeout, config.approvals.command) == (300, None)
    assert (config.audit.directory, config.audit.max_file_mb, config.audit.keep_days) == (None, 256, 90)
    assert (config.operator.listen, config.operator.token_file) == (None, None)
    assert (config.source, config.digest) == ("built-in defaults", "")


def test_configuration_is_frozen() -> None:
    for one in fields(Config):
        with pytest.raises(FrozenInstanceError):
            setattr(Config(), one.name, None)
    with pytest.raises(TypeError):
        Config().workspaces["default"] = Workspace((RepositoryName("owner", "name"),))  # type: ignore[index]  # what must not work


def test_variables_that_are_set_are_not_shown() -> None:
    assert "hunter2" not in repr(Config(environment=EnvironmentConfig(set_={"TOKEN": "hunter2"})))
