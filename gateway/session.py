"""A session: one run of an agent, and the registry of those that are live."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from gateway.policy.egress import EgressRules
from gateway.policy.modes import Mode as Mode  # everybody who knows a session knows its mode from here
from gateway.policy.rules import RuleSet, Subject


class FileRules(StrEnum):
    """How file names are denied on Linux."""

    CREATE_TIME = "create-time"
    EXISTING_ONLY = "existing-only"


class Bridge(StrEnum):
    """How the listeners come out of the sandbox on Linux."""

    HANDOVER = "handover"
    SOCAT = "socat"


class Profile(StrEnum):
    """For whom the wrap is: an agent, whose network is an allowlist, or a person's own shell."""

    AGENT = "agent"
    TERMINAL = "terminal"


class ProcessGroup(StrEnum):
    """Where the command stands among the host's processes: whom `kill(0)` inside would reach."""

    SESSION = "session"  # a session of its own: there is no terminal to share
    OWN = "own"  # a group of its own, in the background of a terminal
    ALONE = "alone"  # the caller's group, which holds nobody else
    SHARED = "shared"  # the caller's group, which holds others: a pipeline, a script


@dataclass(frozen=True, slots=True)
class SandboxStamp:
    """What wrap is really in force; stamped on every record of the session.

    `backend` is "native", "none" or "microvm"; `file_rules` a `FileRules` value.
    """

    backend: str
    file_rules: str


@dataclass(frozen=True, slots=True)
class Session:
    """Identity, place and compiled rules of one run. `worktree` is an absolute path: outside any, the
    directory that is worked in.

    `egress` says which hosts it may reach, `rules` what it may do.
    """

    id: str
    sandbox: SandboxStamp
    egress: EgressRules
    secret: str = field(repr=False)
    workspace: str = "default"
    space: str = ""
    agent: str = ""
    mode: Mode = Mode.CHAT
    worktree: str = ""
    rules: RuleSet = field(default_factory=RuleSet)

    def subject(self, now: datetime) -> Subject:
        """On whose behalf this session asks at a moment (aware; rules expire)."""
        return Subject(self.workspace, self.agent, self.space, self.mode, now)


class Sessions:
    """The live sessions by id. Changes; used from one event loop, so it needs no lock."""

    def __init__(self) -> None:
        self._live: dict[str, Session] = {}

    def add(self, session: Session) -> None:
        """Registers a session; ValueError if its id is live already."""
        if session.id in self._live:
            raise ValueError(f"session {session.id!r} is already open")
        self._live[session.id] = session

    def get(self, session_id: str) -> Session | None:
        """The live session with this id, or None."""
        return self._live.get(session_id)

    def remove(self, session_id: str) -> Session | None:
        """Forgets a session and returns it; None if it was not live."""
        return self._live.pop(session_id, None)

    def __iter__(self) -> Iterator[Session]:
        return iter(tuple(self._live.values()))

    def __len__(self) -> int:
        return len(self._live)
