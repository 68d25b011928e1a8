"""Folded names: what file systems take for one name is one here."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.folding import IGNORABLE_RANGES, fold, readings, written

TEXTS = st.text(st.characters(exclude_characters="/\0"), max_size=8)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("", ""),
        (".ENV", ".env"),
        (".e\u200bnv", ".env"),
        ("\u212aey", "key"),
        ("\uff0e\uff25nv", ".env"),
        ("\u017f", "s"),
        ("\ufb01sh", "fish"),
        ("stra\u00dfe", "strasse"),
        ("\u00c9", "e\u0301"),
        ("\u3164\uffa0", ""),
        ("a\U000e0100\U0001d173b", "ab"),
        ("\U0001f511", "\U0001f511"),
        ("\udc80", "\udc80"),
    ],
)
def test_fold(text: str, folded: str) -> None:
    assert fold(text) == folded


@given(TEXTS)
def test_folding_again_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(TEXTS)
def test_normal_forms_and_letter_case_are_one(text: str) -> None:
    assert fold(unicodedata.normalize("NFC", text)) == fold(text)
    assert fold(unicodedata.normalize("NFKD", text)) == fold(text)
    assert fold(text.casefold()) == fold(text)


@given(st.sampled_from(IGNORABLE_RANGES), st.data())
def test_what_nobody_sees_counts_for_nothing(known: tuple[int, int], data: st.DataObject) -> None:
    code = data.draw(st.integers(*known))
    assert fold(f".env{chr(code)}") == ".env"
    assert fold(f"{chr(code)}.k{chr(code)}ey") == ".key"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("A", "a", True),
        ("caf\u00e9", "cafe\u0301", True),
        ("a\u200b", "a", False),
        ("\uff41", "a", False),
        ("\u212a", "k", True),
    ],
)
def test_written(one: str, other: str, same: bool) -> None:
    assert (written(one) == written(other)) is same


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (b"a", ("a",)),
        (b"A.B", ("a.b",)),
        (b"a. .", ("a. .", "a")),
        (b"a:b", ("a:b", "a")),
        (b"...", ("...",)),
        (b":x", (":x",)),
        (b".env\xff", (".env\udcff", ".env")),
        (b"\xff", ("\udcff",)),
        (b"\xc0\xae.", ("\udcc0\udcae.",)),
        (b"\xe2\x84\xaa", ("k",)),
        (b"\xed\xa0\x80a", ("\udced\udca0\udc80a", "a")),
    ],
)
def test_readings(name: bytes, expected: tuple[str, ...]) -> None:
    assert readings(name) == expected


@given(st.binary(max_size=6))
def test_plain_ascii_has_one_reading(name: bytes) -> None:
    if name.isascii() and b":" not in name and not name.endswith((b".", b" ")):
        assert readings(name) == (name.decode().lower(),)
