"""What holds for every backend of the tuple."""

import pytest

from sandbox.backends import BACKENDS
from sandbox.backends.base import Backend


def test_names_are_the_contracts() -> None:
    assert [backend.name for backend in BACKENDS] == ["native", "microvm", "none"]


@pytest.mark.parametrize("backend", BACKENDS, ids=[backend.name for backend in BACKENDS])
def test_probe_says_what_to_do(backend: Backend) -> None:
    probe = backend.probe()
    assert bool(probe.note) is probe.available
    assert probe.available or probe.hint
