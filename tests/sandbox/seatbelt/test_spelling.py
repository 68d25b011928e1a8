"""Spellings of one path: other names of its directories, and what a disk takes for the same name."""

import sys
import unicodedata

import pytest

from sandbox.seatbelt.spelling import (
    FOLDED,
    IGNORED,
    below,
    below_any_case,
    fold,
    is_disguised,
    spell,
    written,
)


@pytest.mark.parametrize(
    ("path", "spellings"),
    [
        ("/tmp/a", {"/tmp/a", "/private/tmp/a"}),
        ("/private/var/x", {"/private/var/x", "/var/x"}),
        ("/etc", {"/etc", "/private/etc"}),
        ("/Users/me", {"/Users/me"}),
        ("/tmpfile", {"/tmpfile"}),
        ("/private/tmpfile", {"/private/tmpfile"}),
    ],
)
def test_links_of_every_mac(path: str, spellings: set[str]) -> None:
    assert set(spell(path)) == spellings


def test_other_names_of_directories_above() -> None:
    aliases = (("/Volumes/disk/work", "/Users/me/work"), ("/private/tmp/x", "/home/x"))
    assert set(spell("/Volumes/disk/work/a", aliases)) == {"/Volumes/disk/work/a", "/Users/me/work/a"}
    assert set(spell("/private/tmp/x", aliases)) == {"/private/tmp/x", "/tmp/x", "/home/x"}
    assert spell("/Volumes/disk/work2", aliases) == ("/Volumes/disk/work2",)


def test_table_of_folded_characters_is_all_there_is() -> None:
    """Full case folding of Unicode, for characters that are not ASCII and fold to ASCII."""
    found: dict[str, str] = {}
    for code in range(0x80, sys.maxunicode + 1):
        folded = chr(code).casefold()
        if folded.isascii():
            found[folded] = found.get(folded, "") + chr(code)
    assert {text: set(spelled) for text, spelled in FOLDED.items()} == {
        text: set(spelled) for text, spelled in found.items()
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (".ENV", ".env"),
        ("x.\u212aey", "X.KEY"),
        ("\u00e9", "e\u0301"),
        ("STRASSE", "stra\u00dfe"),
        (".pro\ufb01le", ".profile"),
    ],
)
def test_names_that_are_one_on_a_disk(one: str, other: str) -> None:
    assert fold(one) == fold(other)


def test_names_that_are_two() -> None:
    assert fold(".env") != fold("\uff0eenv")  # only a search for compatible characters would find it
    assert written("\u212aey") != written("key2")


@pytest.mark.parametrize("name", [".e\u200cnv", "\u200c.env", "x.key\ufeff", "a\u2060b"])
def test_invisible_beside_plain(name: str) -> None:
    assert is_disguised(name)


@pytest.mark.parametrize("name", ["\U0001f469\u200d\U0001f4bb.md", "plain", "", "\u0644\u200c\u0645"])
def test_invisible_where_it_belongs(name: str) -> None:
    assert not is_disguised(name)


def test_what_is_ignored_is_invisible() -> None:
    assert {unicodedata.category(one) for one in IGNORED} <= {"Cf", "Cn"}


def test_below() -> None:
    assert below("/a/b", "/a")
    assert below("/a", "/a")
    assert below("/a", "/")
    assert not below("/ab", "/a")
    assert not below("/A/b", "/a")
    assert below_any_case("/a/B/c", "/a/b")
    assert not below_any_case("/A/b", "/a/b")  # the kernel knows what is above by the name of the disk
    assert not below_any_case("/a/bc", "/a/b")
