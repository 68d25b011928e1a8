"""A further process that serves one busy session beside the one that opened it: the same proxies on the same listeners,
with an audit file of its own. Started by `workers.py`, which says what to do over a socket; it decides nothing else.

It lives as long as the socket: at its end the session is over, and what runs is cut and recorded.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from gateway.audit import AuditLog
from gateway.authorizer import Authorizer, Counts
from gateway.garbage import settle_garbage
from gateway.log_sync import synced
from gateway.metrics import Metrics
from gateway.proxy.assignment import Assignment, read_assignment, report, report_metrics
from gateway.proxy.proxies import Proxies
from gateway.proxy.reactor import GatewayLoop
from gateway.proxy.shares import Shares
from gateway.talk import log_to_stderr

# Seconds between two words about what was counted.
_TOLD_EVERY: Final = 1.0
# linux/prctl.h
_PR_SET_PDEATHSIG: Final = 1


async def serve(assignment: Assignment, control: socket.socket) -> Counts:
    """Serves the session until the other end of `control` says that it is over."""
    loop = asyncio.get_running_loop()
    control.setblocking(False)
    log = AuditLog(
        assignment.audit_directory,
        max_bytes=assignment.max_bytes,
        keep_days=assignment.keep_days,
        state=assignment.state,
    )
    log.prepare()
    door = Authorizer(log, time.monotonic)
    shares = Shares(assignment.shares, assignment.row, assignment.rows)
    session_id = assignment.session.id
    try:
        async with synced(log), Proxies(door) as proxies:
            proxies.open(
                assignment.session,
                assignment.limits,
                socket.socket(fileno=assignment.http),
                socket.socket(fileno=assignment.socks),
                own_ports=assignment.own_ports,
                upstream_proxy=assignment.upstream_proxy,
                shares=shares,
            )
            settle_garbage()
            async with _told(log.metrics, control):
                await loop.sock_recv(control, 1)
        await _tell(log.metrics, control)
        return door.counts(session_id)
    finally:
        log.close()


@asynccontextmanager
async def _told(metrics: Metrics, control: socket.socket) -> AsyncIterator[None]:
    """Tells what is counted, for as long as the block lasts."""

    async def tell() -> None:
        while True:
            await asyncio.sleep(_TOLD_EVERY)
            await _tell(metrics, control)

    task = asyncio.create_task(tell())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _tell(metrics: Metrics, control: socket.socket) -> None:
    with contextlib.suppress(OSError):  # whoever would hear it has gone, and this process goes with it
        await asyncio.get_running_loop().sock_sendall(control, report_metrics(metrics))


def main() -> None:
    """The program: `CONTROL` is the number of an inherited socket."""
    log_to_stderr()
    _die_with_parent()
    # A terminal's keys are for the command; this process ends with the socket.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTOU):
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as control:
        assignment = read_assignment(control)
        if assignment is None:
            return
        with asyncio.Runner(loop_factory=GatewayLoop) as runner:
            counts = runner.run(serve(assignment, control))
        control.setblocking(True)
        control.sendall(report(counts))


def _die_with_parent() -> None:
    """Should the gateway be killed, nobody is left who could end this process in order."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == 1:
            sys.exit(1)  # killed before the line above
