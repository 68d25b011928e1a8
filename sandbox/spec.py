"""What a session asks of its wrap, and what became of it. Values only; `mounts.py` turns them into a wrap."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.session import Bridge, FileRules, Mode, ProcessGroup, Profile
from sandbox.agents.claude import ClaudeHook
from sandbox.git.session import SessionGit


@dataclass(frozen=True, slots=True)
class SandboxBindMount:
    """A host directory or file the wrapped process may see. Both paths are absolute.

    `guest_path` exists for backends with their own file tree; native backends refuse one that differs.
    """

    host_path: str
    guest_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """One session's wrap. All paths are absolute host paths; an empty string means "none".

    `bind_mounts` holds the worktree first, then what `--bind` named. In `chat` they are writable unless marked
    read-only, in every other mode all of them are read-only. `protected_paths` are never writable, in no mode;
    `runner_state_dirs` are writable in every mode. `guest_workdir` is where CMD starts (empty: the first bind).
    `network_enabled` changes nothing in the wrap, which never has a network of its own: the gateway refuses.
    `exec_grant_roots` is for macOS.

    `home` becomes HOME inside (a private directory of the workspace, made when missing; empty: a temporary one),
    `state_dir` and `runtime_dir` are the product's own and are never bound, `user_home` is the real home, whose
    secrets are never bound. `command` is CMD with its arguments and `search_path` the host's PATH: what they need
    to run is bound read-only. `git_config` is the copy of the user's git configuration, and `git` the forge that pushes
    and fetches are rewritten for in front of it (None: git is left to itself).
    `deny_write`, `allow_write` and `deny_read` join the shipped file rules (globs: a bare name, or a path).
    `group` is where CMD stands among the host's processes; the default is safe wherever the launcher was started.
    `space_id` is the space whose folders, those of `agent_id` and the shared ones, may be bound (empty: none).
    `profile` is for whom the wrap is: for a terminal the binds are what can be written, and the rest is read-only.
    `file_rules` is how names are denied on Linux, `bridge` how the listeners come out there. `hook` is what Claude
    Code's hook is told (None: there is none).
    """

    session_id: str
    workspace_id: str
    agent_id: str
    bind_mounts: tuple[SandboxBindMount, ...]
    network_enabled: bool = True
    egress_allowlist: tuple[str, ...] = ()
    guest_workdir: str = ""
    mode: Mode = Mode.CHAT
    protected_paths: tuple[str, ...] = ()
    runner_state_dirs: tuple[str, ...] = ()
    exec_grant_roots: tuple[str, ...] = ()
    home: str = ""
    state_dir: str = ""
    runtime_dir: str = ""
    user_home: str = ""
    command: tuple[str, ...] = ()
    search_path: str = ""
    git_config: str = field(default="", repr=False)
    git: SessionGit | None = None
    deny_write: tuple[str, ...] = ()
    allow_write: tuple[str, ...] = ()
    deny_read: tuple[str, ...] = ()
    group: ProcessGroup = ProcessGroup.SHARED
    space_id: str = ""
    profile: Profile = Profile.AGENT
    file_rules: FileRules = FileRules.CREATE_TIME
    bridge: Bridge = Bridge.HANDOVER
    hook: ClaudeHook | None = None

    @property
    def workdir(self) -> str:
        """Where CMD starts: `guest_workdir`, otherwise the first bind, otherwise "/"."""
        if self.guest_workdir:
            return self.guest_workdir
        return self.bind_mounts[0].host_path if self.bind_mounts else "/"


class SandboxState(StrEnum):
    """Where a wrap is in its life."""

    CREATED = "created"
    WARM = "warm"
    ACTIVE = "active"
    SUSPENDED = "suspended"
    DESTROYED = "destroyed"
    ERROR = "error"


# Which state may follow which; `destroyed` is final. `error` keeps the way to `destroyed` open: teardown always runs.
TRANSITIONS: Mapping[SandboxState, frozenset[SandboxState]] = {
    SandboxState.CREATED: frozenset({SandboxState.WARM, SandboxState.ERROR, SandboxState.DESTROYED}),
    SandboxState.WARM: frozenset({SandboxState.ACTIVE, SandboxState.ERROR, SandboxState.DESTROYED}),
    SandboxState.ACTIVE: frozenset({SandboxState.SUSPENDED, SandboxState.ERROR, SandboxState.DESTROYED}),
    SandboxState.SUSPENDED: frozenset({SandboxState.ACTIVE, SandboxState.ERROR, SandboxState.DESTROYED}),
    SandboxState.ERROR: frozenset({SandboxState.DESTROYED}),
    SandboxState.DESTROYED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class SandboxHandle:
    """What a caller is told about a wrap. `backend` is the one really in force; `error` is empty unless it failed."""

    session_id: str
    backend: str
    state: SandboxState
    error: str = ""
    details: Mapping[str, str] = field(default_factory=dict)
