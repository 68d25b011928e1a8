"""What a report is made of: values alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from gateway.review.amounts import many
from gateway.review.findings import Report as Verification
from gateway.review.records import Record
from gateway.review.selection import Selection
from gateway.review.suggestions import Suggestion
from gateway.review.summary import Summary
from gateway.review.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Integrity:
    """What `verify` found of the places that were read, or why it could not look."""

    verification: Verification | None
    why_not: str = ""

    @property
    def signed(self) -> int:
        """Records that a signature speaks for."""
        return (
            sum(chain.records - chain.unsigned for chain in self.verification.chains)
            if self.verification
            else 0
        )

    @property
    def unsigned(self) -> int:
        """Records that none does."""
        return sum(chain.unsigned for chain in self.verification.chains) if self.verification else 0

    @property
    def is_proven(self) -> bool:
        """Whether the log was found to be what was written, by more than its own word."""
        return self.verification is not None and self.verification.is_intact and self.signed > 0

    def __str__(self) -> str:
        if self.verification is None:
            return "not checked"
        if not self.verification.is_intact:
            return "BROKEN"
        return "intact" if self.is_proven or not self.unsigned else "intact, but nothing of it is signed"


@dataclass(frozen=True, slots=True)
class Listing:
    """The records of one kind, oldest first: the last ones, where there are more than are shown."""

    records: tuple[Record, ...]
    total: int


@dataclass(frozen=True, slots=True)
class Contents:
    """All of it. `made` is when, `version` by which product, `places` what was read.

    `known_hosts` are those that were reached before the first wanted record; None where nothing is recorded before it,
    or everything is wanted.
    """

    made: datetime
    version: str
    places: tuple[str, ...]
    selection: Selection
    summary: Summary
    timeline: Timeline | None
    listings: Mapping[str, Listing]
    suggestions: tuple[Suggestion, ...]
    integrity: Integrity
    known_hosts: frozenset[str] | None = None

    @property
    def headline(self) -> str:
        """What it speaks of, and whether the log holds, in half a sentence."""
        return (
            f"{many(self.summary.records, 'record')} of {many(len(self.summary.sessions), 'session')}, "
            f"log {self.integrity}:"
        )

    def listing(self, name: str) -> Listing:
        """One of `gathering.LISTINGS`."""
        return self.listings.get(name, Listing((), 0))

    def is_new(self, host: str) -> bool:
        """Whether this host was never reached before. False where that cannot be said."""
        return self.known_hosts is not None and host not in self.known_hosts
