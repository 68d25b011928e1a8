"""Words as bash makes them, held against bash itself."""

import subprocess

import pytest

from gateway.policy.shell_words import DoubtError, Opaque, Vague, decode_words, is_option, shown

# Words as written; bash is asked what each of them comes to. Nothing in them is run.
WRITTEN = (
    "a", "a.b/c", "'a b'", '"a b"', "a'b'\"c\"", "a\\ b", "\\$x", '"\\$x"', '"\\q"', '"a\\"b"', "'\\'", "a\\\nb",
    '"a\\\nb"', "''", '""', "a''b", "$'a\\nb'", "$'\\x41'", "$'\\101'", "$'\\u0041'", "$'\\''", "$'a\\\\b'",
    "{a,b}", "x{a,b}y", "{a,b}{c,d}", "{a,{b,c}}", "{a}", "{}", "{,a}", "{a,}", "x{a,b", "xa,b}", "'{a,b}'",
    '"{a,b}"', "\\{a,b}", "{a\\,b,c}", "{'a,b',c}", "{a,b}}", "a{b}c{d,e}", "{{a,b},c}d", "~x/'y'", "'~'", '"~"',
    "\\~", "a~", "a#b", "a=b", "a=~", "--x={a,b}", "$", "a$", '"$"', "é", "\u00a0", "日本", "%", "@", "^", "a,b",
    "]", "a]b", "!", "a!b", "-", "--", "+", ":", "a:b",
)  # fmt: skip


def bash(word: str) -> list[str]:
    """What bash makes of it."""
    script = f"printf '%s\\0' {word}"
    answer = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, timeout=10, check=True, cwd="/"
    )
    return answer.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("word", WRITTEN)
def test_what_is_known_is_what_bash_makes_of_it(word: str) -> None:
    try:
        found = decode_words([word])
    except DoubtError:
        return
    if not any(isinstance(one, Vague) for one in found):
        assert list(found) == (bash(word) or [])


def test_most_words_are_known() -> None:
    vague = {word for word in WRITTEN if any(isinstance(one, Vague) for one in decode_words([word]))}
    assert vague == {"x{a,b", "~x/'y'", "a=~"}


@pytest.mark.parametrize(
    ("pieces", "word"),
    [
        (["~"], Vague("~", "~", home=True)),
        (["~/a"], Vague("~/a", "~/a", home=True)),
        (["~/*"], Vague("~/*", "~/*", home=True, pattern=True)),
        (["~a/b"], Vague("~a/b")),
        (["~''/b"], Vague("~''/b")),
        (["*.c"], Vague("*.c", "*.c", pattern=True)),
        (["a?"], Vague("a?", "a?", pattern=True)),
        (["[ab]"], Vague("[ab]", "[ab]", pattern=True)),
        (["'*'"], "*"),
        (["\\*"], "*"),
        ([Opaque("$HOME", "HOME"), "/a"], Vague("$HOME/a", "~/a", home=True)),
        (['"', Opaque("$HOME", "HOME"), '/a"'], Vague('"$HOME/a"', "~/a", home=True)),
        ([Opaque("$PWD", "PWD"), "/a"], "./a"),
        (["a", Opaque("$HOME", "HOME")], Vague("a$HOME")),
        ([Opaque("$x", "x")], Vague("$x")),
        (["a", Opaque("$(b)")], Vague("a$(b)")),
        (["{a,", Opaque("$x", "x"), "}"], Vague("{a,$x}")),
        (["{1..3}"], Vague("{1..3}")),
        (["$'\\xff'"], Vague("$'\\xff'")),
        (["$'a\\0b'"], Vague("$'a\\0b'")),
        (["$'\\cA'"], Vague("$'\\cA'")),
        (["{" * 20 + "a,b" + "}" * 20], Vague("{" * 20 + "a,b" + "}" * 20)),
        (["{a,b}" * 9], Vague("{a,b}" * 9)),
    ],
)
def test_what_is_not_known_is_no_guess(pieces: list[str | Opaque], word: str | Vague) -> None:
    assert decode_words(pieces) == (word,)


@pytest.mark.parametrize(
    "text", ["'a", '"a', "a\\", "`a`", '"`a`"', "$x", '"$x"', "$(a)", "a b", "a;b", "a|b", "a<b", "$'a"]
)
def test_what_is_no_word_is_a_doubt(text: str) -> None:
    with pytest.raises(DoubtError):
        decode_words([text])


def test_options_and_what_is_shown() -> None:
    assert (
        is_option("-x")
        and is_option("--x")
        and not is_option("-")
        and not is_option("x")
        and not is_option(Vague("-x"))
    )
    assert (shown("a"), shown(Vague("$a"))) == ("a", "$a")
