"""Text before the grammar sees it."""

import pytest

from gateway.policy.shell_line import MAX_BYTES, MAX_HERE_DOCUMENTS, Problem
from gateway.policy.shell_text import ends_document, prepare


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("ls", "ls"),
        ("gi\\\nt push", "git push"),
        ("ls \\\n  -l", "ls   -l"),
        ("a\\\\\n", "a\\\\\n"),
        ("a\\\\\\\n", "a\\\\"),
        ("echo 'a\\\n b'", "echo 'a\\\n b'"),
        ("# a \\\n", "# a \\\n"),
        ("é", "é"),
    ],
)
def test_lines_that_go_on_are_joined(text: str, read: str) -> None:
    assert prepare(text).text == read
    assert not prepare(text).problems


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a\0", Problem.UNSENDABLE),
        ("\ud800", Problem.UNSENDABLE),
        ("a" * (MAX_BYTES + 1), Problem.TOO_LONG),
        ("é" * (MAX_BYTES // 2 + 1), Problem.TOO_LONG),
        ("<<" * (MAX_HERE_DOCUMENTS + 1), Problem.TOO_MANY),
        ("a\r\n", Problem.ODD_BLANK),
        ("echo 'x'; gi\\\nt", Problem.UNPARSABLE),
        ("echo 'x'\n\\\nls", Problem.UNPARSABLE),
    ],
)
def test_what_is_wrong_is_said(text: str, problem: Problem) -> None:
    assert problem in prepare(text).problems


def test_the_longest_text_is_read() -> None:
    assert not prepare("a" * MAX_BYTES).problems


@pytest.mark.parametrize("text", ["é", "a日本b", "\U0010ffff", "\u00a0", "\u2028"])
def test_the_grammar_gets_a_byte_for_every_letter(text: str) -> None:
    """Those beyond ASCII end the process of the grammar's scanner."""
    shadow = prepare(text).shadow
    assert len(shadow) == len(text) and shadow.isascii()


@pytest.mark.parametrize(
    ("source", "dedent", "ends"),
    [
        ("a <<E\nx\nE", False, True),
        ("a <<E\nx\nE\nb", False, True),
        ("a <<E\nx\n E\nb", False, False),
        ("a <<E\nx\n\tE\nb", False, False),
        ("a <<-E\nx\n\tE\nb", True, True),
        ("a <<-E\nx\n E\nb", True, False),
        ("a <<E\nx\nE \nb", False, False),
    ],
)
def test_here_documents_end_at_their_delimiter(source: str, dedent: bool, ends: bool) -> None:
    assert ends_document(source, source.rindex("E"), "E", "E", "x\n", dedent) is ends


def test_here_documents_end_at_the_first_one() -> None:
    assert not ends_document("a <<E\nE\nx\nE", 11, "E", "E", "E\nx\n", dedent=False)
    assert not ends_document("a <<E\nx\n", -1, "E", "", "x\n", dedent=False)
