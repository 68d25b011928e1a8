"""The host directories that a spec asks for, resolved and judged: its binds, state directories, git directories, home.

Reads the host (links, pointer files), changes nothing but the private home, which is made when missing.
"""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from gateway.errors import GatewayError
from gateway.session import Mode
from sandbox.folders import make_private
from sandbox.git.directory import find_git_directory
from sandbox.places import Guard, resolve_bind, within
from sandbox.spec import SandboxSpec

# What of a workspace and of a space belongs to one session: relative to the state directory. Another workspace,
# another worktree's home, another agent's folders are somebody else's.
_OWN_PLACES = (
    "workspaces/{workspace}/(worktrees/[^/]+/)?(home|agents/[^/]+)(/.*)?",
    "spaces/{space}/(repos|attachments)(/.*)?",
    "spaces/{space}/agents/{agent}/[^/]+(/.*)?",
)


@dataclass(frozen=True, slots=True)
class Bind:
    """A resolved host path shown at the same place."""

    path: str
    read_only: bool


def spec_binds(spec: SandboxSpec, places: Guard, make_home: bool = True) -> tuple[Bind, ...]:
    """The spec's binds, resolved and checked, with the git directories they need; parents before children.

    Without `make_home` a directory of the product's own need not exist yet.
    """
    protected = protected_paths(spec)
    found: dict[str, bool] = {}

    def take(path: str, read_only: bool) -> None:
        read_only = read_only or any(within(path, sealed) for sealed in protected)
        found[path] = found.get(path, False) or read_only

    def resolve(path: str, field: str, read_only: bool) -> str:
        own = is_own_place(spec, path)
        if own and not make_home and not os.path.lexists(path):
            return os.path.realpath(path)
        return resolve_bind(path, field, read_only, places, own)

    for number, mount in enumerate(spec.bind_mounts):
        read_only = mount.read_only or spec.mode is not Mode.CHAT
        take(resolve(mount.host_path, f"bind_mounts[{number}]", read_only), read_only)
    for number, folder in enumerate(spec.runner_state_dirs):
        take(resolve(folder, f"runner_state_dirs[{number}]", False), False)
    for root, read_only in list(found.items()):
        outside = find_git_directory(root, tuple(found))
        if outside:
            take(resolve_bind(outside, f"the git directory of {root}", read_only, places), read_only)
    return tuple(Bind(path, found[path]) for path in sorted(found, key=lambda path: (path.count("/"), path)))


def protected_paths(spec: SandboxSpec) -> tuple[str, ...]:
    """The protected paths without links, each once."""
    return tuple(dict.fromkeys(os.path.realpath(path) for path in spec.protected_paths))


def is_own_place(spec: SandboxSpec, path: str) -> bool:
    """Whether a path is one of those that the product keeps for this very session, below its state directory."""
    if not spec.state_dir:
        return False
    below = os.path.relpath(os.path.realpath(path), os.path.realpath(spec.state_dir))
    names = {"workspace": spec.workspace_id, "space": spec.space_id, "agent": spec.agent_id}
    escaped = {name: re.escape(value) for name, value in names.items()}
    return any(
        all(names[word] for word in names if f"{{{word}}}" in place)
        and re.fullmatch(place.format(**escaped), below, re.DOTALL) is not None
        for place in _OWN_PLACES
    )


def private_home(spec: SandboxSpec, places: Guard, make: bool = True) -> str:
    """The resolved private home, made when missing and asked for; empty when the spec has none."""
    if not spec.home:
        return ""
    if make:
        try:
            make_private(spec.home)
        except OSError as error:
            raise GatewayError(f"home: {spec.home} cannot be made: {error.strerror}") from error
    elif not os.path.lexists(spec.home):
        return os.path.realpath(spec.home)
    home = resolve_bind(spec.home, "home", read_only=False, places=places, managed=True)
    found = os.stat(home)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise GatewayError(
            f"home: {home} is not a directory of this user", "remove it, or use another workspace"
        )
    return home


def read_only_notes(spec: SandboxSpec, binds: tuple[Bind, ...]) -> Iterator[str]:
    """What was to be written and is not, since something protects it."""
    if spec.mode is not Mode.CHAT:
        return
    shown = {bind.path: bind.read_only for bind in binds}
    for mount in spec.bind_mounts:
        path = os.path.realpath(mount.host_path)
        if shown[path] and not mount.read_only:
            yield f"{path} is read-only: it lies in a protected path"
