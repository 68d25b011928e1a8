"""The bytes a client gets instead of what it asked for (contract: status, header, JSON body; SOCKS reply code)."""

import json
from collections.abc import Mapping
from typing import Final

from gateway.authorizer import Attempt
from gateway.policy.decision import Decision
from gateway.policy.egress import Code
from gateway.policy.refusals import refusal_message
from gateway.proxy.dialling import UpstreamError

_STATUS: Final[Mapping[str, int]] = {
    Code.MALFORMED_HOST: 400,
    Code.MALFORMED_REQUEST: 400,
    Code.TIMEOUT: 408,
    Code.LIMIT: 429,
    Code.INTERNAL: 500,
    Code.DNS_FAILED: 502,
    Code.CONNECT_REFUSED: 502,
    Code.UNREACHABLE: 502,
    Code.CONNECT_TIMEOUT: 504,
}
_REASON: Final[Mapping[int, str]] = {
    400: "Bad Request",
    403: "Forbidden",
    408: "Request Timeout",
    414: "URI Too Long",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    502: "Bad Gateway",
    504: "Gateway Timeout",
}

# SOCKS5 reply codes (RFC 1928 section 6).
SOCKS_OK: Final = 0x00
SOCKS_FAILURE: Final = 0x01
SOCKS_NOT_ALLOWED: Final = 0x02
SOCKS_UNREACHABLE: Final = 0x04
SOCKS_REFUSED: Final = 0x05
SOCKS_COMMAND: Final = 0x07
SOCKS_ADDRESS_TYPE: Final = 0x08


def http_refusal(attempt: Attempt, decision: Decision, status: int = 0) -> bytes:
    """A whole HTTP response that refuses. `status` overrides the code's own (414, 431)."""
    return _response(
        status or _STATUS.get(decision.code, 403),
        f"deny; code={decision.code}",
        attempt,
        decision.code,
        decision.rule,
        refusal_message(decision, attempt.host, attempt.port),
    )


def http_upstream_failure(attempt: Attempt, failure: UpstreamError) -> bytes:
    """A whole HTTP response that says the target cannot be reached."""
    message = f"The sandbox allows this host, but {failure.reason}. This is not a refusal."
    code = failure.code
    return _response(_STATUS.get(code, 502), f"upstream; code={code}", attempt, code, attempt.rule, message)


def socks_reply(code: int) -> bytes:
    """A SOCKS5 reply with no bound address."""
    return bytes((5, code, 0, 1, 0, 0, 0, 0, 0, 0))


def socks_code(failure: UpstreamError) -> int:
    """The reply code for trouble upstream."""
    return SOCKS_REFUSED if failure.code == Code.CONNECT_REFUSED else SOCKS_UNREACHABLE


def _response(status: int, marker: str, attempt: Attempt, code: str, rule: str, message: str) -> bytes:
    answer = {
        "code": str(code),
        "host": attempt.host[:300],
        "port": attempt.port if attempt.port >= 0 else None,
        "rule": rule,
        "message": message,
    }
    body = json.dumps(answer).encode("ascii") + b"\n"
    head = (
        f"HTTP/1.1 {status} {_REASON[status]}\r\n"
        f"X-Agent-Gateway: {marker}\r\n"
        "Content-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
