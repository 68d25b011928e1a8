"""Ports, request lines and methods that are not forwarded."""

from pathlib import Path

import pytest

from gateway.policy.egress import Transport
from tests.fakes.asking import (
    CONNECT,
    HTTP,
    SOCKS,
    TRANSPORTS,
    ask,
    assert_refused,
    assert_serves,
    assert_untouched,
    send_head,
)
from tests.fakes.gateway import Gateway
from tests.fakes.origin import answering, http_origin
from tests.fakes.rules import GOOD, rules_for

every_transport = pytest.mark.parametrize("transport", TRANSPORTS, ids=str)

# Row, port.
CLOSED_PORTS = [
    ("B-37", 22),
    ("B-37", 25),
    ("B-37", 3306),
    ("B-37", 6379),
    ("B-37", 0),
    ("B-37", 65535),
    ("B-39", 53),
    ("B-39", 853),
    ("B-39", 5353),
]

# Row, what stands for the port. SOCKS has two bytes for it, and no way to say it wrongly.
NO_PORTS = [
    ("B-37", "-1"),
    ("B-37", "+443"),
    ("B-37", "443x"),
    ("B-37", " 443"),
    ("B-37", "0443"),
    ("B-37", "0x1bb"),
    ("B-37", "4_43"),
    ("B-37", "443:443"),
    ("B-37", "\u0664\u0664\u0663"),
    ("B-37", ""),
]

# Row, whole head, code. `PORT` stands for the origin's port.
HEADS = [
    ("B-40", "CONNECT http://api.allowed.test:443/ HTTP/1.1", "malformed_request"),
    ("B-40", "CONNECT / HTTP/1.1", "malformed_request"),
    ("B-40", "CONNECT * HTTP/1.1", "malformed_host"),
    ("B-40", "CONNECT api.allowed.test HTTP/1.1", "malformed_host"),
    ("B-40", "CONNECT a b:443 HTTP/1.1", "malformed_request"),
    ("B-40", "CONNECT api.allowed.test:PORT", "malformed_request"),
    ("B-40", "CONNECT api.allowed.test:PORT HTTP/2.0", "malformed_request"),
    ("B-40", "CONNECT api.allowed.test:PORT HTTP/1.2", "malformed_request"),
    ("B-40", "connect api.allowed.test:PORT HTTP/1.1", "malformed_request"),
    ("B-40", "CONNECT  api.allowed.test:PORT HTTP/1.1", "malformed_request"),
    ("B-40", "CONNECT api.allowed.test:PORT HTTP/1.1 ", "malformed_request"),
    ("B-41", "GET / HTTP/1.1", "malformed_request"),
    ("B-41", "POST /api HTTP/1.1", "malformed_request"),
    ("B-41", "GET //api.allowed.test:PORT/ HTTP/1.1", "malformed_request"),
    ("B-41", "GET api.allowed.test:PORT HTTP/1.1", "malformed_request"),
    ("B-41", "OPTIONS * HTTP/1.1", "malformed_request"),
    ("B-42", "GET ftp://api.allowed.test:PORT/ HTTP/1.1", "malformed_request"),
    ("B-42", "GET gopher://api.allowed.test:PORT/ HTTP/1.1", "malformed_request"),
    ("B-42", "GET file:///etc/passwd HTTP/1.1", "malformed_request"),
    ("B-42", "GET ws://api.allowed.test:PORT/ HTTP/1.1", "malformed_request"),
    ("B-42", "GET https://api.allowed.test:PORT/ HTTP/1.1", "malformed_request"),
    ("B-42", "GET unix:/run/docker.sock HTTP/1.1", "malformed_request"),
    ("B-42", "GET http:api.allowed.test:PORT/ HTTP/1.1", "malformed_request"),
    ("B-42", "GET http:///api.allowed.test:PORT/ HTTP/1.1", "malformed_host"),
    ("B-42", "GET http:\\\\api.allowed.test:PORT\\ HTTP/1.1", "malformed_request"),
    ("B-43", "TRACE http://api.allowed.test:PORT/ HTTP/1.1", "malformed_request"),
    ("B-43", "TRACK http://api.allowed.test:PORT/ HTTP/1.1", "malformed_request"),
    ("B-43", "PRI * HTTP/2.0", "malformed_request"),
    ("B-43", "PRI http://api.allowed.test:PORT/ HTTP/1.1", "malformed_request"),
    ("B-43", "A" * 8192 + " http://api.allowed.test:PORT/ HTTP/1.1", "malformed_request"),
    ("B-43", "GE(T http://api.allowed.test:PORT/ HTTP/1.1", "malformed_request"),
    ("B-43", "GET http://api.allowed.test:PORT/", "malformed_request"),
    ("B-43", "GET http://api.allowed.test:PORT/ HTTP/1.1 HTTP/1.1", "malformed_request"),
    ("B-43", "GET http://api.allowed.test:PORT/a b HTTP/1.1", "malformed_request"),
    ("B-43", "GET http://api.allowed.test:PORT/\x00 HTTP/1.1", "malformed_request"),
    ("B-43", "GET http://api.allowed.test:PORT/\x7f HTTP/1.1", "malformed_request"),
    ("B-43", "GET http://api.allowed.test:PORT/\u00e9 HTTP/1.1", "malformed_request"),
]


