"""Which records a reviewer wants to see. Pure: a record goes in, a yes or no comes out."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from gateway.review.records import Record, all_texts, parts_of, text_of

# What `--text` looks for can be found in the bytes of a line first where JSON writes it as it is.
# A host without a star, whose every spelling in a record is the same.
_EXACT: Final = re.compile(r"[A-Za-z0-9._:-]+")
_WILD: Final = {"*": ".*", "?": "."}
_AS_WRITTEN: Final = re.compile(r"[ !#-\[\]-~]+")


@dataclass(frozen=True, slots=True)
class Selection:
    """All that is set must hold; of several values of one kind, one. Empty: everything.

    `hosts` and `rules` are globs in lower case, the others are exact; `since` and `until` are moments as the log writes
    them (`until` is not included); `texts` are looked for in every value, whatever their case.
    """

    sessions: frozenset[str] = frozenset()
    hosts: tuple[str, ...] = ()
    verdicts: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()
    rules: tuple[str, ...] = ()
    events: frozenset[str] = frozenset()
    since: str = ""
    until: str = ""
    texts: tuple[str, ...] = ()
    # Of each group one must stand in the bytes of a line, or in those in lower case.
    _needles: tuple[tuple[bytes, ...], ...] = field(init=False, repr=False, compare=False, default=())
    _lower_needles: tuple[tuple[bytes, ...], ...] = field(init=False, repr=False, compare=False, default=())
    _hosts: "re.Pattern[str] | None" = field(init=False, repr=False, compare=False, default=None)
    _rules: "re.Pattern[str] | None" = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hosts", _any_of(self.hosts))
        object.__setattr__(self, "_rules", _any_of(self.rules))
        exact = {
            "event": self.events,
            "session": self.sessions,
            "verdict": self.verdicts,
            "code": self.codes,
        }
        needles = [
            tuple(f'"{name}":{_as_written(value)}'.encode() for value in values)
            for name, values in exact.items()
            if values
        ]
        lowered: list[tuple[bytes, ...]] = [
            (text.lower().encode(),) for text in self.texts if _AS_WRITTEN.fullmatch(text)
        ]
        if self.hosts and all(_EXACT.fullmatch(host) for host in self.hosts):
            lowered.append(tuple(f'"{host.lower()}"'.encode() for host in self.hosts))
        object.__setattr__(self, "_needles", tuple(needles))
        object.__setattr__(self, "_lower_needles", tuple(lowered))

    @property
    def is_everything(self) -> bool:
        """Whether nothing is left out."""
        return self == Selection()

    def may_match(self, line: bytes) -> bool:
        """False for a line that certainly does not match, if it is written as the log writes; costs little."""
        for needles in self._needles:
            if not any(needle in line for needle in needles):
                return False
        if self._lower_needles:
            lower = line.lower()
            return all(any(needle in lower for needle in needles) for needles in self._lower_needles)
        return True

    def holds_moment(self, moment: str) -> bool:
        """Whether the time of a record is within the span."""
        return moment >= self.since and (not self.until or moment < self.until)

    def matches(self, record: Record) -> bool:
        """Whether the record is wanted."""
        return self.holds_moment(str(record["ts"])) and self.matches_but_for_time(record)

    def matches_but_for_time(self, record: Record) -> bool:
        """The same whenever it was."""
        if self.events and record["event"] not in self.events:
            return False
        if self.sessions and record.get("session") not in self.sessions:
            return False
        if self._hosts is not None and not _fits(self._hosts, _values(record, "host", "host_unicode")):
            return False
        if self.verdicts and self.verdicts.isdisjoint(_values(record, "verdict")):
            return False
        if self.codes and self.codes.isdisjoint(_values(record, "code")):
            return False
        if self._rules is not None and not _fits(self._rules, _values(record, "rule")):
            return False
        return all(_stands_in(text.lower(), record) for text in self.texts)


def expression(globs: Iterable[str]) -> str:
    """A regular expression for what fits one of the globs (`*` any text, `?` one character), for lower-case text. RE2
    and `re` read it alike."""
    return "|".join("".join(_WILD.get(one) or re.escape(one) for one in glob.lower()) for glob in globs)


def _any_of(globs: tuple[str, ...]) -> "re.Pattern[str] | None":
    return re.compile(expression(globs), re.DOTALL) if globs else None


def _as_written(value: str) -> str:
    """As the log writes a text."""
    return json.dumps(value).replace("\x7f", "\\u007f")


def _fits(pattern: "re.Pattern[str]", values: Iterable[str]) -> bool:
    return any(value and pattern.fullmatch(value.lower()) for value in values)


def _values(record: Record, *names: str) -> list[str]:
    """What a record, or the refs of a push, say there."""
    owners = (record, *parts_of(record, "refs"))
    return [text_of(owner, name) for owner in owners for name in names]


def _stands_in(lowered: str, record: Record) -> bool:
    return any(lowered in text.lower() for text in all_texts(record))
