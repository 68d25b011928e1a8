"""The forge as a whole: where it listens, that it runs in any loop, that it stops."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from gateway.errors import GatewayError
from gateway.forge.server import Forge
from gateway.proxy.reactor import GatewayLoop
from tests.fakes.forge import the_app


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "localhost", "forge.test", ""])
def test_only_loopback(tmp_path: Path, host: str) -> None:
    with pytest.raises(GatewayError, match="no loopback address"):
        Forge(tmp_path, host=host)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, GatewayLoop])
def test_inside_a_running_loop(tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Also in the gateway's own."""

    async def work() -> None:
        async with Forge(tmp_path, app=the_app()) as forge:
            forge.create_repository("acme/public", private=False)
            async with httpx.AsyncClient(base_url=forge.url, trust_env=False, verify=False) as client:
                answer = await client.get("/acme/public/info/refs?service=git-upload-pack")
                assert answer.status_code == 200
                assert (await client.get("/api/v3/repos/acme/public")).json()["id"] == 1001
        await forge.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", forge.port))

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(work())


def test_a_port_of_ones_choice(tmp_path: Path) -> None:
    async def work() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(OSError, match="in use"):
                await Forge(tmp_path, port=port).start()
        async with Forge(tmp_path, port=port) as forge:
            assert forge.url == f"http://127.0.0.1:{port}"
            assert forge.api_url == f"http://127.0.0.1:{port}/api/v3"

    asyncio.run(work())


def test_the_other_loopback(tmp_path: Path) -> None:
    assert Forge(tmp_path, host="::1", port=1).url == "http://[::1]:1"


def test_stop_cuts_what_is_open(tmp_path: Path) -> None:
    async def work() -> None:
        forge = Forge(tmp_path)
        await forge.start()
        with socket.create_connection(("127.0.0.1", forge.port)) as half:
            half.sendall(b"GET / HTTP/1.1\r\nHost: forge.test\r\n")
            await forge.stop()
            try:
                assert half.recv(1) == b""
            except ConnectionResetError:
                pass  # it had not read what was sent

    asyncio.run(asyncio.wait_for(work(), 60))


def test_one_app(tmp_path: Path) -> None:
    forge = Forge(tmp_path)
    number, key = forge.create_app({"contents": "read"})
    assert forge.create_app() == (number, key)
    assert "PRIVATE KEY" in key
    assert Forge(tmp_path, app=the_app()).create_app() == (the_app().id, the_app().private_key_pem)


def test_all_lies_in_its_folder(tmp_path: Path) -> None:
    path = Forge(tmp_path).create_repository("acme/widget", "sha256")
    assert path.is_relative_to(tmp_path / "repositories")
    assert (path / "HEAD").is_file()
