"""A token's text leaves by two methods, and is shown by nothing."""

import base64
import pickle
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest

from gateway.credentials.token import MAX_VALUE, Repository, Token, TokenKind, is_token_text
from gateway.policy.repositories import parse_repository

SECRET = "ghs_" + "s3cr3T" * 6
NOW = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
WIDGET = Repository(7, parse_repository("Acme/Widget"), 50)


def token(value: str = SECRET) -> Token:
    return Token(TokenKind.READ, (WIDGET,), {"contents": "read"}, NOW, value)


@pytest.mark.parametrize(
    "show",
    [repr, str, format, lambda one: f"{one!r:>300}", lambda one: f"{[one]}", lambda one: "%s" % one],  # noqa: UP031  # another way to text
)
def test_no_text_shows_it(show: object) -> None:
    assert callable(show)
    shown = show(token())
    assert "s3cr3T" not in shown
    assert "read" in shown
    assert "Acme/Widget" in shown
    assert "2026-05-04T12:00:00" in shown


def test_only_one_field_holds_it_and_says_that_it_is_not_shown() -> None:
    assert [one.name for one in fields(Token) if not one.repr] == ["value"]


def test_headers() -> None:
    scheme, encoded = token().basic().split(" ")
    assert (scheme, base64.b64decode(encoded)) == ("Basic", f"x-access-token:{SECRET}".encode())
    assert token().bearer() == f"Bearer {SECRET}"


def test_long_token_is_one_line() -> None:
    assert "\n" not in token("x" * MAX_VALUE).basic()


def test_equal_to_itself_only() -> None:
    one, other = token(), token()
    assert one == one
    assert one != other
    assert len({one, other, one}) == 2


@pytest.mark.parametrize(("seconds", "live"), [(-1, True), (0, False), (1, False)])
def test_lives_until_it_expires(seconds: int, live: bool) -> None:
    assert token().is_live(NOW + timedelta(seconds=seconds)) is live


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("ghs_" + "a" * 36, True),
        ("ghs_123_eyJh.eyJi.c-_d", True),
        ("v1.0123456789abcdef", True),
        ("x" * MAX_VALUE, True),
        ("x" * (MAX_VALUE + 1), False),
        ("", False),
        ("a b", False),
        ("a\n", False),
        ("a\r\nX-Evil: 1", False),
        ("a\x00", False),
        ("a\x7f", False),
        ("ä", False),
        ("١٢٣", False),
        (None, False),
        (1, False),
        (b"abc", False),
        (["abc"], False),
    ],
)
def test_what_can_be_a_token(value: object, fits: bool) -> None:
    assert is_token_text(value) is fits


def test_repositories_are_named() -> None:
    assert token().names == ("Acme/Widget",)
    assert pickle.loads(pickle.dumps(WIDGET)) == WIDGET
