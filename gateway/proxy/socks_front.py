"""The SOCKS5 proxy's front (RFC 1928): CONNECT only, no authentication, since the listener is the session's own."""

import ipaddress
from typing import Final

from gateway.policy.egress import Code, Transport
from gateway.policy.hosts import HostError, literal_text, normalise_host
from gateway.proxy.connection import Connection, Refused
from gateway.proxy.dialling import UpstreamError
from gateway.proxy.guard import SocksConnect, Stage
from gateway.proxy.peer import DeadlineError
from gateway.proxy.refusal import (
    SOCKS_ADDRESS_TYPE,
    SOCKS_COMMAND,
    SOCKS_FAILURE,
    SOCKS_NOT_ALLOWED,
    SOCKS_OK,
    http_refusal,
    socks_code,
    socks_reply,
)
from gateway.proxy.tunnel import carry

_VERSION: Final = 5
_NO_AUTHENTICATION: Final = 0
_NO_METHOD: Final = b"\x05\xff"
# Bytes a client has got when its greeting was accepted and its request not answered yet.
GREETED: Final = 2
_CONNECT: Final = 1
_BIND_OR_UDP: Final = frozenset({2, 3})
# The refusal of a SOCKS4 client, in its own protocol.
_SOCKS4_REJECTED: Final = b"\x00\x5b" + bytes(6)


class _Malformed(Exception):
    """Bytes that are no SOCKS5: what to answer, and why."""

    def __init__(
        self, answer: bytes, reason: str, code: Code = Code.MALFORMED_REQUEST, host: str = ""
    ) -> None:
        super().__init__(reason)
        self.answer = answer
        self.reason = reason
        self.code = code
        self.host = host


class _Reader:
    """Reads exact amounts of what the client sends, and keeps what comes after."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.buffer = b""

    async def take(self, size: int) -> bytes:
        """The next `size` bytes; _Malformed when the client stops before."""
        while len(self.buffer) < size:
            data = await self._connection.client.receive()
            if not data:
                raise _Malformed(b"", "the client hung up in the middle of a SOCKS5 request")
            self.buffer += data
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken


async def serve_socks(connection: Connection) -> None:
    """Serves one client of the SOCKS5 proxy until its tunnel runs or it is done. OSError when an end breaks."""
    connection.limit_handshake()
    reader = _Reader(connection)
    try:
        first = await connection.client.receive()
        if not first:
            return
        reader.buffer = first
        await _greet(connection, reader)
        host, port = await _request(reader)
    except _Malformed as malformed:
        await _answer_malformed(connection, malformed)
        return
    except DeadlineError:
        await _answer_late(connection)
        return
    await _serve_connect(connection, host, port, reader.buffer)


async def _greet(connection: Connection, reader: _Reader) -> None:
    version = (await reader.take(1))[0]
    if version == 4:
        raise _Malformed(_SOCKS4_REJECTED, "this is a SOCKS5 proxy; the client speaks SOCKS4")
    if version != _VERSION:
        raise _not_socks(version)
    count = (await reader.take(1))[0]
    if _NO_AUTHENTICATION not in await reader.take(count):
        raise _Malformed(_NO_METHOD, "the client does not offer SOCKS5 without authentication")
    await connection.client.send(bytes((_VERSION, _NO_AUTHENTICATION)))


def _not_socks(first: int) -> _Malformed:
    if chr(first).isalpha() and first < 128:
        return _Malformed(b"HTTP", "this is the SOCKS5 proxy; the client speaks HTTP")
    return _Malformed(b"", "this is the SOCKS5 proxy; the client speaks something else")


async def _request(reader: _Reader) -> tuple[str, int]:
    version, command, reserved, kind = await reader.take(4)
    if version != _VERSION or reserved:
        raise _Malformed(socks_reply(SOCKS_FAILURE), "the SOCKS5 request is malformed")
    if command != _CONNECT:
        offered = "BIND and UDP ASSOCIATE are" if command in _BIND_OR_UDP else f"SOCKS5 command {command} is"
        raise _Malformed(socks_reply(SOCKS_COMMAND), f"{offered} not offered, only CONNECT")
    match kind:  # the address types of RFC 1928 section 5
        case 1:
            host = literal_text(ipaddress.IPv4Address(await reader.take(4)))
        case 3:
            host = _name(await reader.take((await reader.take(1))[0]))
        case 4:
            host = literal_text(ipaddress.IPv6Address(await reader.take(16)))
        case _:
            raise _Malformed(socks_reply(SOCKS_ADDRESS_TYPE), f"SOCKS5 address type {kind} does not exist")
    return host, int.from_bytes(await reader.take(2))


def _name(raw: bytes) -> str:
    text = raw.decode("ascii", "backslashreplace")
    try:
        return normalise_host(text)
    except HostError as error:
        answer = socks_reply(SOCKS_NOT_ALLOWED)
        raise _Malformed(answer, str(error), Code.MALFORMED_HOST, text) from error


async def _serve_connect(connection: Connection, host: str, port: int, rest: bytes) -> None:
    client = connection.client
    try:
        server = connection.ask_for(Transport.SOCKS, host, port)
        data = SocksConnect(connection.mitm_client, server)
        connection.fire("socks_connect", data, server, Stage.ALLOWED)
        await connection.connect(server)
    except Refused:
        await client.send(socks_reply(SOCKS_NOT_ALLOWED))
        await connection.linger()
        return
    except UpstreamError as failure:
        await client.send(socks_reply(socks_code(failure)))
        await connection.linger()
        return
    await client.send(socks_reply(SOCKS_OK))
    await carry(connection, server, rest)


async def _answer_malformed(connection: Connection, malformed: _Malformed) -> None:
    answer = malformed.answer
    try:
        refused = connection.refuse(malformed.code, malformed.reason, Transport.SOCKS, malformed.host)
    except Refused as over_limit:
        refused = over_limit
    if answer == b"HTTP":
        answer = http_refusal(refused.attempt, refused.decision)
    if answer:
        await connection.client.send(answer)
    await connection.linger()


async def _answer_late(connection: Connection) -> None:
    try:
        connection.refuse(Code.TIMEOUT, "the SOCKS5 request was not complete in time", Transport.SOCKS, "")
    except Refused:
        return  # over the limit as well; recorded, and there is nothing to answer either way
