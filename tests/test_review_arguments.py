"""The options of `review`: one question at a time, and what each is without being asked."""

from argparse import Namespace

import pytest

from gateway.arguments import build_parser

QUESTIONS = (
    ("--summary",),
    ("--new-since", "s1"),
    ("--follow",),
    ("--sql", "SELECT 1"),
    ("--suggest",),
    ("--report", "x.html"),
)


def parsed(*arguments: str) -> Namespace:
    return build_parser().parse_args(["review", *arguments])


def test_nothing_is_asked_without_a_word() -> None:
    options = parsed()
    assert options.command_name == "review"
    assert not any(
        (options.summary, options.new_since, options.follow, options.sql, options.suggest, options.report)
    )
    assert (options.json, options.csv, options.limit, options.tail, options.log) == (
        False,
        False,
        None,
        None,
        [],
    )


@pytest.mark.parametrize("first", QUESTIONS)
@pytest.mark.parametrize("second", QUESTIONS)
def test_one_question_at_a_time(
    first: tuple[str, ...], second: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    if first == second:
        assert parsed(*first).command_name == "review"
        return
    with pytest.raises(SystemExit) as error:
        parsed(*first, *second)
    assert error.value.code == 2
    assert "not allowed with" in capsys.readouterr().err


def test_filters_may_be_given_again() -> None:
    options = parsed(
        "--host", "a.test", "--host", "b.test", "--session", "s", "--verdict", "deny", "--event", "push"
    )
    assert (options.host, options.session, options.verdict, options.event) == (
        ["a.test", "b.test"], ["s"], ["deny"], ["push"],
    )  # fmt: skip


@pytest.mark.parametrize("text", ["-1", "x", "1e3", "", "9" * 10, "\u0661"])
def test_limits_are_plain_numbers(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        parsed(f"--limit={text}")
    assert error.value.code == 2
    assert "no number of records" in capsys.readouterr().err


def test_verify_is_a_command_of_its_own() -> None:
    options = parsed("verify", "--key", "a.pem", "--key", "b.pem", "/log")
    assert (options.command_name, options.key, options.places) == (
        "review verify",
        ["a.pem", "b.pem"],
        ["/log"],
    )
