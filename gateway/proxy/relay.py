"""Relays an opaque tunnel between two sockets: flat memory, half-close kept, bytes counted.

A direction starts by copying through one shared buffer; once it is hot it moves its bytes through a kernel pipe
(splice(2), Linux), so that bulk never enters Python. Nothing here looks at a byte.
"""

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Callable
from typing import Final

from gateway.proxy.peer import Peer
from gateway.proxy.reactor import ENDING, READABLE, WRITABLE, Reactor

# One buffer serves every tunnel: a callback fills and empties it before another one runs.
_BUFFER_SIZE: Final = 256 * 1024
_BUFFER: Final = bytearray(_BUFFER_SIZE)
_VIEW: Final = memoryview(_BUFFER)
# Bytes after which a direction counts as hot; below it a pipe costs more than it saves.
_HOT: Final = 1 << 20
_PIPE_SIZE: Final = 1 << 20
# Moves of one direction before others have their turn.
_TURN: Final = 4
# Moves for what a socket that is gone has left: more than the kernel keeps for one.
_LAST_MOVES: Final = 64
_POOLED_PIPES: Final = 32
_CAN_SPLICE: Final = hasattr(os, "splice")
_F_SETPIPE_SZ: Final = getattr(fcntl, "F_SETPIPE_SZ", 1031)
_SPLICE_FLAGS: Final = getattr(os, "SPLICE_F_MOVE", 0) | getattr(os, "SPLICE_F_NONBLOCK", 0)

_pipes: list[tuple[int, int]] = []


def _take_pipe() -> tuple[int, int] | None:
    """An empty pipe; None when there is none to be had (then copying goes on)."""
    if not _CAN_SPLICE:
        return None
    if _pipes:
        return _pipes.pop()
    try:
        pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with contextlib.suppress(OSError):  # the system's limit may be lower; the default size works too
        fcntl.fcntl(pipe[1], _F_SETPIPE_SZ, _PIPE_SIZE)
    return pipe


def _give_pipe(pipe: tuple[int, int], *, empty: bool) -> None:
    if empty and len(_pipes) < _POOLED_PIPES:
        _pipes.append(pipe)
        return
    os.close(pipe[0])
    os.close(pipe[1])


class _Direction:
    """One way of a tunnel. Changes; all of it runs in callbacks of one event loop."""

    __slots__ = (
        "_destination",
        "_in_pipe",
        "_pipe",
        "_rest",
        "_source",
        "_tunnel",
        "count",
        "done",
        "ending",
    )

    def __init__(
        self, tunnel: "Tunnel", source: socket.socket, destination: socket.socket, count: int, ending: bool
    ) -> None:
        self._tunnel = tunnel
        self._source = source
        self._destination = destination
        self._rest: memoryview | None = None
        self._pipe: tuple[int, int] | None = None
        self._in_pipe = 0
        self.count = count
        self.done = False
        # The source has finished or failed, as the kernel says: reading goes on until it shows.
        self.ending = ending

    def stop(self) -> None:
        """Gives the pipe back."""
        if self._pipe is not None:
            _give_pipe(self._pipe, empty=self._in_pipe == 0)
            self._pipe = None

    def pump(self) -> None:
        """The source has something: moves it, until there is no more, the destination is full, or the turn is over."""
        if self.done or self._rest is not None or self._in_pipe or self._tunnel.closed:
            return
        try:
            for _ in range(_TURN):
                if not (self._copy() if self._pipe is None else self._splice()):
                    return
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._tunnel.close(_cause(error, self._source is self._tunnel.client))
            return
        self._tunnel.reactor.loop.call_soon(self.pump)

    def flush(self) -> None:
        """The destination takes bytes again."""
        if (self._rest is None and not self._in_pipe) or self._tunnel.closed:
            return
        try:
            if self._rest is not None:
                rest = self._rest[self._destination.send(self._rest) :]
                self._rest = rest if rest else None
            else:
                self._drain_pipe()
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self.lose_destination(error)
            return
        if not self._held:
            self.pump()

    def pour(self) -> None:
        """The source is gone: moves what it left, as far as the destination takes it now."""
        self.ending = True
        with contextlib.suppress(OSError):
            for _ in range(_LAST_MOVES):
                if self.done or self._held or self._tunnel.closed:
                    return
                if not (self._copy() if self._pipe is None else self._splice()):
                    return

    @property
    def _held(self) -> bool:
        """Bytes wait for the destination; nothing more is read until it has taken them."""
        return self._rest is not None or self._in_pipe > 0

    def _copy(self) -> bool:
        """Moves one buffer; whether there may be more."""
        size = self._source.recv_into(_BUFFER)
        if size == 0:
            self._finish()
            return False
        self.count += size
        try:
            sent = self._destination.send(_VIEW[:size])
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError as error:
            self.lose_destination(error)
            return False
        if sent < size:
            self._rest = memoryview(bytes(_VIEW[sent:size]))
            return False
        if self.count > _HOT:
            self._pipe = _take_pipe()
        return self.ending or size == _BUFFER_SIZE

    def _splice(self) -> bool:
        """Moves what the pipe holds at most; whether there may be more."""
        assert self._pipe is not None
        size = os.splice(self._source.fileno(), self._pipe[1], _PIPE_SIZE, flags=_SPLICE_FLAGS)
        if size == 0:
            self._finish()
            return False
        self.count += size
        self._in_pipe += size
        try:
            self._drain_pipe()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self.lose_destination(error)
            return False
        return not self._in_pipe

    def _drain_pipe(self) -> None:
        assert self._pipe is not None
        while self._in_pipe:
            self._in_pipe -= os.splice(
                self._pipe[0], self._destination.fileno(), self._in_pipe, flags=_SPLICE_FLAGS
            )

    def lose_destination(self, error: OSError) -> None:
        """Nobody takes the bytes any more."""
        self.done = True
        self._tunnel.lost(self, _cause(error, self._destination is self._tunnel.client))

    def finish_destination(self) -> None:
        """Tells it that nothing more will come."""
        try:
            self._destination.shutdown(socket.SHUT_WR)
        except OSError as error:
            self.lose_destination(error)

    def _finish(self) -> None:
        """The source sends no more: that is passed on, and the other direction kept."""
        self.done = True
        self.stop()
        self._tunnel.finished(self)


