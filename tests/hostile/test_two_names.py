"""Two names in one request: what was asked for decides, and everything that names a host must name the same."""

from pathlib import Path

import pytest

from gateway.policy.egress import Transport
from tests.fakes import hello
from tests.fakes.asking import (
    CONNECT,
    HTTP,
    SOCKS,
    answer,
    assert_cut,
    assert_refused,
    assert_serves,
    assert_untouched,
    figures,
    get_head,
    send_head,
    tunnel,
)
from tests.fakes.gateway import Gateway
from tests.fakes.hello import records as tls_records
from tests.fakes.origin import answering, echo, http_origin, recorder
from tests.fakes.rules import GOOD, rules_for

both_tunnels = pytest.mark.parametrize("transport", [CONNECT, SOCKS], ids=str)

# Row, Host lines, code. `PORT` stands for the origin's port.
HOST_LINES = [
    ("B-44", "Host: evil.test:PORT", "authority_mismatch"),
    ("B-44", "Host: api.allowed.test", "authority_mismatch"),
    ("B-45", "Host: api.allowed.test:8443", "authority_mismatch"),
    ("B-44", "Host: x.wild.test:PORT", "authority_mismatch"),
    ("B-44", "Host: 127.0.0.1:PORT", "authority_mismatch"),
    ("B-45", "Host: api.allowed.test:PORT\r\nHost: api.allowed.test:PORT", "malformed_request"),
    ("B-45", "Host: api.allowed.test:PORT\r\nhost: evil.test", "malformed_request"),
    ("B-45", "Host:", "malformed_request"),
    ("B-45", "Host: ", "malformed_request"),
    ("B-45", "X-Other: 1", "malformed_request"),
    ("B-45", "Host: api.allowed.test:PORT\r\n evil.test", "malformed_request"),
    ("B-45", "X-Other: 1\r\n\tfolded\r\nHost: api.allowed.test:PORT", "malformed_request"),
    ("B-45", " Host: api.allowed.test:PORT", "malformed_request"),
    ("B-45", "Host : api.allowed.test:PORT", "malformed_request"),
    ("B-45", "Host\t: api.allowed.test:PORT", "malformed_request"),
    ("B-45", "Host: api.allowed.test:PORT\rX: 1", "malformed_request"),
    ("B-45", "Host: api.allowed.test:PORT\nX: 1", "malformed_request"),
    ("B-45", "Host: api.allowed.test:PORT\x00", "malformed_request"),
    ("B-45", "Host: api.allowed.test:PORT\r\nNoColon", "malformed_request"),
    ("B-45", "Host: api.allowed.test:PORT\r\n: empty", "malformed_request"),
    ("B-04", "Host: [api.allowed.test]:PORT", "malformed_host"),
    ("B-12", "Host: user:pw@api.allowed.test:PORT", "malformed_host"),
    ("B-45", "Host: api.allowed.test:PORT, evil.test", "malformed_host"),
    ("B-45", "Host: http://api.allowed.test:PORT", "malformed_host"),
]
HOST_IDS = [f"{row} {lines!a:.60}" for row, lines, _ in HOST_LINES]

# Row, SNI names, code.
OTHER_NAMES = [
    ("B-46", ["evil.test"], "sni_mismatch"),
    ("B-46", ["x.wild.test"], "sni_mismatch"),
    ("B-46", ["allowed.test"], "sni_mismatch"),
    ("B-46", ["api.allowed.test.evil.test"], "sni_mismatch"),
    ("B-47", [], "sni_missing"),
    ("B-47", ["127.0.0.1"], "sni_mismatch"),
    ("B-47", ["api.allowed.test", "evil.test"], "malformed_request"),
    ("B-47", ["api.allowed.test", "api.allowed.test"], "malformed_request"),
    ("B-47", ["api.allowed.test\0.evil.test"], "malformed_host"),
    ("B-47", ["api.allowed.test\0"], "malformed_host"),
    ("B-47", ["api..allowed.test"], "malformed_host"),
    ("B-47", ["::1"], "malformed_host"),
    ("B-47", ["2130706433"], "malformed_host"),
    ("B-47", ["a" * 300], "malformed_host"),
    ("B-47", [" api.allowed.test"], "malformed_host"),
]

