"""Whatever the fields hold, they are written as one line of ASCII that any JSON reader takes."""

import json
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.record import MAX_ITEMS, MAX_TEXT, write_fields

TOKEN = "ghp_" + "x" * 36


class Colour(StrEnum):
    """An enumeration as records hold them."""

    RED = "red"


def read(fields: Mapping[str, object]) -> tuple[dict[str, object], bool]:
    text, cut = write_fields(fields)
    assert text.isascii()
    assert text.isprintable()
    parsed = json.loads("{" + text[1:] + "}")
    assert isinstance(parsed, dict)
    return parsed, cut


def test_spelling() -> None:
    fields = {"host": "a.test", "port": 443, "none": None, "yes": True, "part": 1.5, "kind": Colour.RED}
    fields |= {"names": ["A", "B"], "pair": ("x", 1), "object": MappingProxyType({"a": {"b": "c"}})}
    assert write_fields(fields) == (
        ',"host":"a.test","port":443,"none":null,"yes":true,"part":1.5,"kind":"red"'
        ',"names":["A","B"],"pair":["x",1],"object":{"a":{"b":"c"}}',
        False,
    )


def test_nothing_is_nothing() -> None:
    assert write_fields({}) == ("", False)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('a\n{"verdict":"allow"}', r'"a\n{\"verdict\":\"allow\"}"'),
        ("\x1b[2J", r'"\u001b[2J"'),
        ("\x00\x07\x1f", r'"\u0000\u0007\u001f"'),
        ("\x7f", r'"\u007f"'),
        ("\\\x7f", r'"\\\u007f"'),
        ("\x9b2J", r'"\u009b2J"'),
        ("\u2028\u2029", r'"\u2028\u2029"'),
        ("\u202e\u2066", r'"\u202e\u2066"'),
        ("\ufeff\u200b", r'"\ufeff\u200b"'),
        ("\U0001f600", r'"\ud83d\ude00"'),
        ("\r\n\t", r'"\r\n\t"'),
        ("\ud800", r'"\\ud800"'),
        ("a\udc80b", r'"a\\udc80b"'),
    ],
    ids=ascii,
)
def test_escapes(text: str, written: str) -> None:
    assert write_fields({"host": text}) == (f',"host":{written}', False)
    assert write_fields({"list": [text]}) == (f',"list":[{written}]', False)


def test_escapes_in_names() -> None:
    assert write_fields({'a"\n\x7f': 1}) == (r',"a\"\n\u007f":1', False)


@pytest.mark.parametrize(
    "value",
    [
        f"x {TOKEN}",
        f"{TOKEN} {'x' * 200}",
        [f"A={TOKEN}"],
        {"deep": [{"deeper": (TOKEN,)}]},
        {TOKEN: 1},
    ],
    ids=["short", "long", "list", "nested", "name"],
)
def test_masks_at_any_depth(value: object) -> None:
    text, cut = write_fields({"field": value})
    assert TOKEN not in text
    assert "***" in text
    assert not cut


@pytest.mark.parametrize(
    ("value", "written", "cut"),
    [
        ("x" * MAX_TEXT, "x" * MAX_TEXT, False),
        ("x" * (MAX_TEXT + 1), "x" * MAX_TEXT, True),
        (["y", "x" * 10_000], ["y", "x" * MAX_TEXT], True),
        ({"a": "x" * 10_000}, {"a": "x" * MAX_TEXT}, True),
        ([1] * MAX_ITEMS, [1] * MAX_ITEMS, False),
        ([1] * (MAX_ITEMS + 1), [1] * MAX_ITEMS, True),
        ({str(n): n for n in range(MAX_ITEMS + 1)}, {str(n): n for n in range(MAX_ITEMS)}, True),
    ],
    ids=["fits", "text", "text in a list", "text in an object", "list fits", "list", "object"],
)
def test_cuts(value: object, written: object, cut: bool) -> None:
    assert read({"field": value}) == ({"field": written}, cut)


def test_cutting_leaves_no_piece_of_a_token() -> None:
    text, _ = write_fields({"field": "." * (MAX_TEXT - 10) + TOKEN})
    assert "ghp" not in text


@pytest.mark.parametrize(
    "value",
    [b"bytes", {1, 2}, object(), float("nan"), float("inf"), [float("nan")], 10**5000],
    ids=["bytes", "set", "object", "nan", "infinity", "nan in a list", "a number nobody reads"],
)
def test_what_is_not_json_is_an_error(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        write_fields({"field": value})


def test_endless_depth_is_an_error() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(RecursionError):
        write_fields({"field": value})


# Surrogates too: they come from names of files and from bytes that were no UTF-8.
_TEXT = st.text(st.characters())
_VALUES = st.recursive(
    _TEXT | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
)


@given(st.dictionaries(_TEXT, _VALUES))
def test_any_fields_are_one_line(fields: dict[str, object]) -> None:
    parsed, _ = read({name: value for name, value in fields.items() if name.isprintable()})
    assert list(parsed) == [name for name in fields if name.isprintable()]
    text, _ = write_fields(fields)
    text.encode("ascii")
    json.loads("{" + text[1:] + "}")
