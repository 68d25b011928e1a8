"""The half of a session that its tool calls meet, put together: the door, the places its paths lie in, the routes.

Composition only.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gateway.action_authorizer import ActionAuthorizer
from gateway.api.agent import Route
from gateway.api.tool_call import ToolGate, tool_call_routes
from gateway.plan import Plan
from gateway.policy.grounds import Grounds, within
from gateway.policy.modes import Mode
from gateway.push_authorizer import PushAuthorizer
from gateway.session import Session
from sandbox.backends.base import Inside, Running
from sandbox.filerules import GIT_DENIED, UNSEARCHED_FOLDERS, WRITE_ALLOWED_NAMES, FileRules, NameRules
from sandbox.git.tracked import ProtectedPaths
from sandbox.places import SYSTEM_SECRETS, guard
from sandbox.spec import SandboxSpec

# What a wrap has of its own besides its home: nothing in it is the host's.
_PRIVATE = ("/tmp", "/var/tmp", "/run", "/dev/shm")
# Names whose content is a secret wherever they stand; the file rules keep them from being written.
SECRET_NAMES = (".env", ".env.*", "*.key", "*.pem", "*.p12", "*.pfx")

# What git obeys in a git directory, and the folders there that hold others.
_GIT_DENIED = frozenset(GIT_DENIED)
_REPOSITORIES = ("modules", "worktrees")


@dataclass(frozen=True, slots=True)
class ActionHalf:
    """What a session's agent listener needs for tool calls."""

    door: ActionAuthorizer
    routes: Sequence[Route]


def action_half(plan: Plan, running: Running, session: Session, pushes: PushAuthorizer) -> ActionHalf:
    """The half of one session, with the log and the approvers that its pushes have."""
    door = ActionAuthorizer(pushes.log, pushes.approvals, _now)
    inside, backend = running.inside, running.handle.backend
    key = plan.config.github.private_key_file
    secrets = (os.path.realpath(key),) if key is not None else ()
    gate = ToolGate(session, door, make_grounds(plan.spec, plan.worktree, inside, backend, secrets))
    return ActionHalf(door, tool_call_routes(gate))


def protected_paths(plan: Plan, running: Running) -> ProtectedPaths | None:
    """What may not be written of the worktree's repository; None where no file rules are in force."""
    spec = plan.spec
    if running.handle.backend == "none" or not plan.worktree:
        return None
    return ProtectedPaths(plan.worktree, FileRules(spec.deny_write, spec.allow_write))


def make_grounds(
    spec: SandboxSpec, worktree: str, inside: Inside, backend: str, secrets: Sequence[str] = ()
) -> Grounds:
    """The places of a session. Without a wrap nothing is the session's own but what it may write."""
    bound = (bind.host_path for bind in spec.bind_mounts if not bind.read_only and spec.mode is Mode.CHAT)
    private: tuple[str, ...] = ()
    if backend != "none":
        private = (*_PRIVATE, inside.home, inside.tmpdir)
    return Grounds(
        worktree=worktree,
        cwd=spec.workdir,
        home=inside.home,
        writable=(*bound, *spec.runner_state_dirs),
        private=private,
        protected=_Protected(spec),
        secret=_Secret(spec, secrets),
        resolve=_resolve,
    )


class _Protected:
    """Whether a path may not be written: the file rules, as the wrap enforces them. Changes in what they remember."""

    def __init__(self, spec: SandboxSpec) -> None:
        self._rules = NameRules(FileRules(spec.deny_write, spec.allow_write, spec.deny_read))
        self._paths = spec.protected_paths

    def __call__(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        if any(within(path, one) for one in self._paths) or _is_gits_own(path):
            return True
        return bool(name) and self._rules.write_denied(folder, name)


def _is_gits_own(path: str) -> bool:
    """Whether git runs it, or finds there what it runs: hooks and configuration of a repository, or of one in it."""
    steps = path.lower().split("/")
    if ".git" not in steps:
        return False
    first, *more = [*steps[steps.index(".git") + 1 :], ""]
    return first in _GIT_DENIED or (first in _REPOSITORIES and not _GIT_DENIED.isdisjoint(more))


class _Secret:
    """Whether reading a path reads a secret: what must never be bound, what may not be read, and names of secrets in
    what is the user's own, outside of installed packages. Changes in what the rules remember."""

    def __init__(self, spec: SandboxSpec, more: Sequence[str]) -> None:
        self._hidden = NameRules(FileRules(deny_read=spec.deny_read))
        self._names = NameRules(FileRules(SECRET_NAMES, WRITE_ALLOWED_NAMES), shipped=False)
        self._places = (*guard(spec.user_home, ()).secrets, *SYSTEM_SECRETS, *more)
        self._own = (*(bind.host_path for bind in spec.bind_mounts), spec.user_home)

    def __call__(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        if any(within(path, place) for place in self._places):
            return True
        if not name:
            return False
        if self._hidden.read_denied(folder, name):
            return True
        is_own = any(within(path, one) for one in self._own) and UNSEARCHED_FOLDERS.isdisjoint(
            path.split("/")
        )
        return is_own and self._names.write_denied(folder, name)


def _resolve(path: str) -> str:
    """Where a path leads on this host; unknown where it cannot be said."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return ""


def _now() -> datetime:
    return datetime.now(UTC)
