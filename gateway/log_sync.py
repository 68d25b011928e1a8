"""Brings an audit log to the disk while it is written."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gateway.audit import AuditLog
from gateway.errors import AuditError

# Seconds between two fsyncs of the log: what a power cut may take.
_SYNC_EVERY: Final = 1.0

_log = logging.getLogger(__name__)


@asynccontextmanager
async def synced(log: AuditLog) -> AsyncIterator[None]:
    """Brings the log to the disk every second, in a thread, so that no connection waits for it."""

    async def sync() -> None:
        while True:
            await asyncio.sleep(_SYNC_EVERY)
            try:
                await asyncio.to_thread(log.sync)
            except AuditError as error:
                _log.error("%s; from now every connection is refused", error)
                return

    task = asyncio.create_task(sync())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
