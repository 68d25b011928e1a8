"""Checks of the network as the gateway itself meets it: names, and proxies. Nothing is sent but lookups, and one
connection to a configured company proxy."""

import ipaddress
import socket
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from gateway.allowlists import load_shipped
from gateway.config import Config
from gateway.doctor.findings import Finding, failed, ok, warning
from gateway.doctor.place import Place
from gateway.policy.addresses import refused_class

# Seconds for a connection to a proxy of the own network.
_PATIENCE: Final = 3.0
_GENERAL: Final = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")
_SOCKS: Final = ("ALL_PROXY", "all_proxy")
_EXCEPTIONS: Final = ("NO_PROXY", "no_proxy")


def look_at_dns(place: Place, name: str) -> Iterator[Finding]:
    """Whether the names that every session needs lead to public addresses."""
    names = tuple(_names(place.config))
    if not names:
        yield ok(name, "the names that were to be looked up are answered by egress.hosts")
        return
    refused, errors = "", ""
    for host in names:
        try:
            answers = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
        except OSError as error:
            errors = errors or f"{host}: {error.strerror or error}"
            continue
        kind = _refused(answers)
        if not kind:
            yield ok(name, f"{host} leads to {answers[0][4][0]}")
            return
        refused = f"{host} leads to an address that is not public ({kind}), which sessions may not dial"
    if refused:
        yield warning(
            name, refused, "egress.addresses, or egress.hosts with the right address, in the config"
        )
        return
    cure = "see /etc/resolv.conf; where only a company proxy knows outside names, sessions get dns_failed"
    yield warning(name, f"no listed name can be looked up, so this machine may be offline ({errors})", cure)


def _names(config: Config) -> Iterator[str]:
    """The forge, and the first name of the shipped list, unless the config answers them itself."""
    baseline = (one.text for one in load_shipped().baseline.patterns if "*" not in one.text)
    forge = urlsplit(config.github.url).hostname or ""
    for host in (forge, next(baseline, "")):
        if host and host not in config.egress.hosts and not _is_literal(host):
            yield host


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _refused(answers: Sequence[tuple[object, object, object, str, tuple[object, ...]]]) -> str:
    """The class of the addresses, where none of them may be dialled; empty where one may."""
    kinds = []
    for *_, where in answers:
        text = str(where[0]).partition("%")[0]
        kinds.append(refused_class(ipaddress.ip_address(text)))
    return "" if None in kinds else str(kinds[0] if kinds else "")


def look_at_proxies(place: Place, name: str) -> Iterator[Finding]:
    """Proxy variables of the caller, which the gateway does not read, and the configured company proxy."""
    configured = place.config.egress.upstream_proxy
    general, socks, exceptions = (
        [key for key in keys if place.environ.get(key)] for keys in (_GENERAL, _SOCKS, _EXCEPTIONS)
    )
    if configured:
        yield _try_proxy(configured, name)
        return
    if general:
        reason = f"{', '.join(general)} set, which the gateway does not read: it connects without that proxy"
        cure = "where there is no other way out: egress.upstream_proxy: http://HOST:PORT in the config"
        yield warning(name, reason, cure)
    if socks:
        reason = f"{', '.join(socks)} set, which the gateway does not read; it asks no SOCKS proxy"
        yield warning(name, reason, "an HTTP proxy can be named: egress.upstream_proxy in the config")
    if not general and not socks:
        shown = f"only {', '.join(exceptions)}, which no session gets" if exceptions else "none are set"
        yield ok(name, f"{shown}; egress.upstream_proxy is not set either")


def _try_proxy(configured: str, name: str) -> Finding:
    """A connection to the company proxy; its address may hold a password, so host and port alone are shown."""
    url = urlsplit(configured)
    host, port = url.hostname or "", url.port or 80
    try:
        socket.create_connection((host, port), _PATIENCE).close()
    except OSError as error:
        reason = f"egress.upstream_proxy, {host}:{port}, cannot be reached: {error.strerror or error}"
        return failed(name, reason, "egress.upstream_proxy in the config: its host and port, or null")
    return ok(name, f"egress.upstream_proxy, {host}:{port}, takes connections")
