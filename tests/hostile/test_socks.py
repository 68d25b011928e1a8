"""What may come on the SOCKS5 port instead of a SOCKS5 CONNECT without authentication."""

import os
import socket
from pathlib import Path

import pytest

from tests.fakes import hello
from tests.fakes.asking import (
    ACCEPTED,
    GREETING,
    HTTP,
    SOCKS,
    SOCKS_ADDRESS_TYPE,
    SOCKS_COMMAND,
    SOCKS_FAILURE,
    SOCKS_NOT_ALLOWED,
    Answer,
    answer,
    assert_refused,
    assert_serves,
    assert_untouched,
    domain,
    get_head,
    reply,
    start_socks,
)
from tests.fakes.gateway import Gateway
from tests.fakes.origin import answering, echo, http_origin
from tests.fakes.rules import GOOD, rules_for

NO_METHOD = b"\x05\xff"

# Row and methods that do not offer "no authentication".
METHODS = [
    ("B-67 empty", b""),
    ("B-67 GSSAPI only", b"\x01"),
    ("B-67 password only", b"\x02"),
    ("B-67 255 others", bytes(range(1, 256))),
    ("B-67 none of them", b"\xff"),
]

# Row, requests behind a good greeting, reply code. `PORT` stands for two bytes of the origin's port.
REQUESTS = [
    ("B-70 BIND", b"\x05\x02\0" + domain(GOOD) + b"PORT", SOCKS_COMMAND),
    ("B-71 UDP ASSOCIATE", b"\x05\x03\0\x01\0\0\0\0\0\0", SOCKS_COMMAND),
    ("B-72 command 0", b"\x05\0\0" + domain(GOOD) + b"PORT", SOCKS_COMMAND),
    ("B-72 command 255", b"\x05\xff\0" + domain(GOOD) + b"PORT", SOCKS_COMMAND),
    ("B-72 RSV 1", b"\x05\x01\x01" + domain(GOOD) + b"PORT", SOCKS_FAILURE),
    ("B-72 RSV 255", b"\x05\x01\xff" + domain(GOOD) + b"PORT", SOCKS_FAILURE),
    ("B-72 version 4", b"\x04\x01\0" + domain(GOOD) + b"PORT", SOCKS_FAILURE),
    ("B-72 version 0", b"\0\x01\0" + domain(GOOD) + b"PORT", SOCKS_FAILURE),
    ("B-72 ATYP 0", b"\x05\x01\0\0" + domain(GOOD)[1:] + b"PORT", SOCKS_ADDRESS_TYPE),
    ("B-72 ATYP 2", b"\x05\x01\0\x02" + domain(GOOD)[1:] + b"PORT", SOCKS_ADDRESS_TYPE),
    ("B-72 ATYP 5", b"\x05\x01\0\x05" + domain(GOOD)[1:] + b"PORT", SOCKS_ADDRESS_TYPE),
    ("B-72 ATYP 255", b"\x05\x01\0\xff" + domain(GOOD)[1:] + b"PORT", SOCKS_ADDRESS_TYPE),
]

# What else may come first, and how it is answered.
OTHER_PROTOCOLS = [
    ("B-69 SOCKS4", b"\x04\x01\0\x50\x7f\0\0\x01user\0", b"\0\x5b" + bytes(6)),
    ("B-69 SOCKS4a", b"\x04\x01\0\x50\0\0\0\x01\0api.allowed.test\0", b"\0\x5b" + bytes(6)),
    ("B-69 TLS", hello.hello(GOOD), b""),
    ("B-69 zeros", bytes(16), b""),
    ("B-69 version 6", b"\x06\x01\0", b""),
    ("B-69 high bytes", b"\xff\xfe\xfd", b""),
]

# Beginnings of a SOCKS5 request that the client does not go on with.
BEGINNINGS = [
    ("version", b"\x05"),
    ("methods announced", b"\x05\x02\0"),
    ("greeting", GREETING),
    ("half a request", GREETING + b"\x05\x01\0"),
    ("type", GREETING + b"\x05\x01\0\x03"),
    ("half an address", GREETING + b"\x05\x01\0\x01\x7f\0"),
    ("no port", GREETING + b"\x05\x01\0" + domain(GOOD)),
    ("half a port", GREETING + b"\x05\x01\0" + domain(GOOD) + b"\0"),
]


