"""Reading tool calls: every tool and every field of Claude Code's published format, and what is none."""

import json
from typing import Any

import pytest

from gateway.policy.actions import Action
from gateway.policy.repositories import parse_repository
from gateway.policy.tool_call import (
    EFFECTS_LIMIT,
    NAME_LIMIT,
    TARGET_LIMIT,
    TARGETS_LIMIT,
    CallError,
    ToolCall,
    read_claude_call,
    read_plain_call,
)
from gateway.policy.tools import CLAUDE_TOOLS
from tests.fakes.hook_inputs import INPUTS, hook_input

PATCH = "*** Begin Patch\n*** Add File: a\n*** Delete File: b\n*** End Patch"


def test_there_is_an_input_for_every_tool() -> None:
    assert {name for name, _, _ in INPUTS} >= set(CLAUDE_TOOLS)


@pytest.mark.parametrize(("name", "given", "expected"), INPUTS, ids=[name for name, _, _ in INPUTS])
def test_every_tool(name: str, given: dict[str, Any], expected: dict[str, Any]) -> None:
    found = read_claude_call(hook_input(name, given))
    assert found == ToolCall(name, cwd="/w/repo", id="toolu_01ABC", **expected)


@pytest.mark.parametrize("gone", ["session_id", "transcript_path", "permission_mode", "cwd", "tool_use_id"])
def test_fields_that_may_be_missing(gone: str) -> None:
    sent = hook_input("Read", {"file_path": "/a"})
    del sent[gone]
    assert read_claude_call(sent).targets == ("/a",)


@pytest.mark.parametrize("field", ["agent_id", "prompt_id", "effort", "a_new_one"])
def test_fields_that_are_not_known_are_left_alone(field: str) -> None:
    assert read_claude_call(hook_input("Read", {"file_path": "/a"}) | {field: [1, {}]}).tool == "Read"


@pytest.mark.parametrize("gone", ["hook_event_name", "tool_name", "tool_input"])
def test_fields_that_must_be_there(gone: str) -> None:
    sent = hook_input("Read", {"file_path": "/a"})
    del sent[gone]
    with pytest.raises(CallError):
        read_claude_call(sent)


WRONG: list[object] = [None, 1, True, 1.5, [], {}, ["a"]]


