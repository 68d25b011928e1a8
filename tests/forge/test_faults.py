"""The switches: set, counted, taken away."""

import pytest

from gateway.forge.faults import Fault, Faults, Moment, Point, garbage, redirect


def test_a_fault_stays_until_it_is_taken_away() -> None:
    faults = Faults()
    fault = Fault(500)
    assert faults.take(Point.MINT) is None
    faults.set(Point.MINT, fault)
    assert [faults.take(Point.MINT) for _ in range(3)] == [fault] * 3
    assert faults.take(Point.FIND) is None
    faults.set(Point.MINT, None)
    assert faults.take(Point.MINT) is None


@pytest.mark.parametrize(("times", "seen"), [(2, [500, 500, 0]), (1, [500, 0, 0]), (0, [0, 0, 0])])
def test_a_fault_is_counted(times: int, seen: list[int]) -> None:
    faults = Faults()
    faults.set(Point.MINT, Fault(500, times=times))
    taken = [faults.take(Point.MINT) for _ in range(3)]
    assert [fault.status if fault else 0 for fault in taken] == seen


def test_clearing() -> None:
    faults = Faults()
    faults.set(Point.MINT, Fault(500))
    faults.lag, faults.lag_status, faults.body_patience, faults.stateless = 3, 401, 1.5, True
    faults.echo_permissions, faults.echo_repositories = {"contents": "admin"}, ("acme/widget",)
    faults.clear()
    assert faults.take(Point.MINT) is None
    assert (faults.lag, faults.lag_status, faults.body_patience) == (0, 404, 0.0)
    assert not any((faults.echo_permissions, faults.echo_repositories, faults.stateless))


@pytest.mark.parametrize(
    ("fault", "answers", "limit"),
    [
        (Fault(), False, None),
        (Fault(500), True, None),
        (Fault(stall=True), True, None),
        (Fault(cut_request=3), False, None),
        (Fault(cut_answer=0), False, 0),
        (Fault(stall_answer=5, end_answer=4), False, 4),
        (redirect("http://elsewhere.test/"), True, None),
        (garbage(b""), True, None),
    ],
)
def test_what_a_fault_does(fault: Fault, answers: bool, limit: int | None) -> None:
    assert fault.answers is answers
    assert fault.answer_limit == limit
    assert fault.moment is Moment.LATE
