"""Calls that wait: tried again at growing intervals, for as long as it takes, and never more than a bound."""

from itertools import pairwise

import pytest

from sandbox.supervisor.waiting import LONGEST, SHORTEST, WAITING_LIMIT, WaitingRoom


def test_tried_until_it_is_over() -> None:
    room = WaitingRoom()
    answers = [False, False, True]
    left: list[str] = []
    room.add(lambda: answers.pop(0), lambda: left.append("left"), 10.0)
    assert room.due(10.0) == pytest.approx(SHORTEST)
    room.try_again(10.0)
    assert len(answers) == 3  # not yet
    for _ in range(3):
        due = room.due(10.0)
        assert due is not None
        room.try_again(10.001 + due)
    assert (answers, left, len(room), room.due(0.0)) == ([], ["left"], 0, None)


def test_intervals_grow_up_to_the_longest() -> None:
    room = WaitingRoom()
    room.add(lambda: False, lambda: None, 0.0)
    now, intervals = 0.0, []
    for _ in range(10):
        due = room.due(now)
        assert due is not None
        intervals.append(due)
        now += due + 1e-9
        room.try_again(now)
    assert intervals[0] == pytest.approx(SHORTEST)
    assert intervals[-1] == pytest.approx(LONGEST)
    assert all(one <= two + 1e-9 for one, two in pairwise(intervals))


def test_one_that_is_over_leaves_the_others() -> None:
    room = WaitingRoom()
    left: list[int] = []
    for number in range(4):
        room.add(lambda number=number: number % 2 == 0, lambda number=number: left.append(number), 0.0)  # type: ignore[misc]  # bound now
    room.try_again(1.0)
    assert (left, len(room)) == ([0, 2], 2)


def test_full_room() -> None:
    room = WaitingRoom()
    for _ in range(WAITING_LIMIT):
        assert not room.is_full
        room.add(lambda: False, lambda: None, 0.0)
    assert room.is_full
