"""A log summed up: what each kind of record comes to, and that it is what one gets by going through the records."""

import json
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audit import EventKind
from gateway.review.reading import Damages, read_records
from gateway.review.selection import Selection
from gateway.review.summary import Summary
from gateway.review.summing import sum_up
from tests.fakes.review_log import Writer, files, push_fields, token_fields


def summed(place: Path, selection: Selection | None = None) -> Summary:
    return sum_up(files(place), selection or Selection())


def test_connections(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    session = writer.open()
    writer.at = 10
    writer.tunnel(session, "a.test", 100, 2000)
    writer.at = 20
    writer.tunnel(session, "a.test", 1, 2)
    writer.tunnel(session, "a.test", ends=False)
    writer.request(session, "a.test")
    writer.fail(session, "b.test")
    writer.cut(session, "c.test")
    writer.at = 30
    writer.refuse(session, "a.test")
    writer.refuse(session, "d.test")
    writer.log.close()
    summary = summed(tmp_path)
    figures = {
        host: (one.allowed, one.failed, one.denied, one.bytes_up, one.bytes_down)
        for host, one in summary.hosts.items()
    }
    assert figures == {
        "a.test": (4, 0, 1, 111, 2022),
        "b.test": (1, 1, 0, 0, 0),
        "c.test": (0, 0, 1, 5, 0),
        "d.test": (0, 0, 1, 0, 0),
    }
    assert [(one.code, one.host, one.count, one.rule) for one in summary.denials] == [
        ("not_listed", "a.test", 1, "default"),
        ("not_listed", "d.test", 1, "default"),
        ("sni_mismatch", "c.test", 1, "built-in"),
    ]
    seen = summary.hosts["a.test"]
    assert (seen.first, seen.last) == ("2026-01-01T00:00:10.000000Z", "2026-01-01T00:00:30.000000Z")
    assert (seen.reached, summary.hosts["d.test"].reached) == ("2026-01-01T00:00:10.000000Z", "")
    one = summary.sessions["s1"]
    assert (one.allowed, one.denied, one.bytes_up, one.agent, one.backend) == (5, 3, 116, "claude", "native")
    assert (one.mode, one.opened, one.closed, one.exit_status) == (
        "chat",
        "2026-01-01T00:00:00.000000Z",
        "",
        None,
    )


def test_refusals_that_stand_for_many(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    session = writer.open()
    fields = {"state": "refused", "verdict": "deny", "code": "limit", "rule": "r", "host": "a.test"}
    writer.note(EventKind.EGRESS, session, **fields)
    writer.note(EventKind.EGRESS, session, **fields, count=70)
    writer.note(EventKind.EGRESS, session, **fields, count=-5)
    writer.log.close()
    (denial,) = summed(tmp_path).denials
    assert denial.count == 71


def test_everything_else(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    session = writer.open()
    for fields in (
        push_fields(),
        push_fields("deny", "denied"),
        push_fields(status="protected branch"),
        push_fields(code="outcome_unknown"),
        push_fields(code="no_app"),
        {"repository": "", "refs": [], "code": "limit", "count": 9},
    ):
        writer.note(EventKind.PUSH, session, **fields)
    for state in ("minted", "minted", "revoked", "revoke_failed"):
        writer.note(EventKind.TOKEN, session, **token_fields(state))
    writer.note(EventKind.TOKEN, session, **token_fields("minted", "write"))
    writer.note(EventKind.TOKEN, session, **token_fields("revoked", "write"))
    writer.note(EventKind.TOKEN, session, **token_fields("mint_failed"))
    writer.note(EventKind.APPROVAL, session, id=1, state="approved", approver="dev")
    writer.note(EventKind.APPROVAL, session, id=2, state="expired", approver="")
    violation = {"action": "file-write-create", "target": "/x", "rule": "hooks", "raw": "raw"}
    writer.note(EventKind.VIOLATION, session, **violation, count=1)
    writer.note(EventKind.VIOLATION, session, **violation, count=41)
    writer.note(EventKind.ACTION, session, tool="Bash", verdict="deny", command="x")
    writer.close(session, 3)
    writer.log.close()
    summary = summed(tmp_path)
    assert summary.pushes == {"forwarded": 3, "refused": 11}
    assert {(one.verdict, one.status, one.forwarded): one.count for one in summary.refs} == {
        ("allow", "ok", True): 2,
        ("deny", "denied", False): 1,
        ("allow", "protected branch", True): 1,
        ("allow", "ok", False): 1,
    }
    assert summary.tokens == {"minted": 3, "revoked": 2, "revoke_failed": 1, "mint_failed": 1}
    (living,) = summary.never_revoked
    assert (living.session, living.kind, living.repositories, living.count) == ("s1", "read", "acme/w", 1)
    assert [(one.name, one.count) for one in summary.approvals] == [
        (("approved", "dev"), 1),
        (("expired", ""), 1),
    ]
    assert [(one.name, one.count) for one in summary.violations] == [
        (("file-write-create", "/x", "hooks"), 42)
    ]
    assert [(one.name, one.count) for one in summary.actions] == [(("Bash", "deny"), 1)]
    assert summary.sessions["s1"].exit_status == 3


def test_damage_is_counted_and_named(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.refuse(writer.open(), "a.test")
    writer.log.close()
    with writer.log.path.open("ab") as file:
        file.write(b"garbage\n")
    summary = summed(tmp_path)
    assert (summary.damaged, [one.line for one in summary.damages]) == (1, [3])
    assert (summary.records, summary.hosts["a.test"].denied) == (2, 1)


def test_nothing(tmp_path: Path) -> None:
    summary = sum_up((), Selection())
    assert (summary.records, summary.first, dict(summary.hosts)) == (0, "", {})
    json.dumps(summary.as_json())


@pytest.mark.parametrize(
    ("selection", "hosts"),
    [
        (Selection(sessions=frozenset({"s2"})), {"b.test"}),
        (Selection(hosts=("a.*",)), {"a.test"}),
        (Selection(verdicts=frozenset({"deny"})), {"b.test"}),
        (Selection(since="2026-01-01T00:00:05.000000Z"), {"b.test"}),
    ],
)
def test_filters(tmp_path: Path, selection: Selection, hosts: set[str]) -> None:
    writer = Writer(tmp_path)
    writer.tunnel(writer.open("s1"), "a.test")
    writer.at = 9
    writer.refuse(writer.open("s2"), "b.test")
    writer.log.close()
    assert set(summed(tmp_path, selection).hosts) == hosts


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["tunnel", "request", "refuse", "fail", "cut"]),
            st.sampled_from(["a.test", "b.test", 'x"\\\n\u202e.test']),
            st.sampled_from(["s1", "s2"]),
            st.integers(0, 100),
        ),
        max_size=30,
    )
)
def test_it_is_what_the_records_say(steps: list[tuple[str, str, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writer = Writer(Path(folder))
        sessions = {name: writer.open(name) for name in ("s1", "s2")}
        for step, host, name, more in steps:
            writer.at += 1
            if step == "tunnel":
                writer.tunnel(sessions[name], host, more, 2 * more)
            else:
                getattr(writer, step)(sessions[name], host)
        writer.log.close()
        summary = summed(Path(folder))
        denied: Counter[str] = Counter()
        closed: Counter[str] = Counter()
        sent: Counter[str] = Counter()
        for line in read_records(files(Path(folder)), Selection(events=frozenset({"egress"})), Damages()):
            host, state = line.record["host"], line.record["state"]
            denied[host] += line.record["verdict"] == "deny"
            closed[host] += state == "closed" and line.record["verdict"] == "allow"
            sent[host] += line.record.get("bytes_up", 0)
        for host, one in summary.hosts.items():
            assert (one.allowed, one.denied, one.bytes_up) == (closed[host], denied[host], sent[host])
        assert sum(one.allowed for one in summary.sessions.values()) == sum(closed.values())
        assert sum(one.count for one in summary.denials) == sum(denied.values())
