"""Which commands are agents with a directory of their own, and what a launch takes from that."""

import os
from pathlib import Path, PurePosixPath

import pytest

from sandbox.agents.state import AGENTS, Agent, find_agent, managed_state

CLAUDE, CODEX, GEMINI = AGENTS


def program(path: Path, target: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if target:
        path.symlink_to(target)
    else:
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    return path


@pytest.mark.parametrize("agent", AGENTS, ids=[agent.name for agent in AGENTS])
def test_table(agent: Agent) -> None:
    paths = [*(piece.path for piece in agent.pieces), *(path for path, _ in agent.sealed)]
    assert all(not os.path.isabs(path) and ".." not in PurePosixPath(path).parts for path in paths)
    assert len({piece.path for piece in agent.pieces}) == len(agent.pieces)
    assert agent.variable.isupper()
    assert not agent.trust_file or (agent.trust_file, "") in agent.sealed
    # Of what programs obey nothing is taken unfiltered that can be written later.
    settings = {piece.path for piece in agent.pieces if piece.keys and not piece.beside}
    assert settings - {".credentials.json"} <= {path for path, _ in agent.sealed}


@pytest.mark.parametrize(
    ("layout", "command", "expected"),
    [
        # npm: a link in the prefix to the package's file
        ({"bin/claude": "../lib/node_modules/@anthropic-ai/claude-code/cli.js",
          "lib/node_modules/@anthropic-ai/claude-code/cli.js": ""}, "claude", CLAUDE),
        # under another name
        ({"bin/cc": "../lib/node_modules/@anthropic-ai/claude-code/cli.js",
          "lib/node_modules/@anthropic-ai/claude-code/cli.js": ""}, "cc", CLAUDE),
        ({"bin/cc": "claude", "bin/claude": ""}, "cc", CLAUDE),
        # its own installer: the file is called after the version
        ({"bin/claude": "../share/claude/versions/2.0.1", "share/claude/versions/2.0.1": ""}, "claude", CLAUDE),
        ({"bin/codex": ""}, "codex", CODEX),
        ({"bin/gemini": "../lib/node_modules/@google/gemini-cli/dist/index.js",
          "lib/node_modules/@google/gemini-cli/dist/index.js": ""}, "gemini", GEMINI),
        ({"project/node_modules/.bin/codex": "../@openai/codex/bin/codex.js",
          "project/node_modules/@openai/codex/bin/codex.js": ""}, "./node_modules/.bin/codex", CODEX),
        ({"bin/claude": "nowhere"}, "claude", None),
        ({"bin/claude": "claude"}, "claude", None),
        ({"bin/cc": "dd", "bin/dd": "cc"}, "cc", None),
        ({"bin/claude-code": ""}, "claude-code", None),
        ({"bin/Claude": ""}, "Claude", None),
        ({"bin/sh": ""}, "sh", None),
        ({}, "claude", None),
        ({}, "", None),
    ],
)  # fmt: skip
def test_which_agent(tmp_path: Path, layout: dict[str, str], command: str, expected: Agent | None) -> None:
    for name, target in layout.items():
        program(tmp_path / name, target)
    (tmp_path / "project").mkdir(exist_ok=True)
    assert find_agent((command, "--flag"), f"{tmp_path}/bin", f"{tmp_path}/project") is expected


def test_no_command() -> None:
    assert find_agent((), "/usr/bin", "/") is None


def test_state(tmp_path: Path) -> None:
    program(tmp_path / "bin/claude")
    environ = {"HOME": "/people/dev", "PATH": f"{tmp_path}/bin"}
    state = managed_state(("claude",), environ, "/state/workspaces/one")
    assert state is not None
    assert state.folder == "/state/workspaces/one/agents/claude"
    assert state.variables == {"CLAUDE_CONFIG_DIR": state.folder}
    assert (state.own, state.home, state.own_is_named) == ("/people/dev/.claude", "/people/dev", False)
    assert set(state.sealed) == {
        f"{state.folder}/{name}"
        for name in ("settings.json", "settings.local.json", "hooks", "commands", "agents")
    }
    named = managed_state(("claude",), {**environ, "CLAUDE_CONFIG_DIR": "/elsewhere"}, "/state")
    assert named is not None
    assert (named.own, named.own_is_named, named.folder) == ("/elsewhere", True, "/state/agents/claude")
    for odd in ("", "relative"):
        state = managed_state(("claude",), {**environ, "CLAUDE_CONFIG_DIR": odd}, "/state")
        assert state is not None
        assert state.own == "/people/dev/.claude"


def test_home_is_what_moves_gemini(tmp_path: Path) -> None:
    program(tmp_path / "bin/gemini")
    state = managed_state(("gemini",), {"HOME": "/people/dev", "PATH": f"{tmp_path}/bin"}, "/state")
    assert state is not None
    assert state.own == "/people/dev"
    assert f"{state.folder}/.gemini/settings.json" in state.sealed


@pytest.mark.parametrize(
    ("home", "command", "state_dirs"),
    [
        ("", "claude", ()),
        ("relative", "claude", ()),
        ("HOME", "sh", ()),
        # whoever shows their own directory means it
        ("HOME", "claude", ("HOME/.claude",)),
        ("HOME", "claude", ("elsewhere", "HOME/link")),
    ],
)
def test_no_state(tmp_path: Path, home: str, command: str, state_dirs: tuple[str, ...]) -> None:
    program(tmp_path / "bin/claude")
    (tmp_path / "home/.claude").mkdir(parents=True)
    (tmp_path / "home/link").symlink_to(".claude")
    own = str(tmp_path / "home")
    environ = {"HOME": home.replace("HOME", own), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    shown = tuple(folder.replace("HOME", own) for folder in state_dirs)
    assert managed_state((command,), environ, "/state", state_dirs=shown) is None
