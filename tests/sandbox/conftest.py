"""People and places for the tests of the wrap."""

from collections.abc import Iterator

import pytest

from tests.sandbox.wrapping import PEOPLE, Place, place_of


@pytest.fixture(params=PEOPLE)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A host in small for each of the people."""
    with place_of(request.param) as made:
        yield made
