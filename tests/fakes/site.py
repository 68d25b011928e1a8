"""A web site that real clients reach from inside: the same pages by http and by https, under one name."""

import gzip
import hashlib
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.fakes.authority import Authority
from tests.fakes.product import REFUSED, Product
from tests.fakes.web import Answer, Request, Route, Web

ORIGIN = "origin.test"
TEXT = {"Content-Type": "text/plain; charset=utf-8"}

ZIPPED = gzip.compress(b"words that are said again and again\n" * 100, mtime=0)

BLOCK = hashlib.sha256(b"a block").digest() * (1 << 15)  # 1 MiB
BLOCKS = 64


@dataclass(frozen=True, slots=True)
class Site:
    """Both servers, their URLs without a path, what a refused client would ask for, and the file that says whom to
    trust, as seen from inside."""

    plain: Web
    secure: Web
    authority: str

    @property
    def http(self) -> str:
        return f"http://{self.plain_target}"

    @property
    def https(self) -> str:
        return f"https://{self.secure_target}"

    @property
    def plain_target(self) -> str:
        return f"{ORIGIN}:{self.plain.port}"

    @property
    def secure_target(self) -> str:
        return f"{ORIGIN}:{self.secure.port}"

    @property
    def refused_plain(self) -> str:
        return f"{REFUSED}:{self.plain.port}"

    @property
    def refused_secure(self) -> str:
        return f"{REFUSED}:{self.secure.port}"


@contextmanager
def open_site(
    product: Product,
    authority: Authority,
    routes: Mapping[str, Route] | None = None,
    *,
    address: str = "127.0.0.1",
) -> Iterator[Site]:
    """Opens the site and lets the product's sessions reach it."""
    pages = {**PAGES, **(routes or {})}
    with Web(pages, host=address) as plain, Web(pages, host=address, tls=authority.server(ORIGIN)) as secure:
        for web in (plain, secure):
            product.reach(ORIGIN, web.port, address)
        yield Site(plain, secure, product.give(authority.path))


def large() -> Iterator[bytes]:
    """The pieces of a large body, each another one."""
    for number in range(BLOCKS):
        yield number.to_bytes(8) + BLOCK[8:]


def large_digest() -> str:
    """SHA-256 of the large body, hexadecimal."""
    digest = hashlib.sha256()
    for piece in large():
        digest.update(piece)
    return digest.hexdigest()


def _loopbacks() -> tuple[str, ...]:
    """127.0.0.1, and ::1 where this machine has it."""
    if not socket.has_ipv6:
        return ("127.0.0.1",)
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as trial:
        try:
            trial.bind(("::1", 0))
        except OSError:
            return ("127.0.0.1",)
    return ("127.0.0.1", "::1")


def _hello(request: Request) -> Answer:
    """Who asked what."""
    return Answer(f"hello {request.method} {request.query}\n".encode(), fields=TEXT)


def _digest(request: Request) -> Answer:
    """Size and digest of what was sent."""
    digest, size = hashlib.sha256(), 0
    for piece in request.body:
        digest.update(piece)
        size += len(piece)
    return Answer(f"{size} {digest.hexdigest()}\n".encode(), fields=TEXT)


def _zipped(request: Request) -> Answer:
    """A body that is compressed whatever the client accepts."""
    return Answer(ZIPPED, fields={**TEXT, "Content-Encoding": "gzip"})


def _large(request: Request) -> Answer:
    """A large body."""
    return Answer(large(), length=BLOCKS * len(BLOCK))


PAGES: Mapping[str, Route] = {"hello": _hello, "digest": _digest, "zipped": _zipped, "large": _large}
LOOPBACKS = _loopbacks()
