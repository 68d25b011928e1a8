"""Inputs of Claude Code's PreToolUse hook, built from its published format: every tool, every common field."""

from typing import Any

_OWN = (
    "Agent Task TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate AgentOutputTool BashOutput KillBash "
    "KillShell TodoRead TodoWrite AskUserQuestion EnterPlanMode ExitPlanMode exit_plan_mode ListMcpResources "
    "ListMcpResourcesTool ReadMcpResource ReadMcpResourceTool LSP ToolSearch CronCreate CronDelete CronList "
    "ScheduleWakeup StructuredOutput SendMessage PushNotification WaitForMcpServers"
)
# Tool, its `tool_input`, and what of a `ToolCall` follows from that.
INPUTS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("Read", {"file_path": "/w/repo/a", "offset": 1, "limit": 9}, {"targets": ("/w/repo/a",)}),
    ("NotebookRead", {"notebook_path": "/w/repo/a.ipynb"}, {"targets": ("/w/repo/a.ipynb",)}),
    ("Glob", {"pattern": "**/*.py"}, {}),
    ("Glob", {"pattern": "*", "path": "src"}, {"targets": ("src",)}),
    ("Grep", {"pattern": "x", "path": "src", "output_mode": "content", "-n": True}, {"targets": ("src",)}),
    ("Grep", {"pattern": "x", "glob": ".env"}, {"targets": ("./.env",)}),
    ("LS", {"path": "/w/repo", "ignore": ["a"]}, {"targets": ("/w/repo",)}),
    ("Write", {"file_path": "/w/repo/a", "content": "x"}, {"targets": ("/w/repo/a",)}),
    (
        "Edit",
        {"file_path": "/w/repo/a", "old_string": "x", "new_string": "", "replace_all": False},
        {"targets": ("/w/repo/a",)},
    ),
    ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "x"}]}, {"targets": ("a",)}),
    (
        "NotebookEdit",
        {"notebook_path": "a.ipynb", "cell_id": "1", "new_source": "x", "edit_mode": "replace"},
        {"targets": ("a.ipynb",)},
    ),
    (
        "Bash",
        {"command": "ls -l", "description": "List", "timeout": 1000, "run_in_background": True},
        {"command": "ls -l"},
    ),
    ("Monitor", {"command": "tail -f x", "description": "x"}, {"command": "tail -f x"}),
    ("WebFetch", {"url": "https://a.test/x", "prompt": "p"}, {"targets": ("https://a.test/x",)}),
    ("WebSearch", {"query": "q", "allowed_domains": ["a.test"]}, {"targets": ("q",)}),
    ("Skill", {"skill": "pdf", "args": "x"}, {"targets": ("pdf",)}),
    ("SlashCommand", {"command": "/x y"}, {"targets": ("/x y",)}),
    ("EnterWorktree", {"name": "x"}, {}),
    ("ExitWorktree", {"name": "x"}, {"targets": ("x",)}),
    *((name, {"prompt": "p", "anything": [1, {"file_path": "/etc/passwd"}]}, {}) for name in _OWN.split()),
    ("mcp__memory__create_entities", {"entities": []}, {}),
    ("mcp__unknown__run", {"command": "rm x"}, {"command": "rm x"}),
    ("SomethingNew", {"command": ["rm", "x"], "file_path": "/x"}, {}),
    ("mcp__fetch__fetch", {"url": "https://a.test"}, {"targets": ("https://a.test",)}),
    ("mcp__filesystem__write_file", {"path": "a", "content": "x"}, {"targets": ("a",)}),
    ("mcp__filesystem__move_file", {"source": "a", "destination": "b"}, {"targets": ("a", "b")}),
    ("mcp__filesystem__read_multiple_files", {"paths": ["a", "b"]}, {"targets": ("a", "b")}),
    ("mcp__github__create_issue", {"title": "t"}, {}),
)


def hook_input(name: object, given: object, **more: object) -> dict[str, Any]:
    """One input with every field that all events and this one have."""
    return {
        "session_id": "abc123",
        "transcript_path": "/home/u/.claude/projects/x/y.jsonl",
        "cwd": "/w/repo",
        "permission_mode": "default",
        "hook_event_name": "PreToolUse",
        "tool_name": name,
        "tool_input": given,
        "tool_use_id": "toolu_01ABC",
        **more,
    }
