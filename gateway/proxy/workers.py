"""Starts and ends the further processes of a session that may open more connections than one process can serve.

An interpreter runs on one core. How many processes a session gets follows from its limits, so it is the operator who
decides: with the default ones there is no further process.
"""

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Final

from gateway.authorizer import Authorizer, Counts
from gateway.metrics import Metrics
from gateway.policy.limits import Limits
from gateway.proxy.assignment import Assignment, read_report
from gateway.proxy.shares import Shares
from gateway.session import Session

# New connections a second that one process serves with ease.
_PER_PROCESS: Final = 1000
# More processes than this have the listeners' lock for a bottleneck.
_MOST: Final = 4
# Seconds for a worker to cut its connections, record that, and say its figures.
_FAREWELL: Final = 5.0
# Bytes of a line that it says.
_REPORT: Final = 4096

# `-I`: nothing of the environment or the current directory counts; the code is found where this process found it.
_SEPARATOR: Final = "\x1f"
_PROGRAM: Final = (
    f"import sys; sys.path[:] = sys.argv.pop().split({_SEPARATOR!r}); "
    "from gateway.proxy.worker import main; main()"
)

_log = logging.getLogger(__name__)


def processes_for(limits: Limits, cores: int) -> int:
    """How many processes serve a session with these limits."""
    wanted = -(-limits.new_per_second // _PER_PROCESS)
    return max(1, min(wanted, cores, _MOST))


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Pair:
    """What a session's processes serve together."""

    session: Session
    limits: Limits
    http: socket.socket
    socks: socket.socket
    own_ports: frozenset[int]
    upstream_proxy: str | None


@dataclass(slots=True)
class _Worker:
    """One further process. Changes: `told` once it has been told to end."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket
    row: int
    told: bool = False


class Workers:
    """The further processes of one session. Changes; used from one event loop. `stop` must follow."""

    def __init__(self, door: Authorizer, pair: Pair, processes: int) -> None:
        self.shares = Shares.create(processes)
        self._door = door
        self._session_id = pair.session.id
        self._attending: dict[asyncio.Task[None], _Worker] = {}
        for row in range(1, processes):
            self._start(row, self._assignment(pair, row))

    async def stop(self) -> None:
        """Ends the processes, and takes their figures over. Idempotent."""
        if not self._attending:
            return
        for worker in self._attending.values():
            worker.told = True
            with contextlib.suppress(OSError):
                worker.control.shutdown(socket.SHUT_WR)
        _, late = await asyncio.wait(self._attending, timeout=_FAREWELL)
        for task in late:
            self._attending[task].process.kill()
        await asyncio.gather(*self._attending, return_exceptions=True)
        self._attending.clear()
        self.shares.close()

    def _assignment(self, pair: Pair, row: int) -> Assignment:
        log = self._door.log
        return Assignment(
            session=replace(pair.session, secret=""),
            limits=pair.limits,
            http=pair.http.fileno(),
            socks=pair.socks.fileno(),
            shares=self.shares.descriptor,
            row=row,
            rows=self.shares.rows,
            own_ports=pair.own_ports,
            upstream_proxy=pair.upstream_proxy,
            audit_directory=log.directory,
            max_bytes=log.max_bytes,
            keep_days=log.keep_days,
            state=log.state,
        )

    def _start(self, row: int, assignment: Assignment) -> None:
        ours, theirs = socket.socketpair()
        inherited = (theirs.fileno(), assignment.http, assignment.socks, assignment.shares)
        paths = _SEPARATOR.join(path for path in sys.path if path)
        argv = (sys.executable, "-I", "-c", _PROGRAM, str(theirs.fileno()), paths)
        try:
            # From this thread, which lives as long as the process: the kernel would end the worker with it.
            process = subprocess.Popen(
                argv, pass_fds=inherited, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                env={}, cwd="/", process_group=0,
            )  # fmt: skip
        except OSError as error:
            ours.close()
            _log.warning("no further process for this session: %s", error.strerror)
            return
        finally:
            theirs.close()
        ours.setblocking(False)
        worker = _Worker(process, ours, row)
        self._attending[asyncio.create_task(self._attend(worker, assignment.pack()))] = worker

    async def _attend(self, worker: _Worker, word: bytes) -> None:
        """Tells a worker what to do, hears its figures when it ends, and sees to it that it has ended."""
        loop = asyncio.get_running_loop()
        counts: Counts | None = None
        said = b""
        try:
            await loop.sock_sendall(worker.control, word)
            while len(said) <= _REPORT and (part := await loop.sock_recv(worker.control, _REPORT)):
                *lines, said = (said + part).split(b"\n")
                for told in map(read_report, lines):
                    if isinstance(told, Metrics):
                        self._door.log.metrics.others[f"{self._session_id}/{worker.row}"] = told
                    else:
                        counts = told
        except OSError as error:
            _log.error("a process of this session cannot be reached: %s", error.strerror or error)
        finally:
            worker.control.close()
            await asyncio.to_thread(_bury, worker.process)
            self.shares.clear_live(worker.row)
        if counts is None or not worker.told:
            _log.error("a process of this session has failed, and its connections with it")
        if counts is not None:
            self._door.add_counts(self._session_id, counts)


def _bury(process: "subprocess.Popen[bytes]") -> None:
    """Waits for the end of a process that has hung up already."""
    try:
        process.wait(_FAREWELL)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
