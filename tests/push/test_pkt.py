"""Packets: written, and read from pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.push.pkt import FLUSH, LONGEST_BAND, LONGEST_PAYLOAD, Flush, PktError, PktReader, pkt, sideband


def read(*pieces: bytes) -> list[bytes | Flush]:
    reader = PktReader()
    found = []
    for piece in pieces:
        reader.feed(piece)
        while (packet := reader.next()) is not None:
            found.append(packet)
    return found


@pytest.mark.parametrize(
    ("payload", "packet"),
    [
        (b"", b"0004"),
        (b"a", b"0005a"),
        (b"unpack ok\n", b"000eunpack ok\n"),
        (b"x" * LONGEST_PAYLOAD, b"fff0" + b"x" * 65516),
    ],
    ids=["empty", "one byte", "a line", "the longest"],
)
def test_written_and_read(payload: bytes, packet: bytes) -> None:
    assert pkt(payload) == packet
    assert read(packet) == [payload]


def test_too_long_to_be_written() -> None:
    """Not with a fifth digit."""
    with pytest.raises(ValueError, match="65516"):
        pkt(b"x" * (LONGEST_PAYLOAD + 1))


# The number is the row of the table of hostile input.
LENGTHS = [
    ("1: delimiter", b"0001"),
    ("1: response end", b"0002"),
    ("1: no length at all", b"0003"),
    ("2: a sign", b"+04a"),
    ("2: a space", b" 04a"),
    ("2: an underscore", b"0_4a"),
    ("2: a prefix", b"0x4a"),
    ("2: no digits", b"PACK"),
    ("2: digits of another script", "\u0660\u0664".encode()),
    ("2: a line end", b"004\n"),
    ("3: one too long", b"fff1"),
    ("3: fff5", b"fff5"),
    ("3: ffff", b"FFFF"),
]


@pytest.mark.parametrize("digits", [row[1] for row in LENGTHS], ids=[row[0] for row in LENGTHS])
def test_no_length(digits: bytes) -> None:
    """Known with the fourth digit; and nothing is read behind it."""
    reader = PktReader()
    reader.feed(pkt(b"fine") + digits)
    assert reader.next() == b"fine"
    for _ in range(2):
        with pytest.raises(PktError):
            reader.next()
        reader.feed(FLUSH)


def test_flush_is_no_empty_packet() -> None:
    assert read(b"0004" + FLUSH + b"0004") == [b"", Flush.FLUSH, b""]


def test_digits_in_either_case() -> None:
    assert read(b"000Ahello!", b"000ahello!") == [b"hello!"] * 2


def test_rest_is_what_follows() -> None:
    reader = PktReader()
    reader.feed(pkt(b"one") + FLUSH + b"PACK\0\0")
    assert (reader.next(), reader.next()) == (b"one", Flush.FLUSH)
    assert reader.pending == 6
    assert reader.rest() == b"PACK\0\0"
    assert (reader.pending, reader.rest()) == (0, b"")


def test_pending_tells_of_a_cut() -> None:
    reader = PktReader()
    reader.feed(pkt(b"one")[:-1])
    assert reader.next() is None
    assert reader.length() == 7
    assert reader.pending == 6


@pytest.mark.parametrize(
    ("band", "data", "sizes"),
    [
        (1, b"", []),
        (1, b"x", [6]),
        (2, b"x" * LONGEST_BAND, [65520]),
        (3, b"x" * (LONGEST_BAND + 1), [65520, 6]),
    ],
    ids=["nothing", "one byte", "one packet", "two packets"],
)
def test_sideband(band: int, data: bytes, sizes: list[int]) -> None:
    packets = list(sideband(band, data))
    assert [len(one) for one in packets] == sizes
    read_back = [one for one in read(b"".join(packets)) if isinstance(one, bytes)]
    assert {one[0] for one in read_back} <= {band}
    assert b"".join(one[1:] for one in read_back) == data


@pytest.mark.parametrize("band", [0, 4, 69])
def test_no_such_band(band: int) -> None:
    with pytest.raises(ValueError, match="band"):
        list(sideband(band, b"x"))


@given(st.lists(st.one_of(st.binary(max_size=40), st.none())), st.lists(st.integers(0, 400)))
def test_pieces_do_not_matter(payloads: list[bytes | None], cuts: list[int]) -> None:
    """None stands for a flush."""
    stream = b"".join(FLUSH if one is None else pkt(one) for one in payloads)
    ends = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in pairwise(ends)]
    assert read(*pieces) == [Flush.FLUSH if one is None else one for one in payloads]
