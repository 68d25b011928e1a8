"""The backend that has a name only."""

import pytest

from gateway.errors import GatewayError, UsageError
from sandbox.backends.microvm import MicroVm
from sandbox.spec import SandboxSpec


def test_says_that_it_is_not_there() -> None:
    probe = MicroVm().probe()
    assert (MicroVm().name, probe.available, probe.note, probe.requires_install) == ("microvm", False, "", ())
    assert "--backend native" in probe.hint


def test_launch_fails_loudly() -> None:
    """Exit status 125 and the hint; not a mistake of usage, and nothing weaker in its place."""
    with pytest.raises(GatewayError) as caught:
        MicroVm().launch(SandboxSpec("s", "w", "a", ()))
    assert not isinstance(caught.value, UsageError)
    assert (caught.value.message, caught.value.hint) == ("no micro-VM can run here", MicroVm().probe().hint)
