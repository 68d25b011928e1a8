"""What `run` is going to do, worked out before anything is started: options, environment and config into one value.

Reads the config, the lists and the file system; changes nothing.
"""

import glob
import hashlib
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from gateway.allowlists import load_shipped
from gateway.config import Config, compile_egress, find_config, load_config
from gateway.config.values import Workspace
from gateway.errors import GatewayError, UsageError
from gateway.lifecycle import new_session_id
from gateway.policy.egress import EgressRules
from gateway.policy.repositories import SessionRepositories
from gateway.session import Mode
from sandbox.env import refuse_name
from sandbox.gitconfig import Setting, git_config_text, read_user_settings
from sandbox.gitdir import is_git_directory
from sandbox.github_host import GitHubHost, parse_github_url
from sandbox.launch import Choice, choose_backend
from sandbox.layout import system_folders
from sandbox.remotes import Remotes, find_aliases, read_remotes
from sandbox.session_git import make_session_git
from sandbox.spec import SandboxBindMount, SandboxSpec

# The workspace of whoever names none: its homes are the worktrees' own.
DEFAULT_WORKSPACE: Final = "default"
# Names that stand in records, paths and the environment.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `run` as given; None or empty where one was left out. `env` may hold secrets."""

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
    workspace: str = DEFAULT_WORKSPACE
    agent: str | None = None
    session: str | None = None
    env: tuple[str, ...] = field(default=(), repr=False)
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything `run` needs. `workdir` is where CMD starts, `passed` and `set_values` are --env's and the config's,
    `repositories` where the session may push to, `authority` the forge's HOST[:PORT]. `notes` are for the user, a line
    each."""

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
    repositories: SessionRepositories
    authority: str
    notes: tuple[str, ...]


def make_plan(options: RunOptions, environ: Mapping[str, str]) -> Plan:
    """The plan. UsageError for what contradicts itself or cannot be meant, GatewayError for what cannot be used."""
    for option, value in (
        ("session", options.session),
        ("workspace", options.workspace),
        ("agent", options.agent),
    ):
        _check_name(f"--{option}", value)
    passed, set_values = _variables(options.env)
    config_file = find_config(options.config, environ)
    lists = load_shipped()
    config = load_config(config_file, lists)
    _check_variables(config)
    _check_key(config)
    rules = compile_egress(config, lists, options.allow, options.network)
    choice = choose_backend(options.sandbox, options.backend, environ, config.sandbox)
    session_id = options.session or new_session_id()
    workdir = _working_directory()
    worktree = _worktree(options.repo, workdir)
    audit_directory = config.audit.directory or state_directory(environ) / "audit"
    forge = _find_forge(config, environ, worktree, workdir)
    spec = _spec(options, environ, config, session_id, workdir, worktree, forge)
    return Plan(
        options=options,
        config=config,
        rules=rules,
        choice=choice,
        spec=_with_own_files(spec, config, (config_file, audit_directory, config.managed_rules_file)),
        session_id=session_id,
        workdir=spec.workdir,
        worktree=worktree,
        audit_directory=audit_directory,
        passed=(*config.environment.pass_, *passed),
        set_values={**config.environment.set_, **set_values},
        repositories=SessionRepositories(
            forge.remotes.repositories,
            config.workspaces.get(options.workspace, Workspace()).repositories,
        ),
        authority=forge.host.authority,
        notes=forge.remotes.notes,
    )


@dataclass(frozen=True, slots=True)
class _Forge:
    """What the host's git says of the forge: the user's settings, and the worktree's remotes at this moment."""

    host: GitHubHost
    settings: tuple[Setting, ...]
    aliases: tuple[str, ...]
    remotes: Remotes


def _find_forge(config: Config, environ: Mapping[str, str], worktree: str, workdir: str) -> _Forge:
    host = parse_github_url(config.github.url)
    settings = read_user_settings(environ, worktree or workdir)
    aliases = find_aliases(settings, host)
    remotes = read_remotes(environ, worktree, host, aliases) if worktree else Remotes()
    return _Forge(host, settings, aliases, remotes)


def _spec(
    options: RunOptions,
    environ: Mapping[str, str],
    config: Config,
    session_id: str,
    workdir: str,
    worktree: str,
    forge: "_Forge",
) -> SandboxSpec:
    """What is asked of the wrap. Without a worktree the current directory takes its place."""
    state = state_directory(environ)
    root = worktree or workdir
    return SandboxSpec(
        session_id=session_id,
        workspace_id=options.workspace,
        agent_id=options.agent or "",
        bind_mounts=_binds(root, options.bind),
        network_enabled=options.network,
        egress_allowlist=options.allow,
        guest_workdir=workdir if _is_within(workdir, root) else root,
        mode=Mode(options.mode),
        protected_paths=tuple(_existing("--protect", path) for path in options.protect),
        runner_state_dirs=tuple(_existing("--state-dir", path) for path in options.state_dirs),
        home=_home(state, options, root),
        state_dir=str(state),
        runtime_dir=_runtime_directory(environ),
        user_home=environ.get("HOME", ""),
        command=options.command,
        search_path=environ.get("PATH", ""),
        git_config=git_config_text(forge.settings),
        git=make_session_git(forge.host, forge.remotes, forge.aliases),
        deny_write=config.files.deny_write,
        allow_write=config.files.allow_write,
        deny_read=config.files.deny_read,
    )


