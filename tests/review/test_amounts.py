"""Amounts in words."""

import pytest

from gateway.review.amounts import many


@pytest.mark.parametrize(
    ("count", "told"), [(0, "0 pushes"), (1, "1 push"), (2, "2 pushes"), (1234567, "1,234,567 pushes")]
)
def test_many(count: int, told: str) -> None:
    assert many(count, "push", "pushes") == told


def test_an_s_is_enough() -> None:
    assert (many(1, "host"), many(3, "host")) == ("1 host", "3 hosts")
