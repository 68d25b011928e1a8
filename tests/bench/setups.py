"""What the audit log adds to setting a connection up: a CONNECT to its "200", with the log and with one that keeps
nothing, by two processes that are otherwise the same. The clients wait between two, so that no end of one is in it."""

import asyncio
import os
import signal
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from gateway.audit import AuditLog
from gateway.authorizer import Authorizer
from gateway.garbage import settle_garbage
from gateway.log_sync import synced
from gateway.policy.limits import Limits
from gateway.proxy.proxies import Proxies
from gateway.proxy.reactor import GatewayLoop
from gateway.session import SandboxStamp, Session
from tests.bench.measures import Results, Scale
from tests.bench.memory import pause
from tests.fakes.rules import GOOD, naming, rules_for

SETUP: Final = "review-setup"
LOGGED: Final = "gateway"
UNLOGGED: Final = "unlogged"
# Connections of one round, and seconds between two: more than the end of one takes.
_CONNECTIONS: Final = 200
_BETWEEN: Final = 0.002
_BUSY: Final = Limits(tunnels=10_000, new_per_second=900, burst=100_000)


class _Forgetting(AuditLog):
    """A log that keeps nothing."""

    def append_written(self, *_: Any, **__: Any) -> None:
        """Takes the record, and that is all."""


def measure_setups(scale: Scale, results: Results) -> None:
    """Microseconds of one, a median for each round; the two in turn, and the other first each time."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="agw-bench-")))
        origin = stack.enter_context(_origin())
        ports = {
            LOGGED: stack.enter_context(_proxy(AuditLog, folder / LOGGED, origin)),
            UNLOGGED: stack.enter_context(_proxy(_Forgetting, folder / UNLOGGED, origin)),
        }
        for number in range(scale.rounds + 1):
            for name in (LOGGED, UNLOGGED)[:: 1 if number % 2 else -1]:
                took = statistics.median(_set_up(ports[name], origin) for _ in range(_CONNECTIONS))
                if number:  # the first round warms
                    results.add(SETUP, name, took * 1e6)


def _set_up(proxy: int, origin: int) -> float:
    authority = f"{GOOD}:{origin}"
    begun = time.perf_counter()
    with socket.create_connection(("127.0.0.1", proxy)) as client:
        client.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        answer = client.recv(4096)
        took = time.perf_counter() - begun
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise OSError(f"the proxy said {answer[:40]!r}")
    pause(_BETWEEN)
    return took


@contextmanager
def _origin() -> Iterator[int]:
    """A process that takes connections, and its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener, _forked(lambda: _accept(listener)):
        yield listener.getsockname()[1]


def _accept(listener: socket.socket) -> None:
    while True:
        listener.accept()[0].close()


@contextmanager
def _proxy(kind: type[AuditLog], state: Path, origin: int) -> Iterator[int]:
    """A process that serves a session with this log, and the port of its proxy."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        _forked(lambda: _serve(kind, state, listener, origin)),
    ):
        yield listener.getsockname()[1]


def _serve(kind: type[AuditLog], state: Path, listener: socket.socket, origin: int) -> None:
    state.mkdir()
    log = kind(state / "audit", state=state)
    log.prepare()
    rules = naming(rules_for(origin), {GOOD: "127.0.0.1"})
    session = Session("bench", SandboxStamp("none", "none"), rules, "secret", agent="claude")

    async def main() -> None:
        async with synced(log), Proxies(Authorizer(log, time.monotonic)) as proxies:
            listener.setblocking(False)
            socks = socket.create_server(("127.0.0.1", 0))
            socks.setblocking(False)
            proxies.open(session, _BUSY, listener, socks)
            settle_garbage()
            await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=GatewayLoop) as runner:
        runner.run(main())


@contextmanager
def _forked(work: Callable[[], None]) -> Iterator[None]:
    """Another process at this work, for as long as the block lasts."""
    number = os.fork()
    if not number:
        try:
            work()
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(number, signal.SIGKILL)
        os.waitpid(number, 0)
