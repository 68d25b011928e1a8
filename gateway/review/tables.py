"""Rows as CSV and as a table of text. A cell is harmless to a terminal, and no formula to a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

from gateway.policy.wording import printable
from gateway.review.records import Record, parts_of, text_of, texts_of
from gateway.review.telling import cut, tell

# Spreadsheets take what begins so for a formula, also behind blanks and in their full-width forms.
_FORMULA: Final = frozenset("=+-@|%\uff1d\uff0b\uff0d\uff20\u2212")
_QUOTE: Final = "'"
# Characters of a cell in a table of text.
_WIDTH: Final = 60

# Columns of records as CSV. Columns are added last.
COLUMNS: Final = (
    "ts", "session", "workspace", "space", "agent", "backend", "event", "state", "verdict", "code", "rule", "transport",
    "host", "port", "method", "path", "status", "address", "sni", "bytes_up", "bytes_down", "duration_ms", "close",
    "repository", "refs", "tool", "command", "effects", "action", "target", "id", "approver", "reason", "kind",
    "repositories", "expires", "count", "text",
)  # fmt: skip


def as_csv(rows: Iterable[Sequence[str]]) -> str:
    """Rows as CSV, a line for each."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([cell(one) for one in row] for row in rows)
    return text.getvalue().removesuffix("\n")


def cell(text: str) -> str:
    """A text as a cell: printable, with a quote before what would be a formula."""
    shown = printable(text)
    return _QUOTE + shown if shown.lstrip()[:1] in _FORMULA and shown.strip() else shown


def record_row(record: Record) -> tuple[str, ...]:
    """A record's cells, for `COLUMNS`; `text` is the line that `tell` makes of it."""
    return tuple(_value(record, name) for name in COLUMNS)


def _value(record: Record, name: str) -> str:
    match name:
        case "backend":
            sandbox = record.get("sandbox")
            return text_of(sandbox, "backend") if isinstance(sandbox, dict) else ""
        case "refs":
            return " ".join(
                f"{text_of(ref, 'ref')}:{text_of(ref, 'kind')}:{text_of(ref, 'verdict')}"
                for ref in parts_of(record, "refs")
            )
        case "effects" | "repositories":
            return " ".join(texts_of(record, name))
        case "text":
            return tell(record)
        case _:
            return text_of(record, name)


def as_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], right: frozenset[int] = frozenset()
) -> str:
    """Columns side by side, each as wide as its widest cell; those in `right` end alike."""
    shown = [[cut(printable(one), _WIDTH) for one in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in shown) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            one.rjust(width) if column in right else one.ljust(width)
            for column, (one, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    )
