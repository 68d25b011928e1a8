"""What happened when: connections, bytes and other events of a log in spans of time that are equally long."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from gateway.audit.names import LogFile
from gateway.review.picking import condition
from gateway.review.reading import Progress
from gateway.review.selection import Selection
from gateway.review.store import Store

# Spans at most, and the seconds that one may have: what a person calls a span of time.
SPANS: Final = 96
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_WIDTHS: Final = (
    1, 2, 5, 10, 15, 30,
    _MINUTE, 2 * _MINUTE, 5 * _MINUTE, 10 * _MINUTE, 15 * _MINUTE, 30 * _MINUTE,
    _HOUR, 2 * _HOUR, 3 * _HOUR, 6 * _HOUR, 12 * _HOUR,
    _DAY, 2 * _DAY, 7 * _DAY, 14 * _DAY, 30 * _DAY,
)  # fmt: skip
# A connection counts where it began, by its last word; its bytes where it ended, since only then are they known.
# `opened` counts those that began: more than ended is still open.
_ASKED: Final = """
    WITH picked AS (
        SELECT epoch(TRY_CAST(ts AS TIMESTAMP)) AS moment, event, state, verdict, code, duration_ms,
            method IS NOT NULL AS is_request, greatest(coalesce("count", 1), 0) AS times,
            greatest(coalesce(bytes_up, 0), 0) AS up, greatest(coalesce(bytes_down, 0), 0) AS down,
            len(list_filter(coalesce(refs, []), lambda one: one.verdict = 'allow')) > 0 AS is_sent
        FROM lines WHERE event IS NOT NULL AND ts IS NOT NULL
            AND event IN ('egress', 'push', 'violation', 'action', 'approval') AND ({where})
    ), told AS (
        SELECT moment, up, down, times, duration_ms, CASE
            WHEN event = 'egress' AND state = 'opened' THEN if(is_request, NULL, 'opened')
            WHEN event = 'egress' AND state = 'closed' AND verdict = 'deny' THEN if(is_request, 'refused', 'cut')
            WHEN event = 'egress' AND state = 'closed' AND verdict = 'allow' THEN
                if(is_request OR coalesce(code, '') <> '', 'asked', 'closed')
            WHEN event = 'egress' THEN 'refused'
            WHEN event = 'push' THEN
                if(is_sent AND coalesce(code, '') IN ('', 'outcome_unknown'), 'pushed', 'push refused')
            WHEN event = 'violation' THEN 'violation'
            WHEN event = 'action' AND verdict <> 'allow' THEN 'tool call refused'
            WHEN event = 'approval' AND state = 'asked' THEN 'question'
        END AS kind
        FROM picked
    ), placed AS (
        SELECT kind, times, up, down, floor((moment - $start) / $width)::BIGINT AS ends,
            floor((moment - if(kind IN ('closed', 'cut'), greatest(coalesce(duration_ms, 0), 0) + 1, 0) / 1000 - $start)
                / $width)::BIGINT AS begins
        FROM told WHERE kind IS NOT NULL AND moment IS NOT NULL
    )
    SELECT kind, 'begins', begins, sum(times), 0, 0 FROM placed GROUP BY kind, begins
    UNION ALL
    SELECT kind, 'ends', ends, 0, sum(up), sum(down) FROM placed GROUP BY kind, ends"""
# The calendar's first and last second.
_FIRST: Final = int(datetime.min.replace(tzinfo=UTC).timestamp())
_LAST: Final = int(datetime.max.replace(tzinfo=UTC, microsecond=0).timestamp())
# What is not connections, in the order in which it is shown.
OTHERS: Final = ("pushed", "push refused", "question", "tool call refused", "violation")


@dataclass(frozen=True, slots=True)
class Timeline:
    """Counts by span: `start` is the first moment in seconds since 1970, `width` the seconds of a span. `others` are
    those of `OTHERS` that happened. Every tuple has one number for each span."""

    start: int
    width: int
    allowed: tuple[int, ...]
    denied: tuple[int, ...]
    bytes_up: tuple[int, ...]
    bytes_down: tuple[int, ...]
    others: Mapping[str, tuple[int, ...]]

    @property
    def spans(self) -> int:
        """How many there are."""
        return len(self.allowed)

    def moment(self, span: int) -> datetime:
        """The first moment of a span; the edge of the calendar where that lies beyond it."""
        seconds = self.start + span * self.width
        return datetime.fromtimestamp(min(max(seconds, _FIRST), _LAST), UTC)


def place_spans(first: str, last: str) -> tuple[int, int, int] | None:
    """Start and width in seconds, and number, of spans that cover two moments of a log; None where those are none."""
    try:
        begin = datetime.fromisoformat(first).timestamp()
        end = datetime.fromisoformat(last).timestamp()
    except (ValueError, OverflowError):
        return None
    if end < begin:
        return None
    for width in chain(_WIDTHS, (_DAY * days for days in _doubled(60))):
        start = math.floor(begin / width) * width
        spans = math.floor((end - start) / width) + 1
        if spans <= SPANS:
            return start, width, spans
    raise AssertionError  # widths have no end


def _doubled(number: int) -> Iterable[int]:
    while True:
        yield number
        number *= 2


def draw_timeline(
    files: Sequence[LogFile],
    selection: Selection,
    first: str,
    last: str,
    progress: Progress | None = None,
    *,
    threads: int = 0,
) -> Timeline | None:
    """The wanted records of these files between two moments of theirs, in spans. None where the moments are none.
    GatewayError, UnreadableFile."""
    placed = place_spans(first, last)
    if placed is None:
        return None
    start, width, spans = placed
    where, values = condition(selection)
    # Names for our numbers, since the condition has question marks, which DuckDB does not mix with names.
    query = _ASKED.format(where=where).replace("$start", str(start)).replace("$width", str(width))
    with Store(files, threads=threads) as store:
        rows = store.query(query, values, progress)
    return _placed(rows, start, width, spans)


def _placed(rows: Iterable[tuple[Any, ...]], start: int, width: int, spans: int) -> Timeline:
    counts: dict[str, list[int]] = {}
    up, down = [0] * spans, [0] * spans
    for kind, which, span, times, more_up, more_down in rows:
        # What began before the first record, or has a time of its own, counts at the edge.
        at = min(max(int(span), 0), spans - 1)
        if which == "begins":
            counts.setdefault(str(kind), [0] * spans)[at] += int(times)
        else:
            up[at] += int(more_up)
            down[at] += int(more_down)
    none = [0] * spans
    ended = [a + b for a, b in zip(counts.get("closed", none), counts.get("cut", none), strict=True)]
    left = _left_open(counts.get("opened", none), ended)
    finished = zip(counts.get("closed", none), counts.get("asked", none), left, strict=True)
    refused = zip(counts.get("refused", none), counts.get("cut", none), strict=True)
    return Timeline(
        start,
        width,
        tuple(map(sum, finished)),
        tuple(map(sum, refused)),
        tuple(up),
        tuple(down),
        {name: tuple(counts[name]) for name in OTHERS if any(counts.get(name, ()))},
    )


def _left_open(opened: Sequence[int], ended: Sequence[int]) -> list[int]:
    """Tunnels of which there is no end, by the span they began in. An end tells its beginning to the millisecond, never
    too late: so it may count one span before its opening, and makes up for it in the next."""
    left: list[int] = []
    ahead = 0
    for begun, over in zip(opened, ended, strict=True):
        more = begun - over + ahead
        ahead = min(more, 0)
        left.append(max(more, 0))
    return left
