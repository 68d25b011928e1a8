"""The key: what is accepted, what is refused and in which words, and what GitHub is shown."""

import os
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from gateway.credentials.private_key import AppKey, read_private_key
from gateway.errors import GatewayError

NOW = datetime(2026, 5, 4, 12, 0, 0, 999_999, tzinfo=UTC)


@cache
def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


def pem(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | None = None,
    form: PrivateFormat = PrivateFormat.TraditionalOpenSSL,
    secret: KeySerializationEncryption | None = None,
) -> bytes:
    return (key or rsa_key()).private_bytes(Encoding.PEM, form, secret or NoEncryption())


def public_pem() -> bytes:
    return rsa_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("form", [PrivateFormat.TraditionalOpenSSL, PrivateFormat.PKCS8])
@pytest.mark.parametrize("app_id", [314159, "314159", "Iv23liAbCdEf0123456789"])
def test_proof(form: PrivateFormat, app_id: int | str) -> None:
    proof = AppKey(app_id, pem(form=form)).prove(NOW)
    assert jwt.get_unverified_header(proof.value)["alg"] == "RS256"
    scheme, text = proof.bearer().split(" ")
    claims = jwt.decode(
        text, rsa_key().public_key(), ["RS256"], options={"verify_exp": False, "verify_iat": False}
    )
    second = int(NOW.timestamp())
    assert (scheme, claims) == ("Bearer", {"iat": second - 60, "exp": second + 540, "iss": str(app_id)})
    assert text not in repr(proof)


@pytest.mark.parametrize(
    "prepare",
    [
        lambda text: text.decode(),
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: b"made by hand\n\n" + text + b"\n\n",
        lambda text: text.rstrip(b"\n"),
    ],
)
def test_how_editors_leave_a_key(prepare: object) -> None:
    assert callable(prepare)
    assert AppKey(1, prepare(pem())).prove(NOW).value.count(".") == 2


BAD = [
    ("with a passphrase", pem(form=PrivateFormat.PKCS8, secret=BestAvailableEncryption(b"pw")), "passphrase"),
    ("with a passphrase, PKCS#1", pem(secret=BestAvailableEncryption(b"pw")), "passphrase"),
    ("elliptic curve", pem(ec.generate_private_key(ec.SECP256R1()), PrivateFormat.PKCS8), "no RSA key"),
    ("Ed25519", pem(ed25519.Ed25519PrivateKey.generate(), PrivateFormat.PKCS8), "no RSA key"),
    ("short", pem(rsa_key(1024)), "has 1024 bits"),
    ("public", public_pem(), "no private key"),
    ("OpenSSH's form", pem(form=PrivateFormat.OpenSSH), "no private key"),
    ("cut", pem()[:-200], "no private key"),
    ("empty", b"", "no private key"),
    ("something else", b"\x00\xff" * 100, "no private key"),
    ("half a surrogate pair", "\ud800", "no private key"),
]


@pytest.mark.parametrize(("text", "words"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_refused(text: bytes | str, words: str) -> None:
    with pytest.raises(GatewayError, match=words) as caught:
        AppKey(1, text)
    assert "private_key_file" in caught.value.hint
    assert "BEGIN" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [(text, words) for _, text, words in BAD if isinstance(text, bytes)],
    ids=[name for name, text, _ in BAD if isinstance(text, bytes)],
)
def test_refused_file_is_named(tmp_path: Path, text: bytes, words: str) -> None:
    path = tmp_path / "app.pem"
    path.write_bytes(text)
    with pytest.raises(GatewayError, match=words) as caught:
        read_private_key(path)
    assert str(path) in caught.value.message
    assert "private_key_file" in caught.value.hint


@pytest.mark.parametrize(
    ("mode", "warned"),
    [(0o600, False), (0o400, False), (0o640, True), (0o604, True), (0o622, True), (0o644, True)],
)
def test_file_and_who_may_read_it(tmp_path: Path, mode: int, warned: bool) -> None:
    path = tmp_path / "app.pem"
    path.write_bytes(pem())
    path.chmod(mode)
    file = read_private_key(path)
    assert file.pem == pem()
    assert "BEGIN" not in repr(file)
    assert len(file.warnings) == warned
    if warned:
        assert f"{mode:04o}" in file.warnings[0]
        assert f"chmod 600 {path}" in file.warnings[0]


def test_link_to_a_key(tmp_path: Path) -> None:
    """What secret stores mount is a link."""
    (tmp_path / "real.pem").write_bytes(pem())
    (tmp_path / "real.pem").chmod(0o600)
    (tmp_path / "app.pem").symlink_to("real.pem")
    assert read_private_key(tmp_path / "app.pem").warnings == ()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "No such file"),
        (Path.mkdir, "regular file"),
        (make_pipe, "regular file"),
        (lambda path: path.write_bytes(b"x" * (64 << 10) + b"x"), "too large"),
        (lambda path: path.symlink_to(path), "symbolic links"),
    ],
    ids=["missing", "folder", "named pipe", "too large", "loop"],
)
def test_unreadable_file(tmp_path: Path, make: object, words: str) -> None:
    assert callable(make)
    path = tmp_path / "app.pem"
    make(path)
    with pytest.raises(GatewayError, match=words) as caught:
        read_private_key(path)
    assert str(path) in caught.value.message
    assert "private_key_file" in caught.value.hint
