"""What a refused process reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import Code
from gateway.policy.refusals import refusal_message, shown_host


@pytest.mark.parametrize("code", Code)
def test_a_refusal_says_whose_it_is_and_what_does_not_help(code: Code) -> None:
    decision = Decision(Verdict.DENY, "deny.txt:3", "the host is not wanted here", code)
    message = refusal_message(decision, "evil.test", 443)
    for part in (
        "sandbox's network policy",
        "evil.test",
        "443",
        "the host is not wanted here",
        "deny.txt:3",
        code,
    ):
        assert part in message
    for part in ("DNS", "proxy", "flags", "will not help"):
        assert part in message
    assert ".." not in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("code", "host", "port", "parts"),
    [
        (Code.NOT_LISTED, "evil.test", 443, ("`--allow evil.test`", "egress.allow")),
        (Code.DENIED, "bad.wild.test", 443, ("--allow", "egress.allow", "tell the operator")),
        (Code.IP_LITERAL, "140.82.112.3", 443, ("name", "egress.addresses")),
        (Code.PORT, "api.allowed.test", 25, ("egress.ports", "egress.raw")),
        (Code.MALFORMED_HOST, "a b", 443, ("ASCII",)),
    ],
)
def test_a_refusal_says_how_to_ask(code: Code, host: str, port: int, parts: tuple[str, ...]) -> None:
    message = refusal_message(Decision(Verdict.DENY, "default", "it is refused", code), host, port)
    assert [part for part in parts if part not in message] == []


def test_a_refusal_without_a_port_names_none() -> None:
    decision = Decision(Verdict.DENY, "built-in", "the port is not a number", Code.MALFORMED_HOST)
    assert "port -1" not in refusal_message(decision, "api.allowed.test:443x", -1)


def test_a_refusal_without_a_host_is_a_sentence() -> None:
    decision = Decision(Verdict.DENY, "built-in", "the request line is malformed", Code.MALFORMED_REQUEST)
    assert "refused this request: the request line" in refusal_message(decision, "", -1)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("api.allowed.test", "api.allowed.test"),
        ("a\nb", "a\\nb"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("\u202ea\u2028", "\\u202ea\\u2028"),
        ("\u0430", "\\u0430"),
        ("\ud800", "\\ud800"),
        ("a" * 300, "a" * 300),
        ("a" * 301, "a" * 297 + "..."),
        ("\0" * 100000, ("\\x00" * 75)[:297] + "..."),
    ],
)
def test_a_shown_host_is_printable_and_short(text: str, shown: str) -> None:
    assert shown_host(text) == shown


@given(st.text(max_size=400), st.integers(-1, 70000), st.text(max_size=50))
def test_a_refusal_is_one_printable_line(host: str, port: int, reason: str) -> None:
    message = refusal_message(Decision(Verdict.DENY, "default", reason, Code.NOT_LISTED), host, port)
    assert message.isascii()
    assert message.isprintable()
