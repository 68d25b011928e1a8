"""The bytes of refusals and of trouble upstream (contract section 5)."""

import json
from pathlib import Path

import pytest

from gateway.audit import AuditLog
from gateway.authorizer import Attempt, Authorizer
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code, Transport
from gateway.proxy.dialling import UpstreamError
from gateway.proxy.refusal import http_refusal, http_upstream_failure, socks_code, socks_reply
from gateway.session import SandboxStamp, Session
from tests.fakes.clock import FakeClock
from tests.fakes.rules import rules_for

# Code, status, the phrase behind it.
REFUSALS = [
    (Code.MALFORMED_HOST, 400, "Bad Request"),
    (Code.MALFORMED_REQUEST, 400, "Bad Request"),
    (Code.NETWORK_OFF, 403, "Forbidden"),
    (Code.PORT, 403, "Forbidden"),
    (Code.DENIED, 403, "Forbidden"),
    (Code.NOT_LISTED, 403, "Forbidden"),
    (Code.IP_LITERAL, 403, "Forbidden"),
    (Code.RESOLVED_ADDRESS, 403, "Forbidden"),
    (Code.SELF_CONNECTION, 403, "Forbidden"),
    (Code.SNI_MISMATCH, 403, "Forbidden"),
    (Code.SNI_MISSING, 403, "Forbidden"),
    (Code.NOT_TLS, 403, "Forbidden"),
    (Code.AUTHORITY_MISMATCH, 403, "Forbidden"),
    (Code.PUSH_BYPASS, 403, "Forbidden"),
    (Code.POLICY_CHANGED, 403, "Forbidden"),
    (Code.TIMEOUT, 408, "Request Timeout"),
    (Code.LIMIT, 429, "Too Many Requests"),
    (Code.INTERNAL, 500, "Internal Server Error"),
]
UPSTREAM = [
    (Code.DNS_FAILED, 502, 4),
    (Code.CONNECT_REFUSED, 502, 5),
    (Code.UNREACHABLE, 502, 4),
    (Code.CONNECT_TIMEOUT, 504, 4),
]


@pytest.fixture
def door(tmp_path: Path) -> Authorizer:
    return Authorizer(AuditLog(tmp_path), FakeClock())


def attempt(door: Authorizer, host: str = "evil.test", port: int = 443) -> Attempt:
    session = Session("s1", SandboxStamp("none", "existing-only"), rules_for(), "secret")
    return door.attempt(session, Transport.CONNECT, host, port)


def parsed(response: bytes) -> tuple[str, dict[str, str], dict[str, object]]:
    head, _, body = response.partition(b"\r\n\r\n")
    line, *fields = head.decode("ascii").split("\r\n")
    named = dict(field.split(": ", 1) for field in fields)
    assert int(named["Content-Length"]) == len(body)
    return line, named, json.loads(body)


def test_every_code_has_a_row() -> None:
    assert {row[0] for row in REFUSALS} | {row[0] for row in UPSTREAM} == set(Code)


@pytest.mark.parametrize(("code", "status", "phrase"), REFUSALS)
def test_refusal(code: Code, status: int, phrase: str, door: Authorizer) -> None:
    decision = Decision(Verdict.DENY, "deny.txt:7", "the reason", code)
    line, fields, body = parsed(http_refusal(attempt(door), decision))
    assert line == f"HTTP/1.1 {status} {phrase}"
    assert fields["X-Agent-Gateway"] == f"deny; code={code}"
    assert fields["Content-Type"] == "application/json"
    assert fields["Connection"] == "close"
    assert fields["Cache-Control"] == "no-store"
    message = str(body.pop("message"))
    assert body == {"code": code, "host": "evil.test", "port": 443, "rule": "deny.txt:7"}
    assert "the reason" in message
    assert "will not help" in message


@pytest.mark.parametrize(
    ("status", "phrase"), [(414, "URI Too Long"), (431, "Request Header Fields Too Large")]
)
def test_status_of_its_own(status: int, phrase: str, door: Authorizer) -> None:
    decision = Decision(Verdict.DENY, "built-in", "too large", Code.MALFORMED_REQUEST)
    line, fields, body = parsed(http_refusal(attempt(door), decision, status))
    assert line == f"HTTP/1.1 {status} {phrase}"
    assert fields["X-Agent-Gateway"] == "deny; code=malformed_request"
    assert body["code"] == "malformed_request"


@pytest.mark.parametrize(
    "host", ["x\r\nX-Injected: 1\r\n\r\n", "x\0y", "\u202egnp", "a" * 5000, '"}', "\udcff", "\x1b[2J"]
)
def test_host_that_would_break_out(host: str, door: Authorizer) -> None:
    """Whatever was asked for, the response is one head and one JSON object, in ASCII, of a bounded size."""
    decision = Decision(Verdict.DENY, "built-in", "no host", Code.MALFORMED_HOST)
    response = http_refusal(attempt(door, host, -1), decision)
    assert response.isascii()
    assert len(response) < 4096
    line, fields, body = parsed(response)
    assert line == "HTTP/1.1 400 Bad Request"
    assert "X-Injected" not in fields
    assert body["host"] == host[:300]
    assert body["port"] is None
    assert str(body["message"]).isprintable()


@pytest.mark.parametrize(("code", "status", "reply"), UPSTREAM)
def test_trouble_upstream(code: Code, status: int, reply: int, door: Authorizer) -> None:
    asked = attempt(door)
    asked.rule = "allow.txt:1"
    failure = UpstreamError(code, "the reason")
    line, fields, body = parsed(http_upstream_failure(asked, failure))
    assert line.startswith(f"HTTP/1.1 {status} ")
    assert fields["X-Agent-Gateway"] == f"upstream; code={code}"
    assert (body["code"], body["rule"]) == (code, "allow.txt:1")
    assert "the reason" in str(body["message"])
    assert "not a refusal" in str(body["message"])
    assert socks_code(failure) == reply


def test_socks_reply() -> None:
    """RFC 1928 section 6: no bound address."""
    assert [socks_reply(code) for code in (0, 2)] == [b"\5\0\0\1\0\0\0\0\0\0", b"\5\2\0\1\0\0\0\0\0\0"]
