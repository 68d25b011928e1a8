"""Reads a log into what a report is made of. The same figures as `--summary`, `--suggest` and `verify` give."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from gateway import __version__
from gateway.allowlists import load_cautions, load_shipped
from gateway.audit.names import LogFile
from gateway.review.columns import COMMON, EVENTS
from gateway.review.picking import condition
from gateway.review.reading import Damages, Progress
from gateway.review.report.contents import Contents, Integrity, Listing
from gateway.review.selection import Selection
from gateway.review.store import Store
from gateway.review.suggestions import Knowledge, Suggestion, find_refused, suggest
from gateway.review.summary import Summary
from gateway.review.summing import sum_up
from gateway.review.timeline import draw_timeline

# Records of one kind that are shown one by one; the figures count all.
LISTED: Final = 300
# Readings of the log that a report takes at most.
_PASSES: Final = 5
# What is shown record by record -> which records those are.
LISTINGS: Final[Mapping[str, str]] = {
    "push": "event = 'push'",
    "token": "event = 'token'",
    "approval": "event = 'approval'",
    "violation": "event = 'violation'",
    "action": "event = 'action' AND coalesce(verdict, '') <> 'allow'",
    "session": "event = 'session' AND coalesce(state, '') <> 'closed'",
}
# Fields that stand in every record and that a report does not show.
_UNSHOWN: Final = frozenset({"v", "seq", "prev", "truncated"})


def gather(
    files: Sequence[LogFile],
    selection: Selection,
    integrity: Integrity,
    made: datetime,
    places: Sequence[str],
    damages: Damages,
    progress: Progress | None = None,
) -> Contents:
    """Reads these files several times over. What could not be read of them is in the summary, with what `damages` has
    already. GatewayError, UnreadableFile."""
    passes = _Passes(progress)
    summary = sum_up(files, selection, passes.next())
    if damages.count:
        together = (*damages.named, *summary.damages)
        summary = replace(summary, damaged=damages.count + summary.damaged, damages=together)
    return Contents(
        made=made,
        version=__version__,
        places=tuple(places),
        selection=selection,
        summary=summary,
        timeline=draw_timeline(files, selection, summary.first, summary.last, passes.next()),
        listings=_list(files, selection, summary, passes.next()),
        suggestions=_suggest(files, selection, summary, passes.next()),
        integrity=integrity,
        known_hosts=_known_hosts(files, selection, summary.first, passes.next()),
    )


class _Passes:
    """The progress of several readings of the same files as one. Changes."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._begun = 0

    def next(self) -> Progress | None:
        """That of the next reading."""
        if self._progress is None:
            return None
        progress, before = self._progress, self._begun
        self._begun += 1
        return lambda done, total: progress(done // _PASSES + total * before // _PASSES, total)


def _suggest(
    files: Sequence[LogFile], selection: Selection, summary: Summary, progress: Progress | None
) -> tuple[Suggestion, ...]:
    if not summary.denials:
        return ()
    cautions, deny = load_cautions(), load_shipped().deny
    refused, sent_on = find_refused(files, selection, cautions, None, progress)
    denied = {f"{deny.name}:{entry.line}": entry for entry in deny.entries}
    return suggest(refused, Knowledge(cautions, denied, sent_on))


def _list(
    files: Sequence[LogFile], selection: Selection, summary: Summary, progress: Progress | None
) -> Mapping[str, Listing]:
    if not any(name in summary.events for name in LISTINGS):
        return {}
    where, values = condition(selection)
    which = " ".join(f"WHEN {condition} THEN '{name}'" for name, condition in LISTINGS.items())
    packed = " ".join(f"WHEN '{name}' THEN {_packed(name)}" for name in LISTINGS)
    query = f"""
        WITH picked AS (
            SELECT CASE {which} END AS kind, * FROM lines WHERE event IS NOT NULL AND ts IS NOT NULL AND ({where})
        ), told AS (
            SELECT kind, ts, seq, CASE kind {packed} END AS detail FROM picked WHERE kind IS NOT NULL
        )
        SELECT kind, count(*), max_by(detail, (ts, coalesce(seq, 0)), {LISTED}) FROM told GROUP BY kind"""
    with Store(files) as store:
        rows = store.query(query, values, progress)
    return {
        str(kind): Listing(tuple(json.loads(one) for one in reversed(details)), int(total))
        for kind, total, details in rows
    }


def _packed(event: str) -> str:
    """A record as JSON, with the fields that its kind has."""
    names = [name for name in (*COMMON, *EVENTS[event]) if name not in _UNSHOWN]
    fields = ", ".join(f'"{name}" := "{name}"' for name in names)
    return f"CAST(to_json(struct_pack({fields})) AS VARCHAR)"


def _known_hosts(
    files: Sequence[LogFile], selection: Selection, first: str, progress: Progress | None
) -> frozenset[str] | None:
    """Hosts that were reached before; None where there is no before."""
    if not first or not (selection.sessions or selection.since):
        return None
    query = """
        SELECT host, bool_or(event = 'egress' AND verdict = 'allow') FROM lines
        WHERE event IS NOT NULL AND ts IS NOT NULL AND ts < ? AND event IN ('egress', 'session') GROUP BY host"""
    with Store(files) as store:
        rows = store.query(query, [first], progress)
    return frozenset(str(host) for host, reached in rows if reached and host is not None) if rows else None
