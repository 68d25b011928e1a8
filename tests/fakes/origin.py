"""Servers on loopback for the proxies to reach, one thread a connection, that remember what they got."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Self

from tests.fakes.wire import PATIENCE, Message, Wire

Talk = Callable[[Wire], None]
Respond = Callable[[Message], bytes | Iterable[bytes]]


class Origin:
    """A listening socket that serves every connection with `talk`. Use with `with`.

    `wires` are the connections in the order they came; `ended` counts those that are over; `faults` holds what went
    wrong in a `talk`, for the test to look at.
    """

    def __init__(
        self, talk: Talk, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.host = host
        self.wires: list[Wire] = []
        self.requests: list[Message] = []
        self.faults: list[BaseException] = []
        self.ended = 0
        self._talk = talk
        self._tls = tls
        self._closing = False
        self._probe: object = None
        self._changed = threading.Condition()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.socket(family, socket.SOCK_STREAM)
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listening.bind((host, port))
        self._listening.listen(1024)
        self.port: int = self._listening.getsockname()[1]
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing = True
        Wire.to(self.port, self.host).close()  # wakes the thread that accepts
        self._accepting.join(PATIENCE)
        self._listening.close()
        for wire in self.wires:
            wire.close()

    @property
    def accepted(self) -> int:
        """Connections that came: those that stand in the queue of the kernel are waited for."""
        with socket.socket(self._listening.family, socket.SOCK_STREAM) as probe:
            probe.bind((self.host, 0))
            self._probe = probe.getsockname()
            probe.connect((self.host, self.port))
            with self._changed:
                assert self._changed.wait_for(lambda: self._probe is None, PATIENCE)
                return len(self.wires)

    @property
    def received(self) -> bytes:
        """What came over all connections, one after the other."""
        return b"".join(bytes(wire.received) for wire in self.wires)

    def wait_ended(self, count: int) -> None:
        """Waits until this many connections are over."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.ended >= count, PATIENCE), f"only {self.ended} ended"

    def wait_accepted(self, count: int) -> None:
        """Waits until this many connections have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.wires) >= count, PATIENCE), (
                f"only {len(self.wires)} came"
            )

    def _accept(self) -> None:
        while True:
            try:
                accepted, client = self._listening.accept()
            except OSError:
                return
            if self._closing:
                accepted.close()
                return
            with self._changed:
                if client == self._probe:
                    self._probe = None
                    accepted.close()
                    self._changed.notify_all()
                    continue
                wire = Wire(accepted)
                self.wires.append(wire)
                self._changed.notify_all()
            threading.Thread(target=self._serve, args=(wire,), daemon=True).start()

    def _serve(self, wire: Wire) -> None:
        try:
            if self._tls is not None:
                wire.start_tls(self._tls)
            self._talk(wire)
        except (OSError, EOFError) as error:
            self.faults.append(error)
        finally:
            wire.close()
            with self._changed:
                self.ended += 1
                self._changed.notify_all()


def recorder(host: str = "127.0.0.1") -> Origin:
    """Takes everything and says nothing."""
    return Origin(lambda wire: _drain(wire), host=host)


def echo(host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Origin:
    """Sends back what it gets, and its end after the client's."""

    def talk(wire: Wire) -> None:
        while data := wire.some():
            wire.send(data)
        wire.finish()

    return Origin(talk, host=host, tls=tls)


def banner(first: bytes) -> Origin:
    """Speaks first, then sends back what it gets."""

    def talk(wire: Wire) -> None:
        wire.send(first)
        while data := wire.some():
            wire.send(data)

    return Origin(talk)


def http_origin(respond: Respond, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> Origin:
    """Answers each HTTP/1 request with what `respond` gives: bytes, or pieces sent one by one."""

    def talk(wire: Wire) -> None:
        for request in _requests(wire):
            origin.requests.append(request)
            answer = respond(request)
            for piece in (answer,) if isinstance(answer, bytes) else answer:
                wire.send(piece)

    origin = Origin(talk, host=host, tls=tls)
    return origin


def answering(body: bytes = b"hello", status: str = "200 OK", *fields: str) -> Respond:
    """A `respond` that says the same to everybody."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *fields]
    answer = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body
    return lambda _: answer


@contextlib.contextmanager
def closed_port() -> Iterator[int]:
    """A port of 127.0.0.1 that refuses connections, and that nobody else gets meanwhile."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextlib.contextmanager
def full_backlog(host: str = "127.0.0.1", port: int = 0) -> Iterator[int]:
    """A port that neither takes a connection nor refuses one."""
    with contextlib.ExitStack() as held:
        listening = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        listening.bind((host, port))
        listening.listen(0)
        where = listening.getsockname()
        for _ in range(4):
            filler = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            filler.setblocking(False)
            filler.connect_ex(where)
        yield where[1]


def _requests(wire: Wire) -> Iterator[Message]:
    while True:
        try:
            yield wire.message()
        except EOFError:
            return


def _drain(wire: Wire) -> None:
    while wire.some():
        pass
