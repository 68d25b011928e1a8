"""Where Claude Code meets the hook: the wrap, the managed directory, the command line."""

import json
import os
from pathlib import Path

import pytest

from gateway.config.values import ApprovalsConfig, Config
from gateway.errors import GatewayError
from gateway.hooking import (
    hooked_command,
    host_hook,
    settings_place,
    with_hook,
    with_hooked_settings,
    write_settings,
)
from gateway.session import Mode, Profile
from sandbox.agents.claude import ClaudeHook, hooks
from sandbox.agents.state import AGENTS, ManagedState
from sandbox.mounts import inside_hook
from sandbox.spec import SandboxSpec
from tests.fakes.claude import install

CHANGING = ("Edit", "EnterWorktree", "ExitWorktree", "MultiEdit", "NotebookEdit", "Write")


def spec(tmp_path: Path, mode: Mode = Mode.CHAT, profile: Profile = Profile.AGENT) -> SandboxSpec:
    made = SandboxSpec("s", "default", "", (), state_dir=str(tmp_path), mode=mode, profile=profile)
    return with_hook(made, Config(approvals=ApprovalsConfig(timeout=300)))


def state(tmp_path: Path, name: str) -> ManagedState:
    agent = next(agent for agent in AGENTS if agent.name == name)
    return ManagedState(agent, str(tmp_path), "/home/u", "/home/u/.x", own_is_named=False)


@pytest.mark.parametrize(
    ("mode", "disallowed"), [(Mode.CHAT, ()), (Mode.PLAN, CHANGING), (Mode.REVIEW, CHANGING)]
)
def test_a_wrap_of_an_agent_has_the_hook(tmp_path: Path, mode: Mode, disallowed: tuple[str, ...]) -> None:
    """It waits longer than a question does."""
    assert spec(tmp_path, mode).hook == ClaudeHook(315, disallowed)


def test_a_persons_own_shell_has_none(tmp_path: Path) -> None:
    terminal = spec(tmp_path, profile=Profile.TERMINAL)
    assert terminal.hook is None
    assert hooked_command(("claude",), terminal, os.environ, is_wrapped=True) == ("claude",)
    assert with_hooked_settings(state(tmp_path, "claude"), terminal, "linux") == state(tmp_path, "claude")


def test_the_managed_directory(tmp_path: Path) -> None:
    """In a wrap of Linux the very command of the managed settings, so that it is run once."""
    made = spec(tmp_path)
    assert made.hook is not None
    found = with_hooked_settings(state(tmp_path, "claude"), made, "linux")
    assert found is not None
    assert found.hooks == hooks(inside_hook(made.hook), made.hook)
    found = with_hooked_settings(state(tmp_path, "claude"), made, "darwin")
    assert found is not None
    assert found.hooks == hooks(host_hook(made.hook), made.hook)
    assert "--gateway" not in host_hook(made.hook)
    assert with_hooked_settings(None, made, "linux") is None
    codex = with_hooked_settings(state(tmp_path, "codex"), made, "linux")
    assert codex is not None
    assert codex.hooks == {}
    plan = with_hooked_settings(state(tmp_path, "claude"), spec(tmp_path, Mode.PLAN), "linux")
    assert plan == with_hooked_settings(state(tmp_path, "claude"), made, "linux")


@pytest.mark.parametrize(
    ("mode", "is_wrapped", "added"),
    [
        (Mode.CHAT, True, ()),
        (Mode.PLAN, True, (f"--disallowedTools={','.join(CHANGING)}",)),
        (Mode.CHAT, False, ("--settings", "PLACE")),
        (Mode.PLAN, False, (f"--disallowedTools={','.join(CHANGING)}", "--settings", "PLACE")),
    ],
)
def test_the_command_line(tmp_path: Path, mode: Mode, is_wrapped: bool, added: tuple[str, ...]) -> None:
    program = str(install(tmp_path / "tools"))
    environ = {"PATH": str(tmp_path / "tools"), "HOME": "/home/u"}
    made = spec(tmp_path, mode)
    expected = tuple(str(settings_place(made)) if word == "PLACE" else word for word in added)
    for name in ("claude", program):
        found = hooked_command((name, "-p", "hello"), made, environ, is_wrapped=is_wrapped)
        assert found == (name, *expected, "-p", "hello")
    for command in (("sh", "-c", "claude"), ("codex",), ()):
        assert hooked_command(command, made, environ, is_wrapped=is_wrapped) == command


def test_the_settings_file_of_a_session_without_a_wrap(tmp_path: Path) -> None:
    made = spec(tmp_path)
    place = settings_place(made)
    write_settings(made, ("claude",))
    assert not place.exists()
    for _ in range(2):
        write_settings(made, ("claude", "--settings", str(place)))
        settings = json.loads(place.read_text())
        assert list(settings) == ["hooks"]
        assert "sandbox/hook.py --limit 315 || exit 2" in json.dumps(settings)
    assert [path.name for path in place.parent.iterdir()] == [place.name]
    assert place.stat().st_mode & 0o777 == 0o600


def test_a_settings_file_that_cannot_be_made(tmp_path: Path) -> None:
    made = spec(tmp_path)
    (tmp_path / "claude").write_text("a file")
    with pytest.raises(GatewayError, match="cannot be written"):
        write_settings(made, ("claude", "--settings", str(settings_place(made))))
