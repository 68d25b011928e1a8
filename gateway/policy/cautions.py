"""Why one might not want a host in a list: storage of anybody, telemetry, places to leave text. It decides nothing.

What is known of the world stands in two lists of data (`cautions.txt`, `redirects.txt`); here is what follows from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.policy.hosts import HostMatcher, HostPattern
from gateway.policy.lists import ListEntry, ParsedList


class CautionKind(StrEnum):
    """The groups of `cautions.txt`."""

    STORAGE = "storage"
    HOSTING = "hosting"
    PACKAGES = "packages"
    PASTE = "paste"
    TUNNEL = "tunnel"
    CAPTURE = "capture"
    FETCHER = "fetcher"
    TELEMETRY = "telemetry"
    CLOUD = "cloud"


_MEANING: Final[Mapping[CautionKind, str]] = {
    CautionKind.STORAGE: "shared storage: anybody who rents a place there can be sent data, and sends some in",
    CautionKind.HOSTING: "shared hosting: the name belongs to whoever took it",
    CautionKind.PACKAGES: "a registry of many customers: each of them can publish there",
    CautionKind.PASTE: "anybody can leave data there, and fetch it elsewhere",
    CautionKind.TUNNEL: "leads to a machine that anybody may have chosen",
    CautionKind.CAPTURE: "shows whoever made the address what was sent to it",
    CautionKind.FETCHER: "fetches other addresses for its caller, past every list",
    CautionKind.TELEMETRY: "telemetry: nothing breaks without it",
    CautionKind.CLOUD: "a cloud's zone: some names below it are chosen by customers",
}
# Kinds of zones below which strangers choose names, so that a wildcard lets them in.
_STRANGERS: Final = frozenset(
    {
        CautionKind.STORAGE,
        CautionKind.HOSTING,
        CautionKind.PACKAGES,
        CautionKind.PASTE,
        CautionKind.TUNNEL,
        CautionKind.CAPTURE,
        CautionKind.CLOUD,
    }
)


@dataclass(frozen=True, slots=True)
class Caution:
    """What is known of a host or zone: `pattern` is the entry that says so, `why` its reason there."""

    kind: CautionKind
    pattern: str
    why: str

    @property
    def is_named(self) -> bool:
        """Whether the entry means this very host, and not one name among many of a zone."""
        return "*" not in self.pattern

    def __str__(self) -> str:
        return f"{_MEANING[self.kind]} ({self.why})"


class Cautions:
    """What is known. Immutable after construction."""

    def __init__(self, cautions: ParsedList, redirects: ParsedList) -> None:
        kinds = {kind.value: kind for kind in CautionKind}
        self._matcher = HostMatcher(cautions.patterns, storage_labels=True)
        self._entries = {
            entry.pattern: Caution(kinds[entry.group], entry.pattern, entry.why)
            for entry in cautions.entries
            if entry.group in kinds
        }
        # The zones in which strangers choose names, each with its dot: ".github.io".
        self._zones = {
            caution.pattern.removeprefix("*"): caution
            for caution in self._entries.values()
            if caution.pattern.startswith("*.") and caution.kind in _STRANGERS
        }
        self._redirects = {entry.pattern: _targets(entry) for entry in redirects.entries}

    def of_host(self, host: str) -> Caution | None:
        """What is known of a host in normal form; the most exact entry."""
        found = self._matcher.match(host)
        return self._entries.get(found.text) if found is not None else None

    def of_wildcard(self, pattern: str) -> Caution | None:
        """The strangers that an entry with a star lets in; None for one that lets in none that are known of, and for
        names below one customer's own."""
        if not pattern.startswith("*."):
            # The star of `a.*.b.c` is one label: it matters where that label is what strangers choose.
            found = self._zones.get(pattern[pattern.index("*") + 1 :])
            return found if found is not None and found.kind is not CautionKind.CLOUD else None
        zone = pattern[1:]
        if zone in self._zones:
            return self._zones[zone]
        apex = self.of_host(zone[1:])
        if apex is not None and apex.kind in _STRANGERS and not apex.pattern.startswith("*."):
            return apex  # what is everybody's by path is so by name
        return next((caution for name, caution in self._zones.items() if name.endswith(zone)), None)

    def redirects_of(self, source: str) -> HostMatcher | None:
        """Where a host is known to send its clients; None where nothing is known."""
        return self._redirects.get(source)

    @property
    def sources(self) -> frozenset[str]:
        """The hosts that are known to send their clients elsewhere."""
        return frozenset(self._redirects)


def _targets(entry: ListEntry) -> HostMatcher:
    words, _, _ = entry.why.partition(" for ")
    return HostMatcher(
        (HostPattern(word, f"redirects.txt:{entry.line}") for word in words.split()), storage_labels=True
    )