class Tunnel:
    """Both directions between `client` and `server`, until both have finished, one fails, or `close` is called.

    Takes both peers' sockets over, which `reactor` watches already. `sent_up` and `sent_down` are the bytes that went
    through before. `on_close` is called once, with the tunnel.
    """

    __slots__ = (
        "_client_readable",
        "_down",
        "_on_close",
        "_server_readable",
        "_up",
        "cause",
        "client",
        "closed",
        "reactor",
        "server",
    )

    def __init__(
        self,
        reactor: Reactor,
        client: Peer,
        server: Peer,
        on_close: Callable[["Tunnel"], None],
        *,
        sent_up: int = 0,
        sent_down: int = 0,
    ) -> None:
        self.reactor = reactor
        self._client_readable, self._server_readable = client.readable, server.readable
        self.client = client.detach()
        self.server = server.detach()
        self.closed = False
        self.cause = ""
        self._on_close = on_close
        self._up = _Direction(self, self.client, self.server, sent_up, client.ending)
        self._down = _Direction(self, self.server, self.client, sent_down, server.ending)

    @property
    def bytes_up(self) -> int:
        """Bytes from the client."""
        return self._up.count

    @property
    def bytes_down(self) -> int:
        """Bytes from the server."""
        return self._down.count

    def start(self) -> None:
        """Starts both directions."""
        self.reactor.replace(self.client.fileno(), self._client_changed)
        self.reactor.replace(self.server.fileno(), self._server_changed)
        # What the kernel has told the peers before is not told again.
        if self._client_readable:
            self._up.pump()
        if self._server_readable:
            self._down.pump()

    def probe(self) -> None:
        """Has the kernel look from time to time whether the server is still there."""
        with contextlib.suppress(OSError):
            self.server.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def finished(self, direction: _Direction) -> None:
        """Called by a direction whose source has finished: its destination gets no more."""
        if self._up.done and self._down.done:
            self.close(self.cause or "finished")
        else:
            direction.finish_destination()

    def lost(self, direction: _Direction, cause: str) -> None:
        """Called by a direction whose destination is gone. What that end said last is passed on: a server may answer
        before it has read everything, and hang up."""
        if not self.cause:
            self.cause = cause
            (self._down if direction is self._up else self._up).pour()
            self.close(cause)

    def close(self, cause: str) -> None:
        """Stops both directions and closes both sockets. Idempotent."""
        if self.closed:
            return
        self.closed = True
        self.cause = cause
        self._up.stop()
        self._down.stop()
        for end in (self.client, self.server):
            self.reactor.forget(end.fileno())
            end.close()
        self._on_close(self)

    def _client_changed(self, events: int) -> None:
        if events & ENDING:
            self._up.ending = True
        if events & READABLE:
            self._up.pump()
        if events & WRITABLE:
            self._down.flush()

    def _server_changed(self, events: int) -> None:
        if events & ENDING:
            self._down.ending = True
        if events & READABLE:
            self._down.pump()
        if events & WRITABLE:
            self._up.flush()


def _cause(error: OSError, from_client: bool) -> str:
    side = "client" if from_client else "server"
    # ENOTCONN: it was reset before, and somebody has heard of that already.
    reset = isinstance(error, ConnectionError) or error.errno == errno.ENOTCONN
    return f"{side}_reset" if reset else f"{side}_error"
