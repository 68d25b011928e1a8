"""Plain HTTP/1 requests, to the proxy or inside a tunnel to a plain-HTTP port: every request is judged and recorded by
itself, framing is followed on both sides, bodies are passed on as they come. One server connection at a time belongs to
one client connection and is never shared, so no answer can reach another client."""

import asyncio
from typing import Final

from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code, Transport
from gateway.proxy.bounds import HANDSHAKE
from gateway.proxy.connection import Connection, Refused
from gateway.proxy.dialling import UpstreamError
from gateway.proxy.embedding import request_flow
from gateway.proxy.framing import ChunkReader, FramingError, ResponseHead, read_response_head
from gateway.proxy.guard import GuardedServer, Stage
from gateway.proxy.peer import NEVER, DeadlineError, Peer
from gateway.proxy.refusal import http_refusal, http_upstream_failure
from gateway.proxy.request_head import HeadError, RequestHead, find_head_end, read_request
from gateway.proxy.runner import run

_TOKEN_START: Final = frozenset(
    b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)
# Interim answers (1xx) to one request; a server that hints and processes sends a handful.
_INTERIM_ANSWERS: Final = 16


async def next_head(
    connection: Connection, buffer: bytes, transport: Transport
) -> tuple[bytes, bytes] | None:
    """The next request head and the bytes after it; None when the client has hung up between requests. Refused, and
    DeadlineError when it has been idle between requests."""
    try:
        while True:
            if buffer and buffer[0] not in _TOKEN_START:
                raise HeadError("this is an HTTP proxy; the client speaks something else")
            end = find_head_end(buffer) if buffer else -1
            if end >= 0:
                return buffer[:end], buffer[end:]
            data = await connection.client.receive()
            if not data:
                if buffer:
                    raise HeadError("the client hung up in the middle of a request")
                return None
            if not buffer:
                connection.limit_handshake()  # an idle connection's long deadline ends with the first byte
            buffer += data
    except HeadError as error:
        asked = _asked_transport(buffer, transport)
        raise connection.refuse(error.code, error.reason, asked, error.host, error.status) from error
    except DeadlineError as error:
        if not buffer and connection.server is not None:
            raise  # idle between two requests: nothing was asked, so nothing is refused
        reason = f"the request was not complete within {HANDSHAKE:.0f} seconds"
        raise connection.refuse(Code.TIMEOUT, reason, _asked_transport(buffer, transport), "") from error


def _asked_transport(begun: bytes, transport: Transport) -> Transport:
    """The transport to record for a head that never came whole."""
    return Transport.CONNECT if transport is Transport.HTTP and begun.startswith(b"CONNECT ") else transport


async def serve_requests(connection: Connection, buffer: bytes, *, inside: bool) -> None:
    """Serves requests until one of the two ends is done. `inside`: in a tunnel whose target is connected already."""
    transport = connection.server.guard.attempt.transport if inside and connection.server else Transport.HTTP
    try:
        while True:
            head = await next_head(connection, buffer, transport)
            if head is None:
                return
            try:
                request = read_request(head[0], inside=inside)
            except HeadError as error:
                raise connection.refuse(
                    error.code, error.reason, transport, error.host, error.status
                ) from error
            exchange = _Exchange(connection, request, head[1], transport)
            rest = await exchange.run()
            if exchange.finished:
                connection.end_request()
            if rest is None:
                return
            buffer = rest
            if delay := connection.origin.pace():
                await asyncio.sleep(delay)
            connection.limit_handshake(idle=not buffer)
    except Refused as refused:
        await connection.client.send(http_refusal(refused.attempt, refused.decision, refused.status))
        await connection.linger()
    except DeadlineError:
        connection.end("idle")


