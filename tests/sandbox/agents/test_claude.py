"""Claude Code's settings with the hook: what is added, what of an organisation's stays, what cannot be meant."""

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import GatewayError
from sandbox.agents.claude import (
    DROP_INS_LIMIT,
    FILE_LIMIT,
    GRACE,
    ClaudeHook,
    hook_command,
    hooks,
    managed_files,
    managed_settings,
    note_hooks,
    settings_text,
    with_arguments,
)
from tests.sandbox.wrapping import PEOPLE, place_of

HOOK = ClaudeHook(315.0, ("Edit", "Write"))
COMMAND = hook_command("/usr/bin/python3", "/run/x/hook.pyc", HOOK, "http://127.0.0.1:3180")
OURS = {"type": "command", "command": COMMAND, "timeout": 315 + GRACE, "onFailure": "block"}
ENTRY = {"matcher": "*", "hooks": [OURS]}
THEIRS = {"matcher": "Bash", "hooks": [{"type": "command", "command": "audit"}]}


def merged(own: dict[str, Any], disallowed: tuple[str, ...] = ()) -> dict[str, object]:
    return managed_settings(own, hooks(COMMAND, HOOK), disallowed)


def test_the_shell_line() -> None:
    assert COMMAND.endswith(" || exit 2")
    assert shlex.split(COMMAND)[:6] == ["/usr/bin/python3", "-I", "-S", "-E", "-B", "/run/x/hook.pyc"]
    assert "--limit 315 --gateway http://127.0.0.1:3180" in COMMAND
    assert "--gateway" not in hook_command("p", "/a b/hook.py", HOOK)
    assert "'/a b/hook.py'" in hook_command("p", "/a b/hook.py", HOOK)


@pytest.mark.parametrize(
    "program", ["exit 1", "exit 127", "kill -9 $$", "kill -11 $$", "exit 2", "/nonexistent/python"]
)
def test_whatever_happens_to_the_program_is_status_2(tmp_path: Path, program: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{program}\n")
    python.chmod(0o755)
    line = hook_command(str(python) if " " in program else program, "x", HOOK)
    assert subprocess.run(line, shell=True, capture_output=True, check=False).returncode == 2


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, {"hooks": {"PreToolUse": [ENTRY]}, "disableAllHooks": False}),
        (
            {"env": {"A": "b"}, "hooks": {"PreToolUse": [THEIRS], "Stop": [THEIRS]}},
            {
                "env": {"A": "b"},
                "hooks": {"PreToolUse": [ENTRY, THEIRS], "Stop": [THEIRS]},
                "disableAllHooks": False,
            },
        ),
        (
            {"disableAllHooks": True, "hooks": {"PreToolUse": [THEIRS]}},
            {"hooks": {"PreToolUse": [ENTRY]}, "disableAllHooks": False, "allowManagedHooksOnly": True},
        ),
        (
            {"disableAllHooks": False, "allowManagedHooksOnly": True},
            {"hooks": {"PreToolUse": [ENTRY]}, "disableAllHooks": False, "allowManagedHooksOnly": True},
        ),
    ],
)
def test_an_organisations_settings_stay(own: dict[str, Any], expected: dict[str, Any]) -> None:
    before = json.dumps(own)
    assert merged(own) == expected
    assert json.dumps(own) == before


def test_tools_are_denied_besides() -> None:
    own = {"permissions": {"deny": ["Read(./.env)", "Write"], "allow": ["Bash"]}}
    assert merged(own, HOOK.disallowed)["permissions"] == {
        "deny": ["Read(./.env)", "Write", "Edit"],
        "allow": ["Bash"],
    }
    assert "permissions" not in merged({})


@pytest.mark.parametrize(
    "own",
    [
        {"hooks": []},
        {"hooks": {"PreToolUse": {}}},
        {"permissions": "x"},
        {"permissions": {"deny": "Write"}},
    ],
)
def test_settings_that_are_none(own: dict[str, Any]) -> None:
    with pytest.raises(GatewayError):
        merged(own, HOOK.disallowed)


# --- The managed directory ------------------------------------------------------------------------


def files(folder: Path) -> dict[str, Any]:
    return dict(managed_files(COMMAND, HOOK, str(folder)))


def test_without_files_of_an_organisation(tmp_path: Path) -> None:
    (content,) = files(tmp_path / "nothing").values()
    assert json.loads(content) == merged({}, HOOK.disallowed)


