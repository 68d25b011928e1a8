"""Where Claude Code meets this session's hook: in the wrap's managed settings, in its managed directory, and on the
command line of a `claude` that is started directly.

Plans it, and writes the one file that a session without a wrap needs.
"""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from gateway.config import Config
from gateway.errors import GatewayError
from gateway.policy.tools import disallowed_claude_tools
from gateway.session import Profile
from sandbox.agents.claude import ClaudeHook, hook_command, hooks, settings_text, with_arguments
from sandbox.agents.state import ManagedState, find_agent
from sandbox.backends.hosted import PACKAGE
from sandbox.mounts import inside_hook, own_interpreter
from sandbox.spec import SandboxSpec

CLAUDE: Final = "claude"
# Seconds that the hook waits longer than a question does, so that it hears of its end.
_GRACE: Final = 15
_FOLDER: Final = "claude"


def with_hook(spec: SandboxSpec, config: Config) -> SandboxSpec:
    """The wrap of an agent with the hook; a person's own shell has none."""
    if spec.profile is not Profile.AGENT:
        return spec
    limit = config.approvals.timeout + _GRACE
    return replace(spec, hook=ClaudeHook(limit, disallowed_claude_tools(spec.mode)))


def with_hooked_settings(
    managed: ManagedState | None, spec: SandboxSpec, platform: str
) -> ManagedState | None:
    """Claude Code's managed directory with the hook in its settings. In every mode the same ones: sessions of several
    modes share the directory, and Claude Code notices changes."""
    if managed is None or managed.agent.name != CLAUDE or spec.hook is None:
        return managed
    command = host_hook(spec.hook) if platform == "darwin" else inside_hook(spec.hook)
    return replace(managed, hooks=hooks(command, spec.hook))


def hooked_command(
    command: tuple[str, ...], spec: SandboxSpec, environ: Mapping[str, str], *, is_wrapped: bool
) -> tuple[str, ...]:
    """CMD, and where that is Claude Code itself, what keeps tools of its mode away. Without a wrap there are no managed
    settings either: a settings file on the command line is all that can be given, and its user may name another."""
    agent = find_agent(command, environ.get("PATH", ""), spec.workdir)
    if agent is None or agent.name != CLAUDE or spec.hook is None:
        return command
    settings = "" if is_wrapped else str(settings_place(spec))
    return with_arguments(command, spec.hook.disallowed, settings)


def host_hook(hook: ClaudeHook) -> str:
    """How Claude Code runs the hook where it sees the host's files; the gateway's address differs by session there."""
    return hook_command(own_interpreter(), os.path.join(PACKAGE, "hook.py"), hook)


def settings_place(spec: SandboxSpec) -> Path:
    """The settings file of sessions without a wrap, one for each limit."""
    limit = spec.hook.limit if spec.hook is not None else 0
    return Path(spec.state_dir, _FOLDER, f"hook-{limit:g}.json")


def write_settings(spec: SandboxSpec, command: tuple[str, ...]) -> None:
    """Writes that file where CMD names it. GatewayError when it cannot be made."""
    place = settings_place(spec)
    if spec.hook is None or str(place) not in command:
        return
    text = settings_text(hooks(host_hook(spec.hook), spec.hook))
    try:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor, draft = tempfile.mkstemp(dir=place.parent, prefix=".hook-")  # 0600
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        os.replace(draft, place)
    except OSError as error:
        raise GatewayError(f"{place} cannot be written: {error.strerror}") from error
