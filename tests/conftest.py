"""What holds for every test: property tests without deadlines, and no network but loopback."""

import ipaddress
import os
import socket
import sys
from collections.abc import Iterator

import pytest
from hypothesis import configuration, settings

configuration.set_hypothesis_home_dir(".cache/hypothesis")
# No deadline: a busy machine is no failure. CI repeats one set of examples; a developer's runs go on looking.
settings.register_profile("house", deadline=None, derandomize="CI" in os.environ, print_blob=True)
settings.load_profile("house")

_LOCAL_NAMES = frozenset({"", "localhost", "ip6-localhost", socket.gethostname()})
_strayed: list[str] = []


class StrayConnection(RuntimeError):
    """A test reached for the network. Not an OSError, which the code under test would take for an answer."""


def _is_local(host: object) -> bool:
    """True for loopback and the unspecified address, and for the names that mean this machine."""
    text = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    if text is None or text in _LOCAL_NAMES:
        return True
    try:
        address = ipaddress.ip_address(str(text).partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback or address.is_unspecified


def _is_literal(host: object) -> bool:
    """True for what getaddrinfo answers without asking anybody."""
    try:
        ipaddress.ip_address(str(host).partition("%")[0])
    except ValueError:
        return False
    return True


def _refuse(what: str) -> None:
    _strayed.append(what)
    raise StrayConnection(f"{what}: tests use loopback and a stub resolver only")


def _watch(event: str, arguments: tuple[object, ...]) -> None:
    """An audit hook: sees every connect and every look-up of this process, whichever library makes it."""
    if event in {"socket.connect", "socket.sendto", "socket.sendmsg"}:
        address = arguments[1]
        if isinstance(address, tuple) and not _is_local(address[0]):
            _refuse(f"{event} {address[0]}:{address[1]}")
    elif event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        host = arguments[0]
        if not _is_local(host) and not _is_literal(host):
            _refuse(f"{event} {host!r}")


sys.addaudithook(_watch)


@pytest.fixture(autouse=True)
def stays_on_loopback() -> Iterator[None]:
    """Fails a test that reached for the network even where the code under test swallowed the error."""
    _strayed.clear()
    yield
    assert not _strayed, f"reached for the network: {_strayed}"
