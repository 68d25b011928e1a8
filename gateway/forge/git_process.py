"""Runs of `git http-backend` as a CGI program (RFC 3875), their input and output streamed in bounded memory.

It decides nothing: who may run what was settled before. Every process it starts ends with it.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.errors import GatewayError
from gateway.forge.activity import Activity
from gateway.forge.repositories import Git

# Bytes of one read, and of what a pipe holds where that can be chosen: git moves packs in pieces of 64 KiB at most.
_PIECE: Final = 256 * 1024
# Seconds for a process to clean up after itself (receive-pack deletes its quarantine) before it is killed.
GRACE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Head:
    """What a CGI program says first."""

    status: int
    headers: Mapping[str, str]


class GitProcess:
    """One run, in a process group of its own. Changes; used from the loop it was started in.

    Whoever started it reads its answer to the end, also when nobody wants it any more: that is how its end is known.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._drained = asyncio.Event()
        self._deaf = False

    async def feed(self, data: bytes) -> None:
        """Input; waits while git has enough. Nothing happens when git has stopped reading: its answer says why."""
        pipe = self._process.stdin
        if pipe is None or self._deaf:
            return
        try:
            pipe.write(data)
            await pipe.drain()
        except (BrokenPipeError, ConnectionResetError):
            self._deaf = True

    def end_input(self) -> None:
        """The end of the input."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    async def head(self) -> Head:
        """The CGI header; a program that says nothing sensible is a 500."""
        assert self._process.stdout is not None
        try:
            raw = await self._process.stdout.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return Head(500, {})
        fields = (line.partition(":") for line in raw.decode("latin-1").split("\r\n"))
        headers = {name.strip(): value.strip() for name, colon, value in fields if colon}
        status = headers.pop("Status", "200").partition(" ")[0]
        return Head(int(status) if status.isdecimal() else 500, headers)

    async def read(self) -> bytes:
        """More of the body; empty at its end."""
        assert self._process.stdout is not None
        data = await self._process.stdout.read(_PIECE)
        if not data:
            self._drained.set()
        return data

    async def wait(self) -> None:
        """Until its answer was read and it has ended, with all it has started: they share its output."""
        await self._drained.wait()
        await self._process.wait()

    async def abort(self, grace: float) -> None:
        """Makes it end, and waits for that. `grace`: seconds it has to clean up after itself."""
        self.terminate()
        try:
            async with asyncio.timeout(grace):
                await self.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            # Not for its output, which somebody who left the group may hold for ever.
            await self._process.wait()

    def terminate(self) -> None:
        """Asks it, and all it has started, to leave what they do and clean up."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if self._drained.is_set() and self._process.returncode is not None:
            return  # nothing is left of the group, whose number may be somebody else's by now
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass


class GitProcesses:
    """All that run. Changes; used from one event loop."""

    def __init__(self, git: Git, root: Path, log: Path, activity: Activity) -> None:
        self._git = git
        self._activity = activity
        self._root = root
        self._log = log
        self._running: set[GitProcess] = set()
        self._backend = str(Path(git.run("--exec-path")) / "git-http-backend")
        if not os.access(self._backend, os.X_OK):
            raise GatewayError(f"there is no {self._backend}", "install all of git")

    async def start(self, cgi: Mapping[str, str], *, with_input: bool) -> GitProcess:
        """Runs git http-backend with these meta-variables and git's own environment. OSError when it cannot be."""
        environment = {
            **self._git.environment,
            "GIT_PROJECT_ROOT": str(self._root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "GATEWAY_INTERFACE": "CGI/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            **cgi,
        }
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                self._backend,
                stdin=asyncio.subprocess.PIPE if with_input else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment,
                cwd=self._root,
                limit=_PIECE,
                start_new_session=True,
            )
        _widen(process)
        started = GitProcess(process)
        self._running.add(started)
        self._activity.begin(started)
        return started

    async def finish(self, process: GitProcess) -> None:
        """The process's answer was read; waits for its end."""
        await process.wait()
        self._forget(process)

    async def stop(self, grace: float = GRACE) -> None:
        """Ends all. `grace`: seconds they have to clean up after themselves."""
        running = tuple(self._running)
        await asyncio.gather(*(process.abort(grace) for process in running))
        for process in running:
            self._forget(process)

    def _forget(self, process: GitProcess) -> None:
        self._running.discard(process)
        self._activity.end(process)


def _widen(process: asyncio.subprocess.Process) -> None:
    """A larger pipe to git's input, and no more kept in memory besides; where the system knows no such thing the
    pipe stays as it is."""
    if process.stdin is None or process.stdin.is_closing():
        return
    process.stdin.transport.set_write_buffer_limits(high=_PIECE)
    if sys.platform == "linux":
        import fcntl

        pipe = process.stdin.get_extra_info("pipe")
        try:
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIECE)
        except OSError:
            pass  # the user's share of pipe memory is used up
