"""Spellings of a host: what is not exactly an allowed name is refused, on every transport."""

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.policy.egress import EgressRules, Transport
from tests.fakes.asking import (
    CONNECT,
    HTTP,
    SOCKS,
    TRANSPORTS,
    ask,
    assert_refused,
    assert_serves,
    assert_untouched,
    domain,
    get_head,
    send_head,
    socks,
)
from tests.fakes.gateway import Gateway
from tests.fakes.origin import answering, http_origin
from tests.fakes.rules import ALLOWED, GOOD, matcher, offline, rules_for

every_transport = pytest.mark.parametrize("transport", TRANSPORTS, ids=str)

# Row, host as asked, host and rule as recorded.
ALLOWED_SPELLINGS = [
    ("B-01", "api.allowed.test.", "api.allowed.test", "allow.txt:1"),
    ("B-01", "API.Allowed.TEST", "api.allowed.test", "allow.txt:1"),
    ("B-08", "a.b.c.wild.test", "a.b.c.wild.test", "allow.txt:2"),
    ("B-09", "svc.a.multi.test", "svc.a.multi.test", "allow.txt:3"),
    ("B-16", "xn--a.wild.test", "xn--a.wild.test", "allow.txt:2"),
    ("B-17", "bedrock.us-east-1.amazonaws.com", "bedrock.us-east-1.amazonaws.com", "allow.txt:5"),
    ("B-18", ("a" * 60 + ".") * 4 + "wild.test", ("a" * 60 + ".") * 4 + "wild.test", "allow.txt:2"),
    ("B-20", "_dmarc.wild.test", "_dmarc.wild.test", "allow.txt:2"),
]

# Row, host as asked, code, host as recorded.
REFUSED_NAMES = [
    ("B-02", "bad.wild.test.", "denied", "bad.wild.test"),
    ("B-02", "BAD.wild.test", "denied", "bad.wild.test"),
    ("B-02", "x.worse.wild.test", "denied", "x.worse.wild.test"),
    ("B-06", "api.allowed.test.evil.test", "not_listed", None),
    ("B-06", "evilapi.allowed.test", "not_listed", None),
    ("B-06", "a.api.allowed.test", "not_listed", None),
    ("B-06", "notwild.test", "not_listed", None),
    ("B-06", "evilwild.test", "not_listed", None),
    ("B-06", "x.wild.test.evil.test", "not_listed", None),
    ("B-07", "wild.test", "not_listed", None),
    ("B-09", "svc.a.b.multi.test", "not_listed", None),
    ("B-09", "svc.multi.test", "not_listed", None),
    ("B-09", "x.svc.a.multi.test", "not_listed", None),
    ("B-16", "xn--api-allowed-test-a.test", "not_listed", None),
    ("B-17", "bedrock.s3.amazonaws.com", "not_listed", None),
    ("B-17", "bedrock.s3-us-west-2.amazonaws.com", "not_listed", None),
    ("B-17", "bedrock.s3-accelerate.amazonaws.com", "not_listed", None),
    ("B-17", "bedrock.s3-website-us-east-1.amazonaws.com", "not_listed", None),
    ("B-21", "localhost", "not_listed", None),
    ("B-21", "localhost.", "not_listed", "localhost"),
    ("B-21", "LOCALHOST", "not_listed", "localhost"),
    ("B-21", "foo.localhost", "not_listed", None),
    ("B-21", "ip6-localhost", "not_listed", None),
    ("B-21", "host.docker.internal", "not_listed", None),
    ("B-21", "x.internal", "not_listed", None),
    ("B-21", "printer.local", "not_listed", None),
    ("B-21", "metadata.google.internal", "denied", None),
    ("B-91", "copilot-telemetry.githubusercontent.com", "denied", None),
    ("B-91", "collector.github.com", "denied", None),
    ("B-91", "telemetry.enterprise.githubcopilot.com", "denied", None),
]

