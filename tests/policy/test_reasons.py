"""Rulings in words: printable, bounded, with the rule's place and note."""

from datetime import UTC, datetime

from gateway.policy.actions import Action
from gateway.policy.decision import Verdict
from gateway.policy.modes import Mode
from gateway.policy.reasons import MAX_REASON, because, cut, decided
from gateway.policy.rules import Enforcement, Rule, Ruling, Subject

SUBJECT = Subject("team", "claude", "", Mode.PLAN, datetime(2030, 1, 1, tzinfo=UTC))
SOFT = Rule(Action.COMMIT, Verdict.DENY, "c" * 60, enforcement=Enforcement.SOFT, note="n" * 100)


def test_a_soft_denial_has_its_code_and_nothing_else_has() -> None:
    assert decided(Ruling(Verdict.DENY, "c:1", SOFT), "no").code == "overridable"
    assert decided(Ruling(Verdict.ALLOW, "c:1", SOFT), "yes").code == ""
    assert decided(Ruling(Verdict.DENY, "default"), "no").code == ""


def test_text_is_printable_and_bounded() -> None:
    found = decided(Ruling(Verdict.DENY, "c:1"), "a\x1b[2J" + "x" * 1000)
    assert found.reason.startswith("a\\x1b[2J")
    assert len(found.reason) == MAX_REASON


def test_places_and_notes_are_cut() -> None:
    assert because(Ruling(Verdict.DENY, "c:1", SOFT), SUBJECT) == f" by {'c' * 37}... ({'n' * 77}...)"
    assert because(Ruling(Verdict.DENY, "preset:plan"), SUBJECT).endswith("mode plan, which changes nothing")
    assert because(Ruling(Verdict.ASK, "default"), SUBJECT) == ": no rule decides about it"
    assert cut("x" * 60) == "x" * 60
