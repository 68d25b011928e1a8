"""CONNECT through the running proxy: what the client is told, and when."""

from pathlib import Path

import pytest

from tests.fakes.asking import (
    CONNECT,
    answer,
    ask,
    assert_refused,
    assert_upstream_trouble,
    connect_head,
    get_head,
    tunnel,
)
from tests.fakes.certificate import client_context, server_context
from tests.fakes.gateway import Gateway
from tests.fakes.origin import answering, closed_port, echo, http_origin
from tests.fakes.rules import GOOD, rules_for


def test_granted(tmp_path: Path) -> None:
    """Exactly a head: everything behind it is the tunnel."""
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port, raw=[(GOOD, origin.port)])) as gateway:
        wire = gateway.ask_http(connect_head(GOOD, origin.port) + b"first")
        assert wire.until(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        assert wire.exactly(5) == b"first"
        wire.close()


@pytest.mark.parametrize(
    "head",
    [
        "CONNECT {host} HTTP/1.1\r\n\r\n",
        "CONNECT {host} HTTP/1.0\r\n\r\n",
        "CONNECT {host} HTTP/1.1\r\nHost: something.else.test\r\nUser-Agent: x\r\nProxy-Connection: Keep-Alive\r\n\r\n",
        "CONNECT {host} HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_shapes_of_the_request(head: str, tmp_path: Path) -> None:
    """Only the target counts, and clients send little else."""
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(head.format(host=f"{GOOD}:{origin.port}").encode())
        assert answer(wire, CONNECT).granted
        wire.close()


def test_head_in_pieces(tmp_path: Path) -> None:
    head = connect_head(GOOD, 0)
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        head = connect_head(GOOD, origin.port)
        wire = gateway.ask_http(b"")
        for byte in head:
            wire.send(bytes([byte]))
            gateway.call(lambda: None)
        assert answer(wire, CONNECT).granted
        wire.close()


def test_tls_inside(tmp_path: Path) -> None:
    """The client verifies the origin's own certificate: nobody stands in between."""
    with (
        http_origin(answering(b"secret"), tls=server_context()) as origin,
        Gateway(tmp_path, rules_for(origin.port)) as gateway,
    ):
        for name in (GOOD, "a.wild.test"):
            wire = tunnel(gateway, CONNECT, origin.port, name)
            wire.start_tls(client_context(), name)
            wire.send(f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            assert wire.message().body == b"secret"
            wire.close()
        gateway.settle()
        closed = [record for record in gateway.records() if record["state"] == "closed"]
        assert [record["sni"] for record in closed] == [GOOD, "a.wild.test"]
        assert all(int(str(record["bytes_up"])) > 500 for record in closed)


def test_refusal_ends_the_connection(tmp_path: Path) -> None:
    """What was sent behind the request is no request."""
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(connect_head("evil.test", 443) + get_head(GOOD, origin.port))
        told = answer(wire, CONNECT)
        assert told.message is not None
        assert told.message.field("Connection") == "close"
        assert_refused(gateway, told, "not_listed")
        assert origin.accepted == 0


def test_refusal_says_how_to_go_on(tmp_path: Path) -> None:
    with Gateway(tmp_path, rules_for()) as gateway:
        told = ask(gateway, CONNECT, "evil.test", 443)
        assert told.message is not None
        body = told.message.json()
        assert (body["host"], body["port"], body["rule"]) == ("evil.test", 443, "default")
        assert "--allow evil.test" in str(body["message"])
        assert_refused(gateway, told, "not_listed")


def test_target_that_refuses(tmp_path: Path) -> None:
    with closed_port() as port, Gateway(tmp_path, rules_for(port)) as gateway:
        told = ask(gateway, CONNECT, GOOD, port)
        assert told.message is not None
        assert "not a refusal" in str(told.message.json()["message"])
        assert_upstream_trouble(gateway, told, "connect_refused", transport="connect")


def test_client_that_is_gone_before_it_is_told(tmp_path: Path) -> None:
    """The name is looked up meanwhile; nothing is left of the connection."""
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(connect_head(GOOD, origin.port))
        wire.reset()
        gateway.until(lambda: gateway.resolver.asked == [GOOD])
        gateway.settle()
        assert {record["state"] for record in gateway.records()} == {"opened", "closed"}
