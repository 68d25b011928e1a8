"""The log as tables of DuckDB: views over the files themselves, read when they are asked, and nothing but them.

What is not a record is a row without time and kind in `lines`; every other view leaves it out. Once it is open the
database reaches no other file, no network, no extension, and no setting of it can be changed.
"""

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import duckdb

from gateway.audit.names import LogFile
from gateway.errors import GatewayError
from gateway.review.columns import COLUMNS, COMMON, EVENTS, STRUCTURES
from gateway.review.files import UnreadableFile, count_bytes
from gateway.review.reading import Damages, Progress, name_damages

# What a query may take; a month of a busy team is read in pieces of less.
MEMORY: Final = "256MB"
# Seconds between two looks at how far a query is.
_LOOKS: Final = 0.25
# Files that are allowed by name.
_NAMED_PATHS: Final = 200
# Files up to which their number does not matter, and bytes of one on average from which on it does not.
_FEW: Final = 50
_SMALL: Final = 512 << 10
# Characters that would make a pattern of a path.
_PATTERN: Final = frozenset("*?[]{}")

_LOCKS: Final = (
    "SET enable_external_access = false",
    "SET python_enable_replacements = false",
    "SET lock_configuration = true",
)


class Store:
    """An open database over files. Changes (queries run in it); used from one thread."""

    def __init__(self, files: Sequence[LogFile], *, threads: int = 0) -> None:
        """GatewayError for a file whose path the database cannot name. `threads` 0: one for each core."""
        paths = [os.path.abspath(file.path) for file in files]
        for path in paths:
            if not _PATTERN.isdisjoint(path):
                raise GatewayError(
                    f"{path} cannot be read as a table: there is one of *?[]{{}} in its name",
                    "copy the log to a folder whose path has none of them",
                )
        self._files = {os.path.abspath(file.path): file for file in files}
        self._database = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": MEMORY,
                "temp_directory": "",
                "preserve_insertion_order": False,
                "autoload_known_extensions": False,
                "autoinstall_known_extensions": False,
                "allow_community_extensions": False,
                **({"threads": threads} if threads else {}),
            },
        )
        for statement in (*_views(paths, _are_many(files)), _allowance(paths), *_LOCKS):
            self._database.execute(statement)

    def query(
        self, sql: str, parameters: Sequence[object] = (), progress: Progress | None = None
    ) -> list[tuple[Any, ...]]:
        """The rows of a query of our own. UnreadableFile for a file that cannot be read."""
        with self._watched(progress):
            try:
                return self._database.execute(sql, list(parameters)).fetchall()
            except duckdb.Error as error:
                raise UnreadableFile(f"the log cannot be read: {first_line(error)}") from error

    @contextmanager
    def _watched(self, progress: Progress | None) -> Iterator[None]:
        """Tells how far the query of the block is, now and then, from a thread of its own."""
        if progress is None:
            yield
            return
        done = threading.Event()
        total = count_bytes(tuple(self._files.values()))

        def watch() -> None:
            while not done.wait(_LOOKS):
                share = min(max(self._database.query_progress(), 0.0), 100.0)
                progress(int(total * share / 100), total)

        watching = threading.Thread(target=watch, name="progress", daemon=True)
        watching.start()
        try:
            yield
        finally:
            done.set()
            watching.join()

    def ask(self, sql: str, progress: Progress | None = None) -> duckdb.DuckDBPyConnection:
        """Runs a query of somebody else's. duckdb.Error says what is wrong with it."""
        with self._watched(progress):
            return self._database.execute(sql)

    def damages(self, damages: Damages) -> None:
        """Notes every line that is no record."""
        found = self.query(
            "SELECT filename, count(*) FROM lines WHERE event IS NULL OR ts IS NULL GROUP BY filename ORDER BY filename"
        )
        for path, count in found:
            assert isinstance(count, int)
            name_damages(self._files[str(path)], count, damages)

    def close(self) -> None:
        """Closes the database."""
        self._database.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def first_line(error: Exception) -> str:
    """What the database says, without the picture of the query below it."""
    return str(error).strip().partition("\n")[0]


def _views(paths: Sequence[str], is_many: bool) -> list[str]:
    """`lines` is everything; `log` and one view for each event have a time that can be reckoned with."""
    source = _of_many(paths) if is_many else _of_few(paths)
    if not paths:
        empty = ", ".join(f"CAST(NULL AS {kind}) AS {_name(name)}" for name, kind in COLUMNS.items())
        source = f"SELECT {empty}, CAST(NULL AS VARCHAR) AS filename WHERE false"
    moment = "* EXCLUDE (filename) REPLACE (TRY_CAST(ts AS TIMESTAMP) AS ts)"
    views = [
        "CREATE MACRO _fits(value, pattern) AS "
        "coalesce(value <> '' AND regexp_full_match(lower(value), pattern, 's'), false)",
        f"CREATE VIEW lines AS {source}",
        f"CREATE VIEW log AS SELECT {moment} FROM lines WHERE event IS NOT NULL AND ts IS NOT NULL",
    ]
    for event, fields in EVENTS.items():
        names = ", ".join(map(_name, (name for name in (*COMMON, *fields) if name != "event")))
        views.append(f"CREATE VIEW {_name(event)} AS SELECT {names} FROM log WHERE event = {_text(event)}")
    return views


def _of_few(paths: Sequence[str]) -> str:
    """Reads only the columns that a question takes, but looks for each of them in every file anew."""
    columns = ", ".join(f"{_text(name)}: {_text(kind)}" for name, kind in COLUMNS.items())
    return (
        f"SELECT * FROM read_json({_list(paths)}, columns = {{{columns}}}, format = 'newline_delimited', "
        "ignore_errors = true, filename = true)"
    )


def _of_many(paths: Sequence[str]) -> str:
    """The same of many small files: each costs next to nothing, each line twice as much."""
    spelled = json.dumps({name: STRUCTURES.get(kind, kind) for name, kind in COLUMNS.items()})
    return (
        f"SELECT unnest(record), filename FROM (SELECT json_transform(json, {_text(spelled)}) AS record, filename "
        f"FROM read_ndjson_objects({_list(paths)}, ignore_errors = true, filename = true))"
    )


def _are_many(files: Sequence[LogFile]) -> bool:
    """Whether it is the number of files that takes the time, and not what is in them."""
    return len(files) > _FEW and count_bytes(tuple(files)) < len(files) * _SMALL


def _allowance(paths: Sequence[str]) -> str:
    """Lets the database read these files. Many are named by their folders: it compares each one with all of them."""
    if len(paths) <= _NAMED_PATHS:
        return f"SET allowed_paths = {_list(paths)}"
    folders = dict.fromkeys(os.path.dirname(os.path.abspath(path)) for path in paths)
    return f"SET allowed_directories = {_list([f'{folder}/' for folder in folders])}"


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _text(text: str) -> str:
    """A text as SQL writes it: nothing but the quote means anything in one."""
    return "'" + text.replace("'", "''") + "'"


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
