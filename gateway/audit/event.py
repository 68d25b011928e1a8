"""What is recorded, and how a record becomes a line."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.errors import AuditError
from gateway.policy.record import write_fields
from gateway.session import Session

SCHEMA_VERSION: Final = 1
GENESIS: Final = "0" * 64
_REMEMBERED_SESSIONS: Final = 1024
# What every record has. No field bears such a name, or a reader would meet it twice.
_COMMON = frozenset(
    {"v", "ts", "seq", "prev", "session", "workspace", "space", "agent", "sandbox", "event", "truncated"}
)


class EventKind(StrEnum):
    """The kinds of record a reviewer meets; new ones are added last."""

    SESSION = "session"
    EGRESS = "egress"
    CONFIG = "config"
    VIOLATION = "violation"
    PUSH = "push"
    TOKEN = "token"
    APPROVAL = "approval"
    ACTION = "action"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One thing that happened. `session` is None for what concerns the process; `fields` hold JSON values.

    `text` are further fields as `policy.record` writes them, `truncated` whether one of those was cut.
    """

    kind: EventKind
    fields: Mapping[str, object]
    session: Session | None = None
    text: str = ""
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class _Identity:
    """The part of a record that says whose it is, as written."""

    session: Session | None
    text: str
    truncated: bool


class LineWriter:
    """Writes records as lines. Changes (remembers what comes again and again); used from one thread.

    `clock` returns nanoseconds since the epoch.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._second = -1
        self._second_text = ""
        self._identities: dict[str | None, _Identity] = {}

    def line(
        self, kind: EventKind, session: Session | None, body: str, truncated: bool, seq: int, prev: str
    ) -> bytes:
        """The line without its newline; AuditError for what is not JSON."""
        try:
            identity = self._identity(session)
            mark = ',"truncated":true' if truncated or identity.truncated else ""
            return (
                f'{{"v":{SCHEMA_VERSION},"ts":"{self._timestamp()}","seq":{seq},"prev":"{prev}"'
                f'{identity.text},"event":"{kind}"{body}{mark}}}'
            ).encode("ascii")
        except (TypeError, ValueError, RecursionError) as error:
            raise AuditError(f"a record cannot be written as JSON: {error}") from error

    def forget(self, session_id: str) -> None:
        """Drops what is remembered of a session."""
        self._identities.pop(session_id, None)

    def _timestamp(self) -> str:
        second, nanoseconds = divmod(self._clock(), 1_000_000_000)
        if second != self._second:
            self._second = second
            self._second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        return f"{self._second_text}.{nanoseconds // 1000:06d}Z"

    def _identity(self, session: Session | None) -> _Identity:
        key = session.id if session else None
        known = self._identities.get(key)
        # Another session may bear the id of one that was closed.
        if known is None or known.session is not session:
            if len(self._identities) >= _REMEMBERED_SESSIONS:
                self._identities.clear()
            known = self._identities[key] = _identify(session)
        return known


def body_of(event: AuditEvent) -> tuple[str, bool]:
    """An event's own fields as written, and whether one was cut; AuditError for what is not JSON."""
    if not event.fields:
        return event.text, event.truncated
    try:
        if not _COMMON.isdisjoint(event.fields):
            raise ValueError("a field bears the name of one that every record has")
        written, cut = write_fields(event.fields)
    except (TypeError, ValueError, RecursionError) as error:
        raise AuditError(f"a record cannot be written as JSON: {error}") from error
    return event.text + written, event.truncated or cut


def _identify(session: Session | None) -> _Identity:
    fields = {
        "session": session.id if session else None,
        "workspace": session.workspace if session else None,
        "space": (session.space or None) if session else None,
        "agent": (session.agent or None) if session else None,
        "sandbox": session and {"backend": session.sandbox.backend, "file_rules": session.sandbox.file_rules},
    }
    return _Identity(session, *write_fields(fields))
