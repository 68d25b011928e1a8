"""A running push gateway for tests: forge, App, log, door, credentials and the agent listener, as `run` puts them
together, on an event loop of the product's own in a thread. Clients are real git and raw sockets.
"""

import asyncio
import concurrent.futures
import contextlib
import hashlib
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from gateway.api.agent import close_agent_api, serve_agent_api
from gateway.api.git_credential import GitCredential, git_credential_route
from gateway.approvals import Approvals
from gateway.audit import GENESIS, AuditLog
from gateway.credentials.broker import SessionCredentials
from gateway.credentials.client import make_client
from gateway.credentials.github_app import GitHubApp
from gateway.errors import AuditError
from gateway.forge.server import Forge
from gateway.policy.actions import Action
from gateway.policy.decision import Verdict
from gateway.policy.modes import Mode
from gateway.policy.push import Kinds, Refs, UpdateKind
from gateway.policy.refs import parse_ref_pattern
from gateway.policy.repositories import parse_repository
from gateway.policy.rules import Constraint, Rule, RuleSet
from gateway.proxy.reactor import GatewayLoop
from gateway.push.serving import PushGateway
from gateway.push_authorizer import PushAuthorizer
from gateway.session import SandboxStamp, Session, Sessions
from tests.fakes.forge import Git, new_worktree, open_forge
from tests.fakes.rules import rules_for
from tests.fakes.wire import PATIENCE, Wire

Record = Mapping[str, Any]

LABEL = "Control Center"
NAME = "acme/widget"
SECRET = "a-secret-of-the-session"


def push_rule(
    decision: Verdict, *patterns: str, kinds: Sequence[UpdateKind] = (), place: str = "config.yaml:7"
) -> Rule:
    """A rule about pushes to refs of these patterns, of these kinds."""
    constraints: list[Constraint] = []
    if patterns:
        constraints.append(Refs(tuple(parse_ref_pattern(pattern) for pattern in patterns)))
    if kinds:
        constraints.append(Kinds(frozenset(kinds)))
    return Rule(Action.PUSH, decision, place, constraints=tuple(constraints))


# Never main, always agent/**, everything else is asked; no force, no deletions of release branches.
RULES = RuleSet(
    rules=(
        push_rule(Verdict.DENY, "main", place="config.yaml:3"),
        push_rule(Verdict.ALLOW, "agent/**", "feature", "refs/tags/*", place="config.yaml:4"),
        push_rule(Verdict.ALLOW, "steady", place="config.yaml:5"),
        push_rule(Verdict.DENY, "steady", kinds=(UpdateKind.FORCE, UpdateKind.DELETE), place="config.yaml:6"),
    )
)


