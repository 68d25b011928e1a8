"""The packed table of commits: what a dict would say, in a fraction of the memory, up to its bounds."""

import hashlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.push.commit_index import CommitIndex


def named(number: int, width: int = 20) -> bytes:
    """Some id."""
    return hashlib.sha512(b"%d" % number).digest()[:width]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.lists(st.integers(0, 80), max_size=4)), max_size=60),
    st.sampled_from((20, 32)),
)
def test_it_is_a_mapping(commits: list[tuple[int, list[int]]], width: int) -> None:
    index = CommitIndex(width, 100)
    expected: dict[str, tuple[str, ...]] = {}
    for place, (commit, parents) in enumerate(commits):
        room = sum(len(ids) + 1 for ids in expected.values()) + 1 + len(parents) <= 250
        assert index.add(named(commit, width), b"".join(named(one, width) for one in parents), place) is room
        if room:
            expected.setdefault(named(commit, width).hex(), tuple(named(one, width).hex() for one in parents))
    assert dict(index) == expected
    assert list(index) == list(expected)
    assert all(
        (named(one, width).hex() in index) is (named(one, width).hex() in expected) for one in range(81)
    )


def test_commits_have_numbers_and_places() -> None:
    index = CommitIndex(20, 10)
    assert index.add(named(1), named(2) + named(3), 12)
    assert index.add(named(2), b"", 4_000_000_000_000)
    assert [index.find(named(one)) for one in (1, 2, 3)] == [0, 1, -1]
    assert index.parents(0) == [named(2), named(3)]
    assert index.parents(1) == []
    assert [index.place(number) for number in (0, 1)] == [12, 4_000_000_000_000]


def test_the_first_one_stays() -> None:
    index = CommitIndex(20, 1)
    assert index.add(named(1), named(2), 12)
    assert index.add(named(1), named(3), 13)
    assert dict(index) == {named(1).hex(): (named(2).hex(),)}


def test_it_takes_as_many_as_was_said() -> None:
    index = CommitIndex(20, 3)
    assert [index.add(named(one), b"", one) for one in range(5)] == [True, True, True, False, False]
    assert len(index) == 3
    assert index.find(named(4)) == -1
    assert index.add(named(0), b"", 0)


def test_parents_have_a_bound_of_their_own() -> None:
    index = CommitIndex(20, 10)
    assert not index.add(named(0), b"".join(named(one) for one in range(1, 30)), 0)
    assert named(0).hex() not in index
    assert index.add(named(0), b"".join(named(one) for one in range(1, 16)), 0)
    assert index.add(named(1), b"", 0)


@pytest.mark.parametrize(
    "spelling",
    ["", "zz", named(1).hex().upper(), " " + named(1).hex(), named(1).hex()[:-2], named(1).hex() + "00", "€"],
)
def test_other_spellings_are_no_ids(spelling: str) -> None:
    index = CommitIndex(20, 10)
    index.add(named(1), b"", 0)
    assert spelling not in index
    with pytest.raises(KeyError):
        index[spelling]


def test_a_hundred_thousand_commits_fit_into_fifteen_megabytes() -> None:
    tracemalloc.start()
    try:
        index = CommitIndex(32, 100_000)
        number = 0
        while index.add(named(number, 32), named(-number, 32) * (1 + number % 2), number):
            number += 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert number == len(index) == 100_000
    assert peak < 15 << 20
