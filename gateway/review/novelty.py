"""Hosts that were never seen before a moment, or before a session."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from gateway.audit.names import LogFile
from gateway.errors import UsageError
from gateway.policy.wording import printable
from gateway.review.reading import Progress
from gateway.review.selection import Selection
from gateway.review.summary import Figures, Summary
from gateway.review.summing import sum_up
from gateway.review.tables import as_table
from gateway.review.telling import shown_bytes, shown_moment

_HEADER: Final = ("host", "what is new", "connections", "denied", "up", "down", "first seen")


@dataclass(frozen=True, slots=True)
class NewHost:
    """A host, what is new about it, and its figures since the moment."""

    host: str
    what: str
    figures: Figures

    def as_json(self) -> dict[str, object]:
        """For a program."""
        return {"host": self.host, "new": self.what, **self.figures.as_json()}

    def as_row(self) -> tuple[str, ...]:
        """The cells of `HEADER`."""
        one = self.figures
        return (
            self.host,
            self.what,
            str(one.allowed),
            str(one.denied),
            shown_bytes(one.bytes_up),
            shown_bytes(one.bytes_down),
            shown_moment(one.first),
        )


@dataclass(frozen=True, slots=True)
class News:
    """The new hosts since `since`, and what was known before it. `summary` is of the whole log, damages included."""

    since: str
    hosts: tuple[NewHost, ...]
    known: int
    summary: Summary

    def as_text(self) -> str:
        """For a person."""
        moment = shown_moment(self.since)
        if not self.hosts:
            return f"no host is new since {moment}; {self.known} were known before"
        table = as_table(_HEADER, [one.as_row() for one in self.hosts], frozenset({2, 3, 4, 5}))
        return printable(f"new since {moment} ({self.known} hosts were known before)") + "\n" + table

    @staticmethod
    def header() -> tuple[str, ...]:
        """The names of a row's cells."""
        return _HEADER


def find_news(
    files: Sequence[LogFile],
    mark: str,
    moment: str,
    selection: Selection,
    progress: Progress | None = None,
) -> News:
    """The hosts that were never reached, or never even asked for, before. `mark` is the session, `moment` the moment it
    stands for where it is no session's name ("" where it can be nothing else). Only hosts of the selection are told,
    but the whole log says what was known. UsageError for a session that is not there."""
    whole = sum_up(files, Selection(), progress)
    session = whole.sessions.get(mark)
    if session is not None:
        moment = session.opened or session.first
    elif not moment:
        raise UsageError(f"there is no session {mark[:100]!r} in this log, and it is no date")
    since = max(moment, selection.since)
    recent = sum_up(files, replace(selection, since=since), progress)
    found: list[NewHost] = []
    known = 0
    for host, before in whole.hosts.items():
        was_reached = bool(before.reached) and before.reached < moment
        was_asked = before.first < moment
        known += was_asked
        figures = recent.hosts.get(host)
        if figures is None or was_reached:
            continue
        if figures.reached:
            found.append(NewHost(host, "reached, refused before" if was_asked else "reached", figures))
        elif not was_asked:
            found.append(NewHost(host, "refused", figures))
    found.sort(key=lambda one: (one.what == "refused", one.figures.first, one.host))
    return News(since, tuple(found), known, whole)
