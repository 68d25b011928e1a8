"""`agent-gateway review`: every question in every form, as a shell asks it."""

import csv
import io
import json
import os
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gateway.errors import UsageError
from gateway.review.questions import Format, ReviewRequest, review, select
from gateway.review.selection import Selection
from tests.fakes.console import PROGRAM, Console, terminal
from tests.fakes.review_log import Writer

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def console(tmp_path: Path) -> Console:
    return Console(tmp_path)


@pytest.fixture
def writer(console: Console) -> Writer:
    """Two sessions in the log that the product reads by itself."""
    console.state.mkdir(parents=True)
    writer = Writer(console.state / "audit")
    old = writer.open("old")
    writer.tunnel(old, "a.test", 100, 2000)
    writer.close(old)
    writer.at = 3600
    new = writer.open("new", agent="codex")
    writer.tunnel(new, "b.test")
    writer.refuse(new, "=x\x1b[31m\u202e\n.test")
    return writer


def test_records_as_lines(console: Console, writer: Writer) -> None:
    done = console.call("review")
    assert (done.status, done.said) == (0, [])
    assert len(done.lines) == 8
    assert done.lines[0] == "2026-01-01 00:00:00Z  old (claude)  session: opened: chat in /src/w, wrap native"
    assert "REFUSED =x\\x1b[31m\\u202e\\n.test:443: not_listed" in done.lines[-1]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("--session", "old"), 4),
        (("--session", "old", "--session", "new"), 8),
        (("--host", "B.*"), 2),
        (("--verdict", "deny"), 1),
        (("--code", "not_listed"), 1),
        (("--rule", "baseline.txt:*"), 4),
        (("--event", "session"), 3),
        (("--since", "2026-01-01T00:30:00Z"), 4),
        (("--until", "2026-01-01T00:30:00Z"), 4),
        (("--since", "2026-01-01", "--until", "2026-01-01"), 0),
        (("--text", "CODEX"), 4),
        (("--limit", "2"), 2),
        (("--tail", "3"), 3),
        (("--session", "old", "--event", "egress", "--tail", "9"), 2),
    ],
)
def test_filters(console: Console, writer: Writer, words: tuple[str, ...], count: int) -> None:
    done = console.call("review", *words)
    assert (done.status, len(done.lines)) == (0, count), done.said


def test_json_is_the_log(console: Console, writer: Writer) -> None:
    done = console.call("review", "--json")
    assert done.stdout == writer.log.path.read_bytes()


def test_csv_for_spreadsheets(console: Console, writer: Writer) -> None:
    done = console.call("review", "--csv", "--verdict", "deny")
    (row,) = csv.DictReader(io.StringIO(done.stdout.decode()))
    assert row["host"] == "'=x\\x1b[31m\\u202e\\n.test"
    assert (row["session"], row["event"], row["code"]) == ("new", "egress", "not_listed")


def test_summary(console: Console, writer: Writer) -> None:
    assert "connections: 2 allowed" in console.call("review", "--summary").stdout.decode()
    told = json.loads(console.call("review", "--summary", "--json", "--session", "old").stdout)
    assert [one["host"] for one in told["hosts"]] == ["a.test"]
    table = console.call("review", "--summary", "--csv").lines
    assert table[0].startswith("host,connections,failed,denied") and len(table) == 4


def test_news(console: Console, writer: Writer) -> None:
    assert "b.test" in console.call("review", "--new-since", "new").stdout.decode()
    told = json.loads(console.call("review", "--new-since", "2026-01-01T00:30:00Z", "--json").stdout)
    assert [one["new"] for one in told["hosts"]] == ["reached", "refused"]
    assert len(console.call("review", "--new-since", "old", "--csv").lines) == 4
    assert console.call("review", "--new-since", "nope").status == 2


def test_suggestions(console: Console, writer: Writer) -> None:
    writer.refuse(writer.open("s3"), "pastebin.com")
    text = console.call("review", "--suggest").lines
    assert text[0] == "egress.allow:" and any("but: anybody can leave data there" in line for line in text)
    told = json.loads(console.call("review", "--suggest", "--json", "--session", "s3").stdout)
    assert [(one["line"], one["refusals"]) for one in told] == [("pastebin.com", 1)]
    assert (
        console.call("review", "--suggest", "--csv", "--session", "s3")
        .lines[1]
        .startswith("egress.allow,pastebin.com")
    )


def test_sql(console: Console, writer: Writer) -> None:
    sql = ("review", "--sql", "SELECT host, bytes_up FROM egress WHERE state = 'closed' ORDER BY seq")
    assert console.call(*sql).lines == ["host    bytes_up", "a.test  100", "b.test  100"]
    assert [json.loads(line) for line in console.call(*sql, "--json").lines] == [
        {"host": "a.test", "bytes_up": 100},
        {"host": "b.test", "bytes_up": 100},
    ]
    assert console.call(*sql, "--csv", "--limit", "1").lines == ["host,bytes_up", "a.test,100"]
    for refused in ("DROP VIEW log", "SELECT * FROM read_text('/etc/passwd')", "nonsense"):
        done = console.call("review", "--sql", refused)
        assert (done.status, done.stdout) == (2, b"")
    assert console.call("review", "--sql", "SELECT 1", "--session", "old").status == 2


