"""The GitHub App of the forge: its key, and the check of what is signed with it.

Keeps no token; `tokens.py` does.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeGuard

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

APP_ID: Final = 314_159
APP_NAME: Final = "agent-gateway"
# What the demo's App is allowed: no `workflows`, as is advised.
PERMISSIONS: Final[Mapping[str, str]] = {"contents": "write", "metadata": "read", "pull_requests": "write"}
# Seconds from now to `exp` at most (GitHub: "no more than 10 minutes into the future").
_LIFE: Final = 600
_KEY_BITS: Final = 2048


class AppTokenError(ValueError):
    """Why a JSON Web Token is not the App's, in GitHub's words. `status`: of the answer."""

    def __init__(self, message: str, status: int = 401) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class App:
    """A registered App. `private_key_pem` is PKCS#1, as GitHub's downloads are."""

    id: int
    client_id: str
    permissions: Mapping[str, str]
    private_key_pem: str = field(repr=False)
    public_key: RSAPublicKey = field(repr=False)

    @property
    def login(self) -> str:
        """Who GitHub says pushed."""
        return f"{APP_NAME}[bot]"


def register_app(permissions: Mapping[str, str] = PERMISSIONS) -> App:
    """A new App with a new RSA key. `permissions`: what its installations grant at most."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    client_id = f"Iv23li{secrets.token_hex(7)}"
    granted = {"metadata": "read", **permissions}
    return App(APP_ID, client_id, granted, pem.decode("ascii"), key.public_key())


def verify(app: App, token: str, now: datetime) -> None:
    """Checks a JSON Web Token as GitHub does: RS256, issuer, and the window between `iat`, now and `exp`.

    AppTokenError says what is wrong. Source: docs.github.com, "Generating a JSON Web Token (JWT) for a GitHub App".
    """
    # The window is checked below, by the forge's clock and in GitHub's words.
    options: Any = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "verify_iss": False}
    try:
        claims: Mapping[str, Any] = jwt.decode(token, app.public_key, algorithms=["RS256"], options=options)
    except jwt.InvalidTokenError as error:
        raise AppTokenError("A JSON web token could not be decoded") from error
    issued, expires, issuer = claims.get("iat"), claims.get("exp"), claims.get("iss")
    seconds = now.timestamp()
    if not _is_integer(issued) or issued > seconds:
        raise AppTokenError(
            "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
        )
    if not _is_integer(expires) or expires <= seconds:
        raise AppTokenError(
            "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the "
            "assertion expires"
        )
    if expires > seconds + _LIFE:
        raise AppTokenError("'Expiration time' claim ('exp') is too far in the future")
    if str(issuer) not in {str(app.id), app.client_id}:
        raise AppTokenError("Integration not found", status=404)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
