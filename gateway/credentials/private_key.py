"""The App's private key: read, judged, and turned into the short proofs (JWT) that GitHub asks of an App.

The key's text is kept no longer than it takes to parse it, and no message quotes any of it.
"""

import os
import stat
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from gateway.errors import GatewayError

# A PEM file of the longest key in use (RSA, 16384 bits) has 13 KiB.
_MAX_FILE: Final = 64 << 10
# What GitHub makes; PyJWT warns below it.
_MIN_BITS: Final = 2048
# GitHub refuses a proof from the future or one that lives longer than 600 seconds, by its own clock: so it starts in
# the past, and ends early enough for a clock that runs ahead.
_STARTS_BEFORE: Final = 60
_LIVES: Final = 540

_HINT: Final = (
    "github.private_key_file is the .pem file that GitHub made for the App (its settings, Private keys)"
)


@dataclass(frozen=True, slots=True)
class PrivateKeyFile:
    """The bytes of a key file that holds a usable key, and lines to tell the operator."""

    pem: bytes = field(repr=False)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proof:
    """A signed statement "I am the App", good for nine minutes; as secret as a token."""

    value: str = field(repr=False)

    def bearer(self) -> str:
        """The value of `Authorization`."""
        return f"Bearer {self.value}"


class AppKey:
    """Signs for one App. PKCS#1 and PKCS#8 are accepted, without a passphrase; GatewayError for any other text."""

    def __init__(
        self, app_id: int | str, pem: bytes | str, place: str = "the GitHub App's private key"
    ) -> None:
        # A text: PyJWT refuses a number, GitHub takes either.
        self._issuer = str(app_id)
        key = _parse(pem)
        del pem
        if isinstance(key, str):
            raise GatewayError(f"{place} {key}", _HINT)
        self._key = key

    def prove(self, now: datetime) -> Proof:
        """A proof for the moments around `now` (aware)."""
        second = int(now.timestamp())
        claims = {"iat": second - _STARTS_BEFORE, "exp": second + _LIVES, "iss": self._issuer}
        return Proof(jwt.encode(claims, self._key, algorithm="RS256"))


def read_private_key(path: Path) -> PrivateKeyFile:
    """Reads and tries the key. GatewayError, naming the file, when there is none that can be used."""
    place = f"the private key file {path}"
    try:
        pem, mode = _read(path)
    except OSError as error:
        raise GatewayError(f"{place} cannot be read: {error.strerror or error}", _HINT) from error
    key = _parse(pem)
    if isinstance(key, str):
        raise GatewayError(f"{place} {key}", _HINT)
    warnings: tuple[str, ...] = ()
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        warnings = (f"{place} is open to other users of this machine (mode {mode:04o}): chmod 600 {path}",)
    return PrivateKeyFile(pem, warnings)


def _read(path: Path) -> tuple[bytes, int]:
    """Content and permission bits of a regular file. OSError."""
    # Without O_NONBLOCK, a named pipe in its place would hold up the start.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise OSError("it is no regular file")
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(_MAX_FILE + 1)
    finally:
        os.close(descriptor)
    if len(data) > _MAX_FILE:
        raise OSError("it is too large for a key")
    return data, stat.S_IMODE(facts.st_mode)


def _parse(pem: bytes | str) -> RSAPrivateKey | str:
    """The key, or what is wrong with it. Raises nothing: a traceback that shows variables would show the key."""
    data = pem.encode("utf-8", "replace") if isinstance(pem, str) else pem
    try:
        key = load_pem_private_key(data, password=None)
    except TypeError:
        return "is protected by a passphrase, and nobody is there to type it"
    except (ValueError, UnsupportedAlgorithm):
        return "holds no private key in PEM form"
    if not isinstance(key, RSAPrivateKey):
        return "is no RSA key"
    if key.key_size < _MIN_BITS:
        return f"has {key.key_size} bits, fewer than the {_MIN_BITS} that GitHub's keys have"
    return key
