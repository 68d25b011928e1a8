"""Which records are wanted: each filter with a record that it takes, one that it leaves, one that it almost takes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.review.records import Record
from gateway.review.selection import Selection

EGRESS: Record = {
    "ts": "2026-01-02T03:04:05.000006Z",
    "event": "egress",
    "session": "s1",
    "host": "api.a.test",
    "host_unicode": "\u00e4pi.test",
    "verdict": "deny",
    "code": "not_listed",
    "rule": "deny.txt:12",
    "path": "/Secret/place",
}
PUSH: Record = {
    "ts": "2026-01-02T03:04:05.000006Z",
    "event": "push",
    "session": "s1",
    "refs": [{"ref": "refs/heads/x", "verdict": "allow", "rule": "config.yaml:3"}, 7],
}


@pytest.mark.parametrize(
    ("selection", "egress", "push"),
    [
        (Selection(), True, True),
        (Selection(events=frozenset({"egress", "token"})), True, False),
        (Selection(sessions=frozenset({"s1"})), True, True),
        (Selection(sessions=frozenset({"s"})), False, False),
        (Selection(hosts=("api.a.test",)), True, False),
        (Selection(hosts=("*.a.test",)), True, False),
        (Selection(hosts=("a.test", "*.b.test")), False, False),
        (Selection(hosts=("\u00e4pi.*",)), True, False),
        (Selection(hosts=("api?a.test",)), True, False),
        (Selection(hosts=("api.a.tes.",)), False, False),
        (Selection(hosts=("*",)), True, False),
        (Selection(verdicts=frozenset({"deny"})), True, False),
        (Selection(verdicts=frozenset({"allow"})), False, True),
        (Selection(codes=frozenset({"not_listed"})), True, False),
        (Selection(codes=frozenset({"not_liste"})), False, False),
        (Selection(rules=("deny.txt:*",)), True, False),
        (Selection(rules=("config.yaml:3",)), False, True),
        (Selection(rules=("config.yaml:",)), False, False),
        (Selection(since="2026-01-02T03:04:05.000006Z"), True, True),
        (Selection(since="2026-01-02T03:04:05.000007Z"), False, False),
        (Selection(until="2026-01-02T03:04:05.000006Z"), False, False),
        (Selection(until="2026-01-02T03:04:05.000007Z"), True, True),
        (Selection(texts=("secret/PLACE",)), True, False),
        (Selection(texts=("heads",)), False, True),
        (Selection(texts=("verdict",)), False, False),
        (Selection(texts=("s1", "not_listed")), True, False),
        (Selection(texts=("\u00c4PI",)), True, False),
    ],
)
def test_filters(selection: Selection, egress: bool, push: bool) -> None:
    assert (selection.matches(EGRESS), selection.matches(PUSH)) == (egress, push)


def test_everything() -> None:
    assert Selection().is_everything
    assert not Selection(texts=("a",)).is_everything


def test_lines_that_certainly_do_not_match() -> None:
    selection = Selection(texts=("Secret", "caf\u00e9", 'a"b'))
    assert selection.may_match(b'{"x":"SECRET"}')
    assert not selection.may_match(b'{"x":"other"}')
    selection = Selection(
        events=frozenset({"push", "egress"}), hosts=("A.test",), codes=frozenset({"denied"})
    )
    line = b'{"event":"egress","host":"a.test","code":"denied"}'
    assert selection.may_match(line)
    for almost in (b'"egress"', b'"a.test"', b'"denied"'):
        assert not selection.may_match(line.replace(almost, b'"x"'))


@given(st.text(max_size=5), st.text(max_size=5), st.text(min_size=1, max_size=3))
def test_a_line_that_matches_may_match(session: str, host: str, code: str) -> None:
    """Whatever stands in the fields."""
    record = {**EGRESS, "session": session, "host": host, "code": code}
    line = json.dumps(record, separators=(",", ":")).encode()
    for selection in (
        Selection(sessions=frozenset({session})),
        Selection(hosts=(host,)),
        Selection(codes=frozenset({code}), texts=("secret",)),
    ):
        assert not selection.matches(record) or selection.may_match(line)
