"""Rows as CSV and as tables: faithful, printable, and no formula."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.wording import printable
from gateway.review.tables import COLUMNS, as_csv, as_table, cell, record_row
from tests.fakes.review_log import push_fields


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a.test", "a.test"),
        ("12", "12"),
        ("", ""),
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("|cmd", "'|cmd"),
        ("  =1", "'  =1"),
        ("\t=1", "\\t=1"),
        ("\uff1d1", "'\uff1d1"),
        ("a=1", "a=1"),
        ("\x1b[2J", "\\x1b[2J"),
    ],
)
def test_cells(text: str, shown: str) -> None:
    assert cell(text) == shown


@given(st.lists(st.lists(st.text(), min_size=2, max_size=2), min_size=1, max_size=5))
def test_csv_comes_back_as_it_was(rows: list[list[str]]) -> None:
    text = as_csv(rows)
    assert all(line.isprintable() for line in text.split("\n"))
    back = list(csv.reader(io.StringIO(text)))
    assert back == [[cell(one) for one in row] for row in rows]
    for row, shown in zip(rows, back, strict=True):
        for one, there in zip(row, shown, strict=True):
            assert there.removeprefix("'") == printable(one).removeprefix("'")
            assert not there.lstrip().startswith(("=", "+", "-", "@"))


def test_a_record_has_a_cell_for_each_column() -> None:
    record = {
        "ts": "t",
        "event": "push",
        "sandbox": {"backend": "native"},
        "effects": ["a", "b"],
        **push_fields(),
    }
    row = dict(zip(COLUMNS, record_row(record), strict=True))
    assert row["refs"] == "refs/heads/main:create:allow"
    assert (row["backend"], row["effects"], row["host"]) == ("native", "a b", "")
    assert row["text"].startswith("t  -  push: forwarded to acme/w")


def test_tables_are_aligned_and_harmless() -> None:
    table = as_table(("name", "n"), [("a", "1"), ("b\n\x1b", "22")], frozenset({1}))
    assert table.split("\n") == ["name      n", "a         1", "b\\n\\x1b  22"]
    assert len(as_table(("x",), [("y" * 500,)]).split("\n")[1]) == 60
    assert as_table(("x", "y"), []) == "x  y"
