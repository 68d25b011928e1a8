"""What is known of every chain outside the log: how far it goes, whether it is closed, what retention has removed.

One small signed file for each chain, in the state directory: so a tail that was cut, a file that has gone or an old
copy put back is seen, also where the log itself would look whole. The process that writes a chain writes its entry,
once a second at most; that of a process which has ended is changed by whoever removes its files.
"""

import json
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from gateway.audit.signing import Keys, Signed, Signer
from gateway.errors import AuditError

FOLDER: Final = "audit-register"
_SUFFIX: Final = ".json"
_CHAIN = re.compile(r"\d+-[0-9a-f]{8}")
_HASH = re.compile(r"[0-9a-f]{64}")
# An entry has some hundred bytes, and the name of a directory.
_MAX_ENTRY: Final = 64 << 10


class State(StrEnum):
    """Whether more records come. A chain whose process was killed stays open."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a chain: so many records come before it, and `head` is the hash of the last of them."""

    count: int
    head: str


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one chain. Records up to `removed` were removed by retention, or are about to be."""

    chain: str
    directory: str
    tip: Mark
    state: State = State.OPEN
    removed: Mark | None = None

    @property
    def is_removed(self) -> bool:
        """Whether retention took all of it."""
        return self.removed is not None and self.removed.count >= self.tip.count


@dataclass(frozen=True, slots=True)
class Found:
    """An entry as it was read: None where the file holds none, and what its signature is worth."""

    path: Path
    chain: str
    entry: Entry | None
    signed: Signed


class Register:
    """The entries of one state directory."""

    def __init__(self, state_directory: Path, signer: Signer | None = None) -> None:
        self.folder = state_directory / FOLDER
        self._signer = signer

    def write(self, entry: Entry) -> None:
        """Puts an entry in the place of the one before. AuditError when it cannot be."""
        assert self._signer is not None, "a register that is only read"
        text = json.dumps({"register": 1} | asdict(entry), separators=(",", ":"))
        line = self._signer.sign(text[:-1]) + b"\n"
        path = self.folder / f"{entry.chain}{_SUFFIX}"
        fresh = self.folder / f".{entry.chain}.{secrets.token_hex(4)}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            try:
                with open(os.open(fresh, flags, 0o600), "wb") as file:
                    file.write(line)
                fresh.rename(path)
            except OSError:
                fresh.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise AuditError(
                f"the register of audit chains cannot be written in {self.folder}: {error.strerror or error}"
            ) from error

    def read(self, chain: str, keys: Keys) -> Found | None:
        """The entry of a chain; None where there is none. A file that a power cut left empty is none either."""
        path = self.folder / f"{chain}{_SUFFIX}"
        if not _CHAIN.fullmatch(chain):
            return None
        try:
            with path.open("rb") as file:
                data = file.read(_MAX_ENTRY)
        except FileNotFoundError:
            return None
        except OSError:
            return Found(path, chain, None, Signed.NONE)
        if not data:
            return None
        line = data.removesuffix(b"\n")
        entry = _parse(line)
        return Found(path, chain, entry if entry and entry.chain == chain else None, keys.check(line))

    def chains(self) -> Iterator[str]:
        """The chains that have an entry."""
        try:
            names = sorted(os.listdir(self.folder))
        except OSError:
            return
        for name in names:
            chain = name.removesuffix(_SUFFIX)
            if name.endswith(_SUFFIX) and _CHAIN.fullmatch(chain):
                yield chain

    def note_removed(self, chain: str, directory: str, removed: Mark) -> None:
        """Notes what retention is about to remove of a chain whose process has ended. AuditError when that cannot be
        noted, also because the entry there is not ours: signing it anew would hide that."""
        assert self._signer is not None, "a register that is only read"
        found = self.read(chain, self._signer.keys)
        if found is None:
            self.write(Entry(chain, directory, removed, State.CLOSED, removed))
        elif found.entry is None or found.signed is not Signed.GOOD:
            raise AuditError(f"the register's entry of audit chain {chain} is not ours")
        else:
            known = found.entry
            self.write(Entry(chain, known.directory, known.tip, known.state, removed))

    def drop_removed(self, oldest: int) -> None:
        """Drops entries of chains that retention took whole before `oldest` (nanoseconds since the epoch)."""
        assert self._signer is not None, "a register that is only read"
        for chain in self.chains():
            path = self.folder / f"{chain}{_SUFFIX}"
            try:
                if path.stat().st_mtime_ns >= oldest:
                    continue
                found = self.read(chain, self._signer.keys)
                if found and found.entry and found.signed is Signed.GOOD and found.entry.is_removed:
                    path.unlink()
            except OSError:
                continue  # it stays, and harms nobody


def _parse(line: bytes) -> Entry | None:
    """An entry; None for anything else."""
    try:
        fields = json.loads(line)
        if fields["register"] != 1:
            return None
        tip, removed = _mark(fields["tip"]), fields["removed"] and _mark(fields["removed"])
        chain, directory = str(fields["chain"]), str(fields["directory"])
        return Entry(chain, directory, tip, State(fields["state"]), removed or None)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _mark(fields: dict[str, object]) -> Mark:
    count, head = fields["count"], fields["head"]
    if type(count) is not int or count < 0 or not isinstance(head, str) or not _HASH.fullmatch(head):
        raise ValueError("no mark")
    return Mark(count, head)
