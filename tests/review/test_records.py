"""Lines as records: what is one, and what is said of one that is none."""

import pytest

from gateway.review.records import (
    DamagedLine,
    all_texts,
    moment_of,
    number_of,
    parse_line,
    parts_of,
    text_of,
    texts_of,
)

GOOD = b'{"v":1,"ts":"2026-01-02T03:04:05.000006Z","seq":0,"event":"egress","host":"a.test"}'


def test_a_record() -> None:
    record = parse_line(GOOD)
    assert (record["event"], record["host"]) == ("egress", "a.test")
    assert moment_of(GOOD) == "2026-01-02T03:04:05.000006Z"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "an empty line"),
        (b"\x00\x00", "no JSON"),
        (GOOD[:-5], "no JSON"),
        (GOOD + GOOD, "no JSON"),
        (b"[1]", "JSON, but no object"),
        (b'{"event":"egress"}', "a record without its 'ts'"),
        (b'{"ts":"x","event":3}', "a record without its 'event'"),
        (b'{"ts":"x","event":"e","x":"\xff"}', "bytes that are no text"),
        (b'{"ts":"x","event":"e","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "no JSON"),
        (b'{"ts":"x","event":"e","x":"\\ud800"}', "half a surrogate pair, which is no text"),
    ],
)
def test_damaged_lines(line: bytes, why: str) -> None:
    with pytest.raises(DamagedLine, match=why):
        parse_line(line)


def test_a_whole_surrogate_pair_is_text() -> None:
    assert parse_line(b'{"ts":"x","event":"e","x":"\\ud83d\\ude00"}')["x"] == "\U0001f600"


def test_the_time_of_a_line_written_otherwise() -> None:
    assert moment_of(b'{"event": "e", "ts": "2026"}') == "2026"
    assert moment_of(b"x") == ""


@pytest.mark.parametrize(
    ("value", "text", "number"),
    [
        ("a", "a", 7),
        (5, "5", 5),
        (-5, "-5", 7),
        (1.5, "1.5", 7),
        (True, "true", 7),
        (None, "", 7),
        ([1], "", 7),
    ],
)
def test_fields_are_not_believed(value: object, text: str, number: int) -> None:
    assert text_of({"x": value}, "x") == text
    assert number_of({"x": value}, "x", 7) == number


def test_lists_are_not_believed() -> None:
    assert parts_of({"refs": [{"a": 1}, 2, None]}, "refs") == ({"a": 1},)
    assert parts_of({"refs": {"a": 1}}, "refs") == ()
    assert texts_of({"x": ["a", 1]}, "x") == ("a",)
    assert texts_of({"x": "a"}, "x") == ()


def test_all_values_and_no_names() -> None:
    record = {"a": "x", "b": [1, {"c": "y"}], "d": None, "e": True}
    assert sorted(all_texts(record)) == ["1", "x", "y"]
