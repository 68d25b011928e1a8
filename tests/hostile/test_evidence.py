"""What stands in the log: one line for whatever a client sends, and never a secret."""

import logging
from pathlib import Path

import pytest

from gateway.policy.egress import Transport
from tests.fakes import hello
from tests.fakes.asking import (
    CONNECT,
    HTTP,
    PLAIN,
    SOCKS,
    answer,
    ask,
    assert_refused,
    connect_head,
    domain,
    get_head,
    send_head,
    socks,
    tunnel,
)
from tests.fakes.gateway import Gateway
from tests.fakes.origin import answering, closed_port, http_origin
from tests.fakes.rules import GOOD, rules_for

# Text that would be more than text in a log, or on a terminal.
INJECTIONS = [
    'x\n{"decision":"allow"}',
    'x\r\n{"v":1,"seq":0,"event":"egress","verdict":"allow"}\r\n',
    'x","verdict":"allow","y":"',
    "x\x1b[2J\x1b]0;title\x07",
    "x\x9b2J",
    "x\u2028y\u2029z",
    "x\u202egnp.exe",
    "x\u200b\ufeff\u0085",
    "x\x00\x08\x7f",
    "x\\n\\u0000",
    "x\ud7ff\U0001f4a3",
]


@pytest.mark.parametrize("text", INJECTIONS, ids=ascii)
def test_host_that_is_more_than_text(text: str, tmp_path: Path) -> None:
    """B-81: one record, which is one line of printable ASCII; what was asked for can be read in it."""
    with Gateway(tmp_path, rules_for()) as gateway:
        told = socks(gateway, domain(text), 443)
        record = assert_refused(gateway, told, "malformed_host")
        assert text[0] in str(record["host"])
        assert gateway.raw_log().count(b"\n") == 2


@pytest.mark.parametrize("text", INJECTIONS, ids=ascii)
def test_url_that_is_more_than_text(text: str, tmp_path: Path) -> None:
    """B-81."""
    with Gateway(tmp_path, rules_for()) as gateway:
        told = send_head(gateway, f"GET http://{GOOD}/{text} HTTP/1.1\r\nHost: {GOOD}\r\n\r\n".encode())
        assert told.status in {400, 403}
        assert gateway.raw_log().count(b"\n") == 2


