"""A question as a person reads it: exactly what is asked, and nothing that plays with the terminal."""

from typing import Any

import pytest

from gateway.question_text import describe


def test_what_an_agent_wrote_cannot_play_with_the_terminal() -> None:
    hostile = "a\x1b[2J\u202eb\r\n\x07"
    question: dict[str, Any] = {
        "id": 1,
        "session": hostile,
        "agent": hostile,
        "action": hostile,
        "summary": hostile,
        "age": 1,
        "left": 5,
        "details": {
            "refs": [{"ref": hostile, "old": hostile, "new": hostile, "kind": hostile, "ascii": False}],
            "commits": [{"id": hostile, "subject": hostile}],
            "command": hostile,
            "effects": [hostile],
            "target": [hostile],
            "parts": [{"text": hostile, "reason": hostile}],
        },
    }
    lines = list(describe(question, hostile))
    assert all(line.isprintable() for line in lines)
    assert any("not ASCII" in line for line in lines)


def test_a_long_question_is_cut_and_says_so() -> None:
    question = {"id": 1, "session": "s", "details": {"command": "\n".join(map(str, range(100)))}}
    assert any("and 81 more: --json has them" in line for line in describe(question, "1"))


def test_a_long_command_does_not_hide_what_it_does() -> None:
    details = {"command": "\n" * 100 + "x" * 5000, "effects": ["install_package"], "directory": "/w"}
    lines = list(describe({"id": 1, "session": "s", "details": details}, "1"))
    assert lines[2:5] == ["      effects: install_package", "      in /w:", "      | "]
    details["command"] = "x" * 5000
    lines = list(describe({"id": 1, "session": "s", "details": details}, "1"))
    assert lines[4].endswith("xx and 4002 characters more: --json")


@pytest.mark.parametrize("details", [None, [], {"refs": "x", "commits": [1], "target": 3, "parts": {}}])
def test_a_question_of_another_shape_is_shown_all_the_same(details: object) -> None:
    assert list(describe({"id": 1, "session": "s", "details": details}, "1"))
