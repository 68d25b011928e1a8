"""A chain's seal: signed checkpoints in the log, and the chain's entry in the register beside it."""

import logging
import threading
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from gateway.audit.register import Entry, Mark, Register, State
from gateway.audit.signing import Signer
from gateway.errors import AuditError

# Records between two checkpoints: signing takes the time of ten records, so it costs a hundredth.
EVERY: Final = 1000
# Bytes that a checkpoint takes at most.
ROOM: Final = 2 << 10

_log = logging.getLogger(__name__)


class Reason(StrEnum):
    """Why a checkpoint stands where it does. Nothing stands behind `close`."""

    COUNT = "count"
    SESSION = "session"
    ROTATION = "rotation"
    CLOSE = "close"


class Seal:
    """The seal of one chain. Changes; `note` and `note_removed` are called by one thread at a time."""

    def __init__(self, state_directory: Path, chain: str, directory: Path, tip: Mark) -> None:
        self.signer = Signer(state_directory)
        self.register = Register(state_directory, self.signer)
        self._entry = Entry(chain, str(directory.resolve()), tip)
        self._failed = False
        self._noting = threading.Lock()

    def prepare(self, tip: Mark) -> None:
        """Reads or makes the key and enters the chain into the register. AuditError when one of them cannot be."""
        self.signer.prepare()
        self._entry = replace(self._entry, tip=tip)
        self.register.write(self._entry)

    def checkpoint(self, line: bytes, tip: Mark, reason: Reason) -> bytes:
        """The line of a checkpoint: `line` is a record of that kind without fields of its own."""
        head = line.decode("ascii").removesuffix("}")
        return self.signer.sign(
            f'{head},"chain":"{self._entry.chain}","head":"{tip.head}","count":{tip.count},"reason":"{reason}"'
        )

    def note(self, tip: Mark, state: State) -> None:
        """Notes how far the chain goes. What cannot be noted is said once, and tried again."""
        self._put(replace(self._entry, tip=tip, state=state))

    def note_removed(self, chain: str, directory: Path, removed: Mark | None) -> bool:
        """Whether it was noted that the records of a chain up to `removed` are about to be removed."""
        if removed is None:
            return False
        if chain == self._entry.chain:
            return self._put(replace(self._entry, removed=removed))
        try:
            self.register.note_removed(chain, str(directory.resolve()), removed)
        except AuditError as error:
            _log.warning("old audit files of chain %s stay: %s", chain, error)
            return False
        return True

    def _put(self, entry: Entry) -> bool:
        with self._noting:
            if entry == self._entry:
                return True
            try:
                self.register.write(entry)
            except AuditError as error:
                if not self._failed:
                    _log.error("%s; until it can, nobody would see a tail of the log that is cut", error)
                self._failed = True
                return False
            if self._failed:
                _log.error("the register of audit chains can be written again")
            self._failed = False
            self._entry = entry
            return True
