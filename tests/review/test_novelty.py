"""Hosts that are new since a session, or since a moment."""

from pathlib import Path

import pytest

from gateway.errors import UsageError
from gateway.review.novelty import News, find_news
from gateway.review.selection import Selection
from tests.fakes.review_log import Writer, files


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two sessions an hour apart, and one that began between them and is still there."""
    writer = Writer(tmp_path)
    old = writer.open("old")
    writer.tunnel(old, "known.test")
    writer.refuse(old, "wanted.test")
    writer.refuse(old, "never.test")
    writer.close(old)
    writer.at = 1800
    other = writer.open("other")
    writer.at = 3600
    new = writer.open("new")
    for host in ("known.test", "wanted.test", "fresh.test"):
        writer.tunnel(new, host, 10, 20)
    writer.refuse(new, "never.test")
    writer.refuse(new, "denied\n.test")
    writer.tunnel(other, "elsewhere.test")
    writer.log.close()
    return tmp_path


def news(log: Path, mark: str, moment: str = "", selection: Selection | None = None) -> News:
    return find_news(files(log), mark, moment, selection or Selection())


def test_since_a_session(log: Path) -> None:
    found = news(log, "new")
    assert {one.host: one.what for one in found.hosts} == {
        "wanted.test": "reached, refused before",
        "fresh.test": "reached",
        "elsewhere.test": "reached",
        "denied\n.test": "refused",
    }
    assert (found.since, found.known) == ("2026-01-01T01:00:00.000000Z", 3)
    assert found.hosts[-1].what == "refused"
    text = found.as_text()
    assert text.startswith("new since 2026-01-01 01:00:00Z (3 hosts were known before)\n")
    assert "denied\\n.test" in text


def test_since_a_moment(log: Path) -> None:
    assert {one.host for one in news(log, "x", "2026-01-01T00:30:00.000000Z").hosts} == {
        "wanted.test",
        "fresh.test",
        "elsewhere.test",
        "denied\n.test",
    }
    late = news(log, "x", "2026-01-01T02:00:00.000000Z")
    assert late.hosts == ()
    assert late.as_text() == "no host is new since 2026-01-01 02:00:00Z; 6 were known before"


def test_of_the_selection_alone(log: Path) -> None:
    """What was known is known by the whole log, whatever is selected."""
    found = news(log, "new", selection=Selection(sessions=frozenset({"new"}), verdicts=frozenset({"allow"})))
    assert {one.host for one in found.hosts} == {"wanted.test", "fresh.test"}
    assert found.hosts[0].as_json()["bytes_up"] == 10


def test_a_session_that_is_not_there(log: Path) -> None:
    with pytest.raises(UsageError, match="no session 'nope'"):
        news(log, "nope")
