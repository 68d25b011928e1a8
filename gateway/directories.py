"""The product's own directories of a user: state, and sockets. Looks at nothing but the environment it is given."""

import os
from collections.abc import Mapping
from pathlib import Path

from gateway.errors import GatewayError


def state_directory(environ: Mapping[str, str]) -> Path:
    """Where the product keeps its state (XDG base directories; a relative value does not count, as they say)."""
    base = environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(base):
        return Path(base) / "agent-gateway"
    home = environ.get("HOME", "")
    if not os.path.isabs(home):
        raise GatewayError("there is no home directory to keep state in", "set HOME or XDG_STATE_HOME")
    return Path(home) / ".local" / "state" / "agent-gateway"


def runtime_directory(environ: Mapping[str, str]) -> str:
    """Where the product's sockets are, besides the state directory; empty where the system has no such place."""
    base = environ.get("XDG_RUNTIME_DIR", "")
    return os.path.join(base, "agent-gateway") if os.path.isabs(base) else ""