# Row, host as asked. Not one of them may become a name that is allowed.
MALFORMED = [
    ("B-03", "bad.wild.test.."),
    ("B-03", ".bad.wild.test"),
    ("B-03", "a..wild.test"),
    ("B-04", "[bad.wild.test]"),
    ("B-04", "[[bad.wild.test]]"),
    ("B-09", "svc..multi.test"),
    ("B-11", "api%2eallowed%2etest"),
    ("B-11", "bad%2ewild.test"),
    ("B-12", "user:pw@api.allowed.test@evil.test"),
    ("B-12", "api.allowed.test@evil.test"),
    ("B-13", "127.0.0.1\0.wild.test"),
    ("B-13", "evil.test\0.wild.test"),
    ("B-14", "api\t.wild.test"),
    ("B-14", "api\n.wild.test"),
    ("B-14", "api\r.wild.test"),
    ("B-14", "api\r\nX-Injected: 1\r\n.wild.test"),
    ("B-14", "api .wild.test"),
    ("B-14", "api\x7f.wild.test"),
    ("B-14", "api\\.wild.test"),
    ("B-14", "api;.wild.test"),
    ("B-14", "api,.wild.test"),
    ("B-14", "api'.wild.test"),
    ("B-15", "\u0430pi.allowed.test"),
    ("B-15", "api\u3002allowed\u3002test"),
    ("B-15", "\uff21\uff30\uff29.allowed.test"),
    ("B-15", "api.allo\u00adwed.test"),
    ("B-15", "api.allo\u200dwed.test"),
    ("B-18", "a" * 64 + ".wild.test"),
    ("B-18", "a" * 61 + "." + ("a" * 60 + ".") * 3 + "wild.test"),
    ("B-20", "-a.wild.test"),
    ("B-20", "a-.wild.test"),
    ("B-23", "\uff11\uff12\uff17.0.0.1"),
    ("B-23", "127\u30020\u30020\u30021"),
    ("B-23", "\u2460\u2461\u2466.0.0.1"),
]
MALFORMED_BYTES = [("B-14", bytes([byte]) + b".wild.test") for byte in (0x80, 0x85, 0xA0, 0xC0, 0xF5, 0xFF)]


def ids(rows: list[tuple[str, str, str, str]] | list[tuple[str, str, str, str | None]]) -> list[str]:
    return [f"{row[0]} {row[1]:.60}" for row in rows]


@every_transport
@pytest.mark.parametrize(("row", "host", "recorded", "rule"), ALLOWED_SPELLINGS, ids=ids(ALLOWED_SPELLINGS))
def test_spelling_of_an_allowed_name(
    row: str, host: str, recorded: str, rule: str, transport: Transport, tmp_path: Path
) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = ask(gateway, transport, host, origin.port)
        assert told.granted
        told.wire.close()
        first = gateway.records()[0]
        wanted = {"verdict": "allow", "host": recorded, "port": origin.port, "rule": rule, "code": ""}
        assert {name: first[name] for name in wanted} == wanted
        assert gateway.resolver.asked == [recorded]


@every_transport
@pytest.mark.parametrize(("row", "host", "code", "recorded"), REFUSED_NAMES, ids=ids(REFUSED_NAMES))
def test_name_that_is_not_allowed(
    row: str, host: str, code: str, recorded: str | None, transport: Transport, tmp_path: Path
) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = ask(gateway, transport, host, origin.port)
        record = assert_refused(gateway, told, code, host=recorded or host, port=origin.port)
        assert str(record["rule"]).split(":")[0] in {"default", "deny.txt", "config.yaml"}
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