@pytest.mark.parametrize(("row", "methods"), METHODS, ids=[row for row, _ in METHODS])
def test_methods(row: str, methods: bytes, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_socks(b"\x05" + bytes([len(methods)]) + methods)
        assert wire.exactly(2) == NO_METHOD
        assert_refused(gateway, Answer(SOCKS, wire, SOCKS_NOT_ALLOWED), "malformed_request")
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


def test_no_authentication_among_others(tmp_path: Path) -> None:
    """Clients offer what they can; the one without a password is taken."""
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        for methods in (
            b"\x00",
            b"\x02\x00",
            b"\x00\x01\x02",
            bytes(range(255, -1, -1))[:255] + b"",
            b"\x01\x00",
        ):
            offered = methods if 0 in methods else methods[:-1] + b"\0"
            wire = gateway.ask_socks(b"\x05" + bytes([len(offered)]) + offered)
            assert wire.exactly(2) == ACCEPTED
            wire.close()


def test_everything_in_one_breath(tmp_path: Path) -> None:
    """Greeting, request and first bytes in one packet; and one byte a packet."""
    first = hello.hello(GOOD)
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        request = b"\x05\x01\0" + domain(GOOD) + origin.port.to_bytes(2)
        wire = gateway.ask_socks(GREETING + request + first)
        assert wire.exactly(2) == ACCEPTED
        assert reply(wire) == 0
        assert wire.exactly(len(first)) == first
        wire.close()
        wire = gateway.ask_socks(b"")
        for byte in GREETING + request:
            wire.send(bytes([byte]))
            gateway.call(lambda: None)
        assert wire.exactly(2) == ACCEPTED
        assert reply(wire) == 0
        wire.close()


@pytest.mark.parametrize(("row", "request_", "code"), REQUESTS, ids=[row for row, _, _ in REQUESTS])
def test_request(row: str, request_: bytes, code: int, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_socks(GREETING)
        assert wire.exactly(2) == ACCEPTED
        wire.send(request_.replace(b"PORT", origin.port.to_bytes(2)))
        assert_refused(gateway, answer(wire, SOCKS), "malformed_request", reply_code=code)
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


def datagram_sockets() -> int:
    """Datagram sockets of this process."""
    return sum(map(_is_datagram, os.listdir("/dev/fd")))


def _is_datagram(descriptor: str) -> bool:
    copy = -1
    try:
        copy = os.dup(int(descriptor))
        with socket.socket(fileno=copy) as found:
            copy = -1
            return found.type == socket.SOCK_DGRAM
    except OSError:
        return False  # no socket, or closed meanwhile
    finally:
        if copy >= 0:
            os.close(copy)


def test_udp_associate_opens_no_socket(tmp_path: Path) -> None:
    """B-71."""
    with Gateway(tmp_path, rules_for()) as gateway:
        before = datagram_sockets()
        wire = gateway.ask_socks(GREETING)
        assert wire.exactly(2) == ACCEPTED
        wire.send(b"\x05\x03\0\x01\0\0\0\0\0\0")
        assert answer(wire, SOCKS).status == SOCKS_COMMAND
        assert datagram_sockets() == before
        wire.close()


@pytest.mark.parametrize(
    ("row", "first", "said"), OTHER_PROTOCOLS, ids=[row for row, _, _ in OTHER_PROTOCOLS]
)
def test_other_protocols(row: str, first: bytes, said: bytes, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_socks(first)
        assert wire.exactly(len(said)) == said
        assert_refused(gateway, Answer(SOCKS, wire, SOCKS_NOT_ALLOWED), "malformed_request")
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\n\r\n", b"CONNECT api.allowed.test:443 HTTP/1.1\r\n\r\n", b"get"]
)
def test_http_on_the_socks_port(first: bytes, tmp_path: Path) -> None:
    """B-69: told in its own protocol."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_socks(first)
        told = answer(wire, HTTP)
        assert told.message is not None
        assert (told.status, told.message.json()["code"]) == (400, "malformed_request")
        assert "SOCKS5" in str(told.message.json()["message"])
        assert_refused(gateway, Answer(SOCKS, wire, SOCKS_NOT_ALLOWED), "malformed_request")
        assert_untouched(gateway, origin)


def test_socks_on_the_http_port(tmp_path: Path) -> None:
    """B-69 the other way round."""
    with Gateway(tmp_path, rules_for()) as gateway:
        told = answer(gateway.ask_http(GREETING), HTTP)
        assert told.message is not None
        assert "HTTP proxy" in str(told.message.json()["message"])
        assert_refused(gateway, told, "malformed_request")


@pytest.mark.parametrize(("what", "sent"), BEGINNINGS, ids=[what for what, _ in BEGINNINGS])
def test_request_that_is_not_finished(what: str, sent: bytes, tmp_path: Path) -> None:
    """B-72, B-75: at the deadline, however much has come."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_socks(sent)
        gateway.until(lambda: gateway.proxies.live("s1") == 1)
        gateway.advance(9.9)
        assert gateway.records() == []
        gateway.advance(0.2)
        refused = gateway.await_record(state="refused")
        assert (refused["code"], refused["transport"]) == ("timeout", "socks")
        wire.rest()
        wire.close()
        gateway.settle()
        assert len(gateway.records()) == 1
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


@pytest.mark.parametrize(("what", "sent"), BEGINNINGS, ids=[what for what, _ in BEGINNINGS])
def test_request_that_ends_early(what: str, sent: bytes, tmp_path: Path) -> None:
    """B-72: a short packet and the end need no deadline."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_socks(sent)
        wire.finish()
        refused = gateway.await_record(state="refused")
        assert (refused["code"], refused["transport"]) == ("malformed_request", "socks")
        wire.rest()
        wire.close()
        gateway.settle()
        assert len(gateway.records()) == 1
        assert_untouched(gateway, origin)


@pytest.mark.parametrize(("what", "sent"), BEGINNINGS, ids=[what for what, _ in BEGINNINGS])
def test_request_that_is_reset(what: str, sent: bytes, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_socks(sent)
        gateway.until(lambda: gateway.proxies.live("s1") == 1)
        wire.reset()
        gateway.settle()
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


def test_slow_request_within_its_time(tmp_path: Path) -> None:
    """The deadline is for the whole, so a client that is merely slow is served."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_socks(GREETING)
        assert wire.exactly(2) == ACCEPTED
        gateway.advance(9)
        wire.send(b"\x05\x01\0" + domain(GOOD) + origin.port.to_bytes(2))
        assert reply(wire) == 0
        wire.close()


def test_drip(tmp_path: Path) -> None:
    """B-75: a byte now and then moves no deadline."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_socks(GREETING)
        assert wire.exactly(2) == ACCEPTED
        for byte in b"\x05\x01\0\x03\x10api":
            wire.send(bytes([byte]))
            gateway.advance(1)
        gateway.advance(3)
        assert gateway.await_record(state="refused")["code"] == "timeout"
        wire.rest()
        wire.close()
        assert_untouched(gateway, origin)


@pytest.mark.parametrize("host", ["evil.test", "bad.wild.test"])
def test_denial_is_no_failure(host: str, tmp_path: Path) -> None:
    """B-73: never success and then the end, never a code that means a fault of the network."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = start_socks(gateway, domain(host), origin.port)
        assert wire.rest() == b"\x05\x02\0\x01" + bytes(6)
        wire.close()
        assert_untouched(gateway, origin)


def test_request_of_the_other_proxy_is_no_socks(tmp_path: Path) -> None:
    """A plain HTTP request inside a SOCKS tunnel is judged there (B-38), not on the way in."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = start_socks(gateway, domain(GOOD), origin.port, after=get_head(GOOD, origin.port))
        assert reply(wire) == 0
        told = answer(wire, HTTP)
        assert told.status == 400
        wire.close()
        gateway.await_record(state="closed", verdict="deny", code="malformed_request", transport="socks")
