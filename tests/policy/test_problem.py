"""A problem reads as FILE:LINE: what, in the spelling editors and terminals can open."""

import pytest

from gateway.policy.problem import Problem


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("config.yaml", 7, "no such key"), "config.yaml:7: no such key"),
        (Problem("deny.txt", 0, "the list has no entry"), "deny.txt: the list has no entry"),
        (Problem("deny.txt", 3, "add its apex", warning=True), "deny.txt:3: warning: add its apex"),
        (Problem("deny.txt", 0, "cannot be read", warning=True), "deny.txt: warning: cannot be read"),
    ],
)
def test_text(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_a_problem_stops_a_start_unless_it_says_otherwise() -> None:
    assert Problem("config.yaml", 1, "x").warning is False
