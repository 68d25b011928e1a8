"""Sockets on which an operator meets a gateway: where they are, made for one user alone, found again, cleaned up.

$XDG_RUNTIME_DIR/agent-gateway/run-SESSION.sock     a run that brings its own gateway
$XDG_RUNTIME_DIR/agent-gateway/operator.sock        an appliance
STATE/run/...                                       where that variable is not set
"""

import contextlib
import os
import re
import socket
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.directories import runtime_directory, state_directory
from gateway.errors import GatewayError

APPLIANCE: Final = "operator.sock"
_NAME: Final = re.compile(r"run-([A-Za-z0-9][A-Za-z0-9._-]{0,63})\.sock")
# Bytes of a path that every system takes for a socket, with the zero behind it (sockaddr_un; macOS has four less).
_LONGEST: Final = 103
# Seconds for connecting: whoever listens is on this machine.
_PATIENCE: Final = 5.0
# Connections that wait to be taken, and seconds until one for which there was no room tries again.
_WAITING: Final = 128
_AGAIN: Final = 0.02


@dataclass(frozen=True, slots=True)
class OperatorSocket:
    """A socket that somebody listens on; `session` is empty for an appliance."""

    path: Path
    session: str


def socket_folder(environ: Mapping[str, str]) -> Path:
    """The folder of the sockets. GatewayError where there is no home directory either."""
    runtime = runtime_directory(environ)
    return Path(runtime) if runtime else state_directory(environ) / "run"


def session_socket(folder: Path, session_id: str) -> Path:
    """The socket of a run."""
    return folder / f"run-{session_id}.sock"


def listen(path: Path) -> socket.socket:
    """A listening socket that only this user can reach, in a folder that only this user can look into. GatewayError
    when it cannot be made, or when somebody listens there already.

    It gets its name when it listens: before that, whoever looks would take it for one that was left behind.
    """
    _make_folder(path.parent)
    if not _remove_stale(path):
        raise GatewayError(f"{path} cannot be made: there is one already", "is the session open elsewhere?")
    unnamed = path.with_suffix(".new")
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            unnamed.unlink()  # of a run that was killed right here
        with _short(unnamed) as name:
            listening.bind(name)
        os.chmod(unnamed, 0o600)
        listening.listen(_WAITING)
        listening.setblocking(False)
        unnamed.rename(path)
    except OSError as error:
        listening.close()
        reason = error.strerror or error  # a path that is too long has a text of its own
        raise GatewayError(f"{path} cannot be made: {reason}", "set XDG_RUNTIME_DIR") from error
    return listening


def connect(path: Path, timeout: float = _PATIENCE) -> socket.socket:
    """A connection to it, with a timeout in seconds. OSError where nobody listens."""
    given_up = time.monotonic() + timeout
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(timeout)
        try:
            with _short(path) as name:
                connection.connect(name)
        except OSError as error:
            connection.close()
            # Too many others wait: the system says so at once, whatever the timeout.
            if not isinstance(error, BlockingIOError) or time.monotonic() >= given_up:
                raise
        else:
            return connection
        time.sleep(_AGAIN)


def find_sockets(folder: Path) -> tuple[OperatorSocket, ...]:
    """The sockets in a folder on which somebody listens, by name. Those that a killed run left are removed."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return ()
    found = []
    for name in names:
        match = _NAME.fullmatch(name)
        if match is None and name != APPLIANCE:
            continue
        path = folder / name
        if _is_ours(path) and not _remove_stale(path):
            found.append(OperatorSocket(path, match[1] if match else ""))
    return tuple(found)


def _make_folder(folder: Path) -> None:
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        about = os.lstat(folder)
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.geteuid() and about.st_mode & 0o077:
            os.chmod(folder, 0o700)
            about = os.lstat(folder)
    except OSError as error:
        raise GatewayError(f"{folder} cannot be made: {error.strerror}", "set XDG_RUNTIME_DIR") from error
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        raise GatewayError(f"{folder} is not a directory of this user's", "remove it, or set XDG_RUNTIME_DIR")


def _is_ours(path: Path) -> bool:
    try:
        about = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISSOCK(about.st_mode) and about.st_uid == os.geteuid()


def _remove_stale(path: Path) -> bool:
    """Removes a socket on which nobody listens any more; whether it is gone."""
    if not _is_ours(path):
        return not os.path.lexists(path)
    try:
        connect(path, 0).close()
    except (ConnectionRefusedError, FileNotFoundError):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        return True
    except OSError:
        return False  # somebody is there, and busy
    return False


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name for the path that is short enough for a socket: on Linux by a descriptor of its folder."""
    text = os.fspath(path)
    if len(os.fsencode(text)) <= _LONGEST or not os.path.isdir("/proc/self/fd"):
        yield text
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
