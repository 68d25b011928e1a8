"""The HTTP client for everything the gateway itself says to GitHub. It knows the way, not what is said.

Nothing comes from the environment of this process: a proxy variable there would send tokens wherever it points.
"""

import ssl
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final

import httpx

from gateway.policy.addresses import refused_class
from gateway.policy.hosts import parse_literal

# Seconds. GitHub is a round trip away, perhaps behind a company proxy.
CONNECT: Final = 10.0
# Between two reads or writes; whoever waits for a whole answer sets a deadline of their own as well.
IDLE: Final = 60.0
# For a connection to become free.
POOL: Final = 10.0
# GitHub allows a hundred requests at a time; kept connections spare a push its handshake.
_LIMITS: Final = httpx.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=30.0)


def make_client(
    names: Mapping[str, str], upstream_proxy: str | None, *, trust: ssl.SSLContext | None = None
) -> httpx.AsyncClient:
    """A client that follows no redirect and keeps no cookie; close it with `aclose`.

    `names` (`egress.hosts`) maps a host to the text of the address to connect to instead; TLS still checks the name.
    `upstream_proxy` is "http://[USER[:PASSWORD]@]HOST:PORT"; hosts of `names` and loopback are connected to without
    it. `trust` stands in for the system's certificate authorities.
    """
    return httpx.AsyncClient(
        transport=_Ways(names, upstream_proxy, trust or _system_trust()),
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(connect=CONNECT, read=IDLE, write=IDLE, pool=POOL),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        headers={"User-Agent": "agent-gateway"},
    )


def _system_trust() -> ssl.SSLContext:
    """What httpx trusts, and what this machine trusts besides: a company's own GitHub has a company's certificate."""
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


class _Ways(httpx.AsyncBaseTransport):
    """Chooses the way of each request: to the address of a mapped name, straight to the host, or through the proxy.

    A mapped name has connections of its own: TLS checked another name on those of the next, at the same address.
    """

    def __init__(self, names: Mapping[str, str], proxy: str | None, trust: ssl.SSLContext) -> None:
        self._names = dict(names)
        self._mapped = {name: _transport(trust) for name in names}
        self._straight = _transport(trust)
        self._outward = _transport(trust, httpx.Proxy(proxy)) if proxy else self._straight

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        if host in self._names:
            # The Host field was made from the name already, and stays. A proxy is not asked: it could only be given
            # the address, and TLS would then be checked against that.
            request.url = request.url.copy_with(host=self._names[host])
            request.extensions = {**request.extensions, "sni_hostname": host}
            return await self._mapped[host].handle_async_request(request)
        way = self._straight if _is_loopback(host) else self._outward
        return await way.handle_async_request(request)

    async def aclose(self) -> None:
        for transport in (*self._mapped.values(), self._straight, self._outward):
            await transport.aclose()


def _transport(trust: ssl.SSLContext, proxy: httpx.Proxy | None = None) -> httpx.AsyncHTTPTransport:
    return httpx.AsyncHTTPTransport(verify=trust, trust_env=False, limits=_LIMITS, proxy=proxy)


def _is_loopback(host: str) -> bool:
    address = parse_literal(host)
    return address is not None and refused_class(address) == "loopback"
