"""What `run` asks of its wrap: the ground it works on, the forge its git knows, and all of it as one `SandboxSpec`.

Reads the file system and asks git for settings; changes nothing.
"""

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gateway.config import Config
from gateway.errors import GatewayError
from gateway.lifecycle import new_session_id
from gateway.options import RunOptions
from gateway.places import (
    existing,
    find_worktree,
    runtime_directory,
    state_directory,
    working_directory,
    workspace_folder,
)
from gateway.session import Bridge, Mode, Profile
from sandbox.agents.sharing import SpaceFolders, overlay, space_folders
from sandbox.agents.state import ManagedState
from sandbox.binds import spec_binds
from sandbox.git.github_host import GitHubHost, parse_github_url
from sandbox.git.remotes import Remotes, find_aliases, read_remotes
from sandbox.git.session import make_session_git
from sandbox.git.settings import Setting, git_config_text, read_user_settings
from sandbox.layout import system_folders
from sandbox.places import guard, within
from sandbox.spec import SandboxBindMount, SandboxSpec
from sandbox.spec_checks import check_private, check_spec

# The agent of a space whose run names none.
DEFAULT_AGENT = "default"


@dataclass(frozen=True, slots=True)
class Ground:
    """What the command works on: `root` is bound first and `workdir` where it starts; `worktree` is empty where there
    is none, `space` None outside of one. `folder` is where the product keeps what belongs to it: no mode but chat has
    a lasting home there."""

    root: str
    workdir: str
    worktree: str
    folder: Path
    space: SpaceFolders | None = None


def find_ground(options: RunOptions, environ: Mapping[str, str]) -> Ground:
    """A space, a person's own working directory, or the worktree around it, which the directory itself stands in for
    where there is none."""
    state = state_directory(environ)
    if options.space is not None:
        space = space_folders(str(state), options.space, options.agent or DEFAULT_AGENT)
        return Ground(space.work, space.work, "", Path(space.agent, "state"), space)
    workdir = working_directory()
    worktree = find_worktree(options.repo, workdir)
    root = workdir if options.profile == Profile.TERMINAL else worktree or workdir
    folder = workspace_folder(state, options.workspace, root)
    return Ground(root, workdir if within(workdir, root) else root, worktree, folder)


@dataclass(frozen=True, slots=True)
class Forge:
    """What the host's git says of the forge: the user's settings, and the worktree's remotes at this moment."""

    host: GitHubHost
    settings: tuple[Setting, ...]
    aliases: tuple[str, ...]
    remotes: Remotes


def find_forge(config: Config, environ: Mapping[str, str], ground: Ground) -> Forge:
    """What agents have cloned in a space says nothing about where they may push to."""
    host = parse_github_url(config.github.url)
    settings = read_user_settings(environ, ground.root if os.path.isdir(ground.root) else "")
    aliases = find_aliases(settings, host)
    remotes = read_remotes(environ, ground.worktree, host, aliases) if ground.worktree else Remotes()
    return Forge(host, settings, aliases, remotes)


def make_spec(
    options: RunOptions, environ: Mapping[str, str], config: Config, ground: Ground, forge: Forge
) -> SandboxSpec:
    """What is asked of the wrap."""
    state = state_directory(environ)
    mode = Mode(options.mode)
    user_home = environ.get("HOME", "")
    spec = SandboxSpec(
        session_id=options.session or new_session_id(),
        workspace_id=options.workspace,
        agent_id=options.agent or "",
        bind_mounts=_mounts(ground.root, options.bind),
        network_enabled=options.network,
        egress_allowlist=options.allow,
        guest_workdir=ground.workdir,
        mode=mode,
        protected_paths=_protected(options, config),
        runner_state_dirs=tuple(existing("--state-dir", path) for path in options.state_dirs),
        exec_grant_roots=tuple(
            existing("--exec-grant", path, directory=True) for path in options.exec_grants
        ),
        home=str(ground.folder / "home") if mode is Mode.CHAT else "",
        state_dir=str(state),
        runtime_dir=runtime_directory(environ),
        user_home=user_home,
        command=options.command,
        search_path=environ.get("PATH", ""),
        git_config=git_config_text(forge.settings),
        git=make_session_git(forge.host, forge.remotes, forge.aliases),
        deny_write=_globs(config.files.deny_write, user_home),
        allow_write=_globs(config.files.allow_write, user_home),
        deny_read=_globs(config.files.deny_read, user_home),
        file_rules=config.file_rules,
        bridge=config.bridge,
    )
    if ground.space is not None:
        return _in_space(spec, ground.space, options)
    return _for_terminal(spec) if options.profile == Profile.TERMINAL else spec


def _in_space(spec: SandboxSpec, space: SpaceFolders, options: RunOptions) -> SandboxSpec:
    """The same in a space: its folders, and a home beside the agent's own. What a backend is asked for is what will
    be there once `make_space_folders` has made it."""
    will_be = frozenset((space.repos,))
    mounts = overlay(space, lambda path: path in will_be or os.path.isdir(path))
    return replace(
        spec,
        space_id=options.space or "",
        agent_id=options.agent or DEFAULT_AGENT,
        bind_mounts=(*mounts, *spec.bind_mounts[1:]),
    )


