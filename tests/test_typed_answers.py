"""Answers that a person types: what counts as one, and that a terminal which goes is no answer."""

from collections.abc import Iterator

import pytest

from gateway.typed_answers import HELP, TypedAnswer, parse_typed, take_typed


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y 3", TypedAnswer("3", True, False, "")),
        ("  YES   s1:3   it is fine  \n", TypedAnswer("s1:3", True, False, "it is fine")),
        ("r 3", TypedAnswer("3", True, True, "")),
        ("remember 3 x", TypedAnswer("3", True, True, "x")),
        ("n 3 not on a Friday", TypedAnswer("3", False, False, "not on a Friday")),
        ("no 3", TypedAnswer("3", False, False, "")),
        # A yes is for a question, never for whichever waits.
        ("y", None),
        ("yes ", None),
        ("3", None),
        ("3 y", None),
        ("yy 3", None),
        ("", None),
    ],
)
def test_what_counts_as_an_answer(line: str, expected: TypedAnswer | None) -> None:
    assert parse_typed(line) == expected


def test_every_line_is_told_what_became_of_it() -> None:
    lines = iter(["y 1\n", "\n", "what?\n", "n 2\n", ""])
    said: list[str] = []
    take_typed(lambda: next(lines), lambda typed: f"answered {typed.question}", said.append)
    assert said == ["answered 1", HELP, "answered 2"]


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), ValueError("closed")])
def test_a_terminal_that_goes_ends_it(error: Exception) -> None:
    def read() -> str:
        raise error

    said: list[str] = []
    take_typed(read, lambda typed: "", said.append)
    assert said == []


def test_text_that_is_none_is_no_answer() -> None:
    def lines() -> Iterator[str]:
        yield "y 1"
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")

    typed = lines()
    said: list[str] = []
    take_typed(lambda: next(typed), lambda answer: answer.question, said.append)
    assert said == ["1"]
