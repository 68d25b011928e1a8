"""Counting together: what one process writes the others read, and nobody counts twice."""

import os

import pytest

from gateway.proxy.shares import Shares


@pytest.fixture
def three() -> list[Shares]:
    """The same memory as three processes see it."""
    first = Shares.create(3)
    return [first, *(Shares(os.dup(first.descriptor), row, 3) for row in (1, 2))]


def test_live_is_that_of_the_others(three: list[Shares]) -> None:
    for shares, count in zip(three, (5, 7, 11), strict=True):
        shares.set_live(count)
    assert [shares.live_elsewhere() for shares in three] == [18, 16, 12]
    three[1].set_live(0)
    assert [shares.live_elsewhere() for shares in three] == [11, 16, 5]


def test_new_ones_are_told_once(three: list[Shares]) -> None:
    three[1].add_new()
    three[2].add_new()
    three[0].add_new()
    assert three[0].new_elsewhere() == 2
    assert three[0].new_elsewhere() == 0
    three[2].add_new()
    assert [shares.new_elsewhere() for shares in three] == [1, 3, 2]


def test_requests_are_not_connections(three: list[Shares]) -> None:
    three[1].add_request()
    assert (three[0].requests_elsewhere(), three[0].new_elsewhere(), three[0].live_elsewhere()) == (1, 0, 0)
    assert three[0].requests_elsewhere() == 0


def test_one_that_is_gone_has_no_connections(three: list[Shares]) -> None:
    three[2].set_live(9)
    three[0].clear_live(2)
    assert three[1].live_elsewhere() == 0


def test_alone() -> None:
    shares = Shares.create(1)
    shares.set_live(3)
    shares.add_new()
    assert (shares.live_elsewhere(), shares.new_elsewhere(), shares.requests_elsewhere()) == (0, 0, 0)


def test_the_room_is_there_from_the_start() -> None:
    """Were the memory's file full of holes, a full disk would end the process at its first connection."""
    shares = Shares.create(3)
    assert os.fstat(shares.descriptor).st_blocks > 0
    shares.close()


def test_nothing_is_left_open() -> None:
    before = set(os.listdir("/dev/fd"))
    shares = Shares.create(2)
    shares.close()
    shares.close()
    assert set(os.listdir("/dev/fd")) == before
