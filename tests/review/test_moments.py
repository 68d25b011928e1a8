"""Moments as a reviewer writes them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UsageError
from gateway.review.moments import is_moment, parse_moment, written

NOW = datetime(2026, 3, 4, 5, 6, 7, 8, UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", "2026-01-31T00:00:00.000000Z"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31T12:00:00.5+02:00", "2026-01-31T10:00:00.500000Z"),
        ("2026-01-31 12:00", "2026-01-31T12:00:00.000000Z"),
        (" 30s ", "2026-03-04T05:05:37.000008Z"),
        ("2h", "2026-03-04T03:06:07.000008Z"),
        ("3d", "2026-03-01T05:06:07.000008Z"),
        ("1w", "2026-02-25T05:06:07.000008Z"),
    ],
)
def test_moments(text: str, moment: str) -> None:
    assert parse_moment(text, NOW) == moment
    assert is_moment(text)


@pytest.mark.parametrize("text", ["", "yesterday", "2h ago", "-2h", "2026-13-01", "999999w", "1y", "h"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="no date or time"):
        parse_moment(text, NOW)


def test_a_session_is_no_moment() -> None:
    assert not is_moment("s1") and not is_moment("3f2a")


@given(st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5))])), st.datetimes())
def test_texts_compare_as_times_do(one: datetime, other: datetime) -> None:
    try:
        first = written(one)
    except OverflowError:
        return
    second = written(other.replace(tzinfo=UTC))
    assert (first < second) == (one < other.replace(tzinfo=UTC))
    assert parse_moment(first, NOW) == first
