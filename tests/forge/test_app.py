"""The App's key and the check of what is signed with it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache

import jwt
import pytest

from gateway.forge.app import App, AppTokenError, register_app, verify

NOW = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
DECODED = "A JSON web token could not be decoded"
ISSUED = "'Issued at' claim"
EXPIRES = "'Expiration time' claim"
TOO_FAR = "too far in the future"


@cache
def the_app() -> App:
    return register_app({"contents": "read"})


def signed(app: App, claims: Mapping[str, object] = {}, *, key: str = "", algorithm: str = "RS256") -> str:
    seconds = int(NOW.timestamp())
    moments = {"iat": seconds - 60, "exp": seconds + 540, "iss": str(app.id)}
    kept = {name: value for name, value in {**moments, **claims}.items() if value is not None}
    return jwt.encode(kept, key or app.private_key_pem, algorithm=algorithm)


def moved(seconds: int) -> int:
    return int((NOW + timedelta(seconds=seconds)).timestamp())


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"iss": "the client id"},
        {"iat": moved(0), "exp": moved(600)},
        {"iat": moved(-60), "exp": moved(600)},
        {"iat": moved(-60), "exp": moved(1)},
    ],
)
def test_good_tokens_pass(claims: dict[str, object]) -> None:
    app = the_app()
    if "iss" in claims:
        claims = {"iss": app.client_id}
    verify(app, signed(app, claims), NOW)


@pytest.mark.parametrize(
    ("claims", "status", "message"),
    [
        ({"exp": moved(601)}, 401, TOO_FAR),
        ({"exp": moved(0)}, 401, EXPIRES),
        ({"exp": None}, 401, EXPIRES),
        ({"exp": True}, 401, EXPIRES),
        ({"iat": moved(1)}, 401, ISSUED),
        ({"iat": None}, 401, ISSUED),
        ({"iat": "yesterday"}, 401, ISSUED),
        ({"iss": "somebody else"}, 404, "Integration not found"),
        ({"iss": None}, 404, "Integration not found"),
    ],
)
def test_claims_that_are_wrong(claims: dict[str, object], status: int, message: str) -> None:
    app = the_app()
    with pytest.raises(AppTokenError, match=message) as caught:
        verify(app, signed(app, claims), NOW)
    assert caught.value.status == status


def test_another_key_signs_nothing() -> None:
    other = register_app()
    with pytest.raises(AppTokenError, match=DECODED):
        verify(the_app(), signed(the_app(), key=other.private_key_pem), NOW)


@pytest.mark.parametrize("text", ["", "a.b.c", "ghs_something"])
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(AppTokenError, match=DECODED):
        verify(the_app(), text, NOW)


def test_only_rs256_counts() -> None:
    app = the_app()
    unsigned = jwt.encode({"iss": str(app.id)}, "", algorithm="none")
    for token in (signed(app, key="x" * 64, algorithm="HS256"), signed(app, algorithm="RS512"), unsigned):
        with pytest.raises(AppTokenError, match=DECODED):
            verify(app, token, NOW)


def test_app_is_as_it_was_registered() -> None:
    app = the_app()
    assert app.permissions == {"contents": "read", "metadata": "read"}
    assert app.private_key_pem.startswith("-----BEGIN RSA PRIVATE KEY-----")
    assert app.private_key_pem not in repr(app)
    assert app.login == "agent-gateway[bot]"