def test_damage_is_said_on_stderr(console: Console, writer: Writer) -> None:
    writer.log.close()
    with writer.log.path.open("ab") as file:
        file.write(b"garbage\n\x1b[2J")
    for words in (
        (),
        ("--json",),
        ("--summary", "--csv"),
        ("--suggest",),
        ("--sql", "SELECT 1"),
        ("--new-since", "old"),
    ):
        done = console.call("review", *words)
        assert done.status == 0
        assert [line.rpartition(":")[2] for line in done.said[1:]] == [
            " no JSON",
            " its writer was stopped",
        ], words
        assert done.said[0] == "agent-gateway: 2 damaged places in the log are not shown:"
    assert "damaged: 2 lines" in console.call("review", "--summary").stdout.decode()


def test_a_file_that_cannot_be_read_is_left_out_and_named(console: Console, writer: Writer) -> None:
    """By every question, whoever reads the files."""
    writer.log.close()
    (writer.directory / "20260101T000000Z-1-00000000-0000.jsonl.gz").write_bytes(b"not compressed at all")
    (writer.directory / "20260101T000000Z-2-00000000-0000.jsonl.gz").write_bytes(b"")
    for words in (
        (),
        ("--summary",),
        ("--suggest",),
        ("--sql", "SELECT count(*) FROM log"),
        ("--new-since", "old"),
    ):
        done = console.call("review", *words)
        assert (done.status, len(done.said)) == (0, 2), done.said
        assert "20260101T000000Z-1-00000000-0000.jsonl.gz: cannot be read: Not a gzipped file" in done.said[1]
        assert done.lines
    told = json.loads(console.call("review", "--summary", "--json").stdout)
    assert [one["host"] for one in told["hosts"]][:2] == ["a.test", "b.test"]
    assert (told["damaged"], len(told["damages"])) == (1, 1)


def test_the_log_that_is_named(console: Console, writer: Writer, tmp_path: Path) -> None:
    writer.log.close()
    for place in (str(writer.directory), str(writer.log.path)):
        assert len(console.call("review", "--log", place).lines) == 8
    done = console.call("review", "--log", str(tmp_path / "nowhere"))
    assert (done.status, "cannot be read" in done.said[0]) == (125, True)


def test_before_anything_was_recorded(console: Console) -> None:
    assert (console.call("review").status, console.call("review").stdout) == (0, b"")
    assert console.call("review", "--summary").lines == ["nothing is recorded"]
    assert console.call("review", "--sql", "SELECT count(*) AS n FROM egress").lines == ["n", "0"]
    assert console.call("review", "--suggest").lines == ["nothing was refused"]


@pytest.mark.parametrize(
    "words",
    [
        ("--since", "yesterday"),
        ("--limit", "x"),
        ("--tail", "-1"),
        ("--event", "nothing"),
        ("--summary", "--follow"),
        ("--json", "--csv"),
        ("--sql",),
    ],
)
def test_usage_errors(console: Console, words: tuple[str, ...]) -> None:
    done = console.call("review", *words)
    assert (done.status, done.stdout) == (2, b"")


def test_following(console: Console, writer: Writer) -> None:
    process = subprocess.Popen(
        (PROGRAM, "review", "--follow", "--tail", "1", "--event", "egress"),
        env=console.environ,
        cwd=console.work,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        assert b"REFUSED" in process.stdout.readline()
        session = writer.open("late")
        with writer.log.path.open("ab") as file:
            file.write(b"garbage\n")
        other = Writer(console.state / "audit")
        other.refuse(session, "late.test")
        assert b"late.test" in process.stdout.readline()
        assert b"no JSON" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) in (-signal.SIGINT, 130)
    finally:
        process.kill()
        process.communicate()


def test_a_reader_that_has_gone(console: Console, writer: Writer) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = console.call("review", capture_output=False, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.status, done.said) == (125, [])


def test_colours_are_for_terminals(console: Console, writer: Writer) -> None:
    for more, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        asked = Console(console.folder, environ={**console.environ, **more})
        with terminal(asked, PROGRAM, "review", "--verdict", "deny") as shown:
            assert shown.end() == 0
        assert (b"\x1b[31m2026" in shown.shown) is coloured
        assert b"\x1b[2J" not in shown.shown
    assert b"\x1b" not in console.call("review").stdout


def test_a_request_of_nothing_but_places(writer: Writer) -> None:
    request = ReviewRequest((writer.directory,), Selection(), Format.JSON, tail=1)
    answer = review(request, NOW, lambda done, total: None, lambda damages: False)
    assert len(list(answer.lines)) == 1 and answer.notes() == []


def test_select() -> None:
    chosen = select(hosts=["A.test"], rules=["X:1"], since="1d", now=NOW)
    assert (chosen.hosts, chosen.rules) == (("a.test",), ("x:1",))
    assert chosen.since == "2026-01-01T00:00:00.000000Z"
    with pytest.raises(UsageError):
        select(until="then", now=NOW)
