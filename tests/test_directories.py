"""Where the product keeps what is its own, by the environment alone."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.directories import runtime_directory, state_directory
from gateway.errors import GatewayError


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"HOME": "/home/dev"}, "/home/dev/.local/state/agent-gateway"),
        ({"HOME": "/home/dev", "XDG_STATE_HOME": "/srv/state"}, "/srv/state/agent-gateway"),
        ({"HOME": "/home/dev", "XDG_STATE_HOME": "state"}, "/home/dev/.local/state/agent-gateway"),
        ({"HOME": "/home/dev", "XDG_STATE_HOME": ""}, "/home/dev/.local/state/agent-gateway"),
        ({"XDG_STATE_HOME": "/srv/state"}, "/srv/state/agent-gateway"),
    ],
)
def test_state_directory(environ: Mapping[str, str], place: str) -> None:
    assert state_directory(environ) == Path(place)


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_no_place_for_state(environ: Mapping[str, str]) -> None:
    with pytest.raises(GatewayError, match="no home directory to keep state in"):
        state_directory(environ)


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({}, ""),
        ({"XDG_RUNTIME_DIR": "run"}, ""),
        ({"XDG_RUNTIME_DIR": "/run/user/7"}, "/run/user/7/agent-gateway"),
    ],
)
def test_runtime_directory(environ: Mapping[str, str], place: str) -> None:
    assert runtime_directory(environ) == place