@every_transport
@pytest.mark.parametrize(("row", "host"), MALFORMED, ids=[f"{row} {host!a:.60}" for row, host in MALFORMED])
def test_host_that_is_none(row: str, host: str, transport: Transport, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = ask(gateway, transport, host, origin.port)
        codes = ("malformed_host",) if transport is SOCKS else ("malformed_host", "malformed_request")
        assert_refused(gateway, told, *codes)
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


@every_transport
@pytest.mark.parametrize(
    ("row", "host"), MALFORMED_BYTES, ids=[f"{row} {host!r}" for row, host in MALFORMED_BYTES]
)
def test_host_of_bytes_beyond_ascii(row: str, host: bytes, transport: Transport, tmp_path: Path) -> None:
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = ask(gateway, transport, host, origin.port)
        codes = ("malformed_host",) if transport is SOCKS else ("malformed_host", "malformed_request")
        assert_refused(gateway, told, *codes)
        assert_untouched(gateway, origin)


@pytest.mark.parametrize("mark", ["#", "?", "/"])
@pytest.mark.parametrize("transport", [CONNECT, SOCKS], ids=str)
def test_url_marks_in_a_host(mark: str, transport: Transport, tmp_path: Path) -> None:
    """B-14. In a URL these end the host, so only the transports without URLs are asked."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = ask(gateway, transport, f"api{mark}.wild.test", origin.port)
        assert_refused(gateway, told, "malformed_host", "malformed_request")
        assert_untouched(gateway, origin)


def test_end_of_the_host_in_a_url(tmp_path: Path) -> None:
    """What stands behind `?` is the query, whatever host it spells; a fragment is never sent to a proxy."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        host = f"{GOOD}:{origin.port}".encode()
        head = b"GET http://" + host + b"?.evil.test/ HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
        assert send_head(gateway, head).granted
        assert origin.requests[0].target == "/?.evil.test/"
        head = b"GET http://evil.test#" + host + b"/ HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"
        assert send_head(gateway, head).status == 400
        assert gateway.resolver.asked == [GOOD]


@pytest.mark.parametrize("name", [b"", b"a" * 255, b"x." * 127 + b"x"], ids=["empty", "255", "128 labels"])
def test_sizes_of_a_socks_name(name: bytes, tmp_path: Path) -> None:
    """B-18."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        told = socks(gateway, domain(name), origin.port)
        assert_refused(gateway, told, "malformed_host")
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


def test_socks_name_that_does_not_come_whole(tmp_path: Path) -> None:
    """B-18: 255 bytes are announced, 10 come, and then nothing."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_socks(b"\x05\x01\x00")
        assert wire.exactly(2) == b"\x05\x00"
        wire.send(b"\x05\x01\x00\x03\xff" + b"a" * 10)
        gateway.until(lambda: gateway.proxies.live(gateway.session.id) == 1)
        gateway.advance(9.9)
        assert gateway.records() == []
        gateway.advance(0.2)
        gateway.await_record(state="refused", code="timeout", transport="socks")
        wire.rest()
        assert len(gateway.records()) == 1
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


@pytest.mark.parametrize("path", ["/", "/a/b"])
def test_enormous_hosts(path: str, tmp_path: Path) -> None:
    """B-19: refused by its size, before anybody looks at its labels."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        head = get_head("xn--a." * 2000 + "wild.test", origin.port, path)
        told = send_head(gateway, head)
        assert_refused(gateway, told, "malformed_host")
        assert_untouched(gateway, origin)


def test_enormous_host_field(tmp_path: Path) -> None:
    """B-19."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        head = f"GET http://{GOOD}:{origin.port}/ HTTP/1.1\r\nHost: ".encode() + b"a" * 65536 + b"\r\n\r\n"
        assert_refused(gateway, send_head(gateway, head), "malformed_request", status=431)
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


def test_enormous_connect_target(tmp_path: Path) -> None:
    """B-19: a MiB of labels."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        head = b"CONNECT " + b"xn--" * (1 << 18) + b":443 HTTP/1.1\r\n\r\n"
        assert_refused(gateway, send_head(gateway, head), "malformed_request", status=414)
        assert_untouched(gateway, origin)
        assert_serves(gateway, origin)


def padded(rules: EgressRules, entries: int) -> EgressRules:
    """The same rules behind many other entries."""
    more = (f"host-{number}.padding.test" for number in range(entries))
    return replace(rules, allow=matcher("allow.txt", (*ALLOWED, *more)))


@every_transport
@pytest.mark.parametrize(
    ("host", "granted"),
    [
        ("api.allowed.test", True),
        ("API.ALLOWED.TEST", True),
        ("X.Wild.Test", True),
        ("BAD.WILD.TEST", False),
        ("Bad.wild.test.", False),
        ("EVILAPI.allowed.test", False),
    ],
)
def test_long_lists_answer_like_short_ones(
    host: str, granted: bool, transport: Transport, tmp_path: Path
) -> None:
    """B-05."""
    with http_origin(answering()) as origin:
        for number, entries in enumerate((0, 300)):
            rules = padded(rules_for(origin.port), entries)
            with Gateway(tmp_path / str(number), rules) as gateway:
                told = ask(gateway, transport, host, origin.port)
                assert told.granted is granted
                told.wire.close()


@every_transport
@pytest.mark.parametrize("host", [GOOD, "evil.test", "bad.wild.test", "140.82.112.3"])
def test_network_off(host: str, transport: Transport, tmp_path: Path) -> None:
    """B-87: both proxies run and allow nothing."""
    with http_origin(answering()) as origin, Gateway(tmp_path, offline(rules_for(origin.port))) as gateway:
        told = ask(gateway, transport, host, origin.port)
        if told.message is not None:
            assert "the network is off for this session" in str(told.message.json()["message"])
        assert_refused(gateway, told, "network_off", host=host, port=origin.port)
        assert_untouched(gateway, origin)


def test_network_off_cannot_be_told_from_malformed(tmp_path: Path) -> None:
    """Malformed comes first, network on or off."""
    with Gateway(tmp_path, offline(rules_for())) as gateway:
        assert_refused(gateway, ask(gateway, HTTP, "a..wild.test", 80), "malformed_host")