def test_with_files_of_an_organisation(tmp_path: Path) -> None:
    (tmp_path / "managed-settings.d").mkdir()
    (tmp_path / "managed-settings.json").write_text(json.dumps({"env": {"A": "b"}}))
    (tmp_path / "managed-settings.d/10-off.json").write_text('{"disableAllHooks": true, "model": "x"}')
    (tmp_path / "managed-settings.d/.hidden.json").write_text("nothing")
    (tmp_path / "managed-settings.d/readme").write_text("nothing")
    (tmp_path / "managed-settings.d/20-empty.json").write_text(" ")
    (tmp_path / "managed-mcp.json").write_text('{"mcpServers": {}}')
    (tmp_path / "other.json").write_text("{}")
    found = files(tmp_path)
    assert list(found) == [
        "/etc/claude-code/managed-settings.json",
        "/etc/claude-code/managed-settings.d/10-off.json",
        "/etc/claude-code/managed-mcp.json",
    ]
    assert json.loads(found["/etc/claude-code/managed-settings.json"])["env"] == {"A": "b"}
    dropped = json.loads(found["/etc/claude-code/managed-settings.d/10-off.json"])
    assert dropped == {"model": "x", "allowManagedHooksOnly": True}
    assert found["/etc/claude-code/managed-mcp.json"] == b'{"mcpServers": {}}'


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "nothing", "[" * 100_000])
@pytest.mark.parametrize("name", ["managed-settings.json", "managed-settings.d/a.json"])
def test_policies_that_cannot_be_read_are_not_dropped(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "managed-settings.d").mkdir()
    (tmp_path / name).write_text(text)
    with pytest.raises(GatewayError, match="JSON"):
        files(tmp_path)


def test_bounds(tmp_path: Path) -> None:
    (tmp_path / "managed-settings.json").write_text("x" * (FILE_LIMIT + 1))
    with pytest.raises(GatewayError, match="larger"):
        files(tmp_path)
    (tmp_path / "managed-settings.json").unlink()
    os.mkfifo(tmp_path / "managed-settings.json")
    assert len(files(tmp_path)) == 1
    (tmp_path / "managed-settings.d").mkdir()
    for number in range(DROP_INS_LIMIT + 1):
        (tmp_path / f"managed-settings.d/{number}.json").write_text("{}")
    with pytest.raises(GatewayError, match="more than"):
        files(tmp_path)


@pytest.mark.parametrize("person", PEOPLE)
def test_in_a_wrap_they_are_there_and_cannot_be_changed(person: str) -> None:
    script = """
cat /etc/claude-code/managed-settings.json
for place in /etc/claude-code/managed-settings.json /etc/claude-code /run/agent-gateway/hook.pyc; do
    (echo evil > $place) 2>/dev/null && echo "wrote $place"
    (echo evil > $place/new) 2>/dev/null && echo "wrote into $place"
    rm -rf $place 2>/dev/null && echo "removed $place"
    mv $place $place.aside 2>/dev/null && echo "moved $place"
    chmod 777 $place 2>/dev/null && echo "opened $place"
    mount -t tmpfs none $place 2>/dev/null && echo "covered $place"
done
test -r /run/agent-gateway/hook.pyc && echo there
true
"""
    with place_of(person) as place:
        done = place.sh(script, hook={"limit": 20.0, "disallowed": ["Write"]})
    assert done.returncode == 0, done.stderr
    text, _, rest = done.stdout.partition("\n}\n")
    settings = json.loads(text + "\n}")
    assert rest == "there\n"
    assert settings["permissions"]["deny"] == ["Write"]
    command = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    assert "/run/agent-gateway/hook.pyc --limit 20 --gateway http://127.0.0.1:3180 || exit 2" in command


# --- User settings --------------------------------------------------------------------------------


def test_user_settings_keep_what_else_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(
        '{"model": "x", "disableAllHooks": true, "hooks": {"Stop": []}, "long": "' + "y" * 900 + '"}'
    )
    inode = path.stat().st_ino
    note_hooks(str(tmp_path), hooks(COMMAND, HOOK))
    found = json.loads(path.read_text())
    assert found == {"model": "x", "long": "y" * 900, "hooks": {"PreToolUse": [ENTRY]}}
    path.write_text("broken" * 1000)
    note_hooks(str(tmp_path), hooks(COMMAND, HOOK))
    assert json.loads(path.read_text()) == {"hooks": {"PreToolUse": [ENTRY]}}
    assert path.stat().st_ino == inode
    changed = path.stat().st_mtime_ns
    note_hooks(str(tmp_path), hooks(COMMAND, HOOK))
    assert path.stat().st_mtime_ns == changed
    assert json.loads(settings_text(hooks(COMMAND, HOOK))) == json.loads(path.read_text())


def test_user_settings_are_no_link(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("{}")
    (tmp_path / "settings.json").symlink_to("other")
    with pytest.raises(OSError, match="symbolic link"):
        note_hooks(str(tmp_path), hooks(COMMAND, HOOK))


@pytest.mark.parametrize(
    ("disallowed", "settings", "expected"),
    [
        ((), "", ("claude", "-p", "hello")),
        (("Edit", "Write"), "", ("claude", "--disallowedTools=Edit,Write", "-p", "hello")),
        ((), "/s.json", ("claude", "--settings", "/s.json", "-p", "hello")),
        (("Edit",), "/s.json", ("claude", "--disallowedTools=Edit", "--settings", "/s.json", "-p", "hello")),
    ],
)
def test_arguments(disallowed: tuple[str, ...], settings: str, expected: tuple[str, ...]) -> None:
    assert with_arguments(("claude", "-p", "hello"), disallowed, settings) == expected
