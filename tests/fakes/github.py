"""A session's way to the embedded forge: clock, client, App, log, and what is asked of them afterwards."""

import asyncio
import json
import ssl
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from gateway.audit import AuditLog
from gateway.credentials.broker import SessionCredentials
from gateway.credentials.client import make_client
from gateway.credentials.github_app import GitHubApp
from gateway.forge.server import Forge
from gateway.policy.repositories import RepositoryName, parse_repository
from gateway.session import SandboxStamp, Session
from tests.fakes.rules import rules_for

# Seconds after which a test that waits for what never comes is to fail.
PATIENCE = 60
_TESTS = str(Path(__file__).parent.parent)
WIDGET = parse_repository("acme/widget")
GADGET = parse_repository("acme/gadget")


class WallClock:
    """An aware moment, of now at first, that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(microsecond=0)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **parts: float) -> None:
        """Moves the clock on by a timedelta of these parts."""
        self.now += timedelta(**parts)


class Sleeps:
    """Waits for nothing, and remembers how long it was asked to."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)


class HeldAnswers(httpx.AsyncBaseTransport):
    """Passes requests on; answers to `method` are held from `hold` to `release`. GitHub has done its part by then."""

    def __init__(self) -> None:
        self._inner = httpx.AsyncHTTPTransport(trust_env=False)
        self._method = ""
        self._free = asyncio.Event()
        self._arrived = asyncio.Event()

    async def arrived(self) -> None:
        """Returns when an answer to the method is there."""
        async with asyncio.timeout(PATIENCE):
            await self._arrived.wait()

    def hold(self, method: str) -> None:
        """From now on."""
        self._method = method
        self._free.clear()
        self._arrived.clear()

    def release(self, watch: str = "") -> None:
        """Lets all go on. `arrived` tells of the next answer to `watch`."""
        self._method = watch
        self._arrived.clear()
        self._free.set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        if request.method == self._method:
            self._arrived.set()
            await self._free.wait()
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


@dataclass
class World:
    """Everything around a session's credentials. `records` reads the log."""

    forge: Forge
    clock: WallClock
    sleeps: Sleeps
    answers: HeldAnswers
    client: httpx.AsyncClient
    app: GitHubApp
    log: AuditLog
    session: Session = field(
        default_factory=lambda: Session("s1", SandboxStamp("native", "create-time"), rules_for(), "geheim")
    )

    def credentials(self, **bounds: float) -> SessionCredentials:
        """Of the session; `bounds` are seconds."""
        return SessionCredentials(
            self.app, self.session, self.log, clock=self.clock, sleep=self.sleeps, **bounds
        )

    @property
    def records(self) -> list[dict[str, Any]]:
        """The `token` records so far."""
        lines = self.log.path.read_text("utf-8").splitlines()
        return [record for record in map(json.loads, lines) if record["event"] == "token"]

    @property
    def states(self) -> list[tuple[str, str]]:
        """State and kind of each."""
        return [(record["state"], record["kind"]) for record in self.records]

    def count(self, method: str, end: str) -> int:
        """Requests of the method whose path ends so."""
        return sum(seen.method == method and seen.path.endswith(end) for seen in self.forge.requests)

    @property
    def minted(self) -> int:
        """Requests for a token."""
        return self.count("POST", "/access_tokens")

    def break_log(self) -> None:
        """No record can be written from now on."""
        self.log.close()


def new_app(
    forge: Forge, client: httpx.AsyncClient, clock: Callable[[], datetime], sleeps: Sleeps
) -> GitHubApp:
    """The forge's App."""
    app_id, pem = forge.create_app()
    return GitHubApp(forge.api_url, app_id, pem, client, clock, sleep=sleeps, deadline=30)


def plain_client() -> httpx.AsyncClient:
    """The gateway's client for a forge without TLS: it is spared the reading of the machine's certificates."""
    return make_client({}, None, trust=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


@asynccontextmanager
async def github(folder: Path, *repositories: str) -> AsyncIterator[World]:
    """A running forge with these repositories, and a session that knows nothing of it yet."""
    clock, sleeps, answers = WallClock(), Sleeps(), HeldAnswers()
    root = folder / "forge"
    root.mkdir()
    forge = Forge(root, clock=clock)
    for name in repositories or (str(WIDGET),):
        forge.create_repository(name)
    log = AuditLog(folder / "audit")
    async with forge, plain_client() as client:
        client._transport = answers
        yield World(forge, clock, sleeps, answers, client, new_app(forge, client, clock, sleeps), log)
        await answers.aclose()


def names(*texts: str) -> list[RepositoryName]:
    """Parsed."""
    return [parse_repository(text) for text in texts]


def run[T](work: Coroutine[Any, Any, T]) -> T:
    """The result, in an event loop of its own."""
    return asyncio.run(work)


def told(error: BaseException) -> str:
    """Everything that a log could show of an error: its text, its causes, and the variables of every frame but ours."""
    texts = []
    seen: list[BaseException] = []
    queue: list[BaseException | None] = [error]
    while queue:
        one = queue.pop()
        if one is None or one in seen:
            continue
        seen.append(one)
        texts += [str(one), repr(one), repr(one.args), repr(vars(one))]
        for frame, _ in traceback.walk_tb(one.__traceback__):
            if not frame.f_code.co_filename.startswith(_TESTS):
                texts += [f"{name}={value!r}" for name, value in frame.f_locals.items()]
        queue += [one.__cause__, one.__context__]
    return "\n".join(texts)
