"""The trial says every kind of thing that a launch's profile may say."""

import re

from sandbox.seatbelt.trial import TAG, trial_profile
from tests.sandbox.seatbelt.evaluator import Profile
from tests.sandbox.seatbelt.launches import POLICIES
from tests.sandbox.seatbelt.test_profile import text_of

# What begins a form of the language, and the operations that a rule names.
WORDS = re.compile(r"[(]([a-z-]+)")
OPERATIONS = re.compile(r"[(](?:allow|deny) ([a-z* -]+)")


def kinds(text: str) -> set[str]:
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    operations = {word for found in OPERATIONS.findall(text) for word in found.split()}
    return {*WORDS.findall(text), *operations}


def test_it_can_be_read() -> None:
    assert all(rule.message in (b"", TAG.encode()) for rule in Profile(trial_profile()).rules)


def test_nothing_is_missing() -> None:
    everything = kinds(trial_profile())
    assert "string-append" in everything
    for name, policy in POLICIES.items():
        assert kinds(text_of(policy)) <= everything, name


def test_it_holds_what_only_awkward_names_bring() -> None:
    assert "\\x0a" in trial_profile()
    assert "\u212a" in trial_profile()
    assert "\\\\[" in trial_profile()