class _Exchange:
    """One request and its answer. Changes; used once. `buffer` holds what the client sent after the head, `finished`
    whether request and answer are through, whole."""

    __slots__ = (
        "_answered",
        "_broken",
        "_buffer",
        "_client",
        "_connection",
        "_request",
        "_server",
        "_transport",
        "finished",
    )

    def __init__(
        self, connection: Connection, request: RequestHead, buffer: bytes, transport: Transport
    ) -> None:
        self._connection = connection
        self._client = connection.client
        self._request = request
        self._buffer = buffer
        self._transport = transport
        self.finished = False
        self._answered = False
        self._broken: Exception | None = None
        self._server: GuardedServer | None = None

    async def run(self) -> bytes | None:
        """What the client sent after this request; None when the connection is over. Refused, OSError."""
        server = self._server = self._guarded()
        try:
            if self._connection.upstream is None:
                await self._connection.connect(server)
        except UpstreamError as failure:
            await self._fail(failure)
            return None
        upstream = self._connection.upstream
        assert upstream is not None
        try:
            await upstream.send(self._request.forwarded())
        except OSError:
            # A kept connection that died between two requests.
            await self._fail(UpstreamError(Code.UNREACHABLE, "the host hung up"))
            return None
        self._client.deadline = NEVER
        # A client that is gone waits for no answer, however long the server takes for it.
        self._client.on_reset = upstream.abort
        try:
            if self._request.length == 0:
                return await self._answer(upstream)
            return await self._answer_while_sending(upstream)
        finally:
            self._client.on_reset = None

    def _guarded(self) -> GuardedServer:
        """The server to ask, with this request judged. A connection to another host is closed first."""
        connection, request = self._connection, self._request
        host, port = request.host, request.port
        current = connection.server.guard.attempt if connection.server else None
        if not host and current:
            host, port = current.host, current.port
        reuse = current is not None and (current.host, current.port) == (host, port)
        if reuse and connection.upstream is not None and connection.upstream.stale:
            reuse = False
        if not reuse:
            connection.disconnect("next_host" if current else "")
        server = connection.ask_for(self._transport, host, port, reuse=reuse)
        server.guard.attempt.method = request.method.decode("ascii")
        server.guard.attempt.path = request.path
        server.guard.authority = request.authority
        flow = request_flow(connection.mitm_client, server, request)
        try:
            connection.fire("requestheaders", flow, server, Stage.RECORDED if reuse else Stage.ALLOWED)
        except Refused:
            if self._transport is Transport.HTTP:
                # Recorded as this request's refusal; the connection that served others before was none.
                server.guard.refusal = None
            raise
        return server

    async def _answer_while_sending(self, upstream: Peer) -> bytes | None:
        """The body goes up while the answer, which may come early, goes down."""
        sending = run(self._send_body(upstream), self._connection.gate.reactor.loop)
        try:
            rest = await self._answer(upstream)
            early = not sending.done
        finally:
            sending.cancel()
        if not early and self._broken is None:
            return None if rest is None else self._buffer
        self.finished = False
        if not early:
            return None
        # Answered before the body was whole: what follows on this connection is not a request.
        if self._connection.status and self._connection.tunnel is None:
            await self._connection.linger()
        return None

    async def _send_body(self, upstream: Peer) -> None:
        """Sends the request body on, following its framing; what comes after it stays in the buffer."""
        try:
            if self._request.length is None:
                await self._send_chunks(upstream)
            else:
                await self._send_length(upstream, self._request.length)
        except (FramingError, OSError, DeadlineError) as error:
            self._broken = error
            # A server that hangs up in the middle of a request may have answered it before.
            if not upstream.takes_nothing:
                upstream.abort()

    def _malformed(self, error: FramingError) -> Refused:
        """The request turned out malformed after it was recorded as opened: its `closed` record says so."""
        assert self._server is not None
        guard = self._server.guard
        guard.refusal = Decision(Verdict.DENY, "built-in", str(error), Code.MALFORMED_REQUEST)
        return Refused(guard.refusal, guard.attempt)

    async def _send_length(self, upstream: Peer, left: int) -> None:
        while True:
            piece, self._buffer = self._buffer[:left], self._buffer[left:]
            if piece:
                await upstream.send(piece)
                left -= len(piece)
            if not left:
                return
            self._buffer = await self._more()

    async def _send_chunks(self, upstream: Peer) -> None:
        chunks = ChunkReader(strict=True)
        while True:
            size = chunks.feed(self._buffer)
            piece, self._buffer = self._buffer[:size], self._buffer[size:]
            if piece:
                await upstream.send(piece)
            if chunks.done:
                return
            if self._buffer:
                await asyncio.sleep(0)
            else:
                self._buffer = await self._more()

    async def _more(self) -> bytes:
        data = await self._client.receive()
        if not data:
            raise FramingError("the client hung up in the middle of a request body")
        return data

    async def _answer(self, upstream: Peer) -> bytes | None:
        """Passes the answer on. The client's further bytes, or None when the connection is over."""
        buffer, interim = b"", 0
        while True:
            try:
                head, buffer = await self._response_head(upstream, buffer)
            except (FramingError, OSError, DeadlineError) as error:
                if isinstance(self._broken, FramingError):
                    raise self._malformed(self._broken) from error
                silent = isinstance(error, DeadlineError)
                code = Code.CONNECT_TIMEOUT if silent else Code.UNREACHABLE
                await self._fail(UpstreamError(code, str(error) or "the host did not answer"))
                return None
            self._connection.status = head.status
            if head.status == 101:
                await self._switch(head, buffer)
                return None
            if not head.interim:
                break
            interim += 1
            if interim > _INTERIM_ANSWERS:
                await self._fail(
                    UpstreamError(Code.UNREACHABLE, "the host sends interim answers without end")
                )
                return None
            await self._client.send(head.data)
        self._answered = True
        close = await self._pass_body(upstream, head, buffer)
        if close or self._request.close:
            return None
        return self._buffer

    async def _response_head(self, upstream: Peer, buffer: bytes) -> tuple[ResponseHead, bytes]:
        while True:
            if buffer:
                found = read_response_head(buffer, self._request.method)
                if found is not None:
                    return found
            data = await upstream.receive()
            if not data:
                raise FramingError("the host hung up before it answered")
            buffer += data

    async def _pass_body(self, upstream: Peer, head: ResponseHead, buffer: bytes) -> bool:
        """Passes head and body on; whether the connection must close after it."""
        chunks = ChunkReader(strict=False) if head.length is None else None
        left = head.length if head.length is not None else 0
        data = buffer
        prefix = head.data
        try:
            while True:
                if chunks is not None:
                    size = chunks.feed(data)
                elif left < 0:
                    size = len(data)
                else:
                    size = min(left, len(data))
                    left -= size
                if prefix or size:
                    await self._client.send(prefix + data[:size])
                prefix, data = b"", data[size:]
                if chunks.done if chunks is not None else left == 0:
                    self.finished = True
                    return head.close or bool(data)
                if data:
                    await asyncio.sleep(0)
                    continue
                data = await upstream.receive()
                if not data:
                    self.finished = left < 0  # the end of the connection is the body's end, or cuts it
                    return True
        except FramingError:
            return True  # the client sees a cut body, as it would without the proxy

    async def _switch(self, head: ResponseHead, buffer: bytes) -> None:
        """101: from now on both ends speak another protocol; only what the client asked for is passed on."""
        if not self._request.upgrade:
            await self._fail(
                UpstreamError(Code.UNREACHABLE, "the host switched protocols without being asked")
            )
            return
        self._answered = True
        if self._connection.record_now():
            await self._client.send(head.data + buffer)
            await self._connection.relay(self._buffer)

    async def _fail(self, failure: UpstreamError) -> None:
        """Tells the client that the target failed, where it has been told nothing yet."""
        if self._answered:
            return
        self._answered = True
        assert self._server is not None
        guard = self._server.guard
        guard.failure = guard.failure or Decision(
            Verdict.ALLOW, guard.attempt.rule, failure.reason, failure.code
        )
        await self._client.send(http_upstream_failure(guard.attempt, failure))
        await self._connection.linger()
