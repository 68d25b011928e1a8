"""The modes by the names that the command line takes, and which of them only read."""

from gateway.policy.modes import READ_ONLY, Mode


def test_names_are_the_contracts() -> None:
    assert [mode.value for mode in Mode] == ["chat", "review", "plan", "orchestrate"]


def test_only_chat_changes_anything() -> None:
    assert set(Mode) - READ_ONLY == {Mode.CHAT}
