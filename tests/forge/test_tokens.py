"""Tokens of the forge: both formats, their hour, their scope."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from gateway.forge.tokens import Credential, InstallationToken, Tokens


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 3, 4, 5, 6, 7, 890, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def mint(
    tokens: Tokens, permissions: Mapping[str, str] = {"contents": "read"}, *, stateless: bool = False
) -> InstallationToken:
    return tokens.mint(42, 7, frozenset({1}), permissions, stateless=stateless)


@pytest.mark.parametrize(
    ("stateless", "pattern"),
    [
        (False, r"ghs_[A-Za-z0-9]{36}"),
        (True, r"ghs_42_[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+"),
    ],
)
def test_formats(stateless: bool, pattern: str) -> None:
    value = mint(Tokens(Clock()), stateless=stateless).value
    assert re.fullmatch(pattern, value)
    assert not stateless or 450 < len(value) < 600


def test_a_token_lives_an_hour() -> None:
    clock = Clock()
    tokens = Tokens(clock)
    token = mint(tokens)
    assert token.expires == datetime(2026, 3, 4, 6, 6, 7, tzinfo=UTC)
    clock.now = token.expires - timedelta(seconds=1)
    assert tokens.find(token.value) is token
    clock.now = token.expires
    assert tokens.find(token.value) is None
    assert tokens.live == ()
    assert tokens.minted == (token,)


def test_a_revoked_token_is_none() -> None:
    tokens = Tokens(Clock())
    one, two = mint(tokens), mint(tokens)
    one.revoked = True
    assert tokens.find(one.value) is None
    assert tokens.live == (two,)
    assert (one.id, two.id) == (1, 2)


def test_its_text_is_not_shown() -> None:
    token = mint(Tokens(Clock()))
    assert token.value not in repr(token)


@pytest.mark.parametrize(
    ("permissions", "kind"),
    [
        ({"contents": "write"}, Credential.WRITE),
        ({"contents": "read"}, Credential.READ),
        ({"pull_requests": "write"}, Credential.READ),
        ({}, Credential.READ),
    ],
)
def test_kind_is_what_it_can_do_to_contents(permissions: dict[str, str], kind: Credential) -> None:
    assert mint(Tokens(Clock()), permissions).kind is kind


def test_write_includes_read() -> None:
    token = mint(Tokens(Clock()), {"contents": "write", "issues": "read"})
    assert token.may("contents", "read")
    assert token.may("contents", "write")
    assert token.may("issues", "read")
    assert not token.may("issues", "write")
    assert not token.may("actions", "read")
