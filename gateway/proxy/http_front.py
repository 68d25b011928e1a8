"""The HTTP proxy's front: reads the first head, then tunnels (CONNECT) or serves plain requests."""

from gateway.policy.egress import Transport
from gateway.proxy.connection import Connection, Refused
from gateway.proxy.dialling import UpstreamError
from gateway.proxy.embedding import connect_flow
from gateway.proxy.guard import Stage
from gateway.proxy.plain import next_head, serve_requests
from gateway.proxy.refusal import http_refusal, http_upstream_failure
from gateway.proxy.request_head import HeadError, read_connect
from gateway.proxy.tunnel import carry

_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
_CONNECT = b"CONNECT "


async def serve_http(connection: Connection) -> None:
    """Serves one client of the HTTP proxy until its tunnel runs or it is done. OSError when an end breaks."""
    try:
        connection.limit_handshake()
        head = await next_head(connection, b"", Transport.HTTP)
        if head is None:
            return
        if not head[0].startswith(_CONNECT):
            await serve_requests(connection, head[0] + head[1], inside=False)
            return
        await _serve_connect(connection, *head)
    except Refused as refused:
        await connection.client.send(http_refusal(refused.attempt, refused.decision, refused.status))
        await connection.linger()


async def _serve_connect(connection: Connection, head: bytes, rest: bytes) -> None:
    try:
        host, port = read_connect(head)
    except HeadError as error:
        raise connection.refuse(
            error.code, error.reason, Transport.CONNECT, error.host, error.status
        ) from error
    server = connection.ask_for(Transport.CONNECT, host, port)
    connection.fire("http_connect", connect_flow(connection.mitm_client, server), server, Stage.ALLOWED)
    try:
        await connection.connect(server)
    except UpstreamError as failure:
        await connection.client.send(http_upstream_failure(server.guard.attempt, failure))
        await connection.linger()
        return
    await connection.client.send(_ESTABLISHED)
    await carry(connection, server, rest)
