"""A running gateway for tests: log, door and one session's pair of proxies, on an event loop in a thread of its own.

Tests talk to it with blocking sockets, and reach into it with `call`, which runs on the loop.
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
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from gateway.audit import GENESIS, AuditLog
from gateway.authorizer import Authorizer
from gateway.errors import AuditError
from gateway.lifecycle import SessionRequest, close_session, new_secret, open_session
from gateway.policy.egress import EgressRules
from gateway.policy.limits import Limits
from gateway.proxy.proxies import Proxies
from gateway.session import SandboxStamp, Session, Sessions
from tests.fakes.clock import ClockedLoop, FakeClock
from tests.fakes.resolver import StubResolver
from tests.fakes.wire import PATIENCE, Wire

Record = Mapping[str, object]

# Plenty for a test that is about something else.
ROOMY = Limits(tunnels=2000, new_per_second=10_000, burst=10_000, idle=3600)
STAMP = SandboxStamp("none", "existing-only")


class Gateway:
    """Use with `with`. What its code logs as an error fails the test, unless `take_errors` was called after it."""

    def __init__(
        self,
        folder: Path,
        rules: EgressRules,
        *,
        limits: Limits = ROOMY,
        resolver: StubResolver | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.resolver = resolver or StubResolver()
        self.loop = ClockedLoop(self.clock)
        self.loop.set_exception_handler(self._note_fault)
        self.sessions = Sessions()
        self.http = 0
        self.socks = 0
        self._folder = folder
        self._rules = rules
        self._limits = limits
        self._errors: list[str] = []
        self._watch = _Watch(self._errors)
        self._ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        logging.getLogger("gateway").addHandler(self._watch)
        self._thread.start()
        self._ready.result(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(PATIENCE)
        logging.getLogger("gateway").removeHandler(self._watch)
        if hasattr(self, "log"):
            with contextlib.suppress(AuditError):  # some tests break it on purpose
                self.log.close()
        if error is None:
            assert not self._thread.is_alive(), "the gateway does not end"
            assert self.log._promised == 0, "a record is owed still"
            assert not self._errors, "\n".join(self._errors)

    # --- Reaching in ---

    def call[T](self, function: Callable[[], T]) -> T:
        """Runs a function on the loop and returns what it returns."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE)

    def until(self, condition: Callable[[], bool], what: str = "it") -> None:
        """Lets the loop turn until the condition, which is asked on the loop, holds."""

        async def turn() -> bool:
            given_up = time.monotonic() + PATIENCE
            while not condition():
                if time.monotonic() > given_up:
                    return False
                await asyncio.sleep(0)
            return True

        assert asyncio.run_coroutine_threadsafe(turn(), self.loop).result(), f"{what} did not come about"

    def advance(self, seconds: float) -> None:
        """Moves the clock on and looks at the deadlines."""

        def later() -> None:
            self.clock.advance(seconds)
            self.proxies.sweep()

        self.call(later)

    def settle(self) -> None:
        """Waits until no connection is open any more."""
        self.until(lambda: self.proxies.live(self.session.id) == 0, "the end of every connection")

    def open(
        self, session_id: str, rules: EgressRules, limits: Limits = ROOMY, upstream_proxy: str | None = None
    ) -> tuple[Session, int, int]:
        """One more session, with the ports of its proxies."""
        return self.call(lambda: self._open(session_id, rules, limits, upstream_proxy))

    def close(self, session: Session) -> None:
        """Ends a session."""
        self.call(lambda: self._close(session))

    @property
    def noted(self) -> tuple[str, ...]:
        """What was logged as an error so far."""
        return tuple(self._errors)

    def take_errors(self) -> list[str]:
        """What was logged as an error so far, which the test expected."""
        return self.call(self._taken)

    # --- Talking to it ---

    def ask_http(self, data: bytes) -> Wire:
        """A connection to the HTTP proxy on which this was sent."""
        wire = Wire.to(self.http)
        wire.send(data)
        return wire

    def ask_socks(self, data: bytes) -> Wire:
        """A connection to the SOCKS5 proxy on which this was sent."""
        wire = Wire.to(self.socks)
        wire.send(data)
        return wire

    # --- The log ---

    def records(self, event: str = "egress") -> list[Record]:
        """The records of one kind; every line of the log is checked."""
        return [record for record in self.call(self._parsed) if record["event"] == event]

    def await_record(self, **fields: object) -> Record:
        """The first egress record with these fields, once it is there."""
        found: list[Record] = []

        def look() -> bool:
            found[:] = [record for record in self._parsed() if fields.items() <= record.items()]
            return bool(found)

        self.until(look, f"a record with {fields}")
        return found[0]

    def raw_log(self) -> bytes:
        """The log as it stands in the file."""
        return self.call(self.log.path.read_bytes)

    def _parsed(self) -> list[Record]:
        records: list[Record] = []
        previous = GENESIS
        for number, line in enumerate(self.log.path.read_bytes().splitlines()):
            assert all(0x20 <= byte < 0x7F for byte in line), line
            record = json.loads(line)
            assert (record["v"], record["seq"], record["prev"]) == (1, number, previous), line
            previous = hashlib.sha256(line).hexdigest()
            records.append(record)
        return records

    # --- On the loop ---

    def _run(self) -> None:
        try:
            self.loop.run_until_complete(self._serve())
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error)
            else:
                self._errors.append(f"the gateway ended with {error!r}")
        finally:
            self.loop.close()

    async def _serve(self) -> None:
        self.log = AuditLog(self._folder)
        self.door = Authorizer(self.log, self.clock)
        async with Proxies(self.door, resolver=self.resolver, clock=self.clock) as self.proxies:
            self.session, self.http, self.socks = self._open("s1", self._rules, self._limits)
            self._ready.set_result(None)
            await self._over.wait()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        self._errors.extend(f"left running: {task!r}" for task in left)

    def _open(
        self, session_id: str, rules: EgressRules, limits: Limits, upstream_proxy: str | None = None
    ) -> tuple[Session, int, int]:
        session = open_session(
            SessionRequest(session_id, rules, STAMP, new_secret()), self.sessions, self.log
        )
        http, socks = _listening(), _listening()
        ports = (http.getsockname()[1], socks.getsockname()[1])
        own_ports = frozenset(ports)
        self.proxies.open(session, limits, http, socks, own_ports=own_ports, upstream_proxy=upstream_proxy)
        return session, *ports

    def _close(self, session: Session) -> None:
        self.proxies.close(session.id)
        close_session(session, self.sessions, self.log)

    def _taken(self) -> list[str]:
        taken, self._errors[:] = self._errors[:], []
        return taken

    def _note_fault(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        self._errors.append(f"on the loop: {context!r}")


class _Watch(logging.Handler):
    """Notes errors that the gateway's code logs."""

    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._noted = errors

    def emit(self, record: logging.LogRecord) -> None:
        self._noted.append(self.format(record))


def _listening() -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    return listening
