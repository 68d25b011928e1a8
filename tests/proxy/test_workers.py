"""Further processes of a session, real ones: what they serve, count and record, and that none is left behind.

Where a test asks without giving the loop its turn, this process cannot accept: it is the other one that answers.
"""

import asyncio
import json
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.audit import GENESIS, AuditLog
from gateway.authorizer import Authorizer
from gateway.lifecycle import SessionRequest, new_secret, open_session
from gateway.policy.limits import Limits
from gateway.proxy.proxies import Proxies
from gateway.proxy.reactor import GatewayLoop
from gateway.proxy.workers import processes_for, usable_cores
from gateway.session import SandboxStamp, Session, Sessions
from tests.fakes.asking import CONNECT, answer, connect_head, get_head
from tests.fakes.origin import answering, http_origin
from tests.fakes.rules import GOOD, naming, rules_for
from tests.fakes.wire import PATIENCE, Wire

BUSY = Limits(tunnels=2000, new_per_second=5000, burst=5000, idle=3600)


@pytest.mark.parametrize(
    ("new_per_second", "cores", "processes"),
    [
        (50, 8, 1),
        (1000, 8, 1),
        (1001, 8, 2),
        (100_000, 8, 4),
        (100_000, 2, 2),
        (100_000, 1, 1),
        (1, 8, 1),
    ],
)
def test_how_many(new_per_second: int, cores: int, processes: int) -> None:
    assert processes_for(Limits(new_per_second=new_per_second), cores) == processes


def test_cores() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)


class Served:
    """A session with one further process. Made on the loop."""

    def __init__(
        self, folder: Path, proxies: Proxies, door: Authorizer, session: Session, limits: Limits
    ) -> None:
        self.folder, self.proxies, self.door, self.session = folder, proxies, door, session
        http, socks = socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))
        self.http, self.socks = http.getsockname()[1], socks.getsockname()[1]
        proxies.open(session, limits, http, socks)
        self.workers = proxies._workers[session.id]

    @property
    def process_id(self) -> int:
        (worker,) = self.workers._attending.values()
        return worker.process.pid

    def files(self) -> list[Path]:
        """The other processes' audit files."""
        return [path for path in self.folder.glob("*.jsonl") if path != self.door.log.path]

    def records(self) -> list[dict[str, object]]:
        """What the other process has recorded; its chain is its own."""
        (path,) = self.files()
        lines = path.read_bytes().splitlines()
        records = [json.loads(line) for line in lines]
        assert [record["seq"] for record in records] == list(range(len(records)))
        assert not records or records[0]["prev"] == GENESIS
        return [record for record in records if record["event"] == "egress"]

    def ask(self, data: bytes) -> int:
        """The status of the answer, asked for without giving the loop its turn."""
        wire = self.asked(data)
        status = answer(wire, CONNECT).status
        wire.close()
        return status

    def asked(self, data: bytes) -> Wire:
        wire = Wire.to(self.http)
        wire.send(data)
        return wire

    async def until(self, condition: Callable[[], bool]) -> None:
        given_up = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < given_up, "it did not come about"
            await asyncio.sleep(0)


@contextmanager
def serving(
    folder: Path, port: int, test: Callable[[Served], object], limits: Limits = BUSY
) -> Iterator[Served]:
    """Runs an asynchronous test against a session with a further process, and yields what is left of it."""
    left: list[Served] = []

    async def main() -> None:
        log = AuditLog(folder)
        door = Authorizer(log, time.monotonic)
        rules = naming(rules_for(port), {GOOD: "127.0.0.1"})
        session = open_session(
            SessionRequest("s1", rules, SandboxStamp("none", "existing-only"), new_secret()), Sessions(), log
        )
        async with Proxies(door, cores=2) as proxies:
            served = Served(folder, proxies, door, session, limits)
            left.append(served)
            await served.until(lambda: len(served.files()) == 1)
            result = test(served)
            if asyncio.iscoroutine(result):
                await result
        log.close()

    with asyncio.Runner(loop_factory=GatewayLoop) as runner:
        runner.run(main())
    yield left[0]


