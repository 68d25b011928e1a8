"""Names of refs as git has them, patterns over them read exactly and folded, and the refs that nothing opens."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy.refs import (
    MAX_REF,
    RefPattern,
    RefPatternError,
    full_name,
    is_ref_name,
    parse_ref_pattern,
    short_name,
    special_ref,
)

# --- Names ----------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    ("a", "B", "/", ".", "..", "@", "{", "@{", ".lock", "~", "^", ":", "?", "*", "[", "]", "\\", " ", "-", "\x7f",
     "\x1b", "\t", "\n", "é", "ａ", "heads/", "refs/", "HEAD", "lock", "//", "}", "%", "+", ",")
)  # fmt: skip


def git_takes(ref: str) -> bool:
    return subprocess.run(["git", "check-ref-format", ref], check=False).returncode == 0


@settings(max_examples=200)
@given(st.lists(PIECES, max_size=6).map("".join))
def test_git_agrees_on_names(rest: str) -> None:
    ref = f"refs/{rest}"
    assert is_ref_name(ref) is git_takes(ref)


@pytest.mark.parametrize(
    ("ref", "valid"),
    [
        ("refs/heads/main", True),
        ("refs/x", True),
        ("refs/heads/" + "x" * (MAX_REF - 11), True),
        ("refs/heads/" + "x" * (MAX_REF - 10), False),
        ("refs/heads/" + "é" * (MAX_REF // 2), False),
        ("", False),
        ("HEAD", False),
        ("main", False),
        ("heads/main", False),
        ("refs", False),
        ("refs/", False),
        ("refs/heads/", False),
        ("Refs/heads/main", False),
        ("refs/heads/main\n", False),
        ("refs/heads/main\0x", False),
        ("refs/heads/\ud800", False),
    ],
)
def test_name(ref: str, valid: bool) -> None:
    assert is_ref_name(ref) is valid


@pytest.mark.parametrize(
    ("word", "ref", "short"),
    [
        ("main", "refs/heads/main", "main"),
        ("refs/heads/main", "refs/heads/main", "main"),
        ("a/b", "refs/heads/a/b", "a/b"),
        ("refs/tags/v1", "refs/tags/v1", "refs/tags/v1"),
        ("tags/v1", "refs/heads/tags/v1", "tags/v1"),
    ],
)
def test_short_and_full_names(word: str, ref: str, short: str) -> None:
    assert full_name(word) == ref
    assert short_name(ref) == short


# --- Patterns -------------------------------------------------------------------------------------

# Pattern, word on a command line, read exactly, read folded.
TABLE = (
    ("main", "main", True, True),
    ("main", "mains", False, False),
    ("main", "feature/main", False, False),
    ("main", "refs/tags/main", False, False),
    ("main", "main/x", False, False),
    # case and form
    ("main", "Main", False, True),
    ("main", "MAIN", False, True),
    ("MAIN", "main", False, True),
    ("Release/*", "release/1", False, True),
    ("main", "ｍａｉｎ", False, True),
    ("mask", "maſk", False, True),
    ("straße", "STRASSE", False, True),
    ("zoë", "zoe\u0308", False, True),
    ("zoe\u0308", "zoë", False, True),
    # letters that look like others, and none
    ("main", "m\u0430in", False, False),
    ("main", "ma\u200bin", False, False),
    ("agent/*", "agent/m\u0430in", False, True),
    ("**", "m\u0430in", False, True),
    ("m\u0430in", "m\u0430in", True, True),
    ("m\u0430*", "m\u0430\u0456n", True, True),
    ("агент/**", "агент/x", True, True),
    ("агент/**", "agent/x", False, False),
    # one star stays in its segment
    ("release/*", "release/1", True, True),
    ("release/*", "release/1/2", False, False),
    ("release/*", "release", False, False),
    ("*", "main", True, True),
    ("*", "a/b", False, False),
    ("*/*", "a/b", True, True),
    ("re*", "re", True, True),
    ("re*se", "release", True, True),
    ("re*se", "rese", True, True),
    ("re*se", "reXsex", False, False),
    ("a*a", "a", False, False),
    ("a*b*c", "a-b-b-c", True, True),
    ("a*b*c", "a-c-b", False, False),
    ("*-*-*", "x-y", False, False),
    ("release-*/fix", "release-1/fix", True, True),
    # two stars cross
    ("agent/**", "agent/x", True, True),
    ("agent/**", "agent/x/y/z", True, True),
    ("agent/**", "agent", False, False),
    ("agent/**", "agents/x", False, False),
    ("agent/**", "xagent/x", False, False),
    ("**", "main", True, True),
    ("**", "a/b/c", True, True),
    ("**/main", "main", True, True),
    ("**/main", "a/b/main", True, True),
    ("**/main", "a/main/b", False, False),
    ("a/**/b", "a/b", True, True),
    ("a/**/b", "a/x/y/b", True, True),
    ("a/**/b", "a/x/y", False, False),
    ("a/**/b/**", "a/x/b/y", True, True),
    ("a/**/b/**", "a/x/b", False, False),
    ("**/a/**/b/**/c", "x/a/b/a/c", True, True),
    ("**/*", "a/b", True, True),
    ("**/**", "a", True, True),
    # what is no branch goes by its full name
    ("refs/tags/v*", "refs/tags/v1", True, True),
    ("refs/tags/v*", "refs/tags/V1", False, True),
    ("refs/tags/*", "refs/tags/a/b", False, False),
    ("refs/tags/**", "refs/tags/a/b", True, True),
    ("refs/**", "refs/notes/x", True, True),
    ("refs/**", "main", False, False),
    ("**", "refs/tags/v1", True, True),
    ("v1", "refs/tags/v1", False, False),
    # a branch that is called like another ref
    ("refs/tags/**", "refs/heads/refs/tags/v1", False, True),
    ("**", "refs/heads/refs/tags/v1", False, True),
    # signs that stand for themselves
    ("a.b", "axb", False, False),
    ("a+b", "a+b", True, True),
    ("a(b)|c", "a(b)|c", True, True),
    ("a{b}", "a{b}", True, True),
)


@pytest.mark.parametrize(("pattern", "word", "exact", "folded"), TABLE)
def test_pattern(pattern: str, word: str, exact: bool, folded: bool) -> None:
    ref = full_name(word)
    assert is_ref_name(ref)
    parsed = parse_ref_pattern(pattern)
    assert parsed.matches(ref, fold=False) is exact
    assert parsed.matches(ref, fold=True) is folded


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("refs/heads/main", "without refs/heads/"),
        ("Refs/Heads/main", "without refs/heads/"),
        ("refs/heads/**", "without refs/heads/"),
        ("Refs/tags/v1", "in lower case"),
        ("agent**", "a segment of its own"),
        ("**agent", "a segment of its own"),
        ("a/**b/c", "a segment of its own"),
        ("a/***", "a segment of its own"),
        ("!main", "left out"),
        ("{main,dev}", "braces"),
        ("v?", "stand for others"),
        ("v[0-9]", "stand for others"),
        ("v\\*", "stand for others"),
        ("", "no ref has such a name"),
        ("/main", "no ref has such a name"),
        ("main/", "no ref has such a name"),
        ("a//b", "no ref has such a name"),
        ("a b", "no ref has such a name"),
        ("a..b", "no ref has such a name"),
        ("*..*", "no ref has such a name"),
        (".hidden", "no ref has such a name"),
        ("a/.*", "no ref has such a name"),
        ("x.lock", "no ref has such a name"),
        ("*.lock", "no ref has such a name"),
        ("x.", "no ref has such a name"),
        ("x~1", "no ref has such a name"),
        ("HEAD:main", "no ref has such a name"),
        ("main@{1}", "no ref has such a name"),
        ("x" * MAX_REF, "no ref has such a name"),
        ("refs/", "no ref has such a name"),
    ],
)
def test_no_pattern(text: str, fragment: str) -> None:
    with pytest.raises(RefPatternError, match=fragment):
        parse_ref_pattern(text)


PATTERNS = st.lists(
    st.sampled_from(("**", "*", "a", "A", "a*", "*b", "é", "e\u0301*", "a*a")), min_size=1, max_size=5
)
NAMES = st.lists(
    st.sampled_from(("a", "A", "ab", "aa", "é", "e\u0301x", "b", "／", "x")), min_size=1, max_size=6
)


def plainly(parts: list[str], segments: list[str]) -> bool:
    """The meaning of a pattern, straight from its definition: every way to share the segments out is tried."""
    if not parts:
        return not segments
    if parts[0] == "**":
        least = 1 if len(parts) == 1 else 0
        return any(plainly(parts[1:], segments[cut:]) for cut in range(least, len(segments) + 1))
    if not segments:
        return False
    pieces = parts[0].split("*")
    if len(pieces) == 1:
        fits = segments[0] == pieces[0]
    else:
        first, last = pieces  # one star at most
        fits = (
            segments[0].startswith(first)
            and segments[0].endswith(last)
            and len(segments[0]) >= len(first) + len(last)
        )
    return fits and plainly(parts[1:], segments[1:])


@given(PATTERNS, NAMES)
def test_pattern_means_its_definition(parts: list[str], segments: list[str]) -> None:
    pattern, ref = RefPattern("/".join(parts)), full_name("/".join(segments))
    wanted = plainly(parts, segments) and (ref.isascii() or not pattern.text.isascii())
    assert pattern.matches(ref, fold=False) is wanted
    assert pattern.matches(ref, fold=True) or not plainly(parts, segments)


@given(PATTERNS, st.text(alphabet="abAB/", min_size=1, max_size=8))
def test_case_never_evades_a_folded_reading(parts: list[str], name: str) -> None:
    pattern = RefPattern("/".join(parts))
    found = {
        pattern.matches(full_name(text), fold=True)
        for text in (name, name.upper(), name.lower(), name.title())
    }
    assert len(found) == 1


@given(st.text(alphabet="a*/", max_size=9))
def test_sample_is_a_name_that_matches(text: str) -> None:
    try:
        pattern = parse_ref_pattern(text)
    except RefPatternError:
        return
    assert is_ref_name(pattern.sample)
    assert pattern.matches(pattern.sample, fold=False)


def test_a_long_name_costs_little() -> None:
    """A name that almost matches everywhere: no pattern may take more than segments × parts steps."""
    name = full_name("/".join(["a"] * 500))
    pattern = parse_ref_pattern("/".join(["**/a"] * 100) + "/**/b")
    assert not pattern.matches(name, fold=True)
    stars = parse_ref_pattern("*a" * 100 + "b")
    assert not stars.matches(full_name("a" * 1000), fold=True)


@pytest.mark.parametrize(
    ("pattern", "reaches"),
    [
        ("refs/tags/v1", True),
        ("refs/tags/**", True),
        ("refs/**", True),
        ("refs/*/v1", True),
        ("re*/t*/**", True),
        ("**", True),
        ("**/v1", True),
        ("*/*/*", True),
        ("**/tags/*", True),
        ("main", False),
        ("refs/*", False),
        ("*/*", False),
        ("refs/notes/**", False),
        ("tags/v1", False),
        ("**/tags", True),  # refs/tags/tags
    ],
)
def test_which_patterns_reach_tags(pattern: str, reaches: bool) -> None:
    assert parse_ref_pattern(pattern).reaches("refs/tags/") is reaches


# --- Refs that nothing opens ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ref", "special"),
    [
        ("refs/heads/main", False),
        ("refs/heads/pull/1", False),
        ("refs/heads/head", False),
        ("refs/heads/HEADS", False),
        ("refs/heads/a/HEAD", False),
        ("refs/heads/refsx/a", False),
        ("refs/heads/" + "a" * 39, False),
        ("refs/heads/" + "g" * 40, False),
        ("refs/heads/x-y", False),
        ("refs/tags/v1", False),
        ("refs/notes/commits", False),
        ("refs/for/main", False),
        ("refs/pulls/1", False),
        ("refs/pull/1/head", True),
        ("refs/Pull/1/head", True),
        ("refs/ｐull/1/head", True),
        ("refs/pull", True),
        ("refs/replace/0123", True),
        ("refs/__gh__/x", True),
        ("refs/stash", True),
        ("refs/bisect/bad", True),
        ("refs/worktree/x", True),
        ("refs/rewritten/x", True),
        ("refs/heads/sk-short", False),
        ("refs/heads/@types/node", False),
        ("refs/heads/agent/ghp_" + "a" * 36, True),
        ("refs/heads/agent/cookie=one", True),
        ("refs/Heads/main", True),
        ("refs/ｈeads/main", True),
        ("refs/TAGS/v1", True),
        ("refs/heads/HEAD", True),
        ("refs/tags/HEAD", True),
        ("refs/heads/@", True),
        ("refs/heads/-x", True),
        ("refs/tags/--force", True),
        ("refs/heads/refs/heads/main", True),
        ("refs/heads/refs/tags/v1", True),
        ("refs/tags/refs/tags/v1", True),
        ("refs/heads/gh-readonly-queue/main/pr-1", True),
        ("refs/heads/" + "a1" * 20, True),
        ("refs/heads/" + "A1" * 32, True),
    ],
)
def test_special(ref: str, special: bool) -> None:
    assert is_ref_name(ref)
    assert (special_ref(ref) is not None) is special
