"""Wrappers as data."""

from gateway.policy.commands.denied import DENIED
from gateway.policy.commands.wrappers import FOREIGN_SHELLS, SHELLS, WRAPPERS


def test_options_are_of_one_kind() -> None:
    for name, wrapper in WRAPPERS.items():
        assert not wrapper.flags & wrapper.values, name
        assert not wrapper.texts & (wrapper.flags | wrapper.values), name
        assert all(
            option.startswith("-") for option in wrapper.flags | wrapper.values | wrapper.texts | wrapper.idle
        )


def test_what_the_fixed_list_denies_is_seen_behind_a_wrapper() -> None:
    assert all(wrapper.alone for name, wrapper in WRAPPERS.items() if name in DENIED)


def test_shells() -> None:
    assert FOREIGN_SHELLS < SHELLS and not SHELLS & set(WRAPPERS)
