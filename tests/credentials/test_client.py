"""The way to GitHub: where a request goes, what TLS checks, and what is not taken from the surroundings."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from gateway.credentials.client import make_client
from tests.fakes.authority import Authority
from tests.fakes.github import run
from tests.fakes.web import Answer, Request, Web

HERE = "127.0.0.1"


def say_host(request: Request) -> Answer:
    return Answer(request.fields.get("Host", "").encode())


ROUTES = {
    "host": say_host,
    "cookie": lambda request: Answer(
        (request.fields.get("Cookie") or "none").encode(), fields={"Set-Cookie": "a=b; Path=/"}
    ),
    "away": lambda request: Answer(status=301, fields={"Location": "/host"}),
    "agent": lambda request: Answer((request.fields.get("User-Agent") or "").encode()),
}


def get(
    url: str, names: Mapping[str, str], proxy: str | None = None, *, trust: ssl.SSLContext | None = None
) -> str:
    async def ask() -> str:
        async with make_client(names, proxy, trust=trust) as client:
            return (await client.get(url)).text

    return run(ask())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.path))


def test_mapped_name_is_connected_to_without_asking_for_it() -> None:
    with Web(ROUTES) as web:
        assert get(f"http://forge.test:{web.port}/host", {"forge.test": HERE}) == f"forge.test:{web.port}"


def test_mapped_to_ipv6() -> None:
    with Web(ROUTES, host="::1") as web:
        assert get(f"http://forge.test:{web.port}/host", {"forge.test": "::1"}) == f"forge.test:{web.port}"


def test_tls_checks_the_name_of_a_mapped_host(authority: Authority) -> None:
    with Web(ROUTES, tls=authority.server("forge.test")) as web:
        names = {"forge.test": HERE, "other.test": HERE}
        assert get(f"https://forge.test:{web.port}/host", names, trust=trusting(authority)).startswith(
            "forge.test"
        )
        with pytest.raises(httpx.ConnectError, match=r"other\.test"):
            get(f"https://other.test:{web.port}/host", names, trust=trusting(authority))


def test_names_of_one_address_share_no_connection(authority: Authority) -> None:
    async def ask(port: int) -> None:
        names = {"forge.test": HERE, "other.test": HERE}
        async with make_client(names, None, trust=trusting(authority)) as client:
            assert (await client.get(f"https://forge.test:{port}/host")).status_code == 200
            with pytest.raises(httpx.ConnectError, match=r"other\.test"):
                await client.get(f"https://other.test:{port}/host")

    with Web(ROUTES, tls=authority.server("forge.test")) as web:
        run(ask(web.port))


def test_stranger_authority_is_not_trusted(authority: Authority) -> None:
    with Web(ROUTES, tls=authority.server("forge.test")) as web, pytest.raises(httpx.ConnectError):
        get(f"https://forge.test:{web.port}/host", {"forge.test": HERE})


def test_redirects_are_not_followed_and_cookies_not_kept() -> None:
    async def ask(base: str) -> None:
        async with make_client({}, None) as client:
            answer = await client.get(f"{base}/away")
            assert (answer.status_code, answer.headers["location"]) == (301, "/host")
            assert (await client.get(f"{base}/cookie")).text == "none"
            assert (await client.get(f"{base}/cookie")).text == "none"
            assert (await client.get(f"{base}/agent")).text == "agent-gateway"

    with Web(ROUTES) as web:
        run(ask(f"http://{HERE}:{web.port}"))


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"])
def test_the_environment_is_not_asked_for_a_proxy(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, f"http://{HERE}:1")
    with Web(ROUTES) as web:
        assert get(f"http://forge.test:{web.port}/host", {"forge.test": HERE})


class Proxy:
    """A company proxy that leads every CONNECT to one port of this machine, and remembers the heads it was sent."""

    def __init__(self, target: int) -> None:
        self.heads: list[str] = []
        self._target = target
        self._writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        there, onward = await asyncio.open_connection(HERE, self._target)
        self._writers += [writer, onward]
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(_pass_on(reader, onward), _pass_on(there, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
    writer.close()


@asynccontextmanager
async def proxied(target: int) -> AsyncIterator[tuple[Proxy, str]]:
    proxy = Proxy(target)
    server = await asyncio.start_server(proxy.serve, HERE, 0)
    try:
        yield proxy, f"{HERE}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def test_company_proxy_is_asked_for_the_name(authority: Authority) -> None:
    async def ask(port: int) -> list[str]:
        async with proxied(port) as (proxy, place):
            async with make_client(
                {}, f"http://us%40er:pa%3Ass@{place}", trust=trusting(authority)
            ) as client:
                assert (await client.get("https://api.forge.test/host")).text == "api.forge.test"
            return proxy.heads

    with Web(ROUTES, tls=authority.server("api.forge.test")) as web:
        (head,) = run(ask(web.port))
    assert head.startswith("CONNECT api.forge.test:443 HTTP/1.1\r\n")
    assert "proxy-authorization: basic dxnazxi6cge6c3m=" in head.lower()


def test_company_proxy_is_not_asked_for_this_machine_and_for_mapped_names() -> None:
    async def ask(port: int) -> list[str]:
        async with proxied(port) as (proxy, place):
            async with make_client({"forge.test": HERE}, f"http://{place}") as client:
                for host in ("forge.test", HERE):
                    assert (await client.get(f"http://{host}:{port}/host")).text == f"{host}:{port}"
            return proxy.heads

    with Web(ROUTES) as web:
        assert run(ask(web.port)) == []


def test_company_proxy_that_is_not_there() -> None:
    with pytest.raises(httpx.ConnectError):
        get("https://api.forge.test/host", {}, f"http://{HERE}:1")
