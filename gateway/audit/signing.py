"""The key that signs the log: Ed25519, in a file that this user alone may read, made at the first use.

A signed line ends in `,"key":"ID","signature":"HEX"}`; signed is every byte of it before `,"signature":`.
`cryptography` is imported when it is first needed, never at the start of a run.
"""

import contextlib
import hashlib
import os
import re
import secrets
import stat
import threading
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.errors import AuditError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

KEY_NAME: Final = "audit-key"
PUBLIC_NAME: Final = "audit-key.pub"
# A key takes some hundred bytes; a file that is none may have any size.
_MAX_KEY: Final = 64 << 10
_SIGNED = re.compile(rb'(.*,"key":"([0-9a-f]{16})"),"signature":"([0-9a-f]{128})"\}', re.DOTALL)


class Signed(StrEnum):
    """What a signature is worth."""

    GOOD = "good"
    BAD = "bad"  # the text, or the signature, is not what was signed
    FOREIGN = "foreign"  # made with a key that is not ours
    NONE = "none"  # there is none, or nothing that looks like one


class Signer:
    """Signs with the key of a state directory. Changes: reads or makes the key once; used from any thread."""

    def __init__(self, state_directory: Path) -> None:
        self.path = state_directory / KEY_NAME
        self._key: Ed25519PrivateKey | None = None
        self._id = ""
        self._loading = threading.Lock()

    def prepare(self) -> None:
        """Reads the key, or makes it. AuditError when it cannot be, or when others can read it."""
        with self._loading:
            if self._key is None:
                key = _read_private(self.path) or _make(self.path)
                self._id = key_id(key.public_key().public_bytes_raw())
                self._key = key

    @property
    def keys(self) -> "Keys":
        """What checks its signatures. AuditError as `prepare`."""
        self.prepare()
        assert self._key is not None
        return Keys([self._key.public_key().public_bytes_raw()])

    def sign(self, text: str) -> bytes:
        """The signed line of an object that is written but for its closing brace. ASCII. AuditError as `prepare`."""
        if self._key is None:
            self.prepare()
        assert self._key is not None
        data = f'{text},"key":"{self._id}"'.encode("ascii")
        return data + b',"signature":"' + self._key.sign(data).hex().encode() + b'"}'


class Keys:
    """Public keys, which check signatures: 32 bytes each, so that they can be handed to another process."""

    def __init__(self, raw: Sequence[bytes] = ()) -> None:
        self.raw = tuple(raw)
        self.ids = tuple(key_id(key) for key in raw)
        self._keys: dict[str, Ed25519PublicKey] = {}

    @classmethod
    def read(cls, paths: Sequence[Path]) -> "Keys":
        """The keys in these files, private or public (PEM). AuditError for one that holds none."""
        return cls([_read_public(path) for path in paths])

    def check(self, line: bytes) -> Signed:
        """What the signature of a line is worth."""
        found = _SIGNED.fullmatch(line)
        if found is None:
            return Signed.NONE
        key = self._key(found[2].decode())
        if key is None:
            return Signed.FOREIGN
        from cryptography.exceptions import InvalidSignature

        try:
            key.verify(bytes.fromhex(found[3].decode()), found[1])
        except InvalidSignature:
            return Signed.BAD
        return Signed.GOOD

    def _key(self, name: str) -> "Ed25519PublicKey | None":
        if name in self.ids and name not in self._keys:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

            raw = self.raw[self.ids.index(name)]
            self._keys[name] = Ed25519PublicKey.from_public_bytes(raw)
        return self._keys.get(name)


def import_slowly() -> None:
    """Imports what signing needs, so that it is there when it is wanted."""
    from cryptography.hazmat.primitives import serialization  # noqa: F401  (imported to be there)
    from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: F401  (imported to be there)


def key_id(key: bytes) -> str:
    """What a key is called: the first 16 hex digits of the SHA-256 of its 32 bytes."""
    return hashlib.sha256(key).hexdigest()[:16]


def _read_private(path: Path) -> "Ed25519PrivateKey | None":
    """The key of a file that is ours alone; None where there is none."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unreadable(path, error.strerror) from error
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise AuditError(
                f"the audit key {path} is not this user's alone",
                "chmod 600 it; if others could read it, move it away, and a new one is made",
            )
        data = os.read(descriptor, _MAX_KEY)
    finally:
        os.close(descriptor)
    try:
        key = load_pem_private_key(data, None)
    except (ValueError, TypeError) as error:
        raise _unreadable(path, "it holds no key") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _unreadable(path, "it holds no Ed25519 key")
    return key


def _read_public(path: Path) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

    try:
        with path.open("rb") as file:
            data = file.read(_MAX_KEY)
    except OSError as error:
        raise _unreadable(path, error.strerror) from error
    try:
        key = load_pem_public_key(data) if b"BEGIN PUBLIC" in data else load_pem_private_key(data, None)
    except (ValueError, TypeError) as error:
        raise _unreadable(path, "it holds no key") from error
    if isinstance(key, Ed25519PrivateKey):
        key = key.public_key()
    if not isinstance(key, Ed25519PublicKey):
        raise _unreadable(path, "it holds no Ed25519 key")
    return key.public_bytes_raw()


def _make(path: Path) -> "Ed25519PrivateKey":
    """Makes a key and its file. Of two processes that do so at once, both get the key of the first."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            _write(fresh, private)
            os.link(fresh, path)
        finally:
            fresh.unlink(missing_ok=True)
    except FileExistsError:
        found = _read_private(path)
        if found is None:
            raise _unreadable(path, "it has gone") from None
        return found
    except OSError as error:
        raise AuditError(
            f"the audit key {path} cannot be made: {error.strerror or error}", "mend the state directory"
        ) from error
    with contextlib.suppress(OSError):
        # For those who verify elsewhere; nothing here reads it.
        path.with_name(PUBLIC_NAME).unlink(missing_ok=True)
        _write(path.with_name(PUBLIC_NAME), public)
    return key


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _unreadable(path: Path, reason: str | None) -> AuditError:
    return AuditError(
        f"the audit key {path} cannot be used: {reason}", "mend it, or move it away, and a new one is made"
    )
