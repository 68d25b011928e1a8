"""A summary for a person."""

from dataclasses import replace

from gateway.review.summary import Figures
from gateway.review.summary_text import summary_text
from tests.review.test_summary import example

HOSTILE = "x\x1b[2J\u202e\n.test"


def test_what_matters_comes_first() -> None:
    lines = summary_text(example()).split("\n")
    assert lines[0] == "9 records of 1 session, 2026-01-01 00:00:00Z to 2026-01-02 00:00:00Z"
    assert lines[1].startswith("connections: 3 allowed (1 of them without an answer), 3 denied; 1.0 kB up")
    assert "tokens: 1 minted, 0 revoked, 1 never revoked" in lines
    assert "violations: 4" in lines
    assert lines[-2:] == [
        "damaged: 1 lines or files could not be read and are not counted above",
        "  f:3: no JSON",
    ]


def test_hosts_that_were_only_refused_stand_with_the_denials() -> None:
    hosts = summary_text(example()).split("\n\n")[1]
    assert "a.test" in hosts and "b.test" not in hosts


def test_long_tables_are_cut_and_say_so() -> None:
    many = replace(example(), hosts={f"h{number}.test": Figures(1) for number in range(30)})
    text = summary_text(many, 5)
    assert "h4.test" in text and "h5.test" not in text and "and 25 more: --json has them" in text


def test_nothing_of_it_reaches_the_terminal() -> None:
    hostile = replace(example(), hosts={HOSTILE: Figures(1)})
    text = summary_text(hostile)
    assert all(one.isprintable() or one == "\n" for one in text)
    assert "x\\x1b[2J\\u202e\\n.test" in text


def test_nothing_is_recorded() -> None:
    assert summary_text(replace(example(), records=0, damaged=0, damages=())) == "nothing is recorded"