def _for_terminal(spec: SandboxSpec) -> SandboxSpec:
    """The same for a person's own shell: home and working directory, and nothing of what an agent is given."""
    home = os.path.realpath(spec.user_home) if spec.user_home else ""
    binds = dict.fromkeys((home, spec.bind_mounts[0].host_path) if home else (spec.bind_mounts[0].host_path,))
    return replace(
        spec,
        profile=Profile.TERMINAL,
        bind_mounts=(*(SandboxBindMount(path, path) for path in binds), *spec.bind_mounts[1:]),
        home="",
        git_config="",
        git=None,
        bridge=Bridge.HANDOVER,
    )


def _globs(written: tuple[str, ...], home: str) -> tuple[str, ...]:
    """Globs of the configuration with `~/` for the home directory, and paths also as they are without links: what is
    compared with them is."""
    found = []
    for text in written:
        text = f"{glob.escape(home)}/{text[2:]}" if text.startswith("~/") and home else text
        found.append(text)
        if text.startswith("/") and not glob.has_magic(text):
            found.append(os.path.realpath(text))
        elif text.startswith(f"{glob.escape(home)}/") and home:
            found.append(glob.escape(os.path.realpath(home)) + text.removeprefix(glob.escape(home)))
    return tuple(dict.fromkeys(found))


def with_managed_state(spec: SandboxSpec, managed: ManagedState | None) -> SandboxSpec:
    """An agent's own directory, of which it may not write what runs programs."""
    if managed is None:
        return spec
    return replace(
        spec,
        runner_state_dirs=(*spec.runner_state_dirs, managed.folder),
        protected_paths=(*spec.protected_paths, *managed.sealed),
    )


def _protected(options: RunOptions, config: Config) -> tuple[str, ...]:
    """What --protect names, and the checkouts of all workspaces: no session may write any of them."""
    checkouts = (path for workspace in config.workspaces.values() for path in workspace.checkouts)
    named = [existing("--protect", path) for path in options.protect]
    return tuple(dict.fromkeys([*named, *(os.path.realpath(path) for path in checkouts)]))


def with_own_files(spec: SandboxSpec, config: Config, own: tuple[Path | None, ...]) -> SandboxSpec:
    """What the gateway goes by stays out of the command's hands where it lies among what it may write, and the App's
    key out of its sight. In a terminal everything is shown."""
    paths = sorted({os.path.realpath(path) for path in own if path is not None})
    key = config.github.private_key_file
    hidden = [os.path.realpath(key)] if key is not None else []
    binds = (*(bind.host_path for bind in spec.bind_mounts), *spec.runner_state_dirs)
    shown = binds if spec.profile is Profile.AGENT else ("/",)

    def inside(paths: Iterable[str], folders: Iterable[str]) -> Iterator[str]:
        return (path for path in paths if any(within(path, folder) for folder in folders))

    return replace(
        spec,
        protected_paths=(*spec.protected_paths, *inside((*paths, *hidden), binds)),
        deny_read=(*spec.deny_read, *(glob.escape(path) for path in inside(hidden, shown))),
    )


def check_shown(spec: SandboxSpec, audit_directory: Path) -> None:
    """What a wrap would refuse to show is refused before anything is written: the log itself may lie in it."""
    check_spec(spec)
    own = (spec.state_dir, spec.runtime_dir, str(audit_directory))
    spec_binds(spec, guard(spec.user_home, own), make_home=False)
    check_private(spec)


def check_key(config: Config) -> None:
    """The wrap of an agent shows the system's folders as they are: no file in them can be hidden."""
    key = config.github.private_key_file
    path = os.path.realpath(key) if key is not None else ""
    folders = (folder for folder in system_folders() if not os.path.islink(folder))
    if found := next((folder for folder in folders if path and within(path, folder)), ""):
        raise GatewayError(
            f"github.private_key_file: {path} lies in {found}, which every command sees",
            "move it to a directory of your own, outside what is shown to commands",
        )


def _mounts(root: str, texts: tuple[str, ...]) -> tuple[SandboxBindMount, ...]:
    """Where the command works first, then what --bind names. Named there itself it is as --bind says."""
    named = tuple(_binds(texts))
    own = tuple(mount for mount in named if mount.host_path == root) or (SandboxBindMount(root, root),)
    return (*own, *(mount for mount in named if mount.host_path != root))


def split_bind(text: str) -> tuple[str, str]:
    """The path that a --bind names, and "ro" or "rw"."""
    path, colon, kind = text.rpartition(":")
    return (path, kind) if colon and kind in ("ro", "rw") else (text, "rw")


def _binds(texts: tuple[str, ...]) -> Iterator[SandboxBindMount]:
    """What --bind names: PATH, or PATH:ro (a path that ends in ":ro" itself takes ":rw")."""
    for text in texts:
        path, kind = split_bind(text)
        resolved = existing("--bind", path)
        yield SandboxBindMount(resolved, resolved, read_only=kind == "ro")
