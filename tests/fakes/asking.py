"""Asking the proxies for a host on every transport, and what a refusal must look like (contract sections 5 and 7)."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

from gateway.policy.egress import Transport
from tests.fakes.gateway import Gateway, Record
from tests.fakes.origin import Origin
from tests.fakes.rules import GOOD
from tests.fakes.wire import Message, Wire

CONNECT, HTTP, SOCKS = Transport.CONNECT, Transport.HTTP, Transport.SOCKS
TRANSPORTS = (CONNECT, HTTP, SOCKS)

GREETING = b"\x05\x01\x00"
ACCEPTED = b"\x05\x00"
SOCKS_OK, SOCKS_FAILURE, SOCKS_NOT_ALLOWED = 0, 1, 2
SOCKS_UNREACHABLE, SOCKS_REFUSED, SOCKS_COMMAND, SOCKS_ADDRESS_TYPE = 4, 5, 7, 8

# HTTP status by code; what is not here is 403.
STATUS = {
    "malformed_host": 400,
    "malformed_request": 400,
    "timeout": 408,
    "limit": 429,
    "internal": 500,
    "dns_failed": 502,
    "connect_refused": 502,
    "unreachable": 502,
    "connect_timeout": 504,
}
# The records of a plain request. Where the disk cannot keep room for one, another comes before it is forwarded.
PLAIN = ["closed"] if sys.platform == "linux" else ["opened", "closed"]
COMMON_FIELDS = {"v", "ts", "seq", "prev", "session", "workspace", "space", "agent", "sandbox", "event"}
REFUSAL_FIELDS = {"connection", "state", "transport", "host", "port", "verdict", "code", "rule"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a proxy said: the HTTP status or the SOCKS reply code, and the HTTP message where there is one."""

    transport: Transport
    wire: Wire
    status: int
    message: Message | None = None

    @property
    def granted(self) -> bool:
        return self.status == (SOCKS_OK if self.transport is SOCKS else 200)


def ask(gateway: Gateway, transport: Transport, host: str | bytes, port: int | str) -> Answer:
    """Asks for a host as this transport does. Bytes and text of any kind are sent as they are."""
    return answer(start(gateway, transport, host, port), transport)


def start(gateway: Gateway, transport: Transport, host: str | bytes, port: int | str) -> Wire:
    """Asks, and leaves the answer to be read later."""
    raw = host.encode("utf-8") if isinstance(host, str) else host
    if transport is CONNECT:
        return gateway.ask_http(connect_head(raw, port))
    if transport is HTTP:
        return gateway.ask_http(get_head(raw, port))
    return start_socks(gateway, domain(raw), int(port))


def answer(wire: Wire, transport: Transport) -> Answer:
    """What the proxy says."""
    if transport is SOCKS:
        return Answer(SOCKS, wire, reply(wire))
    message = wire.message(to="HEAD" if transport is CONNECT else "GET")
    if transport is CONNECT and message.status != 200:
        length = message.field("Content-Length")
        message = Message(message.line, message.fields, wire.exactly(int(length or 0)))
    return Answer(transport, wire, message.status, message)


def connect_head(host: str | bytes, port: int | str) -> bytes:
    """A CONNECT request."""
    target = (host.encode("utf-8") if isinstance(host, str) else host) + b":" + str(port).encode()
    return b"CONNECT " + target + b" HTTP/1.1\r\nHost: " + target + b"\r\n\r\n"


def get_head(host: str | bytes, port: int | str, path: str = "/", *fields: str) -> bytes:
    """A GET request for an absolute URL; `fields` are more header lines."""
    target = (host.encode("utf-8") if isinstance(host, str) else host) + b":" + str(port).encode()
    more = "".join(f"{line}\r\n" for line in fields).encode("latin-1")
    return (
        b"GET http://" + target + path.encode() + b" HTTP/1.1\r\nHost: " + target + b"\r\n" + more + b"\r\n"
    )


def send_head(gateway: Gateway, head: bytes) -> Answer:
    """Whatever bytes to the HTTP proxy, and its answer."""
    return answer(gateway.ask_http(head), CONNECT if head.startswith(b"CONNECT ") else HTTP)


def start_socks(gateway: Gateway, address: bytes, port: int, *, after: bytes = b"") -> Wire:
    """SOCKS5 CONNECT to an address as it stands in the request, type first; `after` is sent in the same breath."""
    wire = gateway.ask_socks(GREETING)
    assert wire.exactly(2) == ACCEPTED
    wire.send(b"\x05\x01\x00" + address + port.to_bytes(2) + after)
    return wire


def socks(gateway: Gateway, address: bytes, port: int) -> Answer:
    """SOCKS5 CONNECT, and the answer."""
    return answer(start_socks(gateway, address, port), SOCKS)


def reply(wire: Wire) -> int:
    """The code of a SOCKS5 reply, which is whole."""
    answer = wire.exactly(10)
    assert (answer[0], answer[2:]) == (5, b"\x00\x01" + bytes(6))
    return answer[1]


def domain(name: str | bytes) -> bytes:
    """A name in a SOCKS5 request."""
    raw = name.encode("utf-8") if isinstance(name, str) else name
    return b"\x03" + bytes([len(raw)]) + raw


def packed(address: IPv4Address | IPv6Address) -> bytes:
    """An address in a SOCKS5 request."""
    return (b"\x01" if address.version == 4 else b"\x04") + address.packed


