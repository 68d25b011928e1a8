"""`agent-gateway review`: which question is asked of the log, and its answer as lines. It prints nothing itself."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import chain, islice
from pathlib import Path
from typing import Final

from gateway.allowlists import load_cautions, load_shipped
from gateway.audit.names import LogFile
from gateway.errors import UsageError
from gateway.policy.wording import printable
from gateway.review.files import UnreadableFile, audit_files
from gateway.review.following import Follower
from gateway.review.moments import is_moment, parse_moment
from gateway.review.reading import Damages, Line, Progress, read_records, readable
from gateway.review.selection import Selection
from gateway.review.tables import COLUMNS, as_csv, as_table, record_row
from gateway.review.telling import tell

# Records that `--follow` begins with, as `tail` does.
_BEFORE: Final = 10
# Rows of an answer that are put in columns: how wide those are is known when all rows are.
_TABLE_ROWS: Final = 10_000


class Format(StrEnum):
    """How the answer is written."""

    TEXT = "text"
    JSON = "json"
    CSV = "csv"


@dataclass(frozen=True, slots=True)
class ReviewRequest:
    """What is asked. At most one of `summary`, `new_since`, `follow`, `sql`, `suggest`; none is the records themselves.

    `places` are directories and files of the log; `limit` is the number of rows from the beginning, `tail` that from
    the end.
    """

    places: tuple[Path, ...]
    selection: Selection = field(default_factory=Selection)
    format: Format = Format.TEXT
    limit: int | None = None
    tail: int | None = None
    is_coloured: bool = False
    summary: bool = False
    new_since: str = ""
    follow: bool = False
    sql: str = ""
    suggest: bool = False

    @property
    def is_listing(self) -> bool:
        """Whether the records themselves are asked for."""
        return not (self.summary or self.new_since or self.follow or self.sql or self.suggest)


@dataclass(slots=True)
class Answer:
    """Lines for stdout, worked out as they are taken; and what could not be read, complete when all are taken."""

    lines: Iterator[str]
    damages: Damages = field(default_factory=Damages)

    def notes(self) -> list[str]:
        """What is to be said about damage, for stderr."""
        if not self.damages.count:
            return []
        more = self.damages.count - len(self.damages.named)
        rest = [f"and {more} more"] if more > 0 else []
        return [
            f"{self.damages.count} damaged places in the log are not shown:",
            *map(str, self.damages.named),
            *rest,
        ]


def select(
    *,
    sessions: Sequence[str] = (),
    hosts: Sequence[str] = (),
    verdicts: Sequence[str] = (),
    codes: Sequence[str] = (),
    rules: Sequence[str] = (),
    events: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    texts: Sequence[str] = (),
    now: datetime,
) -> Selection:
    """A selection as the command line has it. UsageError for a moment that is none."""
    return Selection(
        frozenset(sessions),
        tuple(host.lower() for host in hosts),
        frozenset(verdicts),
        frozenset(codes),
        tuple(rule.lower() for rule in rules),
        frozenset(events),
        parse_moment(since, now) if since is not None else "",
        parse_moment(until, now) if until is not None else "",
        tuple(text for text in texts if text),
    )


def review(
    request: ReviewRequest, now: datetime, progress: Progress, waits: Callable[[Damages], bool]
) -> Answer:
    """The answer. `waits` is asked between two looks of `--follow`, which goes on for as long as it says so.
    GatewayError, UsageError, also while lines are taken."""
    damages = Damages()
    if request.follow:
        return Answer(_follow(request, damages, waits), damages)
    if request.is_listing:
        return Answer(_records(request, audit_files(*request.places), damages, progress), damages)
    return Answer(_of_all(request, now, damages, progress), damages)


def readable_first[T](places: Sequence[Path], damages: Damages, ask: Callable[[Sequence[LogFile]], T]) -> T:
    """What is asked of all of the log, without files that cannot be read: the database reads all or none.
    GatewayError, UsageError."""
    try:
        return ask(audit_files(*places))
    except UnreadableFile:
        # Also a file that was compressed, or removed, between its being found and its being read.
        return ask(readable(audit_files(*places), damages))


def _of_all(request: ReviewRequest, now: datetime, damages: Damages, progress: Progress) -> Iterator[str]:
    """The answer to a question about all of the log."""

    def answered(files: Sequence[LogFile]) -> Iterator[str]:
        if request.summary:
            lines = _summary(request, files, damages, progress)
        elif request.new_since:
            lines = _news(request, files, damages, now, progress)
        elif request.sql:
            lines = _sql(request, files, damages, progress)
        else:
            lines = _suggestions(request, files, damages, progress)
        # An unreadable file shows with the first of them.
        return chain([*islice(lines, 1)], lines)

    yield from readable_first(request.places, damages, answered)


def _records(
    request: ReviewRequest, files: Sequence[LogFile], damages: Damages, progress: Progress
) -> Iterator[str]:
    lines: Iterable[Line] = read_records(files, request.selection, damages, progress)
    if request.tail is not None:
        lines = deque(lines, maxlen=request.tail)
    return _written(request, islice(lines, request.limit))


def _follow(request: ReviewRequest, damages: Damages, waits: Callable[[Damages], bool]) -> Iterator[str]:
    follower = Follower(request.places, request.selection, damages)
    before = follower.catch_up(_BEFORE if request.tail is None else request.tail)
    lines = chain(before, follower.follow(lambda: waits(damages)))
    return _written(request, islice(lines, request.limit))


def _written(request: ReviewRequest, lines: Iterable[Line]) -> Iterator[str]:
    match request.format:
        case Format.JSON:
            return map(_as_json, lines)
        case Format.CSV:
            return chain([as_csv([COLUMNS])], (as_csv([record_row(line.record)]) for line in lines))
        case Format.TEXT:
            return (tell(line.record, is_coloured=request.is_coloured) for line in lines)


def _as_json(line: Line) -> str:
    """The line as it stands in the log, unless there is something in it that the log never writes."""
    text = line.data.decode("utf-8", "replace")
    return (
        text if text.isascii() and text.isprintable() else json.dumps(line.record).replace("\x7f", "\\u007f")
    )


def _summary(
    request: ReviewRequest, files: Sequence[LogFile], damages: Damages, progress: Progress
) -> Iterator[str]:
    from gateway.review.summary_text import HOST_HEADER, ROWS, host_row, summary_text
    from gateway.review.summing import sum_up

    summary = sum_up(files, request.selection, progress)
    if request.format is Format.CSV:
        damages.take(summary.damaged, summary.damages)
    elif damages.count:
        together = (*damages.named, *summary.damages)
        summary = replace(summary, damaged=damages.count + summary.damaged, damages=together)
    match request.format:
        case Format.JSON:
            yield json.dumps(summary.as_json())
        case Format.CSV:
            rows = [host_row(host, figures) for host, figures in summary.hosts.items()]
            yield as_csv([HOST_HEADER, *rows[: request.limit]])
        case Format.TEXT:
            yield summary_text(summary, request.limit if request.limit is not None else ROWS)


def _news(
    request: ReviewRequest, files: Sequence[LogFile], damages: Damages, now: datetime, progress: Progress
) -> Iterator[str]:
    from gateway.review.novelty import News, find_news

    mark = request.new_since
    moment = parse_moment(mark, now) if is_moment(mark) else ""
    news = find_news(files, mark, moment, request.selection, progress)
    damages.take(news.summary.damaged, news.summary.damages)
    match request.format:
        case Format.JSON:
            hosts = [one.as_json() for one in news.hosts[: request.limit]]
            yield json.dumps({"since": news.since, "known": news.known, "hosts": hosts})
        case Format.CSV:
            yield as_csv([News.header(), *(one.as_row() for one in news.hosts[: request.limit])])
        case Format.TEXT:
            yield news.as_text()


def _suggestions(
    request: ReviewRequest, files: Sequence[LogFile], damages: Damages, progress: Progress
) -> Iterator[str]:
    from gateway.review.suggestions import Knowledge, find_refused, suggest, suggestions_text

    cautions, deny = load_cautions(), load_shipped().deny
    refused, sent_on = find_refused(files, request.selection, cautions, damages, progress)
    denied = {f"{deny.name}:{entry.line}": entry for entry in deny.entries}
    found = suggest(refused, Knowledge(cautions, denied, sent_on))[: request.limit]
    match request.format:
        case Format.JSON:
            yield json.dumps([one.as_json() for one in found])
        case Format.CSV:
            header = ("key", "line", "hosts", "code", "refusals", "cautions", "redirected from", "never")
            rows = [
                (
                    one.key,
                    one.line,
                    " ".join(one.hosts),
                    one.code,
                    str(one.refusals),
                    "; ".join(one.cautions),
                    " ".join(one.from_hosts),
                    one.never,
                )
                for one in found
            ]
            yield as_csv([header, *rows])
        case Format.TEXT:
            yield suggestions_text(found)


def _sql(
    request: ReviewRequest, files: Sequence[LogFile], damages: Damages, progress: Progress
) -> Iterator[str]:
    from gateway.review.sql import ask

    if not request.selection.is_everything:
        raise UsageError("--sql takes no filters", "write them into the question: WHERE session = '...'")
    for answer in ask(files, request.sql, damages, progress):
        match request.format:
            case Format.JSON:
                yield from islice(answer.as_objects(), request.limit)
            case Format.CSV:
                yield as_csv([answer.columns])
                yield from (as_csv([row]) for row in islice(answer.as_texts(), request.limit))
            case Format.TEXT:
                rows = answer.as_texts()
                limit = _TABLE_ROWS if request.limit is None else min(request.limit, _TABLE_ROWS)
                yield as_table(answer.columns, list(islice(rows, limit)))
                if request.limit is None and next(rows, None) is not None:
                    yield printable(f"... only {_TABLE_ROWS} rows are shown: --csv and --json give all")
