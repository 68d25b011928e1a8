"""Where a run takes place: state and runtime directory, working directory, worktree, home. Looks, changes nothing."""

import hashlib
import os
import pwd
import re
from collections.abc import Container, Mapping
from pathlib import Path
from typing import Final

from gateway.allowlists import load_shipped
from gateway.config import find_config, load_config
from gateway.config.values import DEFAULT_WORKSPACE
from gateway.directories import runtime_directory as runtime_directory
from gateway.directories import state_directory as state_directory
from gateway.errors import GatewayError, UsageError
from sandbox.git.directory import is_git_directory

_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")


def audit_directory(config_file: str | None, environ: Mapping[str, str]) -> Path:
    """Where the log is, by the config file that was named or found. ConfigError."""
    config = load_config(find_config(config_file, environ), load_shipped())
    return config.audit.directory or state_directory(environ) / "audit"


def working_directory() -> str:
    """The current directory, resolved. GatewayError when there is none."""
    try:
        return os.path.realpath(os.getcwd())
    except OSError as error:
        raise GatewayError("the current directory cannot be read", "change to one that exists") from error


def find_worktree(repo: str | None, workdir: str) -> str:
    """The worktree that was named, or the git worktree around the current directory; empty when there is none.

    A `.git` of somebody else's (in a shared /tmp, say) must not widen what is shown: as for git itself it does not
    count, unless the current directory is theirs too.
    """
    if repo is not None:
        return existing("--repo", repo, directory=True)
    owners = {os.geteuid(), os.stat(workdir).st_uid}
    for folder in (Path(workdir), *Path(workdir).parents):
        if is_repository(str(folder / ".git"), owners):
            return str(folder)
    return ""


def is_repository(marker: str, owners: Container[int]) -> bool:
    """Whether this `.git` is one, and belongs to one of these users (numbers)."""
    try:
        owner = os.stat(marker).st_uid
    except OSError:
        return False
    return owner in owners and (os.path.isfile(marker) or is_git_directory(marker))


def existing(option: str, path: str, *, directory: bool = False) -> str:
    """The resolved path. UsageError for none at all, GatewayError where nothing stands there."""
    if not path:
        raise UsageError(f"{option} names no path")
    resolved = os.path.realpath(path)
    if not os.path.exists(resolved) or (directory and not os.path.isdir(resolved)):
        raise GatewayError(f"{option} {path}: no such {'directory' if directory else 'file or directory'}")
    return resolved


def workspace_folder(state: Path, workspace: str, root: str) -> Path:
    """What the runs in one worktree, or those that name the same workspace, keep among them: the private home is here.

    What one run leaves in its home (`usercustomize.py`, shell files, package caches) runs in the next, so it is shared
    by nobody else.
    """
    folder = state / "workspaces" / workspace
    if workspace == DEFAULT_WORKSPACE:
        name = _NOT_IN_A_NAME.sub("_", os.path.basename(root))[:64]
        folder /= f"worktrees/{name}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"
    return folder


def user_shell(environ: Mapping[str, str]) -> str:
    """The program of a person's own shell: `SHELL`, else the account's, else the system's."""
    shells = [environ.get("SHELL", "")]
    try:
        shells.append(pwd.getpwuid(os.getuid()).pw_shell)
    except KeyError:
        pass  # a container's user without an account
    usable = (shell for shell in shells if os.path.isabs(shell) and os.access(shell, os.X_OK))
    return next((shell for shell in usable if os.path.isfile(shell)), "/bin/sh")
