"""The log as tables, and nothing but the log."""

from pathlib import Path

import duckdb
import pytest

from gateway.audit import EventKind
from gateway.errors import GatewayError
from gateway.review.columns import COLUMNS, EVENTS
from gateway.review.files import UnreadableFile
from gateway.review.reading import Damages
from gateway.review.store import Store
from tests.fakes.review_log import Writer, files, push_fields


@pytest.fixture
def log(tmp_path: Path) -> Path:
    writer = Writer(tmp_path / "audit's")
    session = writer.open()
    writer.tunnel(session, "a.test")
    writer.note(EventKind.PUSH, session, **push_fields())
    writer.close(session)
    writer.log.close()
    return writer.directory


def test_a_view_for_every_kind_of_record(log: Path) -> None:
    assert set(EVENTS) == {kind.value for kind in EventKind}
    with Store(files(log)) as store:
        for event in EVENTS:
            store.query(f"SELECT * FROM {event}")
        assert store.query("SELECT host, state, port FROM egress ORDER BY seq") == [
            ("a.test", "opened", 443),
            ("a.test", "closed", 443),
        ]
        assert store.query("SELECT unnest(refs, recursive := true) FROM push")[0][0] == "refs/heads/main"
        assert store.query("SELECT count(*), typeof(min(ts)) FROM log") == [(5, "TIMESTAMP")]


@pytest.fixture(params=[50, 0], autouse=True)
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test reads few files, and then the same as many small ones, which is done in another way."""
    monkeypatch.setattr("gateway.review.store._FEW", request.param)
    monkeypatch.setattr("gateway.review.store._NAMED_PATHS", request.param)


def test_both_ways_have_the_same_columns(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    for number in (50, 0):
        monkeypatch.setattr("gateway.review.store._FEW", number)
        with Store(files(log)) as store:
            shapes.append((store.query("DESCRIBE lines"), store.query("SELECT * FROM lines ORDER BY seq")))
    assert shapes[0] == shapes[1]


def test_a_log_without_files() -> None:
    with Store(()) as store:
        assert store.query("SELECT * FROM egress") == []
        assert len(store.query("DESCRIBE lines")) == len(COLUMNS) + 1


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_csv('{other}')",
        "SELECT * FROM '{other}'",
        "SELECT * FROM glob('/etc/*')",
        "COPY (SELECT 1) TO '{other}'",
        "ATTACH '{other}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT * FROM read_json('https://a.test/x')",
        "SET enable_external_access = true",
        "SET memory_limit = '8GB'",
        "SELECT * FROM secret",
    ],
)
def test_it_is_locked(log: Path, tmp_path: Path, sql: str) -> None:
    secret = [1]  # a variable that a database in this process must not see
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with Store(files(log)) as store, pytest.raises(duckdb.Error):
        store.ask(sql.format(other=other)).fetchall()
    assert other.read_text() == "a,b\n1,2\n" and secret == [1]


def test_lines_that_are_none(log: Path) -> None:
    (file,) = files(log)
    with file.path.open("ab") as stream:
        stream.write(
            b'garbage\n[1]\n{"ts":"x"}\n{"ts":"2026","event":"egress","bytes_up":"many","host":[1]}\n'
        )
    damages = Damages()
    with Store(files(log)) as store:
        assert store.query("SELECT count(*) FROM log") == [(6,)]
        store.damages(damages)
    assert [(one.line, one.why) for one in damages.named] == [
        (6, "no JSON"),
        (7, "JSON, but no object"),
        (8, "a record without its 'event'"),
    ]


def test_what_cannot_be_read(tmp_path: Path, log: Path) -> None:
    (file,) = files(log)
    with Store(files(log)) as store:
        file.path.unlink()
        with pytest.raises(UnreadableFile, match="the log cannot be read"):
            store.query("SELECT * FROM log")
    strange = Writer(tmp_path / "a*b")
    strange.log.close()
    with pytest.raises(GatewayError, match="cannot be read as a table"):
        Store(files(strange.directory))


def test_progress_comes_to_its_end(log: Path) -> None:
    with Store(files(log)) as store:
        assert store.query("SELECT count(*) FROM log", (), lambda done, total: None) == [(5,)]
