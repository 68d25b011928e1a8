"""Reading a log into what a report is made of: the same as the other questions answer, and the records themselves."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gateway.audit import EventKind
from gateway.review.files import UnreadableFile
from gateway.review.reading import Damages
from gateway.review.records import Damage
from gateway.review.report.contents import Contents, Integrity
from gateway.review.report.gathering import LISTED, LISTINGS, _Passes, gather
from gateway.review.selection import Selection
from gateway.review.summing import sum_up
from tests.fakes.contents import SIGNED
from tests.fakes.review_log import Writer, files, push_fields, token_fields

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def gathered(place: Path, selection: Selection | None = None, damages: Damages | None = None) -> Contents:
    return gather(
        files(place), selection or Selection(), Integrity(SIGNED), NOW, [str(place)], damages or Damages()
    )


def test_everything_there_is(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    session = writer.open()
    writer.tunnel(session, "a.test", 100, 2000)
    writer.refuse(session, "b.test")
    writer.note(EventKind.PUSH, session, **push_fields())
    writer.note(EventKind.TOKEN, session, **token_fields("minted"))
    writer.note(EventKind.ACTION, session, tool="Bash", command="ls", effects=[], verdict="allow", rule="r")
    writer.note(
        EventKind.ACTION, session, tool="Bash", command="rm", effects=["delete"], verdict="deny", rule="r"
    )
    writer.close(session)
    writer.log.close()
    found = gathered(tmp_path)
    assert found.summary == sum_up(files(tmp_path), Selection())
    assert found.timeline is not None
    assert (sum(found.timeline.allowed), sum(found.timeline.denied)) == (1, 1)
    assert {name: (len(one.records), one.total) for name, one in found.listings.items()} == {
        "push": (1, 1),
        "token": (1, 1),
        "action": (1, 1),
        "session": (1, 1),
    }
    (push,) = found.listing("push").records
    assert (push["ts"], push["session"], push["repository"]) == (
        "2026-01-01T00:00:00.000000Z",
        "s1",
        "acme/w",
    )
    assert push["refs"][0]["ref"] == "refs/heads/main"
    (token,) = found.listing("token").records
    assert (token["permissions"], token["repositories"]) == ({"contents": "read"}, ["acme/w"])
    assert found.listing("action").records[0]["command"] == "rm"
    assert [(one.key, one.line) for one in found.suggestions] == [("egress.allow", "b.test")]
    assert (found.made, found.places, found.known_hosts) == (NOW, (str(tmp_path),), None)


def test_a_log_of_nothing(tmp_path: Path) -> None:
    found = gathered(tmp_path)
    assert (found.summary.records, found.timeline, dict(found.listings), found.suggestions) == (
        0,
        None,
        {},
        (),
    )


def test_the_last_records_are_listed_in_their_order(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    session = writer.open()
    for number in range(LISTED + 20):
        # Several in one moment: the log's own order counts.
        writer.at = number // 3
        writer.note(EventKind.PUSH, session, **push_fields(reason=f"{number}"))
    writer.log.close()
    listing = gathered(tmp_path).listing("push")
    assert listing.total == LISTED + 20
    assert [one["reason"] for one in listing.records] == [f"{number}" for number in range(20, LISTED + 20)]


def test_hosts_that_were_known_before(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    first = writer.open("s1")
    writer.tunnel(first, "old.test")
    writer.refuse(first, "asked.test")
    writer.at = 10
    second = writer.open("s2")
    for host in ("old.test", "asked.test", "new.test"):
        writer.tunnel(second, host)
    writer.log.close()
    assert gathered(tmp_path).known_hosts is None
    # Nothing is recorded before the first session: everything would be new.
    assert gathered(tmp_path, Selection(sessions=frozenset({"s1"}))).known_hosts is None
    for selection in (Selection(sessions=frozenset({"s2"})), Selection(since="2026-01-01T00:00:05.000000Z")):
        found = gathered(tmp_path, selection)
        assert found.known_hosts == frozenset({"old.test"})
        assert [host for host in found.summary.hosts if found.is_new(host)] == ["asked.test", "new.test"]


@pytest.mark.parametrize("name", LISTINGS)
def test_every_listing_is_selected(tmp_path: Path, name: str) -> None:
    given: dict[str, dict[str, Any]] = {
        "push": push_fields(),
        "token": token_fields("minted"),
        "approval": {"id": 1, "state": "asked", "summary": "x"},
        "violation": {"action": "x", "target": "y", "rule": "z", "raw": ""},
        "action": {"tool": "x", "verdict": "deny"},
        "session": {"state": "opened"},
    }
    writer = Writer(tmp_path)
    for session in (writer.open("s1"), writer.open("s2")):
        if name != "session":
            writer.note(EventKind(name), session, **given[name])
    writer.log.close()
    found = gathered(tmp_path, Selection(sessions=frozenset({"s2"}))).listing(name)
    assert [one["session"] for one in found.records] == ["s2"]


def test_progress_goes_from_nothing_to_all() -> None:
    passes = _Passes(lambda done, total: told.append((done, total)))
    told: list[tuple[int, int]] = []
    for _ in range(5):
        heard = passes.next()
        assert heard is not None
        heard(0, 100)
        heard(100, 100)
    assert told == [(at, 100) for at in (0, 20, 20, 40, 40, 60, 60, 80, 80, 100)]
    assert _Passes(None).next() is None


def test_damage_is_counted_once(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.refuse(writer.open(), "a.test")
    writer.log.close()
    (file,) = files(tmp_path)
    with open(file.path, "ab") as stream:
        stream.write(b"no record\n")
    before = Damages(1, [Damage("/elsewhere", 0, "is gone")])
    summary = gathered(tmp_path, damages=before).summary
    assert (summary.damaged, [one.line for one in summary.damages]) == (2, [0, 3])


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(UnreadableFile):
        gathered(tmp_path)
