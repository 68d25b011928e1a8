"""A running forge and its App's owner."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.forge.server import Forge
from tests.fakes.forge import AppClient, app_client, open_forge


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    with open_forge(tmp_path) as running:
        yield running


@pytest.fixture
def app(forge: Forge) -> Iterator[AppClient]:
    with app_client(forge) as client:
        yield client
