"""Many globs at once: the quick kinds and the compiled ones, against fnmatch."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.folding import written
from sandbox.globs import Globs


@pytest.mark.parametrize(
    ("globs", "text", "found"),
    [
        ((), "a", ""),
        (("a",), "a", "a"),
        (("A",), "a", "A"),
        (("a",), "ab", ""),
        (("*.key", "*.pem"), "x.pem", "*.pem"),
        (("*.key",), "key", ""),
        ((".env.*",), ".env.", ".env.*"),
        ((".env.*",), ".env", ""),
        (("*",), "anything", "*"),
        (("*",), "", "*"),
        (("a?c",), "abc", "a?c"),
        (("a*c",), "abbc", "a*c"),
        (("*a*",), "xay", "*a*"),
        (("[!a]b",), "ab", ""),
        (("[!a]b",), "cb", "[!a]b"),
        (("/srv/*/x",), "/srv/a/b/x", "/srv/*/x"),
        (("x", "a*"), "ab", "a*"),
        (("\u200b", ""), "", ""),
    ],
)
def test_find(globs: tuple[str, ...], text: str, found: str) -> None:
    assert Globs(globs).find(["not this one", text] if found else [text]) == found
    assert Globs(globs).hit(text) is bool(found)
    assert Globs(globs).hit_any(["\0", text]) is bool(found) or globs == ("*",)


def test_empty() -> None:
    assert Globs(()).empty
    assert not Globs(("a",)).empty


def test_the_form_is_that_of_the_texts() -> None:
    assert Globs(("x.\u212aey",)).hit("x.key")
    assert not Globs(("x\u200b",), written).hit("x")


ALPHABET = st.text("ab.*?[]!/", max_size=6)


@given(st.lists(ALPHABET.filter(bool), max_size=3), ALPHABET)
def test_as_fnmatch(globs: list[str], text: str) -> None:
    assert Globs(tuple(globs)).hit(text) is any(fnmatch.fnmatchcase(text, glob) for glob in globs)
