"""SOCKS5 CONNECT through the running proxy: replies and addresses. What is no such request: tests/hostile."""

from ipaddress import ip_address
from pathlib import Path

import pytest

from tests.fakes.asking import (
    ACCEPTED,
    GREETING,
    SOCKS,
    ask,
    assert_upstream_trouble,
    domain,
    packed,
    socks,
    start_socks,
    tunnel,
)
from tests.fakes.certificate import client_context, server_context
from tests.fakes.gateway import Gateway
from tests.fakes.origin import answering, closed_port, echo, http_origin
from tests.fakes.rules import GOOD, rules_for


def test_granted(tmp_path: Path) -> None:
    """RFC 1928: the greeting is answered, then the request; everything behind is the tunnel."""
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port, raw=[(GOOD, origin.port)])) as gateway:
        wire = gateway.ask_socks(GREETING)
        assert wire.exactly(2) == ACCEPTED
        wire.send(b"\x05\x01\0" + domain(GOOD) + origin.port.to_bytes(2) + b"first")
        assert wire.exactly(10) == b"\x05\0\0\x01" + bytes(6)
        assert wire.exactly(5) == b"first"
        wire.close()


def test_tls_inside(tmp_path: Path) -> None:
    with (
        http_origin(answering(b"secret"), tls=server_context()) as origin,
        Gateway(tmp_path, rules_for(origin.port)) as gateway,
    ):
        wire = tunnel(gateway, SOCKS, origin.port)
        wire.start_tls(client_context(), GOOD)
        wire.send(f"GET / HTTP/1.1\r\nHost: {GOOD}\r\n\r\n".encode())
        assert wire.message().body == b"secret"
        wire.close()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_listed_address(address: str, tmp_path: Path) -> None:
    with echo(address) as origin, Gateway(tmp_path, rules_for(origin.port, hosts=(address,))) as gateway:
        told = socks(gateway, packed(ip_address(address)), origin.port)
        assert told.granted
        told.wire.close()
        closed = gateway.await_record(state="closed")
        assert (closed["host"], closed["address"]) == (address, address)


def test_target_that_refuses(tmp_path: Path) -> None:
    with closed_port() as port, Gateway(tmp_path, rules_for(port)) as gateway:
        assert_upstream_trouble(
            gateway, ask(gateway, SOCKS, GOOD, port), "connect_refused", transport="socks"
        )


def test_name_in_upper_case_with_a_dot(tmp_path: Path) -> None:
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = socks(gateway, domain("API.Allowed.Test."), origin.port)
        assert told.granted
        told.wire.close()
        assert gateway.resolver.asked == [GOOD]


def test_client_that_is_gone_before_it_is_told(tmp_path: Path) -> None:
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = start_socks(gateway, domain(GOOD), origin.port)
        wire.reset()
        gateway.until(lambda: gateway.resolver.asked == [GOOD])
        gateway.settle()
        assert {record["state"] for record in gateway.records()} == {"opened", "closed"}
