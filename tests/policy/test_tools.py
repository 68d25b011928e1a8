"""The table of tools: every one of Claude Code's has a row, and each mode offers what it should."""

import pytest

from gateway.policy.actions import Action
from gateway.policy.modes import READ_ONLY, Mode
from gateway.policy.tools import (
    CLAUDE_TOOLS,
    Kind,
    disallowed_claude_tools,
    disallowed_tools,
    find_tool,
    offered_tools,
)

CHANGING = {"Edit", "EnterWorktree", "ExitWorktree", "MultiEdit", "NotebookEdit", "Write"}


@pytest.mark.parametrize(
    ("name", "kind", "effects"),
    [
        ("Read", Kind.READ, ()),
        ("Grep", Kind.READ, ()),
        ("Write", Kind.WRITE, ()),
        ("MultiEdit", Kind.WRITE, ()),
        ("Bash", Kind.SHELL, ()),
        ("Monitor", Kind.SHELL, ()),
        ("WebFetch", Kind.WEB, ()),
        ("WebSearch", Kind.ACT, (Action.ACCESS_NETWORK,)),
        ("TodoWrite", Kind.OWN, ()),
        ("Agent", Kind.OWN, ()),
        ("Skill", Kind.ACT, (Action.SPAWN_PROCESS,)),
        ("apply_patch", Kind.PATCH, ()),
        ("run_shell_command", Kind.SHELL, ()),
        ("web_fetch", Kind.WEB, ()),
        ("mcp__github__create_pull_request", Kind.ACT, (Action.OPEN_PULL_REQUEST,)),
        ("mcp__github__merge_pull_request", Kind.ACT, (Action.PUBLISH_REVIEW,)),
        ("mcp__github__create_issue", Kind.ACT, (Action.WRITE_TRACKER,)),
        ("mcp__github__push_files", Kind.ACT, (Action.PUSH,)),
        ("mcp__github__get_file_contents", Kind.OWN, ()),
        ("mcp__github__pull_request_read", Kind.OWN, ()),
        ("mcp__plugin_github_github__list_issues", Kind.OWN, ()),
        ("mcp__claude_ai_Linear__create_issue", Kind.ACT, (Action.WRITE_TRACKER,)),
        ("mcp__atlassian__createJiraIssue", Kind.ACT, (Action.WRITE_TRACKER,)),
        ("mcp__filesystem__write_file", Kind.WRITE, ()),
        ("mcp__fetch__fetch", Kind.WEB, ()),
        ("mcp__git__git_commit", Kind.ACT, (Action.COMMIT,)),
    ],
)
def test_what_is_known(name: str, kind: Kind, effects: tuple[Action, ...]) -> None:
    tool = find_tool(name)
    assert tool is not None
    assert (tool.kind, tool.effects) == (kind, effects)


@pytest.mark.parametrize(
    "name",
    [
        "read",
        "Write ",
        "PowerShell",
        "RemoteTrigger",
        "mcp__github",
        "mcp__github__",
        "mcp__github__delete_repository",
        "mcp__github__getsecret",
        "mcp__git_hub__create_issue_and_more",
        "mcp__other__create_pull_request",
        "mcp__other__get_it",
        "mcp__slack__get_it",
        "",
    ],
)
def test_what_is_not_known(name: str) -> None:
    assert find_tool(name) is None


@pytest.mark.parametrize("mode", Mode)
def test_a_mode_that_only_reads_does_not_offer_what_changes(mode: Mode) -> None:
    changes = CHANGING if mode in READ_ONLY else set()
    assert set(disallowed_claude_tools(mode)) == changes
    assert {"Read", "Bash", "WebFetch", "Task", "TodoWrite"} <= set(offered_tools(mode))
    assert not set(offered_tools(mode)) & set(disallowed_tools(mode))
    assert ("apply_patch" in offered_tools(mode)) is (mode not in READ_ONLY)


def test_every_mode_speaks_of_every_tool() -> None:
    assert {frozenset((*offered_tools(mode), *disallowed_tools(mode))) for mode in Mode} == {
        frozenset(offered_tools(Mode.CHAT))
    }
    assert set(CLAUDE_TOOLS) <= set(offered_tools(Mode.CHAT))
