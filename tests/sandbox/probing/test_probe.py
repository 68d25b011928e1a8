"""What a look at a host tells."""

from dataclasses import FrozenInstanceError

import pytest

from sandbox.backends import base
from sandbox.probing.probe import Probe


def test_what_is_not_said_is_empty() -> None:
    probe = Probe(False)
    assert (probe.note, probe.requires_install, probe.hint) == ("", (), "")


def test_nobody_changes_it() -> None:
    with pytest.raises(FrozenInstanceError):
        Probe(False).available = True  # type: ignore[misc]  # that is the test


def test_backends_mean_the_same() -> None:
    assert base.Probe is Probe
