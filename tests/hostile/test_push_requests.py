"""Addresses and HTTP of a push that two programs could read in two ways, at the socket: nothing is minted or sent."""

from collections.abc import Iterator, Sequence

import pytest

from tests.fakes.push_gateway import NAME, SECRET, PushWorld, push_world
from tests.fakes.raw_push import RECEIVE, REFS, TYPE, ZERO, Untouched, good_pack, push_well, section
from tests.fakes.wire import Wire

NEW, PACK = good_pack("hostile")
BODY = section((ZERO, NEW, "refs/heads/agent/x")) + PACK
POST = "POST"
CHUNKED = b"4\r\n0000\r\n0\r\n\r\n"
HOST, WHOSE = "Host: 127.0.0.1:PORT", f"X-Agent-Gateway-Session: {SECRET}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushWorld]:
    with push_world(tmp_path_factory.mktemp("world")) as opened:
        yield opened


def status(
    world: PushWorld,
    line: str,
    headers: Sequence[str],
    body: bytes = b"",
    *,
    ending: bytes = b"\r\n",
    finish: bool = False,
) -> int:
    """Of the answer to a request that is sent as it stands, with PORT for the port; 0 for none. `finish`: the client
    says that it has nothing more to send."""
    head = ending.join(
        text.replace("PORT", str(world.port)).encode("latin-1") for text in (line, *headers, "", "")
    )
    with Wire.to(world.port) as wire:
        wire.send(head + body)
        if finish:
            wire.finish()
        answer = wire.rest()
    return int(answer.split(b" ")[1]) if answer else 0


def ordinary(*headers: str) -> list[str]:
    return [HOST, WHOSE, TYPE, *headers]


PATHS: dict[str, tuple[str, str, int]] = {
    "27 a second service": ("GET", REFS + "&service=git-upload-pack", 404),
    "27 more of a query": ("GET", REFS + "&x=1", 404),
    "27 two services": ("GET", REFS.replace("receive", "upload") + "&service=git-receive-pack", 404),
    "27 no service": ("GET", REFS.partition("?")[0], 404),
    "27 a post with a query": (POST, RECEIVE + "?service=git-receive-pack", 404),
    "27 a get of the service": ("GET", RECEIVE, 405),
    "27 a post to the refs": (POST, REFS, 405),
    "28 an encoded slash": (POST, RECEIVE.replace("acme/widget", "acme%2fwidget"), 404),
    "28 an encoded zero": (POST, RECEIVE.replace("widget", "widget%00"), 404),
    "28 an encoded letter": (POST, RECEIVE.replace("widget", "%77idget"), 404),
    "28 two slashes": (POST, RECEIVE.replace("acme/", "acme//"), 404),
    "28 upwards": (POST, RECEIVE.replace("acme/", "evil/../acme/"), 404),
    "28 a backslash": (POST, RECEIVE.replace("acme/", "acme\\"), 404),
    "28 a semicolon": (POST, RECEIVE.replace("widget", "widget;x"), 404),
    "28 a dot at the end": (POST, RECEIVE + "/.", 404),
    "28 .git twice": (POST, RECEIVE.replace(".git/", ".git.git/"), 404),
    "28 no owner": (POST, RECEIVE.replace("acme/", ""), 404),
    "28 an owner of dots": (POST, RECEIVE.replace("acme", ".."), 404),
    "28 a long name": (POST, RECEIVE.replace("widget", "w" * 101), 404),
    "28 a long owner": (POST, RECEIVE.replace("acme", "a" * 101), 404),
    "28 a user": (POST, RECEIVE.replace("acme", "user@acme"), 404),
    "30 a port": (POST, RECEIVE.replace("github.com", "github.com:443"), 404),
    "30 a dot behind the host": (POST, RECEIVE.replace("github.com", "github.com."), 404),
    "30 another case": (POST, RECEIVE.replace("github.com", "GITHUB.com"), 404),
    "30 another host": (POST, RECEIVE.replace("github.com", "evil.com"), 404),
    "30 userinfo": (POST, RECEIVE.replace("github.com", "github.com@evil"), 404),
    "30 no host": (POST, RECEIVE.replace("github.com/", ""), 404),
}

