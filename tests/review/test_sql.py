"""A reviewer's own questions: one SELECT, over the log, and nothing else."""

import json
from pathlib import Path

import pytest

from gateway.errors import GatewayError, UsageError
from gateway.review.reading import Damages
from gateway.review.sql import QueryError, ask, check
from tests.fakes.review_log import Writer, files


@pytest.fixture
def log(tmp_path: Path) -> Path:
    writer = Writer(tmp_path / "audit")
    session = writer.open()
    writer.tunnel(session, "a.test", 7, 9)
    writer.refuse(session, 'x"\n\u202e.test')
    writer.close(session)
    writer.log.close()
    return writer.directory


def objects(log: Path, sql: str) -> list[dict[str, object]]:
    return [json.loads(line) for one in ask(files(log), sql, Damages()) for line in one.as_objects()]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT host, sum(bytes_up) AS up FROM egress GROUP BY host HAVING up > 0", [{"host": "a.test", "up": 7}]),
        ("FROM session SELECT state, exit_status ORDER BY seq LIMIT 1", [{"state": "opened", "exit_status": None}]),
        ("SELECT 1 AS a, 2 AS a", [{"a": 1, "a_2": 2}]),
        ("WITH x AS (SELECT count(*) AS n FROM log) SELECT n FROM x", [{"n": 5}]),
        ("SELECT min(ts) AS t FROM log", [{"t": "2026-01-01T00:00:00Z"}]),
        ("SELECT sandbox, [1, 2] AS l, 'nan'::DOUBLE AS f, 'a'::BLOB AS b, 1.5::DECIMAL(4,2) AS d FROM log LIMIT 1",
         [{"sandbox": {"backend": "native", "file_rules": "create-time"}, "l": [1, 2], "f": None, "b": "61",
           "d": "1.50"}]),
        ("SELECT * FROM range(2) AS r(n);", [{"n": 0}, {"n": 1}]),
        ("SELECT host FROM egress WHERE code = 'not_listed'", [{"host": 'x"\n\u202e.test'}]),
        ("SELECT 1 WHERE false", []),
    ],
)  # fmt: skip
def test_answers(log: Path, sql: str, rows: list[dict[str, object]]) -> None:
    assert objects(log, sql) == rows


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("", "only one SELECT"),
        ("SELECT 1; SELECT 2", "only one SELECT"),
        ("DROP VIEW egress", "only one SELECT"),
        ("CREATE TABLE x AS SELECT 1", "only one SELECT"),
        ("COPY egress TO '/tmp/x'", "only one SELECT"),
        ("ATTACH '/tmp/x'", "only one SELECT"),
        ("INSTALL httpfs", "only one SELECT"),
        ("SET threads = 1", "only one SELECT"),
        ("PRAGMA version", "only one SELECT"),
        ("CALL enable_logging()", "only one SELECT"),
        ("EXPLAIN ANALYZE SELECT 1", "only one SELECT"),
        ("SELEKT 1", "cannot be read"),
        ("SELECT * FROM read_text('/etc/passwd')", r"read_text\(\) reads something besides the log"),
        ("SELECT (SELECT count(*) FROM glob('/*'))", r"glob\(\) reads"),
        ("WITH x AS (FROM read_csv('/etc/passwd')) SELECT 1", r"read_csv\(\) reads"),
        ("FROM query('SELECT 1')", r"query\(\) reads"),
        ("SELECT * FROM checkpoint()", r"checkpoint\(\) reads"),
        ("SELECT * FROM duckdb_secrets()", r"duckdb_secrets\(\) reads"),
        ("SELECT '" + "x" * 70_000 + "'", "more than"),
    ],
)
def test_what_cannot_be_asked(sql: str, why: str) -> None:
    with pytest.raises(QueryError, match=why) as raised:
        check(sql)
    assert isinstance(raised.value, UsageError)


@pytest.mark.parametrize(
    "sql", ["SELECT nothing FROM egress", "FROM '/etc/passwd'", "SELECT 'x'::INTEGER", "FROM nowhere"]
)
def test_what_has_no_answer(log: Path, sql: str) -> None:
    with pytest.raises(QueryError, match="the question has no answer") as raised:
        objects(log, sql)
    assert "egress" in "".join(raised.value.lines)


def test_too_much_memory(log: Path) -> None:
    with pytest.raises(GatewayError, match="more memory"):
        objects(log, "SELECT count(DISTINCT a.range::VARCHAR || repeat('x', 200)) FROM range(5000000) AS a")


def test_rows_as_text(log: Path) -> None:
    (answer,) = ask(files(log), "SELECT NULL, true, 1, [1], 'x'", Damages())
    # The database has gone by the end, so that rows are taken while it is there.
    assert len(answer.columns) == 5
    texts = [
        row
        for one in ask(files(log), "SELECT NULL, true, 1, ['\u00e4'], 'x'", Damages())
        for row in one.as_texts()
    ]
    assert texts == [("", "true", "1", '["\u00e4"]', "x")]


def test_damage_is_noted(log: Path) -> None:
    (file,) = files(log)
    with file.path.open("ab") as stream:
        stream.write(b"garbage\n")
    damages = Damages()
    for answer in ask(files(log), "SELECT count(*) FROM log", damages):
        assert list(answer.rows) == [(5,)]
    assert damages.count == 1
