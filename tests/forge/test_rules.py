"""The words of what a repository refuses; that git shows them is tested with real pushes in test_git_http.py."""

import pytest

from gateway.forge.rules import Rule, large_files, protected_branch, ruleset


@pytest.mark.parametrize(
    ("rule", "reason", "code"),
    [
        (protected_branch("refs/heads/x"), "protected branch hook declined", "GH006"),
        (ruleset("refs/heads/x"), "push declined due to repository rule violations", "GH013"),
        (large_files("refs/heads/x"), "pre-receive hook declined", "GH001"),
    ],
)
def test_words(rule: Rule, reason: str, code: str) -> None:
    assert rule.pattern == "refs/heads/x"
    assert rule.reason == reason
    assert any(line.startswith(f"error: {code}: ") for line in rule.messages)
