"""Bodies as they come and gzip: inflated in pieces, with an end to it."""

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.push.commands import CommandError
from gateway.push.gzip_body import (
    INFLATED_LIMIT,
    MEMBER_LIMIT,
    RATIO_ALLOWANCE,
    RATIO_LIMIT,
    BodyDecoder,
)

PIECE = 1 << 16
NOISE = random.Random(1).randbytes(3 << 20)  # as a pack: nothing to be had from deflating it
TEXT = b"0000000000 refs/heads/main\n" * 4000
HEAD = gzip.compress(b"")[:10]


def decode(data: bytes, encoding: str | None = "gzip", step: int = 0, limit: int = INFLATED_LIMIT) -> bytes:
    """The whole body, fed in steps of some bytes."""
    decoder = BodyDecoder(encoding, inflated_limit=limit)
    found = bytearray()
    for at in range(0, len(data), step or len(data) or 1):
        for piece in decoder.feed(data[at : at + step] if step else data):
            assert 0 < len(piece) <= max(PIECE, 0 if encoding else len(data))
            found += piece
    decoder.finish()
    assert (decoder.taken, decoder.given) == (len(data), len(found))
    return bytes(found)


@pytest.mark.parametrize("encoding", [None, "", "identity", " Identity\t"])
@pytest.mark.parametrize(
    "data", [b"", b"0000", gzip.compress(TEXT)], ids=["empty", "short", "looks like gzip"]
)
def test_as_it_is(encoding: str | None, data: bytes) -> None:
    assert decode(data, encoding) == data


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZip", " gzip "])
@pytest.mark.parametrize("step", [0, 1, 7, 5000])
def test_gzip(encoding: str, step: int) -> None:
    assert decode(gzip.compress(TEXT), encoding, step) == TEXT


def test_what_does_not_shrink() -> None:
    assert decode(gzip.compress(NOISE), step=PIECE) == NOISE


@pytest.mark.parametrize(
    "encoding",
    ["deflate", "br", "zstd", "compress", "gzip, gzip", "gzip,identity", "identity,", "gzip;q=1", "*", "x"],
)
def test_another_coding(encoding: str) -> None:
    with pytest.raises(CommandError) as caught:
        BodyDecoder(encoding)
    assert caught.value.status == 415


@pytest.mark.parametrize("step", [0, 1, 9])
@pytest.mark.parametrize(
    "parts", [(b"a", b"b"), (TEXT, b"", TEXT), (b"", b"")], ids=["two", "an empty one between", "empty ones"]
)
def test_several_members(parts: tuple[bytes, ...], step: int) -> None:
    """RFC 1952 section 2.2: a gzip stream is a series of members."""
    assert decode(b"".join(map(gzip.compress, parts)), step=step) == b"".join(parts)


def corrupt(data: bytes) -> bytes:
    return data[:-8] + bytes([data[-8] ^ 1]) + data[-7:]


# What, body.
BROKEN: list[tuple[str, bytes]] = [
    ("nothing at all", b""),
    ("half a head", HEAD[:5]),
    ("a head alone", HEAD),
    ("cut in the middle", gzip.compress(TEXT)[:-100]),
    ("cut in the checksum", gzip.compress(TEXT)[:-1]),
    ("a wrong checksum", corrupt(gzip.compress(TEXT))),
    ("a wrong length", gzip.compress(TEXT)[:-1] + b"\x07"),
    ("not gzip", b"0000" + TEXT),
    ("zlib's own format", zlib.compress(TEXT)),
    ("deflate without a head", zlib.compress(TEXT)[2:-4]),
    ("garbage behind", gzip.compress(TEXT) + b"PACK" * 4),
    ("one byte behind", gzip.compress(TEXT) + b"x"),
    ("zeros behind", gzip.compress(TEXT) + bytes(100)),
    ("half a member behind", gzip.compress(TEXT) + gzip.compress(TEXT)[:30]),
    ("a reserved flag", HEAD[:3] + b"\xe0" + HEAD[4:] + gzip.compress(b"a")[10:]),
]


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("data", [row[1] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_broken(data: bytes, step: int) -> None:
    with pytest.raises(CommandError) as caught:
        decode(data, step=step)
    assert caught.value.status == 400


def bomb(size: int) -> bytes:
    """Gzip of so many MiB of zeros, about 1 KiB each; without its end."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    deflate.compress(bytes(1 << 20))
    return HEAD + size * (deflate.compress(bytes(1 << 20)) + deflate.flush(zlib.Z_FULL_FLUSH))


def behind_commands(data: bytes) -> bytes:
    """Row 32: what comes first is in order."""
    return gzip.compress(TEXT) + data


@pytest.mark.parametrize("wrap", [bytes, behind_commands], ids=["alone", "behind the commands"])
@pytest.mark.parametrize("step", [0, PIECE])
def test_bomb(wrap: Callable[[bytes], bytes], step: int) -> None:
    """1 MB that would become 1 GiB: refused soon, and at no time is there more of it than a piece."""
    data = wrap(bomb(1024))
    assert len(data) < 3 << 20
    decoder = BodyDecoder("gzip")
    given = 0
    tracemalloc.start()
    try:
        with pytest.raises(CommandError) as caught:
            for at in range(0, len(data), step or len(data)):
                for piece in decoder.feed(data[at : at + (step or len(data))]):
                    given += len(piece)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.status == 413
    assert given <= RATIO_ALLOWANCE + PIECE + len(TEXT)
    assert peak < 1 << 20
    for again in (lambda: list(decoder.feed(b"x")), decoder.finish):
        with pytest.raises(CommandError, match=str(RATIO_LIMIT)):
            again()


def test_bomb_of_the_highest_ratio_within_the_allowance() -> None:
    """Commands are over within it, however alike they are."""
    data = gzip.compress(bytes(RATIO_ALLOWANCE))
    assert 500 * len(data) < RATIO_ALLOWANCE
    assert len(decode(data)) == RATIO_ALLOWANCE


@pytest.mark.parametrize("step", [0, PIECE])
def test_size(step: int) -> None:
    data = gzip.compress(NOISE)
    assert decode(data, step=step, limit=len(NOISE)) == NOISE
    with pytest.raises(CommandError, match=str(len(NOISE) - 1)) as caught:
        decode(data, step=step, limit=len(NOISE) - 1)
    assert caught.value.status == 413


def test_members_without_end() -> None:
    member = gzip.compress(b"")
    assert decode(member * MEMBER_LIMIT) == b""
    with pytest.raises(CommandError, match="members") as caught:
        decode(member * (MEMBER_LIMIT + 1))
    assert caught.value.status == 413


@given(st.binary(max_size=300), st.integers(0, 9), st.binary(max_size=4), st.lists(st.integers(0, 400)))
def test_pieces_do_not_matter(content: bytes, level: int, behind: bytes, cuts: list[int]) -> None:
    data = gzip.compress(content, level) + behind
    ends = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]

    def outcome(pieces: list[bytes]) -> object:
        decoder = BodyDecoder("gzip")
        try:
            found = b"".join(piece for part in pieces for piece in decoder.feed(part))
            decoder.finish()
        except CommandError as error:
            return error.status
        return found

    expected = 400 if behind else content
    assert outcome([data[start:end] for start, end in pairwise(ends)]) == outcome([data]) == expected
