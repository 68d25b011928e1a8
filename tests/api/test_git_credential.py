"""The read token for git's credential helper: for the session alone, for its repositories alone."""

import asyncio
import json
import socket

import pytest

from gateway.api.agent import close_agent_api, serve_agent_api
from gateway.api.git_credential import GitCredential, git_credential_route
from gateway.policy.repositories import RepositoryName, parse_repository

PATIENCE = 30
TOKEN = ("x-access-token", "ghs_ofthesession")


async def find(name: RepositoryName) -> tuple[str, str] | None:
    return TOKEN if name == parse_repository("acme/widget") else None


async def ask(
    body: bytes, header: str = "X-Agent-Gateway-Session: secret", method: str = "POST"
) -> tuple[int, bytes]:
    listening = socket.create_server(("127.0.0.1", 0))
    credential = GitCredential("secret", "Forge.test:8443", find, lambda name: f"no token for {name}")
    server = serve_agent_api(listening, [git_credential_route(credential)])
    port = listening.getsockname()[1]
    reading, writing = await asyncio.open_connection("127.0.0.1", port)
    lines = [
        f"{method} /agent/git-credential HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        header,
        "Connection: close",
    ]
    writing.write("\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body)
    answer = await reading.read()
    writing.close()
    await close_agent_api(server)
    listening.close()
    head, _, said = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), said


def answer(body: bytes, **options: str) -> tuple[int, bytes]:
    async def main() -> tuple[int, bytes]:
        async with asyncio.timeout(PATIENCE):
            return await ask(body, **options)

    return asyncio.run(main())


def question(host: object = "forge.test:8443", path: object = "acme/widget.git") -> bytes:
    return json.dumps({"host": host, "path": path}).encode()


@pytest.mark.parametrize(
    ("host", "path"),
    [
        ("forge.test:8443", "acme/widget.git"),
        ("FORGE.test:8443", "ACME/Widget"),
        ("forge.test:8443", "acme/widget.git/info/lfs"),
    ],
)
def test_the_sessions_own(host: str, path: str) -> None:
    status, said = answer(question(host, path))
    assert (status, json.loads(said)) == (200, {"username": TOKEN[0], "password": TOKEN[1]})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (question(path="acme/other"), 404),
        (question(host="forge.test"), 404),
        (question(host="evil.test"), 404),
        (question(path=""), 400),
        (question(path="/acme/widget"), 400),
        (question(path="../widget"), 400),
        (question(host=1), 400),
        (question(path=["acme/widget"]), 400),
        (b"[]", 400),
        (b"{}", 400),
        (b"", 400),
        (b"\xff", 400),
        (b"[" * 60_000, 400),
    ],
)
def test_everything_else(body: bytes, status: int) -> None:
    found, said = answer(body)
    assert found == status
    assert b"ghs_" not in said


@pytest.mark.parametrize(
    "header",
    [
        "X-Agent-Gateway-Session: Secret",
        "X-Agent-Gateway-Session:",
        "X-Other: secret",
        "X-Agent-Gateway-Session: secret\r\nX-Agent-Gateway-Session: secret",
        "X-Agent-Gateway-Session: s\xe9cret",
    ],
)
def test_without_the_secret(header: str) -> None:
    assert answer(question(), header=header) == (403, b'{"error": "Forbidden"}\n')


def test_another_method() -> None:
    assert answer(question(), method="GET")[0] == 405


def test_why_there_is_none_is_said() -> None:
    status, said = answer(question(path="acme/other.git"))
    assert (status, json.loads(said)) == (404, {"message": "no token for acme/other"})