@pytest.mark.parametrize("field", list(hook_input("Read", {"file_path": "/a"})))
@pytest.mark.parametrize("value", WRONG, ids=map(str, WRONG))
def test_wrong_types(field: str, value: object) -> None:
    sent = hook_input("TodoWrite", {}) | {field: value}
    may_be = field in {"session_id", "transcript_path", "permission_mode", "cwd", "tool_use_id"}
    if (value is None and may_be) or (field == "tool_input" and value == {}):
        assert read_claude_call(sent).tool == "TodoWrite"
        return
    with pytest.raises(CallError):
        read_claude_call(sent)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("Read", {}),
        ("Read", {"file_path": ""}),
        ("Read", {"file_path": 1}),
        ("Read", {"file_path": {}}),
        ("Read", {"file_path": "/" * (TARGET_LIMIT + 1)}),
        ("Write", {"content": "x"}),
        ("Write", {"file_path": [None]}),
        ("NotebookEdit", {"new_source": "x"}),
        ("Bash", {}),
        ("Bash", {"command": ""}),
        ("Bash", {"command": 5}),
        ("Bash", {"command": {"a": 1}}),
        ("Bash", {"command": ["ls", 5]}),
        ("Bash", {"command": "echo \ud800"}),
        ("WebFetch", {"prompt": "x"}),
        ("WebSearch", {}),
        ("apply_patch", {"input": "hello"}),
        ("apply_patch", {}),
        ("mcp__filesystem__move_file", {"source": "a", "destination": 3}),
        ("mcp__github__push_files", {"branch": 3}),
        ("read_many_files", {"paths": ["a"] * (TARGETS_LIMIT + 1)}),
        ("apply_patch", {"input": "*** Begin Patch\n" + "".join(f"*** Add File: {n}\n" for n in range(600))}),
    ],
)
def test_an_input_that_does_not_fit_its_tool(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(CallError):
        read_claude_call(hook_input(name, given))


@pytest.mark.parametrize("name", ["", "a\nb", "x" * (NAME_LIMIT + 1), "\ud800", "a\x1b[1m"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(CallError):
        read_claude_call(hook_input(name, {}))
    with pytest.raises(CallError):
        read_plain_call({"tool": name})


@pytest.mark.parametrize("sent", [None, 1, "Read", [], [{}], {}, {"hook_event_name": "PostToolUse"}])
def test_what_is_no_input(sent: object) -> None:
    with pytest.raises(CallError):
        read_claude_call(sent)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"tool": "x"}, ToolCall("x")),
        (
            {"tool": "x", "effects": ["push", "commit", "push", "fly"], "target": "y"},
            ToolCall("x", (Action.PUSH, Action.COMMIT), ("fly",), ("y",)),
        ),
        ({"tool": "Read", "target": ["a", "b"]}, ToolCall("Read", targets=("a", "b"))),
        ({"tool": "bash", "command": "ls | wc"}, ToolCall("bash", command="ls | wc")),
        ({"tool": "shell", "command": ["sh", "-c", "a b"]}, ToolCall("shell", command="sh -c 'a b'")),
        ({"tool": "shell", "command": ["a", ""]}, ToolCall("shell", command="a ''")),
        ({"tool": "apply_patch", "command": PATCH}, ToolCall("apply_patch", targets=("a",), deleted=("b",))),
        ({"tool": "apply_patch", "target": "a"}, ToolCall("apply_patch", targets=("a",))),
        (
            {"tool": "Read", "target": "a", "cwd": "/w", "id": "7", "effects": None},
            ToolCall("Read", targets=("a",), cwd="/w", id="7"),
        ),
        ({"tool": "x", "unknown": 1, "target": None, "command": ""}, ToolCall("x")),
    ],
)
def test_the_plain_form(sent: object, expected: ToolCall) -> None:
    assert read_plain_call(json.loads(json.dumps(sent))) == expected


@pytest.mark.parametrize(
    "sent",
    [
        None,
        [],
        {},
        {"tool": None},
        {"tool": 1},
        {"tool": "x", "effects": "push"},
        {"tool": "x", "effects": [1]},
        {"tool": "x", "effects": ["push"] * (EFFECTS_LIMIT + 1)},
        {"tool": "x", "target": 1},
        {"tool": "x", "target": {"a": 1}},
        {"tool": "x", "target": [""]},
        {"tool": "x", "command": 1},
        {"tool": "x", "command": [1]},
        {"tool": "x", "cwd": 1},
        {"tool": "x", "id": []},
        {"tool": "Read"},
        {"tool": "Bash"},
        {"tool": "Bash", "target": "ls"},
        {"tool": "WebFetch"},
        {"tool": "apply_patch", "command": "x"},
        {"tool": "x", "target": "\udcff"},
    ],
)
def test_what_is_no_plain_call(sent: object) -> None:
    with pytest.raises(CallError):
        read_plain_call(sent)


def test_the_repository_of_a_forges_tool() -> None:
    given = {"owner": "acme", "repo": "widget", "branch": "main", "files": []}
    found = read_claude_call(hook_input("mcp__github__push_files", given))
    assert (found.repository, found.branch) == (parse_repository("acme/widget"), "main")
    found = read_claude_call(hook_input("mcp__gitlab__create_issue", {"project_id": "acme/widget"}))
    assert found.repository == parse_repository("acme/widget")
    found = read_claude_call(hook_input("mcp__github__create_issue", {"owner": "../x", "repo": "widget"}))
    assert found.repository is None


def test_what_it_is_about_in_a_word() -> None:
    assert ToolCall("x").target == ""
    assert ToolCall("x", targets=("a",)).target == "a"
    assert ToolCall("x", targets=("a", "b", "c")).target == "a and 2 more"
