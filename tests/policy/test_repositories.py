"""Names of repositories and patterns over them: what is one, which spellings are the same, what a star stands for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.repositories import (
    RepositoryError,
    RepositoryName,
    RepositoryPatternError,
    parse_repository,
    parse_repository_pattern,
)

NAMES = (
    ("acme/widget", "acme/widget"),
    ("ACME/Widget", "ACME/Widget"),
    ("acme/widget.git", "acme/widget"),
    ("ACME/Widget.GIT", "ACME/Widget"),
    ("a/.github", "a/.github"),
    ("a/_x", "a/_x"),
    ("1.2/3", "1.2/3"),
    (f"{'a' * 100}/{'b' * 100}", f"{'a' * 100}/{'b' * 100}"),
)
NO_NAMES = (
    "",
    "acme",
    "acme/",
    "/widget",
    "acme//widget",
    "acme/widget/",
    "acme/widget/x",
    "../widget",
    "acme/..",
    "acme/.",
    "./widget",
    "acme/.git",
    "acme/...git",
    "acme/widget.git.git",
    "acme/widget.git.GIT",
    "-acme/widget",
    "acme/-widget",
    ".acme/widget",
    "_acme/widget",
    "acme/wid get",
    "acme/widget\n",
    "acme/widget\0",
    "acme/wid%2fget",
    "acme\\widget",
    "acme/widgét",
    "аcme/widget",  # the first letter is Cyrillic
    "acme/*",
    "https://github.com/acme/widget",
    f"{'a' * 101}/b",
    f"a/{'b' * 101}",
)


@pytest.mark.parametrize(("text", "shown"), NAMES)
def test_name(text: str, shown: str) -> None:
    name = parse_repository(text)
    assert str(name) == shown
    assert parse_repository(str(name)) == name
    assert name.key == tuple(shown.lower().split("/"))


@pytest.mark.parametrize("text", NO_NAMES)
def test_no_name(text: str) -> None:
    with pytest.raises(RepositoryError) as caught:
        parse_repository(text)
    assert str(caught.value).isprintable()


def test_spellings_of_one_repository_are_equal() -> None:
    one, other = parse_repository("acme/widget"), parse_repository("Acme/WIDGET.git")
    assert (one, hash(one)) == (other, hash(other))
    assert one != RepositoryName("acme", "widgets")
    assert one != "acme/widget"
    assert len({one, other, RepositoryName("acme", "other")}) == 2


@given(st.text(alphabet="aA0._-/\u017f\u212a*%\n", max_size=12))
def test_what_is_taken_is_ascii_and_has_two_parts(text: str) -> None:
    try:
        name = parse_repository(text)
    except RepositoryError:
        return
    assert str(name).isascii()
    assert str(name).count("/") == 1
    assert text.removesuffix(".git") == str(name)


# --- Patterns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "repository", "matches"),
    [
        ("acme/widget", "acme/widget", True),
        ("acme/widget", "ACME/Widget", True),
        ("Acme/Widget", "acme/widget", True),
        ("acme/widget", "acme/widgets", False),
        ("acme/widget", "xacme/widget", False),
        ("acme/*", "acme/widget", True),
        ("acme/*", "acme2/widget", False),
        ("*/widget", "acme/widget", True),
        ("*/widget", "acme/widget2", False),
        ("*/*", "acme/widget", True),
        ("acme/wid*", "acme/wid", True),
        ("acme/w*t", "acme/widget", True),
        ("acme/w*t", "acme/widgets", False),
        ("acme/w.t", "acme/wxt", False),
    ],
)
def test_pattern(pattern: str, repository: str, matches: bool) -> None:
    assert parse_repository_pattern(pattern).matches(parse_repository(repository)) is matches


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("widget", "owner/name"),
        ("*", "owner/name"),
        ("acme/widget/x", "owner/name"),
        ("**/widget", "one star"),
        ("acme/**", "one star"),
        ("acme/", "both sides"),
        ("acme/wid?et", "both sides"),
        ("acme/[a-z]", "both sides"),
        ("acme/widgét", "both sides"),
        ("acme/widget.git", "without .git"),
        ("acme/*.GIT", "without .git"),
        ("acme/..", "no repository has such a name"),
        ("-acme/widget", "no repository has such a name"),
        ("acme/-*", "no repository has such a name"),
    ],
)
def test_no_pattern(text: str, fragment: str) -> None:
    with pytest.raises(RepositoryPatternError, match=fragment):
        parse_repository_pattern(text)
