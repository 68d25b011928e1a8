"""What a terminal would obey, and what would be another line, is shown instead."""

import pytest

from gateway.policy.wording import printable, printable_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("a path/ü 日本", "a path/ü 日本"),
        ("a\n\x1b[2J\udcff/ü", "a\\n\\x1b[2J\\udcff/ü"),
        ("\x07\t\r\x7f", "\\x07\\t\\r\\x7f"),
        ("\x9b31m\x85", "\\x9b31m\\x85"),
        ("\u202egnp\u2066\u200b\u2028\ufeff", "\\u202egnp\\u2066\\u200b\\u2028\\ufeff"),
        ("\U000e0041\U0001f600", "\\U000e0041\U0001f600"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown


def test_lines_stay_lines() -> None:
    assert printable_lines("a\x1b\nb\r\n\x85") == "a\\x1b\nb\\r\n\\x85"
