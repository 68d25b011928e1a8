"""What `verify` finds, and how it is told: problems with file, line and chain, and what the log proves."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final

from gateway.policy.wording import printable

# Notes that a person is told: a host where runs are killed every day has one for each of them.
_NOTES: Final = 20


class ProblemKind(StrEnum):
    """What was done to the log."""

    EDITED = "edited"
    MISSING = "missing"
    REORDERED = "reordered"
    ADDED = "added"
    CUT = "cut"  # the tail
    GONE = "gone"  # a file
    BAD_SIGNATURE = "bad_signature"
    FOREIGN_KEY = "foreign_key"
    FOREIGN_FILE = "foreign_file"  # one that belongs elsewhere, or nowhere
    UNREADABLE = "unreadable"
    REGISTER = "register"  # the register of chains itself


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `line` counts from 1; 0 speaks of the file."""

    kind: ProblemKind
    file: str
    line: int
    chain: str
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.kind}: {self.text} (chain {self.chain})"


@dataclass(frozen=True, slots=True)
class ChainReport:
    """One chain: files and records that are there, how many of them are signed, and how it ended.

    `state` is closed, open (being written now) or ended (without a close). `removed` records were removed by retention.
    """

    chain: str
    files: int
    records: int
    signed: int
    unsigned: int
    removed: int
    state: str


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found. `keys` are the ids of the keys that signatures were checked against."""

    chains: tuple[ChainReport, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def is_intact(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def as_json(self) -> dict[str, object]:
        """For a program."""
        return {
            "verdict": "intact" if self.is_intact else "broken",
            "files": sum(chain.files for chain in self.chains),
            "records": sum(chain.records for chain in self.chains),
            "problems": [asdict(problem) for problem in self.problems],
            "notes": list(self.notes),
            "keys": list(self.keys),
            "chains": [asdict(chain) for chain in self.chains],
        }

    def as_text(self) -> str:
        """For a person: problems first, then what the rest proves."""
        notes = [f"note: {note}" for note in self.notes[:_NOTES]]
        if more := len(self.notes) - len(notes):
            notes.append(f"note: there are {more} more notes; --json has them all")
        lines = [*map(str, self.problems), *notes, *self._summary()]
        return "\n".join(printable(line) for line in lines)

    def _summary(self) -> Sequence[str]:
        records = sum(chain.records for chain in self.chains)
        unsigned = sum(chain.unsigned for chain in self.chains)
        files = sum(chain.files for chain in self.chains)
        what = f"{records} records in {files} files, {len(self.chains)} chains"
        keys = ", ".join(self.keys) or "none"
        if self.problems:
            return (f"BROKEN: {len(self.problems)} problems in {what}; key: {keys}",)
        if not records:
            return ("nothing is recorded there",)
        return (
            f"intact: {what}; key: {keys}",
            f"{records - unsigned} records are signed: without the key nobody could have changed, removed or moved "
            f"one. {unsigned} came after the last signature: each follows from the one before, but whoever can write "
            "the files could have written those anew.",
        )
