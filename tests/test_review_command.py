"""`agent-gateway review` as it is called: what goes to stdout, what to stderr, and what a report leaves behind."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.fakes.console import PROGRAM, Console
from tests.fakes.review_log import Writer


@pytest.fixture
def console(tmp_path: Path) -> Console:
    """A run was there, and beside it a log that nobody signed."""
    console = Console(tmp_path)
    assert console.run("true").status == 0
    writer = Writer(tmp_path / "log")
    session = writer.open()
    writer.tunnel(session, "a.test")
    writer.refuse(session, "b.test")
    writer.close(session)
    writer.log.close()
    return console


def test_a_report_of_the_own_log(console: Console) -> None:
    place = console.work / "out.html"
    done = console.call("review", "--report", "out.html")
    assert (done.status, done.said) == (0, [])
    assert done.lines == ["5 records of 1 session, log intact: out.html"]
    assert place.stat().st_mode & 0o777 == 0o600
    assert "The log is what was written; 5 records are signed." in place.read_text()
    assert str(console.state / "audit") in place.read_text()


def test_a_report_on_stdout(console: Console) -> None:
    done = console.call("review", "--log", str(console.folder / "log"), "--report", "-")
    assert (done.status, done.said) == (0, [])
    assert done.stdout.startswith(b"<!doctype html>\n")
    assert done.stdout.endswith(b"</html>\n")
    assert b"No record of this log is signed by a known key" in done.stdout


def test_a_report_of_a_part(console: Console) -> None:
    log = str(console.folder / "log")
    done = console.call("review", "--log", log, "--host", "b.test", "--report", "out.html")
    assert done.lines == ["1 record of 1 session, log intact, but nothing of it is signed: out.html"]
    html = (console.work / "out.html").read_text()
    assert "Only: hosts b.test." in html
    assert "a.test" not in html


def test_a_report_of_a_broken_log(console: Console) -> None:
    (log,) = (console.state / "audit").glob("*.jsonl*")
    log.write_bytes(log.read_bytes().replace(b'"mode":"chat"', b'"mode":"plan"') + b"no record\n")
    done = console.call("review", "--report", "out.html")
    assert done.status == 0
    assert done.lines == ["5 records of 1 session, log BROKEN: out.html"]
    html = (console.work / "out.html").read_text()
    assert "The log is not what was written" in html
    assert "1 line or file of the log could not be read" in html


def test_a_report_of_nothing(tmp_path: Path) -> None:
    console = Console(tmp_path)
    done = console.call("review", "--report", "out.html")
    assert (done.status, done.lines) == (0, ["0 records of 0 sessions, log intact: out.html"])
    assert "There is nothing to draw." in (console.work / "out.html").read_text()


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--report", "out.html", "--json"), 2, "--report takes no --json"),
        (("--report", "out.html", "--csv"), 2, "--report takes no --csv"),
        (("--report", "out.html", "--limit", "3"), 2, "--report takes no --limit"),
        (("--report", "out.html", "--tail", "0"), 2, "--report takes no --tail"),
        (("--report", "missing/out.html"), 125, "cannot be written to missing/out.html"),
        (("--report", "."), 125, ". is no file"),
        (("--report", "out.html", "--log", "missing"), 125, "missing"),
        (("--report", "out.html", "--since", "soon"), 2, "'soon' is no date or time"),
    ],
)
def test_reports_that_cannot_be(console: Console, words: tuple[str, ...], status: int, said: str) -> None:
    done = console.call("review", *words)
    assert done.status == status
    assert said in "\n".join(done.said)
    assert not (console.work / "out.html").exists()


def test_an_unreadable_file_is_named_in_the_report(console: Console) -> None:
    (console.folder / "log" / "x.jsonl.gz").write_bytes(b"no gzip")
    done = console.call("review", "--log", str(console.folder / "log"), "--report", "out.html")
    assert done.status == 0
    assert "x.jsonl.gz" in (console.work / "out.html").read_text()
    assert "BROKEN" in done.lines[0]


def test_the_key_that_is_broken_is_told(console: Console) -> None:
    for key in console.state.glob("audit-key*"):
        key.write_text("no key")
    done = console.call("review", "--report", "out.html")
    assert (done.status, "not checked" in done.lines[0]) == (0, True)
    assert "Whether the log is complete could not be checked" in (console.work / "out.html").read_text()


def test_answers_go_to_stdout_and_damage_to_stderr(console: Console) -> None:
    log = console.folder / "log"
    (file,) = log.iterdir()
    file.write_bytes(file.read_bytes() + b"no record\n")
    done = console.call("review", "--log", str(log), "--json")
    assert [json.loads(line)["event"] for line in done.lines][:2] == ["session", "egress"]
    assert done.said[0] == "agent-gateway: 1 damaged places in the log are not shown:"


def test_whoever_reads_may_go(console: Console) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        done = subprocess.run(
            [PROGRAM, "review", "--log", str(console.folder / "log")],
            env=console.environ,
            cwd=console.work,
            stdout=gone,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.stderr == b""
