"""The agent listener: health, and nothing else; bounded whatever a wrapped process does to it."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tornado.web import RequestHandler

from gateway.api import agent
from gateway.api.agent import close_agent_api, serve_agent_api
from tests.source_tree import ROOT

# A patience, not a measurement.
PATIENCE = 30


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    """The listener on a port of its own."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = serve_agent_api(listening)
    try:
        yield listening.getsockname()[1]
    finally:
        await close_agent_api(server)
        listening.close()


def run(test: Callable[[int], Awaitable[None]]) -> None:
    """Runs a test against the listener."""

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), serving() as port:
            await test(port)

    asyncio.run(main())


def addressed(data: bytes, port: int) -> bytes:
    """A request that names the listener where it says `Host: a`."""
    return data.replace(b"Host: a\r\n", b"Host: 127.0.0.1:%d\r\n" % port)


async def ask(port: int, data: bytes) -> tuple[str, dict[str, str], bytes]:
    """Status line, fields and body of the answer, after which the connection is over."""
    reading, writing = await asyncio.open_connection("127.0.0.1", port)
    writing.write(addressed(data, port))
    answer = await reading.read()
    writing.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    return line, dict(field.split(": ", 1) for field in fields), body


@pytest.mark.parametrize(
    ("request_line", "status", "body"),
    [
        ("GET /healthz", "200 OK", b'{"status":"ok"}'),
        ("GET /healthz?verbose=1", "200 OK", b'{"status":"ok"}'),
        ("POST /healthz", "405 Method Not Allowed", b'{"error": "Method Not Allowed"}\n'),
        ("DELETE /healthz", "405 Method Not Allowed", b'{"error": "Method Not Allowed"}\n'),
        ("GET /", "404 Not Found", b'{"error": "Not Found"}\n'),
        ("GET /healthz/", "404 Not Found", b'{"error": "Not Found"}\n'),
        ("POST /agent/tool-call", "404 Not Found", b'{"error": "Not Found"}\n'),
        ("GET /../healthz", "404 Not Found", b'{"error": "Not Found"}\n'),
    ],
)
def test_answers(request_line: str, status: str, body: bytes) -> None:
    async def test(port: int) -> None:
        request = f"{request_line} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        line, fields, said = await ask(port, request.encode())
        assert (line, said) == (f"HTTP/1.1 {status}", body)
        assert (fields["Server"], fields["Content-Type"], fields["Cache-Control"]) == (
            "agent-gateway", "application/json", "no-store",
        )  # fmt: skip

    run(test)


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: " + b"a" * (70 << 10) + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"\x16\x03\x01\x00\x05hello\r\n\r\n",
    ],
    ids=["nonsense", "long head", "long body", "no length", "tls"],
)
def test_what_is_no_request(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """It is refused or cut off, nothing is said on stderr, and the listener goes on."""

    async def test(port: int) -> None:
        line, _, _ = await ask(port, data)
        assert line in ("", "HTTP/1.1 400 Bad Request")
        line, _, _ = await ask(port, b"GET /healthz HTTP/1.0\r\n\r\n")
        assert line == "HTTP/1.1 200 OK"

    with caplog.at_level("WARNING"):
        run(test)
    assert caplog.records == []


LOUD = {
    "form in a coding": b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Encoding: \xc2\x9b31m\r\nContent-Length: 3\r\n\r\nabc",
    "no boundary": b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data\r\n"
    b"Content-Length: 3\r\n\r\nabc",
    "bad chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcXX",
    "negative chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    "no chunk": b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
    "address": b"GET http://evil:99999999/%ff\x1b[2J HTTP/1.1\r\nHost: a:b:c\r\n\r\n",
    "method": b"BREW /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "cookie": b"GET /healthz HTTP/1.1\r\nHost: a\r\nCookie: \x01\r\n\r\n",
    "two lengths": b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 2\r\n\r\n",
    "half a head": b"GET /",
}
ALONE = """
import asyncio, logging, socket, sys
from gateway.api.agent import close_agent_api, serve_agent_api
from gateway.proxy.reactor import GatewayLoop

async def main():
    listening = socket.create_server(("127.0.0.1", 0))
    server = serve_agent_api(listening)
    for data in map(bytes.fromhex, sys.argv[1:]):
        reading, writing = await asyncio.open_connection(*listening.getsockname())
        writing.write(data.replace(b"Host: a", b"Host: 127.0.0.1:%d" % listening.getsockname()[1]))
        writing.write_eof()
        await reading.read()
        writing.close()
    listening.close()
    await close_agent_api(server)

logging.basicConfig(level=logging.DEBUG)
logging.getLogger("asyncio").setLevel(logging.WARNING)
with asyncio.Runner(loop_factory=GatewayLoop) as runner:
    runner.run(main())
print("over")
"""


def test_nothing_that_is_sent_is_logged() -> None:
    """As `run` has it: a real log on stderr, the product's own loop. Nor does it matter who closes the socket first."""
    done = subprocess.run(
        (sys.executable, "-c", ALONE, *(data.hex() for data in LOUD.values())),
        cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "over\n", "")


def test_forms_are_not_read() -> None:
    async def test(port: int) -> None:
        line, _, _ = await ask(port, LOUD["no boundary"].replace(b"Host: a", b"Connection: close\r\nHost: a"))
        assert line == "HTTP/1.1 405 Method Not Allowed"

    run(test)


def test_slow_requests_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A head or a body that does not come, and a connection that is not used again."""
    monkeypatch.setattr(agent, "_IDLE", 0.05)

    async def test(port: int) -> None:
        for data in (
            b"",
            b"GET /healthz HTT",
            b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc",
            b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
        ):
            await ask(port, data)  # comes back when the listener has ended the connection

    run(test)


def test_connections_are_bounded() -> None:
    async def test(port: int) -> None:
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(agent._CONNECTIONS)]
        for reading, writing in held:
            writing.write(addressed(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", port))
            await reading.readuntil(b"}")
        assert await ask(port, b"") == ("", {}, b"")
        held.pop()[1].close()
        while (await ask(port, b"GET /healthz HTTP/1.0\r\n\r\n"))[0] != "HTTP/1.1 200 OK":
            pass  # the listener has not noticed yet that there is room
        for _, writing in held:
            writing.close()

    run(test)


def test_closing_cuts_what_is_open() -> None:
    async def main() -> None:
        async with asyncio.timeout(PATIENCE):
            async with serving() as port:
                idle = await asyncio.open_connection("127.0.0.1", port)
                begun = await asyncio.open_connection("127.0.0.1", port)
                begun[1].write(b"GET /hea")
                line, _, _ = await ask(port, b"GET /healthz HTTP/1.0\r\n\r\n")
                assert line == "HTTP/1.1 200 OK"
            assert [await reading.read() for reading, _ in (idle, begun)] == [b"", b""]
            for _, writing in (idle, begun):
                writing.close()
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port)

    coroutine: Coroutine[Any, Any, None] = main()
    asyncio.run(coroutine)


# --- Heads ----------------------------------------------------------------------------------------

REFUSED_HEADS = {
    "absolute form": b"GET http://127.0.0.1/healthz HTTP/1.1\r\nHost: a\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "foreign host": b"GET /healthz HTTP/1.1\r\nHost: rebound.test\r\n\r\n",
    "folded": b"GET /healthz HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n",
    "bare line feeds": b"GET /healthz HTTP/1.1\nHost: a\n\n",
    "coding in 1.0": b"POST /healthz HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "length and coding": b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("data", REFUSED_HEADS.values(), ids=REFUSED_HEADS.keys())
def test_a_head_that_two_could_read_in_two_ways(data: bytes) -> None:
    """It is refused before anything looks at it, and whoever asked to be told is told, once."""
    told: list[tuple[str, str]] = []

    async def main() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        server = serve_agent_api(listening, malformed=lambda line, fault: told.append((line, fault)))
        port = listening.getsockname()[1]
        async with asyncio.timeout(PATIENCE):
            line, _, said = await ask(port, data)
            assert (line, said) == ("HTTP/1.1 400 Bad Request", b"")
            good = await ask(port, b"GET /healthz HTTP/1.1\r\nConnection: close\r\nHost: a\r\n\r\n")
            assert good[0] == "HTTP/1.1 200 OK"
        await close_agent_api(server)
        listening.close()

    asyncio.run(main())
    [(line, fault)] = told
    assert data.decode().startswith(line.strip())
    assert fault


# --- Routes of others -----------------------------------------------------------------------------


class Echo(RequestHandler):
    """A route from outside: says what it was given and what was sent."""

    def initialize(self, word: str) -> None:
        self.word = word

    def post(self) -> None:
        self.finish(f"{self.word} {self.request.headers.get('Content-Type', '')} {len(self.request.body)}")


@pytest.mark.parametrize(
    ("kind", "said"),
    [("application/json", b"word application/json 3"), ("multipart/form-data", b"word  3")],
)
def test_routes_are_added(kind: str, said: bytes) -> None:
    async def main() -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        server = serve_agent_api(listening, [(r"/echo", Echo, {"word": "word"})], port=1234)
        request = (
            "POST /echo HTTP/1.1\r\nHost: LOCALHOST:1234\r\nConnection: close\r\n"
            f"Content-Type: {kind}\r\nContent-Length: 3\r\n\r\nabc"
        )
        async with asyncio.timeout(PATIENCE):
            line, _, body = await ask(listening.getsockname()[1], request.encode())
        assert (line, body) == ("HTTP/1.1 200 OK", said)
        await close_agent_api(server)
        listening.close()

    asyncio.run(main())


def test_unix_listener(tmp_path: Path) -> None:
    """What a bridge connects to has no port of its own: that of the other end is told."""

    async def main() -> None:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(tmp_path / "gateway"))
        listening.listen()
        server = serve_agent_api(listening, port=3180)
        reading, writing = await asyncio.open_unix_connection(str(tmp_path / "gateway"))
        writing.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:3180\r\nConnection: close\r\n\r\n")
        answer = await reading.read()
        assert answer.endswith(b'{"status":"ok"}')
        writing.close()
        await close_agent_api(server)
        listening.close()

    asyncio.run(main())
