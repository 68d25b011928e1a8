"""Dialling through the HTTP proxy of a company network (`egress.upstream_proxy`).

The proxy is asked for the vetted address, never for the name: it would look the name up by itself, and what it finds
nobody has judged. TLS names the host inside the tunnel all the same.
"""

import asyncio
import base64
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from gateway.policy.addresses import Address
from gateway.policy.egress import Code
from gateway.policy.hosts import literal_text, parse_literal
from gateway.proxy.bounds import DIAL_ONE, HEAD_TOTAL
from gateway.proxy.dialling import Resolver, UpstreamError, dial, in_task
from gateway.proxy.peer import Peer
from gateway.proxy.reactor import Reactor

_DEFAULT_PORT: Final = 3128
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[0-9] ([1-9][0-9][0-9])(?![^ \r])")


@dataclass(frozen=True, slots=True)
class CompanyProxy:
    """Where it is, and the value of its Proxy-Authorization field (empty: none)."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)


def read_company_proxy(url: str) -> CompanyProxy:
    """From the validated config value "http://[USER[:PASSWORD]@]HOST:PORT"."""
    parts = urlsplit(url)
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    return CompanyProxy(parts.hostname or "", parts.port or _DEFAULT_PORT, authorization)


async def dial_through(
    proxy: CompanyProxy, resolver: Resolver, session_id: str, address: Address, port: int, reactor: Reactor
) -> Peer:
    """A connection to `address` through the proxy. UpstreamError."""
    peer, _ = await in_task(_dial_through(proxy, resolver, session_id, address, port, reactor))
    return peer


async def _dial_through(
    proxy: CompanyProxy, resolver: Resolver, session_id: str, address: Address, port: int, reactor: Reactor
) -> tuple[Peer, Address]:
    literal = parse_literal(proxy.host)
    addresses = (literal,) if literal is not None else await resolver.resolve(session_id, proxy.host)
    peer, _ = await dial(addresses, proxy.port, reactor)
    try:
        async with asyncio.timeout(DIAL_ONE):
            await peer.send(_request(proxy, address, port))
            await _check_answer(peer)
    except TimeoutError as error:
        peer.close()
        raise UpstreamError(Code.CONNECT_TIMEOUT, "the company proxy did not answer in time") from error
    except OSError as error:
        peer.close()
        raise UpstreamError(Code.UNREACHABLE, "the company proxy hung up") from error
    except BaseException:
        peer.close()
        raise
    peer.bytes_in = peer.bytes_out = 0
    return peer, address


def _request(proxy: CompanyProxy, address: Address, port: int) -> bytes:
    host = literal_text(address)
    target = f"[{host}]:{port}" if address.version == 6 else f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


async def _check_answer(peer: Peer) -> None:
    """Reads the answer's head; what a host that speaks first sent behind it is kept. UpstreamError unless 2xx."""
    head = b""
    while b"\r\n\r\n" not in head:
        data = await peer.receive()
        head += data
        if not data or len(head) > HEAD_TOTAL:
            raise UpstreamError(Code.UNREACHABLE, "the company proxy did not answer as a proxy does")
    answer, _, rest = head.partition(b"\r\n\r\n")
    status = _STATUS_LINE.match(answer)
    if status is None:
        raise UpstreamError(Code.UNREACHABLE, "the company proxy did not answer as a proxy does")
    if status[1][:1] != b"2":
        refusal = f"the company proxy refused the connection ({status[1].decode('ascii')})"
        raise UpstreamError(Code.UNREACHABLE, refusal)
    peer.keep(rest)
