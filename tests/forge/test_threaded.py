"""A forge with a thread of its own."""

import socket
import threading
from pathlib import Path

import httpx
import pytest

from gateway.forge.server import Forge
from gateway.forge.threaded import serving


def test_it_runs_until_it_is_left(tmp_path: Path) -> None:
    with serving(Forge(tmp_path)) as forge:
        assert "forge" in {thread.name for thread in threading.enumerate()}
        assert httpx.get(f"{forge.api_url}/app", trust_env=False).status_code == 401
    assert "forge" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", forge.port))


def test_a_start_that_fails_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        forge = Forge(tmp_path, port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"), serving(forge):
            raise AssertionError("it cannot have started")


def test_it_is_left_by_an_exception(tmp_path: Path) -> None:
    with pytest.raises(KeyError), serving(Forge(tmp_path)):
        raise KeyError
    assert "forge" not in {thread.name for thread in threading.enumerate()}
