"""The columns know every field that is recorded, and one name means one type."""

import json

from gateway.audit import EventKind
from gateway.review.columns import COLUMNS, COMMON, EVENTS, STRUCTURES
from tests.source_tree import ROOT


def test_every_kind_of_record_has_its_columns() -> None:
    assert set(EVENTS) == {kind.value for kind in EventKind}


def test_every_field_of_the_golden_lines_is_a_column() -> None:
    for line in (ROOT / "tests/data/audit/lines.jsonl").read_text().splitlines():
        record = json.loads(line)
        assert record.keys() <= {*COMMON, *EVENTS[record["event"]]}, record["event"]


def test_a_name_is_one_type() -> None:
    for fields in (COMMON, *EVENTS.values()):
        assert all(COLUMNS[name] == kind for name, kind in fields.items())


def test_types_that_hold_others_are_spelled_out() -> None:
    plain = {"VARCHAR", "BIGINT", "INTEGER", "BOOLEAN", "JSON"}
    assert {kind for kind in COLUMNS.values() if kind not in plain} == set(STRUCTURES)