@every_transport
@pytest.mark.parametrize(("row", "port"), CLOSED_PORTS)
def test_port_that_is_not_open(row: str, port: int, transport: Transport, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = ask(gateway, transport, GOOD, port)
        assert_refused(gateway, told, "port", host=GOOD, port=port)
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


@pytest.mark.parametrize("transport", [CONNECT, HTTP], ids=str)
@pytest.mark.parametrize("port", [65536, 99999, 4294967739])
def test_number_beyond_every_port(port: int, transport: Transport, tmp_path: Path) -> None:
    """B-37. The last one is 443 for who keeps 32 bits."""
    with Gateway(tmp_path, rules_for()) as gateway:
        assert_refused(gateway, ask(gateway, transport, GOOD, port), "port", host=GOOD, port=port)
        assert_untouched(gateway)


@pytest.mark.parametrize("transport", [CONNECT, HTTP], ids=str)
@pytest.mark.parametrize(("row", "port"), NO_PORTS, ids=[f"{row} {port!a}" for row, port in NO_PORTS])
def test_text_that_is_no_port(row: str, port: str, transport: Transport, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = ask(gateway, transport, GOOD, port)
        assert_refused(gateway, told, "malformed_host", "malformed_request", port=-1)
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


@pytest.mark.parametrize(
    ("row", "line", "code"), HEADS, ids=[f"{row} {line!a:.50}" for row, line, _ in HEADS]
)
def test_request_line(row: str, line: str, code: str, tmp_path: Path) -> None:
    """Refused, whatever a `Host` field says about where it was meant to go."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        line = line.replace("PORT", str(origin.port))
        told = send_head(gateway, f"{line}\r\nHost: {GOOD}:{origin.port}\r\n\r\n".encode())
        assert_refused(gateway, told, code)
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


@pytest.mark.parametrize(
    "first",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"EHLO me.test\r\n",
        b"GET http://api.allowed.test/ HTTP/1.1\nHost: api.allowed.test\n\n",
        b"CONNECT api.allowed.test:443 HTTP/1.1\n\n",
        b"GET http://api.allowed.test/ HTTP/1.1\r\nHost: api.allowed.test\n\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x05\x01\x00",
        b"\x04\x01\x00\x50\x00\x00\x00\x01x\x00api.allowed.test\x00",
        b"\x00",
        b"\r\n\r\n",
        b"{}",
        b"\xff\xf4",
    ],
    ids=repr,
)
def test_other_protocols_on_the_http_port(first: bytes, tmp_path: Path) -> None:
    """B-69 the other way round: what is plainly no HTTP/1 request needs no deadline to be refused."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = send_head(gateway, first)
        assert_refused(gateway, told, "malformed_request")
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


def test_port_of_the_scheme_may_be_left_out(tmp_path: Path) -> None:
    """http://HOST/ means port 80, where nobody listens here."""
    with Gateway(tmp_path, rules_for()) as gateway:
        told = send_head(gateway, f"GET http://{GOOD}/ HTTP/1.1\r\nHost: {GOOD}\r\n\r\n".encode())
        assert told.status == 403
        assert gateway.records()[0]["port"] == 80
        assert gateway.records()[0]["code"] == "resolved_address"


@every_transport
def test_port_that_a_raw_entry_opens(transport: Transport, tmp_path: Path) -> None:
    """For its host and nobody else."""
    with Gateway(tmp_path, rules_for(raw=[(GOOD, 2222)])) as gateway:
        told = ask(gateway, transport, "x.wild.test", 2222)
        assert_refused(gateway, told, "port", host="x.wild.test", port=2222)
        assert_untouched(gateway)


def test_raw_entry_of_a_host_that_is_not_allowed(tmp_path: Path) -> None:
    with Gateway(tmp_path, rules_for(raw=[("evil.test", 2222)])) as gateway:
        assert_refused(gateway, ask(gateway, SOCKS, "evil.test", 2222), "not_listed")
        assert_untouched(gateway)
