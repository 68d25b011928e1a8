"""A blocking socket with what tests need to speak protocols by hand, on either end."""

import json
import socket
import ssl
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

# Seconds after which a test gives up on bytes that do not come; no test waits for it to pass.
PATIENCE = 20.0


@dataclass(frozen=True, slots=True)
class Message:
    """Head and body of an HTTP/1 message: the first line, the fields as they came, the body without its framing."""

    line: str
    fields: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def status(self) -> int:
        return int(self.line.split(" ")[1])

    @property
    def method(self) -> str:
        return self.line.split(" ")[0]

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]

    def field(self, name: str) -> str | None:
        """The only value of a field, None when it is not there."""
        values = [value for other, value in self.fields if other.lower() == name.lower()]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    def json(self) -> dict[str, object]:
        """The body, which is a JSON object."""
        answer = json.loads(self.body)
        assert isinstance(answer, dict)
        return answer


class Wire:
    """One connected socket; `received` keeps the first MiB of what was read."""

    def __init__(self, connected: socket.socket) -> None:
        connected.settimeout(PATIENCE)
        self.socket = connected
        self.received = bytearray()
        self._buffer = b""

    @classmethod
    def to(cls, port: int, host: str = "127.0.0.1", *, receive_buffer: int = 0) -> "Wire":
        """A new connection to a port of this machine."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        connected = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if receive_buffer:
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connected.settimeout(PATIENCE)
            connected.connect((host, port))
        except BaseException:
            connected.close()
            raise
        return cls(connected)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        """Sends everything."""
        self.socket.sendall(data)

    def finish(self) -> None:
        """Says that nothing more will come."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Closes the socket. Idempotent."""
        self.socket.close()

    def reset(self) -> None:
        """Closes the socket with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def some(self, size: int = 65536) -> bytes:
        """What comes next; empty at the end. `size` bounds what is read at once."""
        if self._buffer:
            data, self._buffer = self._buffer, b""
            return data
        data = self.socket.recv(size)
        if len(self.received) < 1 << 20:
            self.received += data
        return data

    def exactly(self, size: int) -> bytes:
        """The next `size` bytes; EOFError when fewer come."""
        data = bytearray(self._buffer)
        self._buffer = b""
        while len(data) < size:
            data += self._next(f"{size} bytes", bytes(data))
        self._buffer = bytes(data[size:])
        return bytes(data[:size])

    def until(self, mark: bytes) -> bytes:
        """Everything up to `mark`, which is included; EOFError when it does not come."""
        data = b""
        while mark not in data:
            data += self._next(repr(mark), data)
        end = data.index(mark) + len(mark)
        self._buffer = data[end:]
        return data[:end]

    def rest(self) -> bytes:
        """Everything until the end; a reset counts as one."""
        data = bytearray()
        try:
            while piece := self.some():
                data += piece
        except ConnectionResetError:
            pass
        return bytes(data)

    def message(self, *, to: str = "GET") -> Message:
        """The next HTTP/1 message; `to` is the method that a response answers."""
        line, fields = self.head()
        names = {name.lower(): value for name, value in fields}
        bodiless = to == "HEAD" or line.split(" ")[1] in {"204", "304"} or line.split(" ")[1].startswith("1")
        return Message(line, fields, b"" if bodiless else self._body(line, names))

    def head(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The first line and the fields of the next message."""
        line, *rest = self.until(b"\r\n\r\n").decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        parts = (text.partition(":") for text in rest)
        return line, tuple((name, value.strip()) for name, _, value in parts)

    def chunk(self) -> bytes:
        """The next chunk of a chunked body; empty for the last one."""
        size = int(self.until(b"\r\n").split(b";")[0], 16)
        data = self.exactly(size)
        if size:
            assert self.exactly(2) == b"\r\n"
            return data
        while self.until(b"\r\n") != b"\r\n":
            pass
        return b""

    def start_tls(self, context: ssl.SSLContext, name: str | None = None) -> None:
        """Goes on with TLS: as a server, or as a client of `name`."""
        self.socket = context.wrap_socket(self.socket, server_side=name is None, server_hostname=name)

    def _next(self, wanted: str, have: bytes) -> bytes:
        piece = self.some()
        if not piece:
            raise EOFError(f"wanted {wanted}, the connection ended after {have!r}")
        return piece

    def _body(self, line: str, fields: Mapping[str, str]) -> bytes:
        if fields.get("transfer-encoding", "").lower() == "chunked":
            return b"".join(iter(self.chunk, b""))
        if "content-length" in fields:
            return self.exactly(int(fields["content-length"]))
        return self.rest() if line.startswith("HTTP/") else b""
