"""Where the doctor looks: with a configuration that can be used, and with one that cannot."""

from pathlib import Path

import pytest

from gateway.config import Config
from gateway.doctor.place import find_place
from gateway.errors import GatewayError


def environ(folder: Path, config: str = "") -> dict[str, str]:
    """A user with this configuration."""
    if config:
        (folder / ".config/agent-gateway").mkdir(parents=True)
        (folder / ".config/agent-gateway/config.yaml").write_text(config)
    return {"HOME": str(folder)}


def test_defaults(tmp_path: Path) -> None:
    place = find_place(None, environ(tmp_path))
    state = tmp_path / ".local/state/agent-gateway"
    assert (place.state, place.audit, place.sockets) == (state, state / "audit", state / "run")
    assert (place.config, place.config_error) == (Config(), "")


def test_the_config_says_where_the_log_is(tmp_path: Path) -> None:
    place = find_place(None, environ(tmp_path, "audit: {directory: /var/log/agents}\n"))
    assert place.audit == Path("/var/log/agents")


@pytest.mark.parametrize("config", ["egress: {allow: [no host]}\n", "nothing: here\n", "sandbox: [\n"])
def test_a_config_that_cannot_be_used_is_no_end(tmp_path: Path, config: str) -> None:
    place = find_place(None, environ(tmp_path, config))
    assert place.config == Config()
    assert "config.yaml:" in place.config_error


def test_no_home_is_an_end() -> None:
    with pytest.raises(GatewayError, match="no home directory"):
        find_place("/nowhere", {})