def _home(state: Path, options: RunOptions, root: str) -> str:
    """The private home; empty for a throwaway one.

    What one run leaves in its home (`usercustomize.py`, shell files, package caches) runs in the next. So a home is
    shared by the runs of one worktree, or by those that name the same workspace, and never by other modes than chat.
    """
    if Mode(options.mode) is not Mode.CHAT:
        return ""
    folder = state / "workspaces" / options.workspace
    if options.workspace == DEFAULT_WORKSPACE:
        name = _NOT_IN_A_NAME.sub("_", os.path.basename(root))[:64]
        folder /= f"worktrees/{name}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"
    return str(folder / "home")


def _with_own_files(spec: SandboxSpec, config: Config, own: tuple[Path | None, ...]) -> SandboxSpec:
    """What the gateway goes by stays out of the command's hands where it lies among what it may write, and the App's
    key out of its sight."""
    paths = sorted({os.path.realpath(path) for path in own if path is not None})
    key = config.github.private_key_file
    hidden = [os.path.realpath(key)] if key is not None else []

    shown = (*(bind.host_path for bind in spec.bind_mounts), *spec.runner_state_dirs)

    def inside(paths: Iterable[str]) -> Iterator[str]:
        return (path for path in paths if any(_is_within(path, folder) for folder in shown))

    return replace(
        spec,
        protected_paths=(*spec.protected_paths, *inside((*paths, *hidden))),
        deny_read=(*spec.deny_read, *(glob.escape(path) for path in inside(hidden))),
    )


def _variables(texts: tuple[str, ...]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The names that --env passes and the values that it sets; of two for one name the later counts."""
    passed: dict[str, str | None] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        try:
            refuse_name(name)
        except UsageError as error:
            raise UsageError(f"--env: {error}") from None
        passed[name] = value if equals else None
    values = {name: value for name, value in passed.items() if value is not None}
    return tuple(name for name in passed if name not in values), values


def _check_variables(config: Config) -> None:
    for name in (*config.environment.pass_, *config.environment.set_):
        try:
            refuse_name(name)
        except UsageError as error:
            raise GatewayError(f"{config.source}: environment: {error}", "take it out") from None


def state_directory(environ: Mapping[str, str]) -> Path:
    """Where the product keeps its state (XDG base directories; a relative value does not count, as they say)."""
    base = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "agent-gateway"
    home = environ.get("HOME", "")
    if not os.path.isabs(home):
        raise GatewayError("there is no home directory to keep state in", "set HOME or XDG_STATE_HOME")
    return Path(home) / ".local" / "state" / "agent-gateway"


def _runtime_directory(environ: Mapping[str, str]) -> str:
    """Where the product's sockets are, besides the state directory; empty where the system has no such place."""
    base = environ.get("XDG_RUNTIME_DIR", "")
    return os.path.join(base, "agent-gateway") if os.path.isabs(base) else ""


def _check_key(config: Config) -> None:
    """The wrap shows the system's folders as they are: no file in them can be hidden."""
    key = config.github.private_key_file
    path = os.path.realpath(key) if key is not None else ""
    folders = (folder for folder in system_folders() if not os.path.islink(folder))
    if found := next((folder for folder in folders if path and _is_within(path, folder)), ""):
        raise GatewayError(
            f"github.private_key_file: {path} lies in {found}, which every command sees",
            "move it to a directory of your own, outside what is shown to commands",
        )


def _check_name(option: str, value: str | None) -> None:
    if value is not None and not _NAME.fullmatch(value):
        raise UsageError(
            f"{option} takes a name of up to 64 letters, digits, dots, dashes and underscores",
            f"not {value[:80]!r}",
        )


def _working_directory() -> str:
    try:
        return os.path.realpath(os.getcwd())
    except OSError as error:
        raise GatewayError("the current directory cannot be read", "change to one that exists") from error


def _worktree(repo: str | None, workdir: str) -> str:
    """The worktree that was named, or the git worktree around the current directory; empty when there is none.

    A `.git` of somebody else's (in a shared /tmp, say) must not widen what is shown: as for git itself it does not
    count, unless the current directory is theirs too.
    """
    if repo is not None:
        return _existing("--repo", repo, directory=True)
    owners = {os.geteuid(), os.stat(workdir).st_uid}
    for folder in (Path(workdir), *Path(workdir).parents):
        if _is_repository(str(folder / ".git"), owners):
            return str(folder)
    return ""


def _is_repository(marker: str, owners: Container[int]) -> bool:
    try:
        owner = os.stat(marker).st_uid
    except OSError:
        return False
    return owner in owners and (os.path.isfile(marker) or is_git_directory(marker))


def _existing(option: str, path: str, *, directory: bool = False) -> str:
    """The resolved path. UsageError for none at all, GatewayError where nothing stands there."""
    if not path:
        raise UsageError(f"{option} names no path")
    resolved = os.path.realpath(path)
    if not os.path.exists(resolved) or (directory and not os.path.isdir(resolved)):
        raise GatewayError(f"{option} {path}: no such {'directory' if directory else 'file or directory'}")
    return resolved


def _binds(root: str, texts: tuple[str, ...]) -> tuple[SandboxBindMount, ...]:
    """The worktree, then what --bind names: PATH, or PATH:ro (a path that ends in ":ro" itself takes ":rw")."""
    mounts = [SandboxBindMount(root, root)]
    for text in texts:
        path, colon, kind = text.rpartition(":")
        if not colon or kind not in ("ro", "rw"):
            path, kind = text, "rw"
        resolved = _existing("--bind", path)
        mounts.append(SandboxBindMount(resolved, resolved, read_only=kind == "ro"))
    return tuple(mounts)


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
