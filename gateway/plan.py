"""What `run` is going to do, worked out before anything is started: options, environment and config into one value.

Reads the config, the lists and the file system; changes nothing.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.allowlists import load_shipped
from gateway.config import Config, compile_egress, find_config, load_config
from gateway.errors import GatewayError, UsageError
from gateway.lifecycle import new_session_id
from gateway.policy.egress import EgressRules
from gateway.session import Mode
from sandbox.gitconfig import git_config_text, read_user_settings
from sandbox.launch import Choice, choose_backend
from sandbox.spec import SandboxBindMount, SandboxSpec

# Names that stand in records, paths and the environment.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `run` as given; None or empty where one was left out."""

    command: tuple[str, ...]
    config: str | None = None
    sandbox: str | None = None
    backend: str | None = None
    mode: str = "chat"
    repo: str | None = None
    bind: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    state_dirs: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    network: bool = True
    workspace: str = "default"
    agent: str = ""
    session: str = ""
    env: tuple[str, ...] = ()
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything `run` needs. `workdir` is where CMD starts, `passed` and `set_values` come from --env and the config."""

    options: RunOptions
    config: Config
    rules: EgressRules
    choice: Choice
    spec: SandboxSpec
    session_id: str
    workdir: str
    worktree: str
    audit_directory: Path
    passed: tuple[str, ...]
    set_values: Mapping[str, str] = field(repr=False)


def make_plan(options: RunOptions, environ: Mapping[str, str]) -> Plan:
    """The plan. UsageError for what contradicts itself, GatewayError for what cannot be read."""
    _check_name("--session", options.session)
    _check_name("--workspace", options.workspace)
    _check_name("--agent", options.agent)
    lists = load_shipped()
    config = load_config(find_config(options.config, environ), lists)
    rules = compile_egress(config, lists, options.allow, options.network)
    choice = choose_backend(options.sandbox, options.backend, environ, config.sandbox)
    state = state_directory(environ)
    workdir = _working_directory()
    worktree = _worktree(options.repo, workdir)
    root = worktree or workdir
    session_id = options.session or new_session_id()
    spec = SandboxSpec(
        session_id=session_id,
        workspace_id=options.workspace,
        agent_id=options.agent,
        bind_mounts=(SandboxBindMount(root, root), *(_bind(text) for text in options.bind)),
        network_enabled=options.network,
        egress_allowlist=options.allow,
        guest_workdir=workdir if _is_within(workdir, root) else root,
        mode=Mode(options.mode),
        protected_paths=tuple(_existing("--protect", path) for path in options.protect),
        runner_state_dirs=tuple(_existing("--state-dir", path) for path in options.state_dirs),
        home=str(state / "workspaces" / options.workspace / "home"),
        state_dir=str(state),
        runtime_dir=environ.get("XDG_RUNTIME_DIR", ""),
        user_home=environ.get("HOME", ""),
        command=options.command,
        search_path=environ.get("PATH", ""),
        git_config=git_config_text(read_user_settings(environ, root)),
        deny_write=config.files.deny_write,
        allow_write=config.files.allow_write,
        deny_read=config.files.deny_read,
    )
    return Plan(
        options=options,
        config=config,
        rules=rules,
        choice=choice,
        spec=spec,
        session_id=session_id,
        workdir=spec.workdir,
        worktree=worktree,
        audit_directory=config.audit.directory or state / "audit",
        passed=(*config.environment.pass_, *(text for text in options.env if "=" not in text)),
        set_values={**config.environment.set_, **dict(text.split("=", 1) for text in options.env if "=" in text)},
    )


def state_directory(environ: Mapping[str, str]) -> Path:
    """Where the product keeps its state (XDG base directories; a relative value does not count, as they say)."""
    base = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "agent-gateway"
    home = environ.get("HOME", "")
    if not os.path.isabs(home):
        raise GatewayError("there is no home directory to keep state in", "set HOME or XDG_STATE_HOME")
    return Path(home) / ".local" / "state" / "agent-gateway"


def _check_name(option: str, value: str) -> None:
    if value and not _NAME.fullmatch(value):
        raise UsageError(
            f"{option} takes a name of up to 64 letters, digits, dots, dashes and underscores", f"not {value[:80]!r}"
        )


def _working_directory() -> str:
    try:
        return os.path.realpath(os.getcwd())
    except OSError as error:
        raise GatewayError("the current directory cannot be read", "change to one that exists") from error


def _worktree(repo: str | None, workdir: str) -> str:
    """The worktree that was named, or the git worktree around the current directory; empty when there is none."""
    if repo is not None:
        return _existing("--repo", repo, directory=True)
    folder = Path(workdir)
    for candidate in (folder, *folder.parents):
        if os.path.lexists(candidate / ".git"):
            return str(candidate)
    return ""


def _existing(option: str, path: str, *, directory: bool = False) -> str:
    resolved = os.path.realpath(path)
    if not os.path.exists(resolved) or (directory and not os.path.isdir(resolved)):
        raise UsageError(f"{option} {path}: no such {'directory' if directory else 'file or directory'}")
    return resolved


def _bind(text: str) -> SandboxBindMount:
    """PATH or PATH:ro; a path that ends in ":ro" itself is written with "./" and another ":rw"."""
    path, colon, kind = text.rpartition(":")
    if colon and kind in ("ro", "rw"):
        resolved = _existing("--bind", path)
        return SandboxBindMount(resolved, resolved, read_only=kind == "ro")
    resolved = _existing("--bind", text)
    return SandboxBindMount(resolved, resolved)


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