@pytest.mark.parametrize("text", INJECTIONS, ids=ascii)
def test_tls_name_that_is_more_than_text(text: str, tmp_path: Path) -> None:
    """B-81."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = tunnel(gateway, CONNECT, origin.port)
        wire.send(hello.hello(text.encode()))
        assert wire.rest() == b""
        wire.close()
        gateway.await_record(state="closed", verdict="deny")
        assert gateway.raw_log().count(b"\n") == 3


def test_escapes_in_a_path_stay_escapes(tmp_path: Path) -> None:
    """B-81: nothing is decoded on the way into the log."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        path = "/%0a%7b%22decision%22:%22allow%22%7d%1b[2J"
        assert send_head(gateway, get_head(GOOD, origin.port, path)).granted
        assert gateway.records()[0]["path"] == path


def test_long_path(tmp_path: Path) -> None:
    """B-81: cut, and marked as cut."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        path = "/" + "abcdefghij" * 1024
        assert send_head(gateway, get_head(GOOD, origin.port, path)).granted
        record = gateway.records()[0]
        assert record["truncated"] is True
        assert path.startswith(str(record["path"]))
        assert len(str(record["path"])) >= 200
        assert origin.requests[0].target == path


@pytest.mark.parametrize("transport", [CONNECT, HTTP, SOCKS], ids=str)
def test_long_host(transport: Transport, tmp_path: Path) -> None:
    """B-81: a host of any length, cut where the log cuts."""
    with Gateway(tmp_path, rules_for()) as gateway:
        told = ask(gateway, transport, "a" * (250 if transport is SOCKS else 12_000) + "!", 443)
        record = assert_refused(gateway, told, "malformed_host")
        assert len(str(record["host"])) <= 1024


SECRET = "s3cr3t-value-that-nobody-may-read"
SHORT = "pw1"

# Heads that carry a secret; `PORT` stands for the origin's port.
SECRETS = [
    ("query", f"GET http://{GOOD}:PORT/a?token={SECRET} HTTP/1.1\r\nHost: {GOOD}:PORT"),
    ("query behind the host", f"GET http://{GOOD}:PORT?token={SECRET} HTTP/1.1\r\nHost: {GOOD}:PORT"),
    ("two question marks", f"GET http://{GOOD}:PORT/a?b?token={SECRET} HTTP/1.1\r\nHost: {GOOD}:PORT"),
    (
        "authorization",
        f"GET http://{GOOD}:PORT/a HTTP/1.1\r\nHost: {GOOD}:PORT\r\nAuthorization: Bearer {SECRET}",
    ),
    ("cookie", f"GET http://{GOOD}:PORT/a HTTP/1.1\r\nHost: {GOOD}:PORT\r\nCookie: id={SECRET}"),
    (
        "referer",
        f"GET http://{GOOD}:PORT/a HTTP/1.1\r\nHost: {GOOD}:PORT\r\nReferer: http://x.test/?{SECRET}",
    ),
    (
        "proxy",
        f"GET http://{GOOD}:PORT/a HTTP/1.1\r\nHost: {GOOD}:PORT\r\nProxy-Authorization: Basic {SECRET}",
    ),
    ("proxy of CONNECT", f"CONNECT {GOOD}:PORT HTTP/1.1\r\nProxy-Authorization: Basic {SECRET}"),
    ("userinfo", f"GET http://user:{SECRET}@{GOOD}:PORT/ HTTP/1.1\r\nHost: {GOOD}:PORT"),
    ("userinfo alone", f"GET http://{SECRET}@{GOOD}:PORT/ HTTP/1.1\r\nHost: {GOOD}:PORT"),
    ("userinfo with an at", f"GET http://user:x@{SECRET}@{GOOD}:PORT/ HTTP/1.1\r\nHost: {GOOD}:PORT"),
    ("userinfo of CONNECT", f"CONNECT user:{SECRET}@{GOOD}:PORT HTTP/1.1"),
    ("userinfo of Host", f"GET http://{GOOD}:PORT/ HTTP/1.1\r\nHost: user:{SECRET}@{GOOD}:PORT"),
    ("short userinfo", f"GET http://u:{SHORT}@x.test/ HTTP/1.1\r\nHost: x.test"),
    ("short userinfo of CONNECT", f"CONNECT u:{SHORT}@x:443 HTTP/1.1"),
    ("other scheme", f"GET ftp://user:{SECRET}@{GOOD}:PORT/a?token={SECRET} HTTP/1.1\r\nHost: {GOOD}:PORT"),
    ("https by mistake", f"GET https://{GOOD}:PORT/a?token={SECRET} HTTP/1.1\r\nHost: {GOOD}:PORT"),
    ("origin-form", f"GET /a?token={SECRET} HTTP/1.1\r\nHost: {GOOD}:PORT"),
    ("CONNECT with a URL", f"CONNECT https://{GOOD}:PORT/?token={SECRET} HTTP/1.1"),
    ("denied", f"GET http://evil.test/a?token={SECRET} HTTP/1.1\r\nHost: evil.test"),
    ("broken line", f"GET http://{GOOD}:PORT/a?token={SECRET} HTTP/1.1 \r\nHost: {GOOD}:PORT"),
    ("broken line, no version", f"GET http://{GOOD}:PORT/a?token={SECRET}\r\nHost: {GOOD}:PORT"),
    ("broken field", f"GET http://{GOOD}:PORT/a?token={SECRET} HTTP/1.1\r\nAuthorization : Bearer {SECRET}"),
    (
        "broken framing",
        f"GET http://{GOOD}:PORT/a?token={SECRET} HTTP/1.1\r\nHost: {GOOD}:PORT\r\nContent-Length: x",
    ),
    ("control character", f"GET http://{GOOD}:PORT/a?token={SECRET}\x01 HTTP/1.1\r\nHost: {GOOD}:PORT"),
    ("fragment", f"GET http://{GOOD}:PORT/a#token={SECRET} HTTP/1.1\r\nHost: {GOOD}:PORT"),
    ("no HTTP", f"token={SECRET}"),
]


@pytest.mark.parametrize(("where", "head"), SECRETS, ids=[where for where, _ in SECRETS])
def test_secret(where: str, head: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """B-82: not in the log, and at no level in what the code says about itself."""
    caplog.set_level(logging.DEBUG)
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(head.replace("PORT", str(origin.port)).encode() + b"\r\n\r\n")
        wire.head()
        wire.close()
        gateway.settle()
        log = gateway.raw_log().decode("ascii")
        assert len(gateway.records()) in {1, 2}
        for secret in (SECRET, f":{SHORT}"):
            assert secret not in log
            assert secret not in caplog.text
        if where in {"authorization", "cookie", "referer"}:
            assert SECRET in str(origin.requests[0].fields)
        if where.startswith("proxy"):
            assert SECRET not in origin.received.decode("latin-1")


@pytest.mark.parametrize("name", [f"user:{SECRET}@{GOOD}", f"u:{SHORT}@x", f"{GOOD}/?token={SECRET}"])
def test_secret_in_a_socks_name(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """B-82: clients that hand a URL to SOCKS."""
    caplog.set_level(logging.DEBUG)
    with Gateway(tmp_path, rules_for()) as gateway:
        assert_refused(gateway, socks(gateway, domain(name), 443), "malformed_host")
        for secret in (SECRET, f":{SHORT}"):
            assert secret not in gateway.raw_log().decode("ascii")
            assert secret not in caplog.text


def test_secret_of_a_failed_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """B-82: trouble upstream is no reason to quote what was asked for."""
    caplog.set_level(logging.DEBUG)
    with closed_port() as port, Gateway(tmp_path, rules_for(port)) as gateway:
        told = send_head(
            gateway, get_head(GOOD, port, f"/a?token={SECRET}", f"Authorization: Bearer {SECRET}")
        )
        assert told.status == 502
        assert SECRET not in gateway.raw_log().decode("ascii")
        assert SECRET not in caplog.text
        assert gateway.records()[0]["path"] == "/a"


@pytest.mark.parametrize(
    "token", ["ghp_" + "a1B2" * 9, "github_pat_" + "a1B2" * 10, "sk-ant-" + "a1B2" * 10, "AKIA" + "A1B2" * 4]
)
def test_token_in_a_path(token: str, tmp_path: Path) -> None:
    """Shapes of tokens are masked wherever they stand."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        assert send_head(gateway, get_head(GOOD, origin.port, f"/bot/{token}/x")).granted
        assert token not in gateway.raw_log().decode("ascii")
        assert str(gateway.records()[0]["path"]).startswith("/bot/")


def test_fields_of_a_tunnel(tmp_path: Path) -> None:
    """Contract section 7: opened before the client is told yes, closed with the figures."""
    with http_origin(answering()) as origin, Gateway(tmp_path, rules_for(origin.port)) as gateway:
        wire = gateway.ask_http(connect_head(GOOD, origin.port))
        assert answer(wire, CONNECT).granted
        opened = gateway.records()[0]
        common = {
            "v": 1,
            "session": "s1",
            "workspace": "default",
            "space": None,
            "agent": None,
            "sandbox": {"backend": "none", "file_rules": "existing-only"},
            "event": "egress",
            "transport": "connect",
            "host": GOOD,
            "port": origin.port,
            "verdict": "allow",
            "code": "",
            "rule": "allow.txt:1",
            "address": "127.0.0.1",
        }
        assert {name: opened[name] for name in common} == common
        assert opened["state"] == "opened"
        gateway.advance(1.5)
        wire.close()
        closed = gateway.await_record(state="closed")
        assert {name: closed[name] for name in common} == common
        assert closed["connection"] == opened["connection"]
        assert (closed["bytes_up"], closed["bytes_down"], closed["duration_ms"]) == (0, 0, 1500)
        assert closed["close"]


def test_fields_of_plain_requests(tmp_path: Path) -> None:
    """Contract section 7: one record per request with method, path without query, and the status."""
    statuses = iter(["200 OK", "404 Not Found", "500 Broken"])
    with (
        http_origin(lambda request: answering(b"x", next(statuses))(request)) as origin,
        Gateway(tmp_path, rules_for(origin.port)) as gateway,
    ):
        wire = gateway.ask_http(get_head(GOOD, origin.port, "/a?x=1"))
        assert wire.message().status == 200
        wire.send(get_head(GOOD, origin.port, "/b").replace(b"GET", b"POST", 1))
        assert wire.message().status == 404
        wire.send(get_head(GOOD, origin.port, "/c"))
        assert wire.message().status == 500
        wire.close()
        gateway.settle()
        assert [record["state"] for record in gateway.records()] == PLAIN * 3
        told = [
            (record["method"], record["path"], record["status"], record["close"])
            for record in gateway.records()
            if record["state"] == "closed"
        ]
        assert told == [
            ("GET", "/a", 200, "finished"),
            ("POST", "/b", 404, "finished"),
            ("GET", "/c", 500, "finished"),
        ]
        assert len({record["connection"] for record in gateway.records()}) == 1
