"""What is asked about, and what changes something, as data."""

import re

from gateway.policy.commands.asked import ASKED, CHANGING, CHANGING_OPTIONS, HARMLESS, LISTING

ROW = re.compile(r"[a-z0-9][a-z0-9_.+-]*(?: [A-Za-z0-9_.:|*+-]+)*(?: -[A-Za-z0-9|-]+)?")


def test_rows_are_words_in_lower_case() -> None:
    assert not [row for row in (*ASKED, *CHANGING) if ROW.fullmatch(row) is None]


def test_no_row_stands_twice() -> None:
    for rows in (ASKED, CHANGING):
        assert len(set(rows)) == len(rows)


def test_options_begin_with_a_dash() -> None:
    assert all(option.startswith("-") for options in CHANGING_OPTIONS.values() for option in options)
    assert all(option.startswith("-") for _, options in LISTING.values() for option in options)


def test_what_may_be_harmless_is_in_the_tables() -> None:
    known = {f"{row.split()[0]}" for row in (*ASKED, *CHANGING)}
    assert {key.split()[0] for key in (*HARMLESS, *LISTING)} <= known
