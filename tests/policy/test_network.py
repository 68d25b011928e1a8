"""When a session has a network: scope, constraint and mode, each with a row that is wrong by a hair."""

from datetime import UTC, datetime

import pytest

from gateway.policy.actions import Action
from gateway.policy.constraints import Commands, Hosts
from gateway.policy.decision import Verdict
from gateway.policy.hosts import HostPattern
from gateway.policy.modes import Mode
from gateway.policy.network import network_denial
from gateway.policy.rules import Constraint, Enforcement, Rule, RuleSet, Scope, Subject

NOW = datetime(2030, 6, 1, tzinfo=UTC)
ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


def rule(
    decision: Verdict,
    *constraints: Constraint,
    agent: str = "",
    action: Action = Action.ACCESS_NETWORK,
    enforcement: Enforcement = Enforcement.HARD,
) -> Rule:
    return Rule(action, decision, "config.yaml:7", Scope(agent=agent), constraints, enforcement=enforcement)


DENIED = "the network is off: Access network is denied by config.yaml:7"
ROWS = (
    ("no rule", (), (), ""),
    ("denied", (rule(DENY),), (), DENIED),
    ("denied to this agent", (rule(DENY, agent="claude"),), (), DENIED),
    ("denied to another", (rule(DENY, agent="codex"),), (), ""),
    ("asked", (rule(ASK),), (), ""),
    ("allowed to this agent", (rule(DENY), rule(ALLOW, agent="claude")), (), ""),
    ("one host denied", (rule(DENY, Hosts((HostPattern("x.test", "c:1"),))),), (), ""),
    ("one program denied", (rule(DENY, Commands((("curl",),))),), (), ""),
    ("managed", (rule(ALLOW),), (rule(DENY),), DENIED),
    ("advice", (rule(DENY, enforcement=Enforcement.ADVISORY),), (), ""),
    ("a denial that could be overridden", (rule(DENY, enforcement=Enforcement.SOFT),), (), DENIED),
    ("another action", (rule(DENY, action=Action.INSTALL_PACKAGE),), (), ""),
)


@pytest.mark.parametrize(
    ("rules", "managed", "denial"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
@pytest.mark.parametrize("mode", Mode)
def test_network(rules: tuple[Rule, ...], managed: tuple[Rule, ...], denial: str, mode: Mode) -> None:
    subject = Subject("team", "claude", "", mode, NOW)
    found = network_denial(RuleSet(managed, rules), subject)
    assert (found.reason if found else "") == denial
    assert found is None or (found.verdict, found.rule, found.code) == (DENY, "config.yaml:7", "network_off")
