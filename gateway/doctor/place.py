"""Where the doctor looks: the environment, the configuration in use, the product's directories. It changes nothing."""

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from gateway.allowlists import load_shipped
from gateway.config import Config, find_config, load_config
from gateway.errors import GatewayError
from gateway.operator_socket import socket_folder
from gateway.places import find_worktree, state_directory, working_directory
from sandbox.probing.host_files import Host
from sandbox.probing.trial import find_program


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Place:
    """`environ` is the caller's, `config` the configuration in use, or the defaults where that cannot be used
    (`config_error` says why). `worktree` is empty outside of one. `find` gives the path of a system's program, or "".
    """

    environ: Mapping[str, str] = field(repr=False)
    config_file: str | None
    config: Config = field(repr=False)
    config_error: str
    state: Path
    audit: Path
    sockets: Path
    worktree: str
    host: Host
    find: Callable[[str], str] = find_program
    now: Callable[[], datetime] = _now
    platform: str = sys.platform
    python: tuple[int, int, int] = sys.version_info[:3]

    @property
    def is_linux(self) -> bool:
        """Whether this is Linux (WSL2 among it)."""
        return self.platform.startswith("linux")


def find_place(config_file: str | None, environ: Mapping[str, str]) -> Place:
    """The place of this process. GatewayError where there is no home to keep state in; a configuration that cannot be
    used is a finding, and no reason not to look at the rest."""
    config, error = Config(), ""
    try:
        config = load_config(find_config(config_file, environ), load_shipped())
    except GatewayError as caught:
        error = "; ".join(caught.lines)
    state = state_directory(environ)
    return Place(
        environ=environ,
        config_file=config_file,
        config=config,
        config_error=error,
        state=state,
        audit=config.audit.directory or state / "audit",
        sockets=socket_folder(environ),
        worktree=_worktree(),
        host=Host(administrator=os.geteuid() == 0),
    )


def _worktree() -> str:
    try:
        return find_worktree(None, working_directory())
    except (GatewayError, OSError):
        return ""