HEADS: dict[str, tuple[str, list[str], bytes]] = {
    "30 absolute form": (
        f"POST http://127.0.0.1:PORT{RECEIVE} HTTP/1.1", ordinary(f"Content-Length: {len(BODY)}"), BODY,
    ),
    "30 two hosts": (f"POST {RECEIVE} HTTP/1.1", ordinary("Host: 127.0.0.1:PORT", "Content-Length: 4"), b"0000"),
    "30 two hosts in one": (
        f"POST {RECEIVE} HTTP/1.1", ["Host: 127.0.0.1:PORT, evil.test", WHOSE, TYPE, "Content-Length: 4"], b"0000",
    ),
    "30 a name turned to loopback": (
        f"GET {REFS} HTTP/1.1", ["Host: rebound.test:PORT", WHOSE], b"",
    ),
    "30 no host": (f"GET {REFS} HTTP/1.1", [WHOSE], b""),
    "39 length and chunks": (
        f"POST {RECEIVE} HTTP/1.1", ordinary("Content-Length: 4", "Transfer-Encoding: chunked"), CHUNKED,
    ),
    "39 two lengths": (f"POST {RECEIVE} HTTP/1.1", ordinary("Content-Length: 4", "Content-Length: 8"), b"00000000"),
    "39 one length twice": (f"POST {RECEIVE} HTTP/1.1", ordinary("Content-Length: 4", "Content-Length: 4"), b"0000"),
    "39 a list of lengths": (f"POST {RECEIVE} HTTP/1.1", ordinary("Content-Length: 4, 4"), b"0000"),
    "39 a length with a sign": (f"POST {RECEIVE} HTTP/1.1", ordinary("Content-Length: +4"), b"0000"),
    "39 another coding": (f"POST {RECEIVE} HTTP/1.1", ordinary("Transfer-Encoding: xchunked"), CHUNKED),
    "39 two codings": (f"POST {RECEIVE} HTTP/1.1", ordinary("Transfer-Encoding: gzip, chunked"), CHUNKED),
    "39 chunks in 1.0": (f"POST {RECEIVE} HTTP/1.0", ordinary("Transfer-Encoding: chunked"), CHUNKED),
    "39 a folded header": (f"POST {RECEIVE} HTTP/1.1", ordinary("X: 1", " Content-Length: 4"), b"0000"),
    "39 a space before the colon": (f"POST {RECEIVE} HTTP/1.1", ordinary("Content-Length : 4"), b"0000"),
    "a version that is none": (f"POST {RECEIVE} HTTP/2.0", ordinary("Content-Length: 4"), b"0000"),
    "a zero byte": (f"POST {RECEIVE} HTTP/1.1", ordinary("X: a\0b", "Content-Length: 4"), b"0000"),
}  # fmt: skip

CHUNKS = {
    "39 a bare line end": b"4\n0000\n0\n\n",
    "39 a prefix": b"0x4\r\n0000\r\n0\r\n\r\n",
    "39 a sign": b"+4\r\n0000\r\n0\r\n\r\n",
    "39 a minus": b"-4\r\n0000\r\n0\r\n\r\n",
    "39 an underscore": b"0_4\r\n0000\r\n0\r\n\r\n",
    "39 a huge size": b"f" * 17 + b"\r\n0000\r\n0\r\n\r\n",
    "39 no line end behind": b"4\r\n0000XX0\r\n\r\n",
    "39 an extension": b"4;x=y\r\n0000\r\n0\r\n\r\n",
    "39 a trailer": b"4\r\n0000\r\n0\r\nHost: evil.test\r\n\r\n",
    "39 no end": b"4\r\n0000\r\n",
}


@pytest.mark.parametrize(("method", "path", "expected"), PATHS.values(), ids=PATHS.keys())
def test_addresses(world: PushWorld, method: str, path: str, expected: int) -> None:
    with Untouched(world) as untouched:
        found = status(world, f"{method} {path} HTTP/1.1", ordinary("Content-Length: 0", "Connection: close"))
        assert found == expected
    assert untouched.record["code"] == "malformed_request"


@pytest.mark.parametrize(("line", "headers", "body"), HEADS.values(), ids=HEADS.keys())
def test_heads(world: PushWorld, line: str, headers: list[str], body: bytes) -> None:
    with Untouched(world) as untouched:
        assert status(world, line, headers, body) == 400
    assert untouched.record["code"] == "malformed_request"
    push_well(world)


def test_39_lines_that_end_in_line_feeds(world: PushWorld) -> None:
    with Untouched(world):
        assert (
            status(world, f"POST {RECEIVE} HTTP/1.1", ordinary("Content-Length: 4"), b"0000", ending=b"\n")
            == 400
        )
    push_well(world)


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS.keys())
def test_chunks(world: PushWorld, chunks: bytes) -> None:
    """The body cannot be read to its end, so nothing of it counts."""
    with Untouched(world) as untouched:
        line, headers = f"POST {RECEIVE} HTTP/1.1", ordinary("Transfer-Encoding: chunked")
        assert status(world, line, headers, chunks, finish=True) in {0, 400}
    assert untouched.record["code"] == "client_gone"
    push_well(world)


def test_nothing_is_smuggled_behind_a_body(world: PushWorld) -> None:
    """What stands behind the body is the next request of this connection, judged like any other."""
    denied = section((ZERO, NEW, "refs/heads/main")) + PACK
    before = world.minted
    with Wire.to(world.port) as wire:
        for body in (denied, b"0000"):
            wire.send(world.head(RECEIVE, [TYPE, f"Content-Length: {len(body)}"]) + body)
        wire.send(world.head(RECEIVE, [TYPE, "Content-Length: 4"], "wrong") + b"0000")
        assert [wire.message().status for _ in range(3)] == [200, 200, 403]
    assert world.minted == before


def test_29_any_case_of_one_repository(world: PushWorld) -> None:
    path = RECEIVE.replace(NAME, "ACME/Widget").replace(".git/", ".GIT/")
    assert (
        status(world, f"POST {path} HTTP/1.1", ordinary("Content-Length: 4", "Connection: close"), b"0000")
        == 200
    )
