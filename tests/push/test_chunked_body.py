"""Chunked bodies: all of the content, whatever the pieces, and nothing but chunks."""

import asyncio
import socket
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPInputError
from tornado.iostream import IOStream, StreamClosedError

from gateway.push.chunked_body import ROOM, ChunkedBody, read_chunked

MOST = 1 << 20


class Pieces:
    """A connection whose bytes come in these pieces, and is closed then."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = [piece for piece in pieces if piece]

    async def read_into(self, buf: bytearray, partial: bool = False) -> int:
        assert partial and len(buf) > 0
        if not self._pieces:
            raise StreamClosedError
        piece = self._pieces.pop(0)
        if len(piece) > len(buf):
            self._pieces.insert(0, piece[len(buf) :])
        piece = piece[: len(buf)]
        buf[: len(piece)] = piece
        return len(piece)


def chunked(chunks: Sequence[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def split(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def read(pieces: Sequence[bytes], most: int = MOST) -> list[bytes]:
    """What is given away."""
    given_away: list[bytes] = []

    async def test() -> None:
        await read_chunked(Pieces(pieces), most, given_away.append)

    asyncio.run(test())
    return given_away


@given(st.lists(st.binary(min_size=1, max_size=90), max_size=9), st.integers(1, 99))
def test_pieces_do_not_matter(chunks: list[bytes], size: int) -> None:
    assert b"".join(read(split(chunked(chunks), size))) == b"".join(chunks)


def test_what_is_there_comes_at_once() -> None:
    chunks = [bytes([number % 256]) * 1000 for number in range(200)]
    assert read([chunked(chunks)]) == [b"".join(chunks)]


def test_long_bodies_come_in_pieces() -> None:
    content = bytes(range(256)) * 4096
    pieces = read([chunked([content, content])], 2 * len(content))
    assert b"".join(pieces) == 2 * content
    assert max(map(len, pieces)) <= ROOM


def test_sizes_in_any_spelling() -> None:
    assert read([b"000000000000000A\r\n0123456789\r\nb\r\n0123456789a\r\n000\r\n\r\n"]) == [
        b"01234567890123456789a"
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"4\n0000\n0\n\n",
        b"0x4\r\n0000\r\n0\r\n\r\n",
        b"+4\r\n0000\r\n0\r\n\r\n",
        b"-4\r\n0000\r\n0\r\n\r\n",
        b"0_4\r\n0000\r\n0\r\n\r\n",
        b" 4\r\n0000\r\n0\r\n\r\n",
        b"4 \r\n0000\r\n0\r\n\r\n",
        b"4;x=y\r\n0000\r\n0\r\n\r\n",
        b"00000000000000004\r\n0000\r\n0\r\n\r\n",
        b"4\r0000\r\n0\r\n\r\n",
        b"\r\n4\r\n0000\r\n0\r\n\r\n",
        b"4\r\n0000XX0\r\n\r\n",
        b"4\r\n00000\r\n0\r\n\r\n",
        b"4\r\n0000\r\n\r\n0\r\n\r\n",
        b"0\r\nHost: evil.test\r\n\r\n",
        b"0\r\n\n",
        b"0\r\n\r0",
        b"0\r\n\r\nG",
        b"0\r\n\r\nPOST / HTTP/1.1\r\n\r\n",
        b"<html>",
        b"\xff",
    ],
)
def test_what_is_no_chunked_body(data: bytes) -> None:
    with pytest.raises(HTTPInputError):
        read([data])


@pytest.mark.parametrize(
    "data", [b"", b"4", b"4\r", b"4\r\n00", b"4\r\n0000", b"4\r\n0000\r\n", b"0\r\n", b"0\r\n\r"]
)
def test_a_body_that_is_cut_off(data: bytes) -> None:
    with pytest.raises(StreamClosedError):
        read([data])


@pytest.mark.parametrize("size", [b"a", b"ffffffffffffffff"])
def test_too_much(size: bytes) -> None:
    """Known from the size alone."""
    with pytest.raises(HTTPInputError):
        read([b"1\r\n0\r\n" + size + b"\r\n"], 10)


def test_just_enough() -> None:
    assert read([chunked([b"0", b"123456789"])], 10) == [b"0123456789"]


def test_whoever_has_no_room_is_waited_for() -> None:
    async def test() -> None:
        room = asyncio.get_running_loop().create_future()
        taken: list[bytes] = []

        def give(data: bytes) -> asyncio.Future[None]:
            taken.append(data)
            return room

        reading = asyncio.ensure_future(
            read_chunked(Pieces([b"1\r\na\r\n", b"1\r\nb\r\n0\r\n\r\n"]), MOST, give)
        )
        await asyncio.sleep(0)
        assert taken == [b"a"]
        room.set_result(None)
        await reading
        assert taken == [b"a", b"b"]

    asyncio.run(test())


def test_from_a_connection() -> None:
    """What is read of it is the body and no more, when nothing came with it."""

    async def test() -> None:
        ours, theirs = socket.socketpair()
        stream = IOStream(ours)
        with theirs:
            theirs.sendall(chunked([b"one", b"two"]))
            body = ChunkedBody(stream, MOST)
            assert (await body.read(), await body.read()) == (b"onetwo", b"")
            theirs.sendall(b"next")
            assert await stream.read_bytes(4) == b"next"
            with pytest.raises(StreamClosedError):
                theirs.close()
                await ChunkedBody(stream, MOST).read()

    asyncio.run(test())


def test_it_stands_in_for_a_method_of_tornado() -> None:
    """`PushHandler` replaces this one; were it called otherwise, bodies would be read as tornado does, slowly."""
    assert callable(HTTP1Connection._read_chunked_body)
