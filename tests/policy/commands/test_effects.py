"""Effects as data."""

from gateway.policy.actions import Action
from gateway.policy.commands.effects import EFFECTS, NETWORK_DETOURS, NETWORK_VALUES, WRITES_BEHIND


def test_every_action_that_commands_have_is_there() -> None:
    assert set(EFFECTS) == set(Action) - {Action.SPAWN_PROCESS, Action.WRITE_OUTSIDE}


def test_no_row_stands_twice() -> None:
    for action, rows in EFFECTS.items():
        assert len(set(rows)) == len(rows), action


def test_options_begin_with_a_dash() -> None:
    tables = (*NETWORK_VALUES.values(), *NETWORK_DETOURS.values())
    assert all(option.startswith("-") for table in tables for option in table)
    assert all(key.startswith("-") or key.endswith("=") for keys in WRITES_BEHIND.values() for key in keys)