class PushWorld:
    """Use through `push_world`. What the gateway's code logs as an error fails the test, unless it was taken."""

    def __init__(
        self,
        folder: Path,
        forge: Forge,
        *,
        rules: RuleSet = RULES,
        mode: Mode = Mode.CHAT,
        linked: Sequence[str] = (NAME,),
        app: bool = True,
        open_credentials: bool = True,
    ) -> None:
        self.folder = folder
        self.forge = forge
        self.errors: list[str] = []
        self.slept: list[float] = []
        self.session = Session(
            "s1", SandboxStamp("none", "existing-only"), rules_for(), SECRET, mode=mode, rules=rules
        )
        self.sessions = Sessions()
        self.port = 0
        self._serial = count()
        self._linked = tuple(parse_repository(name) for name in linked)
        self._app = app
        self._open_credentials = open_credentials
        self._watch = _Watch(self.errors)
        self._ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._over = asyncio.Event()
        self._loop = GatewayLoop()
        self._loop.set_exception_handler(lambda _, context: self.errors.append(f"on the loop: {context!r}"))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.notes: tuple[str, ...] = ()

    # --- Its life ---

    def start(self) -> None:
        logging.getLogger("gateway").addHandler(self._watch)
        self._thread.start()
        self._ready.result(PATIENCE)

    def stop(self) -> None:
        """Closes the session: pushes end, tokens are revoked. May be called again."""
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE)
        logging.getLogger("gateway").removeHandler(self._watch)
        assert not self._thread.is_alive(), "the gateway does not end"

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            else:
                self.errors.append(f"the gateway ended with {error!r}")
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()

    async def _serve(self) -> None:
        self.log = AuditLog(self.folder / "audit")
        self.approvals = Approvals(self.log, time.monotonic)
        self.door = PushAuthorizer(self.log, self.approvals, lambda: datetime.now(UTC))
        self.sessions.add(self.session)
        self.sessions.add(replace(self.session, id="s2", secret="of-another-session"))
        async with make_client({}, None) as client:
            app = None
            if self._app:
                number, key = self.forge.create_app()
                app = GitHubApp(self.forge.api_url, number, key, client, lambda: datetime.now(UTC))
            credentials = SessionCredentials(app, self.session, self.log, clock=lambda: datetime.now(UTC))
            if self._open_credentials:
                self.notes = await credentials.open(self._linked)
            self.gateway = PushGateway(
                session=self.session,
                door=self.door,
                app=app,
                credentials=credentials,
                client=client,
                github_url=self.forge.url,
                label=LABEL,
                linked=self._linked,
                sessions=self.sessions,
                spool_folder=self.folder,
                sleep=self._sleep,
            )
            listening = socket.create_server(("127.0.0.1", 0))
            self.port = listening.getsockname()[1]
            host = self.forge.url.removeprefix("http://")
            credential = GitCredential(SECRET, host, self.gateway.read_credential, self.gateway.fault)
            server = serve_agent_api(
                listening,
                [*self.gateway.routes(), git_credential_route(credential)],
                malformed=self.gateway.note_malformed,
            )
            self._ready.set_result(None)
            await self._over.wait()
            await self.gateway.close()
            self.lines = await credentials.close()
            await close_agent_api(server)
            listening.close()
        with contextlib.suppress(AuditError):
            self.log.close()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        self.errors.extend(f"left running: {task!r}" for task in left)

    async def _sleep(self, seconds: float) -> None:
        """No time passes while GitHub learns of a token; signs of life keep their pace."""
        self.slept.append(seconds)
        await asyncio.sleep(0.01 if seconds < 10 else seconds)

    # --- Reaching in ---

    def call[T](self, function: Callable[[], T]) -> T:
        """Runs a function on the loop and returns what it returns."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(PATIENCE)

    def until(self, condition: Callable[[], bool], what: str = "it") -> None:
        """Lets the loop turn until the condition, which is asked on the loop, holds."""

        async def turn() -> bool:
            given_up = time.monotonic() + PATIENCE
            while not condition():
                if time.monotonic() > given_up:
                    return False
                await asyncio.sleep(0.001)
            return True

        assert asyncio.run_coroutine_threadsafe(turn(), self._loop).result(), f"{what} did not come about"

    def take_errors(self) -> list[str]:
        """What was logged as an error so far, which the test expected."""
        taken, self.errors[:] = self.errors[:], []
        return taken

    # --- Talking to it ---

    def url(self, name: str = NAME) -> str:
        """Where a push to the repository goes."""
        return f"http://127.0.0.1:{self.port}/git/github.com/{name}.git"

    def worktree(self, name: str = NAME, *, object_format: str = "sha1") -> Git:
        """A new worktree whose pushes go to the gateway, as inside a wrap."""
        folder = self.folder / f"work-{next(self._serial)}"
        git = new_worktree(folder, self.url(name), object_format=object_format)
        git.settings["http.extraHeader"] = f"X-Agent-Gateway-Session: {SECRET}"
        return git

    def wire(self, data: bytes, path: str = "", *, headers: Sequence[str] = (), secret: str = SECRET) -> Wire:
        """A connection on which a POST to receive-pack was begun, with `data` as what is there of its body."""
        wire = Wire.to(self.port)
        wire.send(self.head(path or f"/git/github.com/{NAME}.git/git-receive-pack", headers, secret) + data)
        return wire

    def head(
        self, path: str, headers: Sequence[str] = (), secret: str = SECRET, method: str = "POST"
    ) -> bytes:
        """The head of a request."""
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            f"X-Agent-Gateway-Session: {secret}",
            *headers,
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def bare(self, name: str = NAME) -> Path:
        """The repository as the forge has it."""
        repository = self.forge.repositories.find(name)
        assert repository is not None
        return repository.path

    def refs(self, name: str = NAME) -> dict[str, str]:
        """The refs of the repository at the forge."""
        git = Git(self.bare(name))
        lines = git("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return dict(line.split(" ", 1) for line in lines)

    @property
    def minted(self) -> int:
        """Write tokens so far."""
        return sum(token.kind == "write" for token in self.forge.tokens.minted)

    @property
    def written(self) -> list[str]:
        """Requests to git endpoints that came with a write token."""
        return [
            seen.path for seen in self.forge.requests if seen.credential == "write" and ".git/" in seen.path
        ]

    # --- The log ---

    def records(self, event: str = "push") -> list[Record]:
        """The records of one kind."""
        return [record for record in self.every_record() if record["event"] == event]

    def every_record(self) -> list[Record]:
        """All records; every line of the log is checked."""
        records: list[Record] = []
        previous = GENESIS
        for number, line in enumerate(self.log.path.read_bytes().splitlines()):
            assert all(0x20 <= byte < 0x7F for byte in line), line
            record = json.loads(line)
            assert (record["v"], record["seq"], record["prev"]) == (1, number, previous), line
            previous = hashlib.sha256(line).hexdigest()
            records.append(record)
        return records

    def pushes(self) -> list[Record]:
        """Records of pushes that named refs."""
        return [record for record in self.records() if record["refs"]]


class _Watch(logging.Handler):
    """Notes errors that the gateway's code logs."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._noted = errors

    def emit(self, record: logging.LogRecord) -> None:
        self._noted.append(self.format(record))


@contextmanager
def push_world(
    folder: Path,
    *,
    names: Sequence[str] = (NAME,),
    object_format: str = "sha1",
    installed: bool = True,
    **options: Any,
) -> Iterator[PushWorld]:
    """A forge with these repositories, and a gateway whose session is linked to them."""
    with open_forge(folder) as forge:
        for name in names:
            forge.create_repository(name, object_format, installed=installed)
        world = PushWorld(folder, forge, **options)
        world.start()
        try:
            yield world
        finally:
            world.stop()
        assert not world.errors, "\n".join(world.errors)
        assert not forge.tokens.live, "a token outlived its session"
