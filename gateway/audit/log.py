"""Appends events to the audit log.

An event is recorded with one write(2) before the answer it is about goes out; a record that cannot be written raises
`AuditError`, and whatever it was about must not happen. This module decides nothing, and appending waits for no lock.
"""

import hashlib
import logging
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.audit.event import GENESIS, AuditEvent, EventKind, LineWriter, body_of
from gateway.audit.names import file_name
from gateway.audit.register import Mark, State
from gateway.audit.retention import old_files, remove
from gateway.audit.sealing import EVERY, ROOM, Reason, Seal
from gateway.audit.tending import Tending, is_due
from gateway.audit.written_file import UnusableFile, WrittenFile
from gateway.errors import AuditError
from gateway.metrics import Metrics
from gateway.session import Session

# Full files that wait for `sync` to close them, before appending does it itself.
_MAX_FULL: Final = 8
# Bytes that one record may take at most, each of its texts cut and escaped; and how many more are kept at a time.
_ROOM_FOR_ONE: Final = 16 << 10
_MORE_ROOM: Final = 1 << 20
_NANOSECONDS_PER_DAY: Final = 86_400 * 1_000_000_000

_log = logging.getLogger(__name__)


class AuditLog:
    """Appends events to the newest file of `directory`. Changes; used from one thread, `sync` and `prepare` from any.

    `max_bytes` starts a new file (the chain goes on in it); files older than `keep_days` are removed at the first
    `sync` and whenever a file is full. `state` is the directory with the key and the register of chains; without one
    the log is chained, but not signed. `clock` returns nanoseconds since the epoch.
    """

    def __init__(
        self,
        directory: Path,
        *,
        max_bytes: int = 256 << 20,
        keep_days: int = 90,
        state: Path | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self.directory = directory.absolute()
        self.max_bytes = max_bytes
        self.keep_days = keep_days
        self.state = state
        # Of what is recorded here, for whoever monitors this process; the doors count.
        self.metrics = Metrics()
        self._clock = clock
        self._process = os.getpid()
        self._chain = f"{self._process}-{secrets.token_hex(4)}"
        self._rotation = 0
        # Replaced as a whole, so that `sync` reads number and hash of one line.
        self._tip = Mark(0, GENESIS)
        self._unsigned = 0
        self._broken = ""
        self._promised = 0
        self._lines = LineWriter(clock)
        self._full: deque[WrittenFile] = deque()
        # Held while a descriptor is synced or closed, so that none is closed, and its number used anew, meanwhile.
        self._syncing = threading.Lock()
        self._tended = False
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
        self._seal = Seal(state, self._chain, self.directory, self._tip) if state else None
        self._signing_room = ROOM if state else 0
        self._tending = Tending(self.directory, clock)

    @property
    def path(self) -> Path:
        """The file being written now."""
        return self._file.path

    def prepare(self) -> None:
        """Gets the signing key ready, which takes the time of an import. AuditError when there can be none."""
        if self._seal is not None:
            self._seal.prepare(self._tip)

    def append(self, event: AuditEvent) -> None:
        """Writes one record; AuditError when it does not stand in the file whole. The next one may, where that can be
        mended (a full disk); it is refused as well where the chain would break."""
        self.append_written(event.kind, event.session, *body_of(event))

    def append_written(
        self, kind: EventKind, session: Session | None, body: str, truncated: bool = False
    ) -> None:
        """The same for a record whose fields are written already, as `policy.record` writes them."""
        self._refuse_if_broken()
        if self._unsigned >= EVERY and self._seal is not None:
            self._sign_if_possible()
        line = self._lines.line(kind, session, body, truncated, self._tip.count, self._tip.head)
        try:
            if self._rotate_if_full(len(line) + 1):
                line = self._lines.line(kind, session, body, truncated, self._tip.count, self._tip.head)
            if self._promised:
                self._leave_room(len(line) + 1)
            self._write(line)
        except OSError as error:
            raise AuditError(f"the audit log cannot be written: {error.strerror or error}") from error
        self._unsigned += 1

    def checkpoint(self, reason: Reason, session: Session | None = None) -> None:
        """Signs all that was recorded so far, in a record of its own; AuditError when that cannot be written. Nothing
        is signed where no records came since the last time, but for the end of the log."""
        if self._seal is None or not self._tip.count or not (self._unsigned or reason is Reason.CLOSE):
            return
        self._refuse_if_broken()
        blank = self._lines.line(EventKind.CHECKPOINT, session, "", False, self._tip.count, self._tip.head)
        line = self._seal.checkpoint(blank, self._tip, reason)
        try:
            if self._promised:
                self._leave_room(len(line) + 1)
            self._write(line)
        except OSError as error:
            raise AuditError(f"the audit log cannot be written: {error.strerror or error}") from error
        self._unsigned = 0

    def reserve(self) -> bool:
        """Whether one further record is sure to be taken: nothing is wrong with the file, and the disk keeps room for
        it until `release`, whatever else is written. Where it is not sure, whoever asks writes its record first."""
        file = self._file
        if self._broken or os.getpid() != self._process or not file.is_intact():
            return False
        end = file.size + (self._promised + 1) * _ROOM_FOR_ONE + self._signing_room
        if end > self.max_bytes or not file.keeps_room(end, end + _MORE_ROOM):
            return False
        self._promised += 1
        return True

    def release(self) -> None:
        """A record that was promised room comes next, or never."""
        self._promised -= 1

    def forget(self, session_id: str) -> None:
        """Drops what is remembered of a session, once its last record is written."""
        self._lines.forget(session_id)

    def sync(self) -> None:
        """Brings to the disk what was written before the call; AuditError when the disk says no, and from then on."""
        with self._syncing:
            tip = self._tip
            # The current file first: one that gets full meanwhile stands in the queue before another replaces it.
            self._bring_to_disk(self._file)
            emptied = bool(self._full)
            while self._full:
                self._bring_to_disk(self._full[0])
                self._full.popleft().close()
            is_first, self._tended = not self._tended, True
            looks = is_first and is_due(self.state, self._clock())
            if is_first and not looks:
                self._tending.wait()
            self._tending.compress_now_and_then()
        if self._seal is not None and tip.count and not self._broken:
            self._seal.note(tip, State.OPEN)
        if emptied or looks:
            self._remove_old()

    def close(self) -> None:
        """Signs, syncs and closes; later appends are refused. Idempotent."""
        was_closed, is_ours = bool(self._broken), os.getpid() == self._process
        if not was_closed and is_ours:
            try:
                self.checkpoint(Reason.CLOSE)
            except AuditError as error:
                _log.error("the end of the audit log is not signed: %s", error)
        self._broken = self._broken or "the audit log is closed"
        with self._syncing:
            self._tending.stop()
        try:
            self.sync()
            if self._seal is not None and not was_closed and is_ours:
                self._seal.note(self._tip, State.CLOSED)
        finally:
            with self._syncing:
                for file in (*self._full, self._file):
                    file.close()

    def _refuse_if_broken(self) -> None:
        if self._broken:
            raise AuditError(self._broken, "mend the audit directory and start again")
        if os.getpid() != self._process:
            raise AuditError("this process is a copy of the one that the audit file belongs to")

    def _sign_if_possible(self) -> None:
        """A record is not refused because a checkpoint has no room, or later: where it has none itself, it says so."""
        try:
            self.checkpoint(Reason.COUNT)
        except AuditError as error:
            if self._broken:
                raise
            _log.warning("the audit log is not signed for now: %s", error)
            self._unsigned = 1  # not before as many again

    def _write(self, line: bytes) -> None:
        try:
            self._file.append(line + b"\n")
        except UnusableFile as error:
            self._broken = error.message
            raise
        self._tip = Mark(self._tip.count + 1, hashlib.sha256(line).hexdigest())

    def _leave_room(self, upcoming: int) -> None:
        """AuditError when a record of so many bytes would take the room that others were promised."""
        file = self._file
        end = file.size + upcoming + self._promised * _ROOM_FOR_ONE + self._signing_room
        if not (file.keeps_room(end, end + _MORE_ROOM) or file.keeps_room(end, end)):
            raise AuditError(
                "the audit log cannot be written: the room that is left is kept for other records"
            )

    def _rotate_if_full(self, upcoming: int) -> bool:
        """Whether a new file was begun. The full one ends with a checkpoint."""
        full = self._file
        # What was promised room in this file goes into it. Nothing more is promised then, so that this ends soon.
        if not full.size or full.size + upcoming + self._signing_room <= self.max_bytes or self._promised:
            return False
        self.checkpoint(Reason.ROTATION)
        fresh = self._open(self._rotation + 1)
        self._rotation += 1
        self._full.append(full)
        self._file = fresh
        if len(self._full) > _MAX_FULL:
            self.sync()
        return True

    def _open(self, rotation: int) -> WrittenFile:
        started = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._clock() // 1_000_000_000))
        return WrittenFile.make(self.directory / file_name(started, self._chain, rotation))

    def _bring_to_disk(self, file: WrittenFile) -> None:
        try:
            file.bring_to_disk()
        except OSError as error:
            # What the disk lost cannot be told from what it has: nothing more is written.
            self._broken = f"the audit log cannot be brought to the disk: {error.strerror or error}"
            raise AuditError(self._broken) from error

    def _remove_old(self) -> None:
        """Removes this user's finished files that are too old, once the register has noted it."""
        oldest = self._clock() - self.keep_days * _NANOSECONDS_PER_DAY
        try:
            removals = list(old_files(self.directory, oldest, self._chain))
            for removal in removals:
                place = (removal.chain, self.directory, removal.mark)
                if self._seal is None or self._seal.note_removed(*place):
                    remove(removal)
            if self._seal is not None and removals:
                self._seal.register.drop_removed(oldest)
        except OSError as error:
            _log.warning("old audit files cannot be looked for: %s", error.strerror or error)
