"""What every push of one session shares: who it is, the door, the ways to GitHub, and the bounds of the whole."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.credentials.broker import SessionCredentials
from gateway.push.access import RepositoryAccess
from gateway.push.upstream import Upstream
from gateway.push_authorizer import PushAuthorizer
from gateway.session import Session

# Pushes at a time: each may hold a spool of 2 GiB, a thread and a connection to GitHub, which takes six a minute.
PUSHES_AT_ONCE: Final = 4


@dataclass(slots=True)
class PushContext:
    """Changes: `running` counts pushes. `label` are the words before "policy:", `clock` gives monotonic seconds,
    `spool_folder` is where pushes wait that cannot go on yet. `is_protected` tells of a path in the session's worktree
    that the session may not write it; None where there are no such rules."""

    session: Session
    door: PushAuthorizer
    access: RepositoryAccess
    credentials: SessionCredentials
    upstream: Upstream
    label: str
    clock: Callable[[], float]
    spool_folder: Path | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    running: int = field(default=0)
    is_protected: Callable[[str], bool] | None = None

    def milliseconds_since(self, start: float) -> int:
        """Since that time of the clock."""
        return round((self.clock() - start) * 1000)