NAME = hello.server_names(GOOD.encode())
# What is wrong, the first bytes, code.
BROKEN_HELLOS = [
    ("names twice", tls_records(hello.message(NAME, NAME)), "malformed_request"),
    ("empty name", tls_records(hello.message(hello.server_names(b""))), "malformed_request"),
    ("other kind of name", tls_records(hello.message(hello.server_names(b"x", kind=1))), "malformed_request"),
    ("empty list", tls_records(hello.message(hello.extension(0, b"\0\0"))), "malformed_request"),
    ("empty extension", tls_records(hello.message(hello.extension(0, b""))), "malformed_request"),
    (
        "list too long",
        tls_records(hello.message(hello.extension(0, b"\0\x10\0\0\x04x.yz"))),
        "malformed_request",
    ),
    ("extension cut", tls_records(hello.message(NAME[:-1])), "malformed_request"),
    ("bytes behind", tls_records(hello.message(NAME) + b"\x0b\0\0\0"), "malformed_request"),
    ("server hello", tls_records(b"\x02" + hello.message(NAME)[1:]), "malformed_request"),
    ("empty record", b"\x16\x03\x01\0\0" + hello.hello(GOOD), "malformed_request"),
    ("huge record", b"\x16\x03\x01\x40\x01" + bytes(0x4001), "malformed_request"),
    (
        "alert inside",
        hello.hello(GOOD)[:40] and tls_records(hello.message(NAME), [20])[:25] + b"\x15\x03\x01\0\x02\x01\0",
        "malformed_request",
    ),
    (
        "too long",
        b"\x16\x03\x01\x40\0\x01\x01\0\0"
        + bytes(0x4000 - 4)
        + b"\x16\x03\x01\x40\0"
        + bytes(0x4000)
        + b"\x16",
        "malformed_request",
    ),
    (
        "announced too long",
        b"\x16\x03\x01\x40\0\x01\xff\xff\xff" + bytes(0x4000 - 4) + b"\x16\x03\x01\x40\0",
        "malformed_request",
    ),
    ("SSL 2", b"\x80\x2e\x01\0\x02\0\x15\0\0\0\x10", "not_tls"),
    ("version 9", b"\x16\x09\x01\0\x05hello", "not_tls"),
]


def cut(code: str) -> dict[str, object]:
    """The figures of a tunnel that was refused before the server got a byte."""
    return {"verdict": "deny", "code": code, "bytes_up": 0, "bytes_down": 0, "close": code}


