"""What holds where no rule speaks, action by action and mode by mode."""

import pytest

from gateway.policy.actions import LABELS, Action, default_verdict
from gateway.policy.modes import READ_ONLY, Mode

# Action, label, verdict in chat, verdict in a mode that only reads.
TABLE = (
    ("commit", "Create commit", "allow", "deny"),
    ("push", "Push to remote", "ask", "deny"),
    ("open_pull_request", "Open pull request", "ask", "deny"),
    ("publish_review", "Publish review or merge", "ask", "deny"),
    ("write_tracker", "Write to external tracker", "ask", "deny"),
    ("install_package", "Install package", "ask", "deny"),
    ("access_network", "Access network", "allow", "allow"),
    ("delete_file", "Delete file", "allow", "deny"),
    ("write_outside", "Write outside the worktree", "ask", "deny"),
    ("access_secret", "Read a secret", "ask", "deny"),
    ("spawn_process", "Run a command", "allow", "allow"),
)


@pytest.mark.parametrize(("name", "label", "chat", "reading"), TABLE)
def test_action(name: str, label: str, chat: str, reading: str) -> None:
    action = Action(name)
    assert LABELS[action] == label
    assert default_verdict(action, Mode.CHAT) == chat
    assert {default_verdict(action, mode) for mode in READ_ONLY} == {reading}


def test_table_has_every_action() -> None:
    assert [row[0] for row in TABLE] == [action.value for action in Action]
    assert set(LABELS) == set(Action)
