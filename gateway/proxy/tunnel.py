"""What happens after a tunnel was granted: the client's first bytes are judged, then everything is relayed."""

from typing import Final

from gateway.policy.egress import HelloKind
from gateway.proxy.bounds import CLIENT_HELLO
from gateway.proxy.client_hello import Hello, read_hello
from gateway.proxy.connection import Connection, Refused
from gateway.proxy.guard import FirstBytes, GuardedServer, Stage
from gateway.proxy.peer import DeadlineError
from gateway.proxy.plain import serve_requests

# On this port nothing but TLS is spoken; on the others a tunnel may also carry plain HTTP, judged request by request.
_TLS_PORT: Final = 443
_METHOD_LETTERS: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


async def carry(connection: Connection, server: GuardedServer, first: bytes) -> None:
    """Carries a granted tunnel; `first` are bytes the client has sent already. Nothing reaches the server before the
    client's first bytes are judged."""
    if not server.guard.raw:
        judged = await _first_bytes(connection, server, first)
        if judged is None:
            return
        first = judged
    await connection.relay(first)


async def _first_bytes(connection: Connection, server: GuardedServer, first: bytes) -> bytes | None:
    """The bytes to send on once they are judged; None when the connection is over or was served as plain HTTP."""
    client = connection.client
    connection.limit_handshake()
    needed = 1
    while True:
        if len(first) >= needed:
            if server.guard.attempt.port != _TLS_PORT and first[0] in _METHOD_LETTERS:
                await serve_requests(connection, first, inside=True)
                return None
            hello = read_hello(first)
            if isinstance(hello, Hello):
                break
            needed = hello
        if max(needed, len(first)) > CLIENT_HELLO:
            hello = Hello(HelloKind.MALFORMED)
            break
        try:
            data = await client.receive()
        except DeadlineError:
            hello = Hello(HelloKind.INCOMPLETE if first else HelloKind.SILENT)
            break
        if not data and not first:
            connection.end("client_closed")
            return None
        if not data:
            hello = Hello(HelloKind.INCOMPLETE)
            break
        first += data
    try:
        connection.fire("first_bytes", FirstBytes(connection.mitm_client, server, hello), server, Stage.NAMED)
    except Refused as refused:
        connection.end(refused.decision.code)
        return None
    return first