@pytest.mark.parametrize(("row", "lines", "code"), HOST_LINES, ids=HOST_IDS)
def test_host_field(row: str, lines: str, code: str, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        lines = lines.replace("PORT", str(origin.port))
        told = send_head(
            gateway, f"GET http://{GOOD}:{origin.port}/ HTTP/1.1\r\n{lines}\r\n\r\n".encode("latin-1")
        )
        assert_refused(gateway, told, code)
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


@pytest.mark.parametrize("host", ["API.allowed.test", "api.allowed.test."])
def test_host_field_is_compared_in_normal_form(host: str, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        head = f"GET http://{GOOD}:{origin.port}/ HTTP/1.1\r\nHost: {host}:{origin.port}\r\n\r\n"
        assert send_head(gateway, head.encode()).granted


@both_tunnels
@pytest.mark.parametrize(
    ("row", "names", "code"), OTHER_NAMES, ids=[f"{r} {n!a:.50}" for r, n, _ in OTHER_NAMES]
)
def test_name_inside_tls(row: str, names: list[str], code: str, transport: Transport, tmp_path: Path) -> None:
    """The tunnel was granted, but the server never gets a byte."""
    with recorder() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(hello.hello(*names))
        assert wire.rest() == b""
        closed = assert_cut(gateway, transport, origin.port, code)
        assert closed.get("sni") == (names[0] if names else None)
        assert figures(closed) == cut(code)
        origin.wait_ended(1)
        assert origin.received == b""
        wire.close()


@both_tunnels
@pytest.mark.parametrize(("what", "first", "code"), BROKEN_HELLOS, ids=[what for what, _, _ in BROKEN_HELLOS])
def test_greeting_that_is_broken(
    what: str, first: bytes, code: str, transport: Transport, tmp_path: Path
) -> None:
    with recorder() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(first)
        assert wire.rest() == b""
        closed = assert_cut(gateway, transport, origin.port, code)
        assert figures(closed) == cut(code)
        origin.wait_ended(1)
        assert origin.received == b""
        wire.close()


@both_tunnels
@pytest.mark.parametrize("names", [["cloudflare-ech.com"], []])
def test_encrypted_hello_with_another_outer_name(
    names: list[str], transport: Transport, tmp_path: Path
) -> None:
    """B-49."""
    with recorder() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(hello.hello(*names, ech=True))
        assert wire.rest() == b""
        code = "sni_mismatch" if names else "sni_missing"
        closed = assert_cut(gateway, transport, origin.port, code)
        assert figures(closed) == cut(code)
        origin.wait_ended(1)
        assert origin.received == b""
        wire.close()


# Row and kind of greeting that must pass, its bytes.
GOOD_HELLOS = [
    ("B-47 upper case", hello.hello("API.Allowed.Test")),
    ("B-47 trailing dot", hello.hello("api.allowed.test.")),
    ("B-48 three records", hello.hello(GOOD, sizes=(1, 40))),
    ("B-48 one byte a record", hello.hello(GOOD, sizes=(1,) * 50)),
    ("B-48 key share first", hello.hello(GOOD, padding=1800)),
    ("B-48 20 KiB", hello.hello(GOOD, padding=20_000, sizes=(16_000,))),
    ("B-49 the outer name is the host", hello.hello(GOOD, ech=True)),
    ("more behind it", hello.hello(GOOD) + b"\x14\x03\x03\0\x01\x01" + bytes(5000)),
]


@both_tunnels
@pytest.mark.parametrize("early", [False, True], ids=["after the answer", "with the request"])
@pytest.mark.parametrize(("what", "first"), GOOD_HELLOS, ids=[what for what, _ in GOOD_HELLOS])
def test_greeting_that_passes(
    what: str, first: bytes, early: bool, transport: Transport, tmp_path: Path
) -> None:
    """B-56 too: what a client sends in one breath with CONNECT is judged and delivered like what comes later."""
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port, first=first if early else b"")
        if not early:
            wire.send(first)
        assert wire.exactly(len(first)) == first
        wire.close()
        closed = gateway.await_record(state="closed")
        assert figures(closed) == {
            "verdict": "allow",
            "code": "",
            "bytes_up": len(first),
            "bytes_down": len(first),
            "close": "finished",
        }
        assert str(closed["sni"]).lower().rstrip(".") == GOOD


@both_tunnels
def test_greeting_byte_by_byte(transport: Transport, tmp_path: Path) -> None:
    """B-48."""
    first = hello.hello(GOOD)
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        for byte in first:
            wire.send(bytes([byte]))
            gateway.call(lambda: None)
        assert wire.exactly(len(first)) == first
        wire.close()


@both_tunnels
@pytest.mark.parametrize(
    "sent", [b"", b"\x16", hello.hello(GOOD)[:-1]], ids=["nothing", "one byte", "all but one"]
)
def test_greeting_that_is_not_finished(sent: bytes, transport: Transport, tmp_path: Path) -> None:
    """B-48, B-62: refused at its deadline."""
    with recorder() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        if sent:
            wire.send(sent)
        gateway.advance(9.9)
        assert [record["state"] for record in gateway.records()] == ["opened"]
        gateway.advance(0.2)
        assert wire.rest() == b""
        closed = assert_cut(gateway, transport, origin.port, "timeout")
        assert figures(closed) == cut("timeout")
        origin.wait_ended(1)
        assert origin.received == b""
        wire.close()


@both_tunnels
def test_greeting_that_the_client_gives_up(transport: Transport, tmp_path: Path) -> None:
    """Half a ClientHello and the end: nothing more can come, so nothing is waited for."""
    with recorder() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, transport, origin.port)
        wire.send(hello.hello(GOOD)[:20])
        wire.finish()
        assert wire.rest() == b""
        closed = assert_cut(gateway, transport, origin.port, "timeout")
        assert figures(closed) == cut("timeout")
        origin.wait_ended(1)
        assert origin.received == b""
        wire.close()


@both_tunnels
def test_tls_to_a_listed_address(transport: Transport, tmp_path: Path) -> None:
    """An address is not sent as a TLS name (RFC 6066), so none is asked for."""
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        first = hello.hello()
        wire = tunnel(gateway, transport, origin.port, "127.0.0.1", first=first)
        assert wire.exactly(len(first)) == first
        wire.close()
        gateway.await_record(state="closed", verdict="allow", host="127.0.0.1")


@both_tunnels
def test_raw_entry_carries_any_name(transport: Transport, tmp_path: Path) -> None:
    with echo() as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        _, gateway.http, gateway.socks = gateway.open("s2", rules_for(origin.port, raw=[(GOOD, origin.port)]))
        for first in (hello.hello("other.test"), b"SSH-2.0-x\r\n", b"\0\1\2", b"GET / HTTP/1.1\r\n\r\n"):
            wire = tunnel(gateway, transport, origin.port, first=first)
            assert wire.exactly(len(first)) == first
            wire.close()


def test_redirect_is_a_request_of_its_own(tmp_path: Path) -> None:
    """B-52: what an allowed host points at is judged when the client asks for it."""
    moved = answering(b"", "302 Found", "Location: http://evil.test/")
    with http_origin(moved) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(get_head(GOOD, origin.port))
        assert wire.message().field("Location") == "http://evil.test/"
        wire.send(get_head("evil.test", 80))
        told = answer(wire, HTTP)
        assert told.status == 403
        assert told.message is not None
        assert told.message.json()["host"] == "evil.test"
        assert gateway.resolver.asked == [GOOD]
        wire.close()