def tunnel(
    gateway: Gateway, transport: Transport, port: int, host: str = GOOD, *, first: bytes = b""
) -> Wire:
    """A tunnel that was granted; `first` is sent in one breath with the request."""
    if transport is CONNECT:
        wire = gateway.ask_http(connect_head(host, port) + first)
    else:
        wire = start_socks(gateway, domain(host), port, after=first)
    granted = answer(wire, transport)
    assert granted.granted, granted
    return wire


def assert_refused(
    gateway: Gateway,
    answer: Answer,
    *codes: str,
    host: str | None = None,
    port: int | None = None,
    rule: str | None = None,
    status: int | None = None,
    reply_code: int = SOCKS_NOT_ALLOWED,
    **more: object,
) -> Record:
    """One `refused` record with one of the codes and nothing else in the log; the client was told the same.

    `host`, `port`, `rule` and `more` are fields of the record, where the test knows them; a port that was no number is
    `None` there, which is what `port=-1` asks for.
    """
    records = gateway.records()
    assert [record["state"] for record in records] == ["refused"], records
    record = records[0]
    assert record["code"] in codes
    assert record["verdict"] == "deny"
    assert record["transport"] == answer.transport.value
    assert record["rule"]
    assert set(record) >= COMMON_FIELDS | REFUSAL_FIELDS
    wanted: dict[str, object] = dict(more)
    if host is not None:
        wanted["host"] = host
    if port is not None:
        wanted["port"] = None if port < 0 else port
    if rule is not None:
        wanted["rule"] = rule
    assert {name: record.get(name) for name in wanted} == wanted
    if answer.transport is SOCKS:
        assert answer.status == reply_code
    else:
        assert_refusal_message(answer, record, status)
    assert answer.wire.rest() == b""
    answer.wire.close()
    return record


def assert_refusal_message(answer: Answer, record: Record, status: int | None = None) -> None:
    """The HTTP answer of a refusal says what its record says."""
    message = answer.message
    assert message is not None
    code = record["code"]
    assert message.status == (status or STATUS.get(str(code), 403))
    assert message.field("X-Agent-Gateway") == f"deny; code={code}"
    assert message.field("Content-Type") == "application/json"
    body = message.json()
    assert set(body) == {"code", "host", "port", "rule", "message"}
    assert {name: body[name] for name in ("code", "port", "rule")} == {
        name: record[name] for name in ("code", "port", "rule")
    }
    text = str(body["message"])
    assert "sandbox's network policy" in text
    assert "will not help" in text
    assert "To go on:" in text
    assert text.isascii()
    assert text.isprintable()


def assert_upstream_trouble(gateway: Gateway, answer: Answer, code: str, **fields: object) -> Record:
    """One `closed` record with the upstream's code and zero bytes; the client is told that this is no refusal."""
    records = gateway.records()
    assert [record["state"] for record in records] == ["closed"], records
    record = records[0]
    wanted = {"code": code, "verdict": "allow", "bytes_up": 0, "bytes_down": 0} | fields
    assert {name: record[name] for name in wanted} == wanted
    if answer.transport is SOCKS:
        assert answer.status == (SOCKS_REFUSED if code == "connect_refused" else SOCKS_UNREACHABLE)
    else:
        assert answer.message is not None
        assert answer.message.status == STATUS[code]
        assert answer.message.field("X-Agent-Gateway") == f"upstream; code={code}"
        assert answer.message.json()["code"] == code
    assert answer.wire.rest() == b""
    answer.wire.close()
    return record


def assert_untouched(gateway: Gateway, *origins: Origin) -> None:
    """No name was looked up and nobody was connected to."""
    assert gateway.resolver.asked == []
    assert [origin.accepted for origin in origins] == [0] * len(origins)


def assert_serves(gateway: Gateway, origin: Origin) -> None:
    """Both listeners go on: the next good request is granted on every transport. `origin` answers HTTP requests."""
    for transport in TRANSPORTS:
        answer = ask(gateway, transport, GOOD, origin.port)
        assert answer.granted, answer
        answer.wire.close()


def figures(record: Record) -> Mapping[str, object]:
    """The fields of a `closed` record that do not depend on the machine."""
    return {name: record.get(name) for name in ("verdict", "code", "bytes_up", "bytes_down", "close")}


def denials(gateway: Gateway) -> list[Record]:
    """The records that say no."""
    return [record for record in gateway.records() if record["verdict"] == "deny"]


def assert_one_denial(gateway: Gateway, code: str) -> Record:
    """Exactly one record says no, with this code."""
    found = denials(gateway)
    assert [record["code"] for record in found] == [code], gateway.records()
    return found[0]


def assert_cut(gateway: Gateway, transport: Transport, port: int, code: str) -> Record:
    """A tunnel to the good host that was refused after it was opened: not `refused`, but `closed` with the code."""
    gateway.await_record(state="closed")
    records = gateway.records()
    assert [record["state"] for record in records] == ["opened", "closed"], records
    opened, closed = records
    assert closed["connection"] == opened["connection"]
    assert (closed["transport"], closed["host"], closed["port"]) == (transport.value, GOOD, port)
    assert (closed["verdict"], closed["code"]) == ("deny", code)
    assert closed["rule"]
    return closed
