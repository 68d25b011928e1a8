"""Expressions that globs become: what they match, what they almost match, and that every engine reads them alike."""

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.seatbelt import patterns
from tests.sandbox.seatbelt.evaluator import compile_pattern


def matches(pattern: str, text: str) -> bool:
    return compile_pattern(f"^/{pattern}$".encode()).match(f"/{text}".encode()) is not None


NAMES = (
    (".env", (".env", ".ENV", ".env.", ".env ", ".env:x", ".env. :x"), (".envx", "x.env", ".env/x", ".env.x")),
    (".env.*", (".env.local", ".ENV.", ".env.a b"), (".env", ".environment")),
    ("*.key", ("x.key", ".key", "a.b.KEY", "x.\u212aey", "x.key:s", "\u00e9.key"), ("key", "x.keys", "a:b.key:")),
    ("*.p1[2x]", ("a.p12", "a.P1X"), ("a.p13", "a.p1")),
    ("[!a]x", ("bx", "\u00e9x", "-x"), ("ax", "Ax", "x", "/x")),
    ("?", ("a", "\u00e9", "\u6f22", "\U0001f511"), ("", "ab/", "a/")),
    ("a?c", ("abc", "a\u00e9c"), ("ac", "abbc", "a/c")),
    ("[", ("[",), ("", "a")),
    ("[a-c]", ("a", "B", "c"), ("d", "-")),
    ("[]a]", ("]", "a"), ("b",)),
    ("[!]]", ("a",), ("]x",)),
    ("[\u00e9]", ("\u00e9", "\u00c9", "e\u0301"), ("e",)),
    ("a**b", ("ab", "axxb"), ("a/b",)),
    ("Wei\u00df", ("weiss", "WEISS", "wei\u00df", "wei\u1e9e"), ("weis",)),
    (".gitconfig", (".gitconfig", ".gitcon\ufb01g"), (".gitconffig",)),
    ("office", ("o\ufb03ce", "of\ufb01ce", "o\ufb00ice", "OFFICE"), ("ofice",)),
    ("a+b(c)|{1}$^\\.x", ("a+b(c)|{1}$^\\.x",), ("aab(c)|{1}$^\\.x", "a+b(c)|{1}$^\\xx")),
)  # fmt: skip


@pytest.mark.parametrize(("glob", "hits", "misses"), NAMES)
def test_denied_names(glob: str, hits: tuple[str, ...], misses: tuple[str, ...]) -> None:
    pattern = patterns.name_pattern(glob)
    for text in hits:
        assert matches(pattern, text), text
    for text in misses:
        assert not matches(pattern, text), text


@pytest.mark.parametrize(
    ("glob", "hits", "misses"),
    [
        (
            ".env.example",
            (".env.example", ".ENV.Example"),
            (".env.example.", ".env.example:x", ".env.\ufb01"),
        ),
        ("test-?.pem", ("test-1.pem",), ("test-\u00e9.pem", "test-12.pem")),
        ("x[!a].pem", ("xb.pem", "x_.pem"), ("xa.pem", "xA.pem", "x\u00e9.pem", "x-.pem")),
        ("\u212a", ("\u212a",), ("x",)),
    ],
)
def test_exceptions_err_towards_less(glob: str, hits: tuple[str, ...], misses: tuple[str, ...]) -> None:
    pattern = patterns.exception_pattern(glob)
    for text in hits:
        assert matches(pattern, text), text
    for text in misses:
        assert not matches(pattern, text), text


def test_paths_cross_directories() -> None:
    pattern = patterns.path_pattern("*/deploy/*.tf").removeprefix(".*/")
    assert matches(pattern, "deploy/a/b.TF")
    assert not matches(pattern, "deploy/a.tfx")
    assert matches(patterns.path_exception_pattern("w/*"), "w/a/b")


def test_paths_below_one_directory_share_an_expression() -> None:
    found = patterns.among(["/w/.git/hooks", "/w/.git/config", "/w/x"])
    assert len(found) == 2
    hit = [any(compile_pattern(one.encode()).match(path) for one in found) for path in (
        b"/w/.git/hooks", b"/w/.git/Hooks/x", b"/w/.git/config", b"/w/X/y", b"/w/.git/config2", b"/w/.git", b"/W/x",
    )]  # fmt: skip
    assert hit == [True, True, True, True, False, False, False]


GLOB = st.text(st.sampled_from("ab.*?[]!-^\\/\u00e9s+(){}|$ "), min_size=1, max_size=8)
MAKERS = (
    patterns.name_pattern,
    patterns.exception_pattern,
    patterns.path_pattern,
    patterns.path_exception_pattern,
    patterns.folded,
    patterns.literal,
)


@pytest.mark.parametrize("make", MAKERS)
@given(glob=GLOB)
def test_any_glob_becomes_something_that_every_engine_reads(make: Callable[[str], str], glob: str) -> None:
    compile_pattern(f"^/{make(glob)}$".encode())


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=12))
def test_a_text_matches_itself_in_any_case(text: str) -> None:
    for spelled in (text, text.swapcase() if text.isascii() else text):
        assert matches(patterns.folded(text), spelled)
        assert matches(patterns.plain(text), spelled)
    assert matches(patterns.literal(text), text)
    assert re.fullmatch(patterns.literal(text), text, re.DOTALL)


def test_disguises() -> None:
    pattern = compile_pattern(patterns.disguised("/w").encode())
    assert pattern.match("/w/a/.e\u200cnv/x".encode())
    assert not pattern.match("/w/\U0001f469\u200d\U0001f4bb.md".encode())
