"""The line that a run ends with, and which hosts it calls new."""

from pathlib import Path

import pytest

from gateway.authorizer import Counts
from gateway.closing import closing_line, note_hosts, ungoverned_line
from gateway.push_authorizer import PushCounts
from tests.fakes.console import Console
from tests.fakes.review_log import Writer


def run(place: Path, name: str, hosts: tuple[str, ...], at: float) -> tuple[str, ...]:
    """A session that reaches these hosts, and what its end calls new."""
    writer = Writer(place / "audit", at=at)
    session = writer.open(name)
    for host in hosts:
        writer.tunnel(session, host)
    writer.refuse(session, "refused.test")
    writer.close(session)
    writer.log.close()
    return note_hosts(writer.log.path, name, place)


@pytest.mark.parametrize(
    ("news", "part"),
    [
        ((), ""),
        (("a.test",), "1 new host: a.test; "),
        (("a.test", "b\n.test"), "2 new hosts: a.test, b\\n.test; "),
        (
            tuple(f"h{number}.test" for number in range(7)),
            "7 new hosts: h0.test, h1.test, h2.test and 4 more; ",
        ),
    ],
)
def test_one_line(news: tuple[str, ...], part: str) -> None:
    line = closing_line(Counts(4, 1), PushCounts(2, 0), 3, news, Path("/log/x.jsonl"))
    assert line == (
        "agent-gateway: 4 connections allowed, 1 denied; 2 pushes forwarded, 0 refused; 3 violations; "
        f"{part}log: /log/x.jsonl"
    )


def test_a_shell_of_a_person() -> None:
    assert ungoverned_line(Path("/x")).endswith("not governed, so not counted; log: /x")


def test_what_no_session_reached_before(tmp_path: Path) -> None:
    assert run(tmp_path, "s1", ("a.test", "b.test"), 0) == ()
    assert run(tmp_path, "s2", ("a.test", "c.test", "b.test"), 10) == ("c.test",)
    assert run(tmp_path, "s3", ("a.test", "c.test"), 20) == ()
    assert (tmp_path / "known-hosts").read_text().split() == ["a.test", "b.test", "c.test"]
    assert (tmp_path / "known-hosts").stat().st_mode & 0o777 == 0o600


def test_logs_of_before_count_where_nothing_is_remembered(tmp_path: Path) -> None:
    run(tmp_path, "s1", ("a.test",), 0)
    (tmp_path / "known-hosts").unlink()
    assert run(tmp_path, "s2", ("a.test", "b.test"), 10) == ("b.test",)
    assert run(tmp_path, "s3", ("b.test", "a.test"), 20) == ()


def test_another_session_at_the_same_time_is_not_counted(tmp_path: Path) -> None:
    run(tmp_path, "s0", ("a.test",), 0)
    writer, other = Writer(tmp_path / "audit", at=10), Writer(tmp_path / "audit", at=10)
    mine, theirs = writer.open("mine"), other.open("theirs")
    writer.tunnel(mine, "mine.test")
    other.tunnel(theirs, "theirs.test")
    assert note_hosts(writer.log.path, "mine", tmp_path) == ("mine.test",)


def test_another_process_of_the_session_is_counted(tmp_path: Path) -> None:
    run(tmp_path, "s0", ("a.test",), 0)
    writer, worker = Writer(tmp_path / "audit", at=10), Writer(tmp_path / "audit", at=11)
    session = writer.open("mine")
    worker.tunnel(session, "worker.test")
    assert note_hosts(writer.log.path, "mine", tmp_path) == ("worker.test",)


def test_trouble_is_no_news(tmp_path: Path) -> None:
    assert note_hosts(tmp_path / "nowhere/x.jsonl", "s", tmp_path) == ()
    run(tmp_path, "s1", ("a.test",), 0)
    (tmp_path / "known-hosts").unlink()
    (tmp_path / "known-hosts").symlink_to("/etc/hostname")
    assert run(tmp_path, "s2", ("b.test",), 10) == ()


def test_what_is_remembered_has_a_bound(tmp_path: Path) -> None:
    (tmp_path / "known-hosts").write_text("x.test\n" * 150_000)
    size = (tmp_path / "known-hosts").stat().st_size
    assert run(tmp_path, "s1", ("a.test",), 0) == ("a.test",)
    assert (tmp_path / "known-hosts").stat().st_size == size


def test_of_a_run(tmp_path: Path) -> None:
    console = Console(tmp_path)
    assert (
        console.run("true", options=("--sandbox", "off"))
        .said[-1]
        .startswith(
            "agent-gateway: 0 connections allowed, 0 denied; 0 pushes forwarded, 0 refused; 0 violations; log: "
        )
    )
