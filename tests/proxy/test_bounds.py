"""The bounds as decided; how each is kept is tested where it is kept."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from gateway.policy.limits import Limits
from gateway.proxy import bounds

DECIDED = {
    "HEAD_LINE": 16 << 10,
    "HEAD_TOTAL": 64 << 10,
    "HEAD_FIELDS": 128,
    "CLIENT_HELLO": 32 << 10,
    "HANDSHAKE": 10,
    "DIAL_ONE": 10,
    "DIAL_ALL": 30,
}


@pytest.mark.parametrize(("name", "value"), DECIDED.items())
def test_as_decided(name: str, value: float) -> None:
    assert getattr(bounds, name) == value


def test_every_bound_is_one() -> None:
    """Positive and finite: nothing here is switched off by its value."""
    values = {name: value for name, value in vars(bounds).items() if name.isupper()}
    assert values
    assert all(0 < value < 1 << 20 for value in values.values())


def test_bounds_fit_together() -> None:
    assert bounds.HEAD_LINE < bounds.HEAD_TOTAL
    assert bounds.DIAL_STAGGER < bounds.DIAL_ONE < bounds.DIAL_ALL
    # Looked at often enough that no deadline passes unnoticed for long.
    assert bounds.SWEEP < bounds.LINGER < bounds.HANDSHAKE < Limits().idle
    assert bounds.LOOKUPS_PER_SESSION < bounds.LOOKUPS


def test_every_bound_has_its_reason() -> None:
    """A comment above it says what it counts; two bounds may share one."""
    lines = Path(bounds.__file__).read_text(encoding="utf-8").splitlines()
    for before, line in pairwise(lines):
        if re.match(r"[A-Z_]+: Final", line):
            assert re.match(r"# [A-Z].*[.a-z)]$|[A-Z_]+: Final", before), line