def gone(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return True
    return False


def test_it_serves_decides_and_records(tmp_path: Path) -> None:
    process_ids: list[int] = []

    def test(served: Served) -> None:
        process_ids.append(served.process_id)
        assert served.ask(connect_head(GOOD, origin.port)) == 200
        assert served.ask(connect_head("evil.test", 443)) == 403
        assert served.ask(get_head(GOOD, origin.port)) == 200

    with http_origin(answering()) as origin, serving(tmp_path, origin.port, test) as served:
        states = [(record["state"], record["host"], record["code"]) for record in served.records()]
        assert sorted(states) == [
            ("closed", GOOD, ""),
            ("closed", GOOD, ""),
            ("opened", GOOD, ""),
            ("refused", "evil.test", "not_listed"),
        ]
        assert all(record["session"] == "s1" for record in served.records())
        counts = served.door.counts("s1")
        assert (counts.allowed, counts.denied) == (2, 1)
        told = served.door.log.metrics.total
        assert (dict(told.connections), dict(told.denials)) == ({"allow": 2, "deny": 1}, {"not_listed": 1})
        assert told.bytes_down > 0
        assert gone(process_ids[0])
        # What this process has recorded itself: that the session was opened.
        assert served.door.log.path.read_bytes().count(b"\n") == 1


def test_limits_hold_for_both_as_one(tmp_path: Path) -> None:
    limits = Limits(tunnels=3, new_per_second=5000, burst=5000, idle=3600)

    async def test(served: Served) -> None:
        held = [Wire.to(served.http) for _ in range(3)]
        for wire in held:
            wire.send(connect_head(GOOD, origin.port))
            assert answer(wire, CONNECT).granted
        # Now this process may answer as well; whoever does, the three count.
        statuses = await asyncio.gather(
            *(asyncio.to_thread(served.ask, connect_head(GOOD, origin.port)) for _ in range(6))
        )
        assert statuses == [429] * 6
        held.pop().close()
        await served.until(lambda: served.workers.shares.live_elsewhere() + served.proxies.live("s1") == 2)
        assert await asyncio.to_thread(served.ask, connect_head(GOOD, origin.port)) == 200
        for wire in held:
            wire.close()

    with http_origin(answering()) as origin, serving(tmp_path, origin.port, test, limits) as served:
        counts = served.door.counts("s1")
        assert counts.allowed == 4
        assert counts.denied == 6


def test_burst_is_one(tmp_path: Path) -> None:
    limits = Limits(tunnels=100, new_per_second=1001, burst=4, idle=3600)

    async def test(served: Served) -> None:
        # A bucket of four that refills in a millisecond: only what comes at once can show that it is one bucket.
        shares = served.workers.shares
        for _ in range(4):
            assert served.ask(connect_head(GOOD, origin.port)) == 200
        assert shares.new_elsewhere() == 4
        assert shares.new_elsewhere() == 0

    with http_origin(answering()) as origin, serving(tmp_path, origin.port, test, limits):
        pass


def test_one_that_is_killed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its connections are cut, it is said aloud, and the session goes on in this process."""

    async def test(served: Served) -> None:
        wire = Wire.to(served.http)
        wire.send(connect_head(GOOD, origin.port))
        assert answer(wire, CONNECT).granted
        assert served.workers.shares.live_elsewhere() == 1
        os.kill(served.process_id, signal.SIGKILL)
        assert wire.rest() == b""
        wire.close()
        await served.until(lambda: served.workers.shares.live_elsewhere() == 0)
        assert await asyncio.to_thread(served.ask, connect_head(GOOD, origin.port)) == 200

    with caplog.at_level(logging.ERROR), http_origin(answering()) as origin:
        with serving(tmp_path, origin.port, test) as served:
            assert served.door.counts("s1").allowed == 1
        assert "a process of this session has failed" in caplog.text


def test_closing_cuts_what_it_serves(tmp_path: Path) -> None:
    wires: list[Wire] = []

    async def test(served: Served) -> None:
        wires.append(Wire.to(served.http))
        wires[0].send(connect_head(GOOD, origin.port))
        assert answer(wires[0], CONNECT).granted

    with http_origin(answering()) as origin, serving(tmp_path, origin.port, test) as served:
        assert wires[0].rest() == b""
        wires[0].close()
        last = served.records()[-1]
        assert (last["state"], last["close"]) == ("closed", "session_closed")


def test_its_log_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It refuses what it is asked, as this process would."""

    def test(served: Served) -> None:
        served.files()[0].unlink()
        assert served.ask(connect_head(GOOD, origin.port)) == 500

    with caplog.at_level(logging.ERROR), http_origin(answering()) as origin:
        with serving(tmp_path, origin.port, test) as served:
            assert served.door.counts("s1").denied == 1
        assert origin.received == b""
