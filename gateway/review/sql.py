"""A reviewer's own question to the log, in SQL: one SELECT over its views, and over nothing else."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

import duckdb

from gateway.audit.names import LogFile
from gateway.errors import GatewayError, UsageError
from gateway.review.columns import EVENTS
from gateway.review.files import UnreadableFile
from gateway.review.reading import Damages, Progress
from gateway.review.store import Store, first_line

# Table functions that read what they are given, and nothing else.
_HARMLESS: Final = frozenset(
    {
        "range",
        "generate_series",
        "unnest",
        "json_each",
        "json_tree",
        "repeat",
        "duckdb_columns",
        "duckdb_views",
    }
)
_VIEWS: Final = f"the views are log, {', '.join(EVENTS)}; their columns: --sql 'DESCRIBE egress'"
# Rows fetched at a time.
_ROWS: Final = 1000
# Characters of a question: people write less, and the parser is somebody else's.
_MAX_SQL: Final = 64 << 10


class QueryError(UsageError):
    """A question that cannot be asked, or has no answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer's columns, and its rows as plain values of JSON."""

    columns: tuple[str, ...]
    rows: Iterator[tuple[Any, ...]]

    def as_objects(self) -> Iterator[str]:
        """A line of JSON for each row."""
        return (json.dumps(dict(zip(self.columns, row, strict=True))) for row in self.rows)

    def as_texts(self) -> Iterator[tuple[str, ...]]:
        """Each row as text; NULL is empty."""
        return (tuple(_as_text(value) for value in row) for row in self.rows)


def ask(
    files: Sequence[LogFile], sql: str, damages: Damages, progress: Progress | None = None
) -> Iterator[Answer]:
    """The answer, once: its rows are read from the database as long as the caller goes on. QueryError."""
    check(sql)
    with Store(files) as store:
        try:
            cursor = store.ask(sql, progress)
            columns = _distinct([str(column[0]) for column in cursor.description or ()])
            yield Answer(columns, _rows(cursor))
        except duckdb.OutOfMemoryException as error:
            raise GatewayError(
                "the question takes more memory than it may have", "ask for less, or group it"
            ) from error
        except duckdb.IOException as error:
            raise UnreadableFile(f"the log cannot be read: {first_line(error)}") from error
        except duckdb.Error as error:
            raise QueryError(f"the question has no answer: {first_line(error)}", _VIEWS) from error
        store.damages(damages)


def check(sql: str) -> None:
    """QueryError for what is not one SELECT, or would read something besides the log's views."""
    if len(sql) > _MAX_SQL:
        raise QueryError(f"the question has more than {_MAX_SQL} characters")
    with duckdb.connect(":memory:") as parser:
        try:
            (text,) = parser.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()[0]
        except duckdb.Error as error:
            raise QueryError(f"the question cannot be read: {first_line(error)}", _VIEWS) from error
    parsed = json.loads(text)
    if parsed.get("error") or len(parsed.get("statements", ())) != 1:
        reason = str(parsed.get("error_message", "")).strip().partition("\n")[0]
        if parsed.get("error_type") == "parser":
            raise QueryError(f"the question cannot be read: {reason}", _VIEWS)
        raise QueryError("only one SELECT can be asked", _VIEWS)
    for name in _functions(parsed):
        if name.lower() not in _HARMLESS:
            raise QueryError(f"{name}() reads something besides the log", _VIEWS)


def _functions(tree: object) -> Iterator[str]:
    """The names of the table functions in a parsed statement."""
    pending = [tree]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            if one.get("type") == "TABLE_FUNCTION":
                yield str((one.get("function") or {}).get("function_name", "?"))
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names with a number where one comes again, so that no column hides another."""
    seen: dict[str, int] = {}
    distinct: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return tuple(distinct)


def _rows(cursor: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while rows := cursor.fetchmany(_ROWS):
        for row in rows:
            yield tuple(_plain(value) for value in row)


def _plain(value: object) -> Any:
    """A value of the database as one of JSON."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if value == value and abs(value) != float("inf") else None
        case datetime():
            return value.isoformat() + ("" if value.tzinfo else "Z")
        case date():
            return value.isoformat()
        case dict():
            return {str(name): _plain(one) for name, one in value.items()}
        case list() | tuple():
            return [_plain(one) for one in value]
        case bytes():
            return value.hex()
        case _:
            return str(value)


def _as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
