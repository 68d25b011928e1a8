"""Names of programs, variables that make others run, texts that are lines."""

import pytest

from gateway.policy.shell_words import Vague, Word
from gateway.policy.started import Started, canonical_name, judge_variable, program_name, start_text


@pytest.mark.parametrize(
    ("word", "name", "canonical"),
    [
        ("git", "git", "git"),
        ("/usr/bin/git", "git", "git"),
        ("./GIT", "git", "git"),
        ("pip3.12", "pip3.12", "pip"),
        ("python3", "python3", "python"),
        ("podman", "podman", "docker"),
        ("apt", "apt", "apt-get"),
        ("x3", "x3", "x3"),
        ("", "", ""),
    ],
)
def test_names(word: str, name: str, canonical: str) -> None:
    assert program_name(word) == name
    assert canonical_name(name) == canonical


@pytest.mark.parametrize(
    ("name", "value", "texts", "doubts"),
    [
        ("FOO", "x", [], 0),
        ("FOO", Vague("$x"), [], 0),
        ("GIT_PAGER", "rm x", ["rm x"], 0),
        ("GIT_PAGER", "", [], 0),
        ("GIT_PAGER", Vague("$x"), [], 1),
        ("LD_PRELOAD", "x", [], 1),
        ("GIT_CONFIG_KEY_0", "alias.x", [], 1),
        ("PATH", "/x", [], 1),
        ("PATH", Vague("/x:$PATH"), [], 0),
        ("PATH", Vague("$x"), [], 1),
    ],
)
def test_variables(name: str, value: Word, texts: list[str], doubts: int) -> None:
    found = Started()
    judge_variable(name, value, found)
    assert (found.texts, len(found.doubts)) == (texts, doubts)


@pytest.mark.parametrize(
    ("words", "texts", "doubts"),
    [
        (("git", "push"), ["git push"], 0),
        (("git", Vague("$x")), ['git "$1"'], 1),
        ((Vague("$x"),), [], 1),
        ((), [], 0),
    ],
)
def test_texts(words: tuple[Word, ...], texts: list[str], doubts: int) -> None:
    found = Started()
    start_text(words, found)
    assert (found.texts, len(found.doubts)) == (texts, doubts)
