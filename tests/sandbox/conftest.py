"""People and places for the tests of the wrap."""

from collections.abc import Iterator

import pytest

from sandbox.supervisor.client import RESERVE
from tests.sandbox.wrapping import PEOPLE, Place, place_of


@pytest.fixture(params=PEOPLE)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A host in small for each of the people."""
    with place_of(request.param) as made:
        yield made


@pytest.fixture(autouse=True)
def nobody_waits() -> Iterator[None]:
    """What a test counts (descriptors, threads) is its own: no supervisor of an earlier one waits for a launch."""
    RESERVE.empty()
    yield
    RESERVE.empty()
