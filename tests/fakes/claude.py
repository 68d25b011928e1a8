#!/usr/bin/env python3
"""A stand-in for Claude Code's CLI, which speaks its hook protocol and has no model.

    claude [options of the CLI] -p '[{"tool_name": "Write", "tool_input": {...}}, ...]'

The prompt is what the model would want to do. Each call is offered or not (`--disallowedTools`, `permissions.deny`),
runs through the PreToolUse hooks of managed, user, project and command-line settings (Claude Code, hooks and settings
reference), and is then really done. One line of JSON says what became of each:

    {"tool": NAME, "outcome": "ran" | "blocked" | "not offered", "reason": TEXT, "hooks": COUNT, "output": TEXT}

As the CLI does: hooks run also with --dangerously-skip-permissions; identical commands once, all at the same time;
status 2 and a JSON `deny` block, any other failure of a hook and its timeout do not; hooks of managed settings are not
switched off from elsewhere. It imports nothing but the standard library, since it is copied to where it runs.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

MANAGED = Path("/etc/claude-code/managed-settings.json")
# Options that take every word up to the next option, and those with one value.
VARIADIC = ("--disallowedTools", "--disallowed-tools", "--allowedTools", "--allowed-tools")
VALUED = ("--settings", "--model", "--permission-mode", "--output-format")


def install(folder: Path) -> Path:
    """Puts the program into a folder of PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "claude"
    shutil.copyfile(__file__, program)
    program.chmod(0o755)
    return program


def parse(arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Options with their values, and what else there is; as commander reads them."""
    options: dict[str, list[str]] = {}
    rest: list[str] = []
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word == "--":
            return options, rest + words
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            rest.append(word)
        elif equals:
            options.setdefault(name, []).append(value)
        elif name in VARIADIC:
            found = options.setdefault(name, [])
            while words and not words[0].startswith("-"):
                found.append(words.pop(0))
        elif name in VALUED:
            options.setdefault(name, []).append(words.pop(0))
        else:
            options.setdefault(name, [])
    return options, rest


def load(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def settings_of(options: dict[str, list[str]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The managed settings, and those of the other levels."""
    home = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude")
    others = [
        load(Path(home, "settings.json")),
        load(Path(".claude/settings.json")),
        load(Path(".claude/settings.local.json")),
    ]
    for named in options.get("--settings", []):
        others.append(json.loads(named) if named.startswith("{") else load(Path(named)))
    return load(MANAGED), others


def hooks_for(tool: str, managed: dict[str, Any], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    levels = [managed]
    if managed.get("disableAllHooks"):
        levels = []
    elif not managed.get("allowManagedHooksOnly") and not any(one.get("disableAllHooks") for one in others):
        levels += others
    found: dict[str, dict[str, Any]] = {}
    for level in levels:
        for entry in level.get("hooks", {}).get("PreToolUse", []):
            matcher = entry.get("matcher", "")
            if matcher in ("", "*") or re.fullmatch(matcher, tool):
                for hook in entry["hooks"]:
                    found.setdefault(hook["command"], hook)
    return list(found.values())


def ask_hooks(call: dict[str, Any], hooks: list[dict[str, Any]]) -> str | None:
    """Why the call is blocked; None where it is not."""
    text = json.dumps(
        {
            "session_id": "00000000-0000-4000-8000-000000000000",
            "transcript_path": os.path.expanduser("~/.claude/projects/x/y.jsonl"),
            "cwd": os.getcwd(),
            "permission_mode": "bypassPermissions",
            "hook_event_name": "PreToolUse",
            "tool_name": call["tool_name"],
            "tool_input": call["tool_input"],
            "tool_use_id": call.get("tool_use_id", "toolu_01"),
        }
    )
    running = []
    for hook in hooks:
        process = subprocess.Popen(
            hook["command"],
            shell=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append((process, hook.get("timeout", 60)))
    reasons = []
    for process, timeout in running:
        try:
            output, error = process.communicate(text, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            continue
        if process.returncode == 2:
            reasons.append(error.strip())
        elif process.returncode == 0 and output.startswith("{"):
            said = json.loads(output)["hookSpecificOutput"]
            if said["permissionDecision"] == "deny":
                reasons.append(said["permissionDecisionReason"])
    return reasons[0] if reasons else None


def do(name: str, given: dict[str, Any]) -> str:
    if name == "Bash":
        done = subprocess.run(given["command"], shell=True, capture_output=True, text=True)
        return done.stdout + done.stderr
    if name == "Read":
        return Path(given["file_path"]).read_text()
    if name == "Write":
        Path(given["file_path"]).write_text(given["content"])
    return ""


def main(arguments: list[str]) -> int:
    options, rest = parse(arguments)
    managed, others = settings_of(options)
    denied = [name for value in options.get("--disallowedTools", []) for name in value.split(",")]
    for level in (managed, *others):
        denied += level.get("permissions", {}).get("deny", [])
    for call in json.loads(rest[-1]):
        name = call["tool_name"]
        report = {"tool": name, "outcome": "not offered", "reason": "", "hooks": 0, "output": ""}
        if name not in denied:
            hooks = hooks_for(name, managed, others)
            reason = ask_hooks(call, hooks)
            report.update(
                hooks=len(hooks), outcome="ran" if reason is None else "blocked", reason=reason or ""
            )
            if reason is None:
                try:
                    report["output"] = do(name, call["tool_input"])
                except OSError as error:
                    report["output"] = str(error)
        sys.stdout.write(json.dumps(report) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
