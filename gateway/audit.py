"""The audit log: JSON Lines, one file per writing process, each line chained to the one before by its hash.

An event is recorded with one write(2) before the answer it is about goes out; a record that cannot be written raises
`AuditError`, and whatever it was about must not happen. This module decides nothing, and appending waits for no lock.
"""

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import resource
import secrets
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from gateway.disk import keep_room
from gateway.errors import AuditError
from gateway.policy.record import write_fields
from gateway.session import Session

SCHEMA_VERSION: Final = 1
GENESIS: Final = "0" * 64
_REMEMBERED_SESSIONS: Final = 1024
# Full files that wait for `sync` to close them, before appending does it itself.
_MAX_FULL: Final = 8
# Bytes that one record may take at most, each of its texts cut and escaped; and how many more are kept at a time.
_ROOM_FOR_ONE: Final = 16 << 10
_MORE_ROOM: Final = 1 << 20
_NANOSECONDS_PER_DAY: Final = 86_400 * 1_000_000_000
_FILE_NAME = re.compile(r"\d{8}T\d{6}Z-\d+-[0-9a-f]{8}-\d{4,}\.jsonl")
# What every record has. No field bears such a name, or a reader would meet it twice.
_COMMON = frozenset(
    {"v", "ts", "seq", "prev", "session", "workspace", "space", "agent", "sandbox", "event", "truncated"}
)

_log = logging.getLogger(__name__)


class EventKind(StrEnum):
    """The kinds of record a reviewer meets; new ones are added last."""

    SESSION = "session"
    EGRESS = "egress"
    CONFIG = "config"
    VIOLATION = "violation"
    PUSH = "push"
    TOKEN = "token"
    APPROVAL = "approval"


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


@dataclass(slots=True)
class _File:
    """A file of this log; changes with every line. `descriptor` is -1 once closed, `dirty` until synced."""

    path: Path
    descriptor: int
    size: int = 0
    dirty: bool = False
    # Up to here the disk keeps room for this file.
    room: int = 0


@dataclass(frozen=True, slots=True)
class _Identity:
    """The part of a record that says whose it is, as written."""

    session: Session | None
    text: str
    truncated: bool


