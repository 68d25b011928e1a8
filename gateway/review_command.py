"""`agent-gateway review` and `review verify`: options of the command line into questions, and their answers out."""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Final, TextIO

from gateway.errors import GatewayError, UsageError
from gateway.places import audit_directory, state_directory
from gateway.policy.wording import printable
from gateway.review.findings import Report as Verification
from gateway.review.following import INTERVAL
from gateway.review.progress import progress_line
from gateway.review.questions import Format, ReviewRequest, readable_first, review, select
from gateway.review.reading import Damages
from gateway.review.selection import Selection
from gateway.review.verify import verify

# The name of a file that is none.
STDOUT: Final = "-"


@dataclass(frozen=True, slots=True)
class Console:
    """Where answers go: `write` takes a line of the answer, `tell` what is said about it; `errors` shows progress."""

    environ: Mapping[str, str]
    write: Callable[[str], None]
    tell: Callable[[str], None]
    output: TextIO
    errors: TextIO

    @property
    def is_terminal(self) -> bool:
        """Whether a person looks at the answer."""
        return self.output.isatty()

    @property
    def is_coloured(self) -> bool:
        """Whether that person wants colours."""
        return self.is_terminal and not self.environ.get("NO_COLOR")


def answer_review(options: argparse.Namespace, console: Console) -> int:
    """`agent-gateway review`: the exit status. GatewayError, UsageError."""
    now = datetime.now(UTC)
    if options.report:
        return _report(options, console, now)
    request = _request(options, console, now)
    # On one terminal the records themselves show how far it is.
    is_silent = console.is_terminal and request.is_listing and request.tail is None
    told = 0

    def waits(damages: Damages) -> bool:
        nonlocal told
        for one in damages.named[told:]:
            console.tell(f"damaged: {one}")
        told = len(damages.named)
        console.output.flush()
        time.sleep(INTERVAL)
        return True

    with progress_line(console.errors, "reading") as progress:
        answer = review(request, now, _unheard if is_silent else progress, waits)
        first = list(islice(answer.lines, 1)) if console.is_terminal else _write(answer.lines, console)
    _write(chain(first, answer.lines), console)
    for note in answer.notes():
        console.tell(note)
    return 0


def answer_verify(options: argparse.Namespace, console: Console) -> int:
    """`agent-gateway review verify`: the exit status. GatewayError."""
    places = [Path(place) for place in options.places] or [audit_directory(options.config, console.environ)]
    report = _verified(
        places, console, keys=[Path(key) for key in options.key], must_exist=bool(options.places)
    )
    console.write(json.dumps(report.as_json()) if options.json else report.as_text())
    return 0 if report.is_intact else 1


def _verified(places: list[Path], console: Console, *, keys: list[Path], must_exist: bool) -> Verification:
    with progress_line(console.errors, "verifying") as progress:
        return verify(
            places,
            state_directory(console.environ),
            keys,
            progress,
            processes=os.cpu_count() or 1,
            must_exist=must_exist,
        )


def _report(options: argparse.Namespace, console: Console, now: datetime) -> int:
    from gateway.review.report.contents import Integrity
    from gateway.review.report.gathering import gather
    from gateway.review.report.page import page
    from gateway.review.report.writing import write_page

    for name in ("json", "csv", "limit", "tail"):
        given = getattr(options, name)
        if given is not None and given is not False:
            raise UsageError(
                f"--report takes no --{name}", "it is one page; --summary has the same in other forms"
            )
    places = _places(options, console)
    selection = _selection(options, now)
    # First of all: it forks, and the database has threads.
    try:
        integrity = Integrity(_verified(list(places), console, keys=[], must_exist=bool(options.log)))
    except GatewayError as error:
        integrity = Integrity(None, error.message)
    damages = Damages()
    with progress_line(console.errors, "reading") as progress:
        contents = readable_first(
            places,
            damages,
            lambda files: gather(files, selection, integrity, now, [*map(str, places)], damages, progress),
        )
    text = page(contents)
    if options.report == STDOUT:
        console.write(text.removesuffix("\n"))
        return 0
    write_page(Path(options.report), text)
    console.write(printable(f"{contents.headline} {options.report}"))
    return 0


def _places(options: argparse.Namespace, console: Console) -> tuple[Path, ...]:
    if options.log:
        return tuple(Path(place) for place in options.log)
    own = audit_directory(options.config, console.environ)
    # The log of a product that never ran is not there, and empty.
    return (own,) if options.follow or own.exists() else ()


def _selection(options: argparse.Namespace, now: datetime) -> Selection:
    return select(
        sessions=options.session,
        hosts=options.host,
        verdicts=options.verdict,
        codes=options.code,
        rules=options.rule,
        events=options.event,
        since=options.since,
        until=options.until,
        texts=options.text,
        now=now,
    )


def _request(options: argparse.Namespace, console: Console, now: datetime) -> ReviewRequest:
    return ReviewRequest(
        places=_places(options, console),
        selection=_selection(options, now),
        format=Format.JSON if options.json else Format.CSV if options.csv else Format.TEXT,
        limit=options.limit,
        tail=options.tail,
        is_coloured=console.is_coloured,
        summary=options.summary,
        new_since=options.new_since or "",
        follow=options.follow,
        sql=options.sql or "",
        suggest=options.suggest,
    )


def _unheard(done: int, total: int) -> None:
    """Progress that nobody is told."""


def _write(lines: Iterable[str], console: Console) -> list[str]:
    for line in lines:
        console.write(line)
    return []
