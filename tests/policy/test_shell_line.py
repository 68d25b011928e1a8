"""The values of a line."""

import pytest

from gateway.policy.shell_line import UNREAD, Problem, Redirect


@pytest.mark.parametrize(
    ("operator", "writes"),
    [
        *((one, True) for one in (">", ">>", ">|", "&>", "&>>", "<>", ">&")),
        *((one, False) for one in ("<", "<<", "<<<")),
    ],
)
def test_what_writes(operator: str, writes: bool) -> None:
    assert Redirect(operator, "a").writes is writes


def test_problems_are_clauses_for_people() -> None:
    assert all(problem.value.isprintable() and not problem.value.endswith(".") for problem in Problem)
    assert {Problem.UNPARSABLE, Problem.ODD_BLANK}.isdisjoint(UNREAD)
