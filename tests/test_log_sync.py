"""A log is brought to the disk while it is written, and it is said when the disk says no."""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.errors import AuditError
from gateway.log_sync import synced
from tests.fakes.clock import ClockedLoop, FakeClock
from tests.fakes.wire import PATIENCE

EVENT = AuditEvent(EventKind.CONFIG, {"state": "loaded"})


def run(log: "Counting", until: Callable[[], bool]) -> int:
    """Keeps the log synced until the condition holds; seconds that went by on a clock which moves between two turns."""
    clock = FakeClock()
    start = clock.now

    async def main() -> None:
        async with synced(log):
            for _ in range(100):
                await asyncio.sleep(0)
            assert log.dirty, "it was not yet time"
            given_up = time.monotonic() + PATIENCE
            while not until():
                assert time.monotonic() < given_up, "it did not come about"
                clock.advance(1.0)
                await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=lambda: ClockedLoop(clock)) as runner:
        runner.run(main())
    return int(clock.now - start)


class Counting(AuditLog):
    """Counts how often it was brought to the disk."""

    syncs = 0

    @property
    def dirty(self) -> bool:
        return self._file.dirty

    def sync(self) -> None:
        super().sync()
        self.syncs += 1


def test_every_second(tmp_path: Path) -> None:
    log = Counting(tmp_path)
    log.append(EVENT)
    assert run(log, lambda: log.syncs >= 3) >= 3
    assert not log.dirty
    log.close()


def test_disk_that_says_no(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = Counting(tmp_path)
    log.append(EVENT)
    # The file's descriptor leads to a pipe now, which cannot be synced.
    reading, writing = os.pipe()
    os.dup2(writing, log._file.descriptor)
    with caplog.at_level(logging.ERROR):
        run(log, lambda: bool(caplog.records))
    assert "from now every connection is refused" in caplog.text
    with pytest.raises(AuditError):
        log.append(EVENT)
    for descriptor in (reading, writing):
        os.close(descriptor)
