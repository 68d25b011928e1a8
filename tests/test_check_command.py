"""The dry run of shell lines: parts, effects, verdict and rules, for people and for scripts, and nothing opened."""

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.check_command import CommandAnswer, CommandQuestion, check_command
from gateway.policy.modes import Mode
from tests.fakes.console import Console

NOW = datetime(2030, 6, 1, 12, tzinfo=UTC)
CONFIG = """rules:
  - action: install_package
    decision: allow
    commands: ["npm install"]
  - action: spawn_process
    decision: deny
    commands: ["make deploy"]
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A worktree of its own, and this process in it."""
    folder = tmp_path / "tree"
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (tmp_path / "config.yaml").write_text(CONFIG)
    monkeypatch.chdir(folder)
    return folder


def ask(
    tree: Path, line: str, mode: Mode = Mode.CHAT, environ: dict[str, str] | None = None
) -> CommandAnswer:
    given = {"HOME": str(tree.parent / "home"), "PATH": "/usr/bin:/bin"} | (environ or {})
    return check_command(CommandQuestion(line, mode), str(tree.parent / "config.yaml"), given, NOW)


@pytest.mark.parametrize(
    ("line", "mode", "verdict", "rule"),
    [
        ("ls", Mode.CHAT, "allow", "default"),
        ("git push", Mode.CHAT, "allow", "gateway"),
        ("git push", Mode.PLAN, "deny", "preset:plan"),
        ("npm install x", Mode.CHAT, "allow", "config.yaml:2"),
        ("npm install x", Mode.PLAN, "deny", "preset:plan"),
        ("pip install x", Mode.CHAT, "ask", "default"),
        ("env make deploy", Mode.CHAT, "deny", "config.yaml:5"),
        ("sudo ls", Mode.CHAT, "deny", "deny-list:sudo"),
        ("rm -rf build", Mode.CHAT, "allow", "default"),
        ("rm -rf /opt/x", Mode.CHAT, "ask", "default"),
        ("echo x > .git/hooks/pre-commit", Mode.CHAT, "deny", "file_rules"),
        ("echo x > a", Mode.PLAN, "deny", "preset:plan"),
        ("$x", Mode.CHAT, "ask", "unclear"),
        ("", Mode.CHAT, "deny", "unclear"),
    ],
)
def test_verdicts(tree: Path, line: str, mode: Mode, verdict: str, rule: str) -> None:
    found = ask(tree, line, mode)
    assert found.verdict == verdict
    assert found.verdicts.worst.rule.rpartition("/")[2] == rule or found.verdicts.worst.rule.startswith(
        "preset"
    )


def test_json_names_parts_and_effects(tree: Path) -> None:
    found = json.loads(json.dumps(ask(tree, "cd x; curl https://a.test/b; gh pr create -R o/n").as_json()))
    assert found["verdict"] == "ask"
    assert found["effects"] == ["spawn_process", "access_network", "open_pull_request"]
    assert [part["text"] for part in found["parts"]] == [
        "cd x",
        "curl https://a.test/b",
        "gh pr create -R o/n",
    ]
    words = ["curl", "https://a.test/b"]
    assert found["parts"][1]["effects"] == [
        {"action": "spawn_process", "words": words},
        {"action": "access_network", "host": "a.test", "words": words},
    ]
    assert found["parts"][2]["effects"][-1]["repository"] == "o/n"


def test_text_says_what_decides(tree: Path) -> None:
    lines = ask(tree, "git commit -m x; sudo \x1b[31mls").as_text().splitlines()
    assert lines[0].startswith("allow git commit -m x [spawn_process, commit] (default): ")
    assert lines[-1].startswith("deny the whole line (deny-list:sudo): sudo is never allowed here")
    assert all(line.isprintable() for line in lines)
    assert len(ask(tree, "git status").as_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("line", "options", "status"),
    [
        ("ls", (), 0),
        ("sudo ls", (), 1),
        ("npm publish", (), 3),
        ("npm publish", ("--mode", "plan"), 1),
        ("git commit", ("--json",), 0),
    ],
)
def test_exit_status(tree: Path, line: str, options: tuple[str, ...], status: int) -> None:
    answer = Console(tree.parent).call("check", "command", line, *options)
    assert answer.status == status
    assert not answer.said
