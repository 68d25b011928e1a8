"""Entries of lists that do not do what their author hoped: without effect, or with more of it than was meant.

It looks at one list, or at the entries of a config, beside all others that hold at the same time. Pure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.policy.cautions import Cautions
from gateway.policy.hosts import HostMatcher, HostPattern
from gateway.policy.problem import Problem

_PROBE: Final = (
    "any-name-below"  # stands for the star: an entry with a star that matches it covers all it may be
)
# Registries put names of anybody under these in most countries: "co.uk", "com.au".
_SECOND_LEVEL: Final = frozenset(
    {
        "ac",
        "co",
        "com",
        "edu",
        "gob",
        "gouv",
        "gov",
        "go",
        "ne",
        "net",
        "nom",
        "or",
        "org",
        "sch",
        "mil",
        "id",
        "info",
    }
)
_COUNTRY: Final = re.compile(r"[a-z]{2}")
# Names that no resolver answers with a host (RFC 6761, RFC 7686), with why.
_NOWHERE: Final[Mapping[str, str]] = {
    "invalid": "no name below .invalid exists (RFC 6761)",
    "onion": "a name below .onion is not in the DNS (RFC 7686)",
}


class ListKind(StrEnum):
    """What a list is for."""

    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Listing:
    """Entries that are read together. `name` is what their author calls them ("baseline.txt"); each rule is a place
    ("baseline.txt:12"). `trusted` are the rules whose author has written down that strangers come in."""

    name: str
    kind: ListKind
    patterns: tuple[HostPattern, ...]
    trusted: frozenset[str] = frozenset()


class Cover:
    """Finds among entries one that covers all that a pattern can match. Immutable after construction."""

    def __init__(self, patterns: Iterable[HostPattern], *, deny: bool = False) -> None:
        """`deny`: the entries are a deny list, whose middle star stands for every label."""
        entries = tuple(patterns)
        stars = tuple(entry for entry in entries if "*" in entry.text)
        self._same: dict[str, HostPattern] = {}
        for entry in entries:
            self._same.setdefault(entry.text, entry)
        self._stars = HostMatcher(stars, storage_labels=deny)
        self._depths = HostMatcher(entry for entry in stars if entry.text.startswith("*."))

    def same(self, pattern: HostPattern) -> HostPattern | None:
        """The first entry with this very text."""
        return self._same.get(pattern.text)

    def wider(self, pattern: HostPattern) -> HostPattern | None:
        """An entry with a star, other than the pattern's own text, that covers all of it."""
        text = pattern.text
        if text.startswith("*."):
            return self._depths.match(text.removeprefix("*."))  # *.b.c covers *.a.b.c, as it covers a.b.c
        if "*" in text:
            return self._depths.match(text.replace("*", _PROBE))
        return self._stars.match(text)

    def find(self, pattern: HostPattern) -> HostPattern | None:
        """An entry with this text, or one that is wider."""
        return self.same(pattern) or self.wider(pattern)


def check_list(listing: Listing, others: Sequence[Listing], cautions: Cautions) -> tuple[Problem, ...]:
    """Everything that is questionable about one list, beside the others that hold with it, by line. An entry that can
    never match is an error; the rest are warnings. (A wildcard deny without its apex is told where a list is read.)"""
    denying = Cover(_patterns(others, ListKind.DENY), deny=True)
    alike = Cover(_patterns(others, listing.kind), deny=listing.kind is ListKind.DENY)
    own = Cover(listing.patterns, deny=listing.kind is ListKind.DENY)
    found: list[Problem] = []
    for entry in listing.patterns:
        problem = (
            (_never(entry) or _shadowed(entry, denying) if listing.kind is ListKind.ALLOW else None)
            or _twice(entry, listing, own, alike)
            or (_broad(entry, listing, cautions) if listing.kind is ListKind.ALLOW else None)
        )
        if problem is not None:
            found.append(problem)
    return tuple(sorted(found, key=lambda problem: problem.line))


def breadth(entry: HostPattern, cautions: Cautions) -> str:
    """What is wrong with how much an allow entry lets in; empty where nothing is known to be."""
    text = entry.text
    if "*" in text:
        suffix = text[text.index("*") + 2 :]
        if _is_public(suffix):
            return f"anybody can register a name below {suffix}: write the zones that are meant"
        caution = cautions.of_wildcard(text)
        if caution is not None:
            return f"strangers' names come in, {caution}: list the names that are meant"
        return ""
    if _is_public(text):
        return f"{text} is no host of anybody's, and its names are not covered: write the host that is meant"
    caution = cautions.of_host(text)
    return (
        f"{caution}: keep it only if you mean all of it" if caution is not None and caution.is_named else ""
    )


def never(entry: HostPattern) -> str:
    """Why an entry can never match a host that exists; empty where it may."""
    return _NOWHERE.get(entry.text.rpartition(".")[2], "")


def _patterns(listings: Iterable[Listing], kind: ListKind) -> Iterator[HostPattern]:
    return (pattern for listing in listings if listing.kind is kind for pattern in listing.patterns)


def _problem(entry: HostPattern, text: str, *, error: bool = False) -> Problem:
    file, _, line = entry.rule.rpartition(":")
    number = int(line) if line.isdecimal() else 0
    return Problem(file if number else entry.rule, number, f"{entry.text} {text}", warning=not error)


def _never(entry: HostPattern) -> Problem | None:
    why = never(entry)
    return _problem(entry, f"can never match: {why}: delete the entry", error=True) if why else None


def _shadowed(entry: HostPattern, denying: Cover) -> Problem | None:
    found = denying.find(entry)
    if found is None:
        return None
    text = f"can never match: {found.rule} denies it ({found.text}), and deny beats allow: delete the entry"
    return _problem(entry, text, error=True)


def _twice(entry: HostPattern, listing: Listing, own: Cover, alike: Cover) -> Problem | None:
    first, wider = own.same(entry), own.wider(entry)
    if first is not None and first is not entry:
        return _problem(entry, f"stands in {first.rule} already: delete one of the two")
    other = alike.find(entry)
    if other is not None:
        word = "denied" if listing.kind is ListKind.DENY else "allowed"
        return _problem(entry, f"is {word} already by {other.rule} ({other.text}): delete the entry")
    # A line that says more of a name than the wildcard beside it is there to say it.
    if wider is not None and entry.rule not in listing.trusted:
        return _problem(entry, f"is covered by {wider.rule} ({wider.text}): delete one of the two")
    return None


def _broad(entry: HostPattern, listing: Listing, cautions: Cautions) -> Problem | None:
    if entry.rule in listing.trusted:
        return None
    why = breadth(entry, cautions)
    return _problem(entry, f"allows more than one may think: {why}") if why else None


def _is_public(suffix: str) -> bool:
    """Whether anybody can register a name below it: a country's second level. (Patterns have two labels at least.)"""
    labels = suffix.split(".")
    return len(labels) == 2 and labels[0] in _SECOND_LEVEL and _COUNTRY.fullmatch(labels[1]) is not None
