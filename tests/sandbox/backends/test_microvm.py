"""The backend that has a name only."""

import pytest

from gateway.errors import GatewayError
from sandbox.backends.microvm import MicroVm
from sandbox.spec import SandboxSpec


def test_says_that_it_is_not_there() -> None:
    probe = MicroVm().probe()
    assert not probe.available
    assert probe.hint
    with pytest.raises(GatewayError):
        MicroVm().launch(SandboxSpec("s", "w", "a", ()))
