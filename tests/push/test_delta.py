"""Deltas: what they make, and that no claim in them goes unchecked. Second opinions are git's and dulwich's."""

import tracemalloc
from contextlib import nullcontext
from pathlib import Path
from subprocess import CalledProcessError

import pytest
from dulwich import pack as dulwich
from hypothesis import given
from hypothesis import strategies as st

from gateway.push.delta import DeltaError, apply_delta
from tests.fakes.histories import History
from tests.fakes.packs import BLOB, OFFSET_DELTA, append, copy, delta, distance, entry, number, pack

BASE = b"0123456789"
MOST = 1000

# What, delta, result.
GOOD = [
    ("an insertion", delta(10, 3, b"\x03abc"), b"abc"),
    ("a copy", delta(10, 4, copy(2, 4)), b"2345"),
    ("a copy of everything", delta(10, 10, copy(0, 10)), BASE),
    ("both, out of order", delta(10, 5, copy(8, 2), b"\x01-", copy(0, 2)), b"89-01"),
    ("few bytes for a copy", delta(10, 3, b"\x91\x01\x03"), b"123"),
    ("sizes with idle bytes", b"\x8a\x80\x00" + b"\x81\x00" + b"\x01x", b"x"),
]

BAD = [
    ("empty", b""),
    ("one size only", b"\x0a"),
    ("a size without end", b"\x8a"),
    ("a size of eleven bytes", b"\x8a" + b"\x80" * 10 + b"\x00" + b"\x01\x01x"),
    ("another base", delta(11, 3, b"\x03abc")),
    ("a result that is larger", delta(10, 3, b"\x02ab")),
    ("a result that is smaller", delta(10, 1, b"\x02ab")),
    ("a result above the bound", delta(10, MOST + 1, *[b"\x01x"] * (MOST + 1))),
    ("a result of an exabyte", delta(10, 1 << 60, b"\x01x")),
    ("an instruction 0", delta(10, 1, b"\x00", b"\x01x")),
    ("an insertion cut off", delta(10, 3, b"\x03ab")),
    ("a copy cut off", delta(10, 4, copy(2, 4)[:-1])),
    ("a copy from behind the end", delta(10, 1, copy(10, 1))),
    ("a copy over the end", delta(10, 5, copy(6, 5))),
    ("a copy from far away", delta(10, 1, copy(0xFFFFFFFF, 1))),
    ("a copy of size 0, which is 65536", delta(10, 10, copy(0, 0))),
    ("something after the end", delta(10, 3, b"\x03abc", copy(0, 1))),
    ("an instruction 0 after the end", delta(10, 3, b"\x03abc", b"\x00")),
]
# Two bounds are ours alone.
GIT_TAKES = {*(row[0] for row in GOOD), "a result above the bound", "a size of eleven bytes"}


@pytest.mark.parametrize(("given_delta", "result"), [row[1:] for row in GOOD], ids=[row[0] for row in GOOD])
def test_good(given_delta: bytes, result: bytes) -> None:
    assert apply_delta(BASE, given_delta, MOST) == result
    assert b"".join(dulwich.apply_delta(BASE, given_delta)) == result


@pytest.mark.parametrize("given_delta", [row[1] for row in BAD], ids=[row[0] for row in BAD])
def test_bad(given_delta: bytes) -> None:
    with pytest.raises(DeltaError) as caught:
        apply_delta(BASE, given_delta, MOST)
    assert str(caught.value).startswith("the delta")


@pytest.mark.parametrize(("name", "given_delta"), [row[:2] for row in (*GOOD, *BAD)])
def test_git_agrees(name: str, given_delta: bytes, tmp_path: Path) -> None:
    base = entry(BLOB, BASE)
    pushed = pack([base, entry(OFFSET_DELTA, given_delta, base=distance(len(base)))])
    history = History(tmp_path / "git")
    with nullcontext() if name in GIT_TAKES else pytest.raises(CalledProcessError):
        history.git("unpack-objects", "-q", data=pushed)


def test_a_copy_of_size_0() -> None:
    base = bytes(range(256)) * 257
    assert apply_delta(base, delta(len(base), 0x10000, b"\x80"), 1 << 20) == base[:0x10000]


def test_nothing_is_allocated_by_a_claim() -> None:
    claim = number(len(BASE)) + number(900 << 20) + b"\x01x"
    tracemalloc.start()
    try:
        with pytest.raises(DeltaError):
            apply_delta(BASE, claim, 1 << 40)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20


@given(st.binary(max_size=300), st.binary(min_size=1, max_size=127))
def test_appending(base: bytes, more: bytes) -> None:
    assert apply_delta(base, append(base, more), MOST) == base + more


@given(st.lists(st.binary(max_size=90), max_size=6), st.lists(st.binary(max_size=90), max_size=6), st.data())
def test_what_dulwich_makes(one: list[bytes], other: list[bytes], data: st.DataObject) -> None:
    base = b"".join(one)
    target = b"".join(data.draw(st.permutations(one + other)))
    made = b"".join(dulwich.create_delta(base, target))
    assert apply_delta(base, made, MOST * 2) == target


_instructions = st.one_of(
    st.builds(copy, st.integers(0, 40), st.integers(1, 40)),
    st.binary(min_size=1, max_size=20).map(lambda text: bytes([len(text)]) + text),
    st.binary(max_size=3),
)


@given(st.binary(max_size=40), st.lists(_instructions, max_size=6), st.integers(0, 41), st.integers(0, 120))
def test_dulwich_agrees(base: bytes, made: list[bytes], claimed: int, target: int) -> None:
    for size in (len(base), claimed):
        whole = delta(size, target, *made)
        # The other way round it does not: dulwich overlooks a last copy that does not fit, which git refuses.
        try:
            result = apply_delta(base, whole, MOST)
        except DeltaError:
            continue
        assert b"".join(dulwich.apply_delta(base, whole)) == result
