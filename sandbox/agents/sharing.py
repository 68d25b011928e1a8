"""A space: agents that work beside each other. Its folders, and the two named sets of mounts that are built from them.

    STATE/spaces/SPACE/repos                  shared, read-write
    STATE/spaces/SPACE/attachments            shared, read-only
    STATE/spaces/SPACE/agents/AGENT/work      the agent's own
    STATE/spaces/SPACE/agents/AGENT/config    what it is told, read-only

A sibling's folders are in no set, so inside they do not exist.
"""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from gateway.errors import GatewayError
from sandbox.folders import make_private
from sandbox.spec import SandboxBindMount

# The same as of every name that stands in a path: no separator, and no leading dot.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class SpaceFolders:
    """Where one agent of one space finds things; absolute paths. `agent` holds `work`, `config` and its home."""

    root: str
    repos: str
    attachments: str
    agent: str
    work: str
    config: str


def space_folders(state_dir: str, space: str, agent: str) -> SpaceFolders:
    """The folders of `agent` in `space` below the state directory. GatewayError for a name that is none."""
    for field, name in (("space_id", space), ("agent_id", agent)):
        if not _NAME.fullmatch(name):
            raise GatewayError(
                f"{field}: {name[:80]!r} is not a name of up to 64 letters, digits, dots, dashes and underscores"
            )
    root = os.path.join(state_dir, "spaces", space)
    own = os.path.join(root, "agents", agent)
    return SpaceFolders(
        root=root,
        repos=os.path.join(root, "repos"),
        attachments=os.path.join(root, "attachments"),
        agent=own,
        work=os.path.join(own, "work"),
        config=os.path.join(own, "config"),
    )


def overlay(
    folders: SpaceFolders, is_there: Callable[[str], bool] = os.path.isdir
) -> tuple[SandboxBindMount, ...]:
    """The agent's work read-write and its configuration read-only; the space's repositories read-write and its
    attachments read-only, where `is_there` says that there are any."""
    mounts = [SandboxBindMount(folders.work, folders.work), _read_only(folders.config)]
    if is_there(folders.repos):
        mounts.append(SandboxBindMount(folders.repos, folders.repos))
    if is_there(folders.attachments):
        mounts.append(_read_only(folders.attachments))
    return tuple(mounts)


def harness(folders: SpaceFolders) -> tuple[SandboxBindMount, ...]:
    """The agent's work alone."""
    return (SandboxBindMount(folders.work, folders.work),)


def _read_only(path: str) -> SandboxBindMount:
    return SandboxBindMount(path, path, read_only=True)


def make_space_folders(folders: SpaceFolders) -> None:
    """Makes what every agent of the space needs, for this user alone; what is there stays as it is. GatewayError
    when something else stands in the way."""
    needed = (folders.root, folders.repos, os.path.dirname(folders.agent), folders.agent)
    for path in (os.path.dirname(folders.root), *needed, folders.work, folders.config):
        try:
            make_private(path)
            found = os.lstat(path)
        except OSError as error:
            raise GatewayError(f"space_id: {path} cannot be made: {error.strerror}") from error
        if os.path.islink(path) or found.st_uid != os.geteuid():
            raise GatewayError(
                f"space_id: {path} is not a directory of this user", "remove it, or use another space"
            )