class AuditLog:
    """Appends events to the newest file of `directory`. Changes; used from one thread, `sync` from any.

    `max_bytes` starts a new file (the chain goes on in it); files older than `keep_days` are removed at the start and
    whenever a file is full. `clock` returns nanoseconds since the epoch.
    """

    def __init__(
        self,
        directory: Path,
        *,
        max_bytes: int = 256 << 20,
        keep_days: int = 90,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.directory = directory.absolute()
        self.max_bytes = max_bytes
        self.keep_days = keep_days
        self._clock = clock
        self._process = os.getpid()
        self._run = secrets.token_hex(4)
        self._rotation = 0
        self._seq = 0
        self._prev = GENESIS
        self._broken = ""
        self._promised = 0
        self._second = -1
        self._second_text = ""
        self._identities: dict[str | None, _Identity] = {}
        self._full: deque[_File] = deque()
        # Held while a descriptor is synced or closed, so that none is closed, and its number used anew, meanwhile.
        self._syncing = threading.Lock()
        try:
            for folder in (*reversed(self.directory.parents), self.directory):
                folder.mkdir(mode=0o700, exist_ok=True)
            self._file = self._open(0)
        except OSError as error:
            reason = "it is not a folder" if isinstance(error, FileExistsError) else error.strerror or error
            raise AuditError(
                f"the audit log cannot be written in {directory}: {reason}",
                "set audit.directory to a folder that can be written, or mend this one",
            ) from error
        self._remove_old()

    @property
    def path(self) -> Path:
        """The file being written now."""
        return self._file.path

    def append(self, event: AuditEvent) -> None:
        """Writes one record; AuditError when it does not stand in the file whole. The next one may, where that can be
        mended (a full disk); it is refused as well where the chain would break."""
        body, truncated = event.text, event.truncated
        if event.fields:
            try:
                if not _COMMON.isdisjoint(event.fields):
                    raise ValueError("a field bears the name of one that every record has")
                written, cut = write_fields(event.fields)
            except (TypeError, ValueError, RecursionError) as error:
                raise AuditError(f"a record cannot be written as JSON: {error}") from error
            body, truncated = body + written, truncated or cut
        self.append_written(event.kind, event.session, body, truncated)

    def append_written(
        self, kind: EventKind, session: Session | None, body: str, truncated: bool = False
    ) -> None:
        """The same for a record whose fields are written already, as `policy.record` writes them."""
        if self._broken:
            raise AuditError(self._broken, "mend the audit directory and start again")
        if os.getpid() != self._process:
            raise AuditError("this process is a copy of the one that the audit file belongs to")
        try:
            line = self._line(kind, session, body, truncated)
        except (TypeError, ValueError, RecursionError) as error:
            raise AuditError(f"a record cannot be written as JSON: {error}") from error
        try:
            self._rotate_if_full(len(line) + 1)
            if self._promised:
                self._leave_room(len(line) + 1)
            self._write(line)
        except OSError as error:
            raise AuditError(f"the audit log cannot be written: {error.strerror or error}") from error
        self._prev = hashlib.sha256(line).hexdigest()
        self._seq += 1

    def reserve(self) -> bool:
        """Whether one further record is sure to be taken: nothing is wrong with the file, and the disk keeps room for
        it until `release`, whatever else is written. Where it is not sure, whoever asks writes its record first."""
        file = self._file
        if self._broken or os.getpid() != self._process:
            return False
        facts = os.fstat(file.descriptor)
        if facts.st_nlink == 0 or facts.st_size != file.size:
            return False
        end = file.size + (self._promised + 1) * _ROOM_FOR_ONE
        if end > self.max_bytes or not self._keeps_room(end, end + _MORE_ROOM):
            return False
        self._promised += 1
        return True

    def release(self) -> None:
        """A record that was promised room comes next, or never."""
        self._promised -= 1

    def forget(self, session_id: str) -> None:
        """Drops what is remembered of a session, once its last record is written."""
        self._identities.pop(session_id, None)

    def sync(self) -> None:
        """Brings to the disk what was written before the call; AuditError when the disk says no, and from then on."""
        with self._syncing:
            # The current file first: one that gets full meanwhile stands in the queue before another replaces it.
            self._bring_to_disk(self._file)
            emptied = bool(self._full)
            while self._full:
                self._bring_to_disk(self._full[0])
                _close(self._full.popleft())
        if emptied:
            self._remove_old()

    def close(self) -> None:
        """Syncs and closes; later appends are refused. Idempotent."""
        self._broken = self._broken or "the audit log is closed"
        try:
            self.sync()
        finally:
            with self._syncing:
                for file in (*self._full, self._file):
                    _close(file)

    def _line(self, kind: EventKind, session: Session | None, body: str, truncated: bool) -> bytes:
        identity = self._identity(session)
        mark = ',"truncated":true' if truncated or identity.truncated else ""
        return (
            f'{{"v":{SCHEMA_VERSION},"ts":"{self._timestamp()}","seq":{self._seq},"prev":"{self._prev}"'
            f'{identity.text},"event":"{kind}"{body}{mark}}}'
        ).encode("ascii")

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

    def _write(self, line: bytes) -> None:
        file = self._file
        facts = os.fstat(file.descriptor)
        if facts.st_nlink == 0:
            self._broken = f"the audit file {file.path} was removed while it was being written"
            raise AuditError(self._broken, "restore the audit directory and start again")
        if facts.st_size != file.size:
            self._broken = f"the audit file {file.path} was changed by another program"
            raise AuditError(self._broken, "find out by whom, and start again")
        data = line + b"\n"
        written = os.write(file.descriptor, data)
        # After the write: a `sync` between the two would take an unwritten line for synced.
        file.dirty = True
        if written != len(data):
            # Half a line would break the chain for a reader: take it back, or write nothing more ever.
            self._broken = half = "the audit log took half a record (is the disk full?)"
            os.ftruncate(file.descriptor, file.size)
            file.room = 0
            self._broken = ""
            raise AuditError(half)
        file.size += written

    def _leave_room(self, upcoming: int) -> None:
        """AuditError when a record of so many bytes would take the room that others were promised."""
        end = self._file.size + upcoming + self._promised * _ROOM_FOR_ONE
        if not (self._keeps_room(end, end + _MORE_ROOM) or self._keeps_room(end, end)):
            raise AuditError(
                "the audit log cannot be written: the room that is left is kept for other records"
            )

    def _keeps_room(self, end: int, wanted: int) -> bool:
        """Whether the disk keeps room for the file up to `end`; else it is asked to keep it up to `wanted`."""
        file = self._file
        longest, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        if longest != resource.RLIM_INFINITY and end > longest:
            return False
        if end > file.room:
            if not keep_room(file.descriptor, file.size, wanted - file.size):
                return False
            file.room = wanted
        return True

    def _rotate_if_full(self, upcoming: int) -> None:
        full = self._file
        # What was promised room in this file goes into it. Nothing more is promised then, so that this ends soon.
        if full.size and full.size + upcoming > self.max_bytes and not self._promised:
            fresh = self._open(self._rotation + 1)
            self._rotation += 1
            self._full.append(full)
            self._file = fresh
            if len(self._full) > _MAX_FULL:
                self.sync()

    def _open(self, rotation: int) -> _File:
        started = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._clock() // 1_000_000_000))
        path = self.directory / f"{started}-{self._process}-{self._run}-{rotation:04d}.jsonl"
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        file = _File(path, os.open(path, flags, 0o600))
        _try_lock(file.descriptor)
        return file

    def _bring_to_disk(self, file: _File) -> None:
        if not file.dirty or file.descriptor < 0:
            return
        file.dirty = False
        try:
            os.fsync(file.descriptor)
        except OSError as error:
            # What the disk lost cannot be told from what it has: nothing more is written.
            self._broken = f"the audit log cannot be brought to the disk: {error.strerror or error}"
            raise AuditError(self._broken) from error

    def _remove_old(self) -> None:
        """Removes this user's finished files that are too old. One that cannot be removed stays: no record is lost."""
        oldest = self._clock() - self.keep_days * _NANOSECONDS_PER_DAY
        try:
            paths = [path for path in self.directory.iterdir() if _FILE_NAME.fullmatch(path.name)]
        except OSError as error:
            _log.warning("old audit files cannot be looked for: %s", error.strerror or error)
            return
        for path in paths:
            try:
                if _is_ours(path.lstat(), oldest) and not _is_written(path):
                    _log.info("audit file %s is older than %d days and is removed", path.name, self.keep_days)
                    path.unlink()
            except FileNotFoundError:
                continue  # another process was faster
            except OSError as error:
                _log.warning("audit file %s cannot be removed: %s", path.name, error.strerror or error)


def _close(file: _File) -> None:
    if file.descriptor >= 0:
        if file.room > file.size:
            with contextlib.suppress(OSError):
                # Gives back what was kept behind the end, but takes nothing away that another program wrote there.
                os.ftruncate(file.descriptor, os.fstat(file.descriptor).st_size)
        os.close(file.descriptor)
        file.descriptor = -1


def _try_lock(descriptor: int) -> bool:
    """Locks a file for as long as it stays open, to tell other processes that it is written; False if it is already.
    A file system without locks protects nothing, but takes records all the same."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _is_ours(facts: os.stat_result, oldest: int) -> bool:
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and facts.st_mtime_ns < oldest


def _is_written(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return not _try_lock(descriptor)
    finally:
        os.close(descriptor)


def _identify(session: Session | None) -> _Identity:
    fields = {
        "session": session.id if session else None,
        "workspace": session.workspace if session else None,
        "space": (session.space or None) if session else None,
        "agent": (session.agent or None) if session else None,
        "sandbox": session and {"backend": session.sandbox.backend, "file_rules": session.sandbox.file_rules},
    }
    return _Identity(session, *write_fields(fields))
