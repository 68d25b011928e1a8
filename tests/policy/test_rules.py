"""Which rule decides: scopes, closeness, restrictiveness, managed rules, advice, expiry. With a request of its own."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import count, permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.actions import Action
from gateway.policy.decision import Verdict
from gateway.policy.marks import Mark
from gateway.policy.modes import READ_ONLY, Mode
from gateway.policy.rules import (
    Constraint,
    Enforcement,
    Request,
    Rule,
    RuleSet,
    Ruling,
    Scope,
    Subject,
    decide_action,
    most_restrictive,
)

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
HARD, SOFT, ADVISORY = Enforcement.HARD, Enforcement.SOFT, Enforcement.ADVISORY
NOW = datetime(2030, 6, 1, 12, tzinfo=UTC)
SUBJECT = Subject("team", "claude", "blue", Mode.CHAT, NOW)


@dataclass(frozen=True, slots=True)
class Word:
    """A request about one word."""

    word: str = "main"
    action: Action = Action.PUSH

    @property
    def anchors(self) -> tuple[str]:
        return (self.word.lower(),)

    @property
    def text(self) -> str:
        return self.word.lower()

    @property
    def unknown(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Is:
    """Fits this word; read widely, in any case. `closeness` is what it answers then."""

    text: str = "main"
    closeness: int = 1

    @property
    def marks(self) -> tuple[Mark, ...] | None:
        """Only some of them say what they are about."""
        return None if self.closeness > 1 else (Mark(self.text.lower()),)

    @property
    def fact(self) -> str:
        return ""

    def fit(self, request: Request, *, wide: bool) -> int | None:
        assert isinstance(request, Word)
        same = request.word.lower() == self.text.lower() if wide else request.word == self.text
        return self.closeness if same else None


def rule(
    decision: Verdict,
    place: str,
    *constraints: Constraint,
    scope: str = "",
    enforcement: Enforcement = HARD,
    expires: datetime | None = None,
    action: Action = Action.PUSH,
) -> Rule:
    """A rule; `scope` is "workspace=team agent=claude", say."""
    names = dict(part.split("=") for part in scope.split())
    return Rule(action, decision, place, Scope(**names), constraints, expires, enforcement)


def decided(
    *rules: Rule, managed: tuple[Rule, ...] = (), word: str = "main", subject: Subject = SUBJECT
) -> tuple[str, str]:
    """Verdict and place, the same in every order of the rules."""
    orders = [
        decide_action(RuleSet(tuple(guards), tuple(order)), subject, Word(word))
        for order in permutations(rules)
        for guards in permutations(managed)
    ]
    assert len(set(orders)) == 1
    return orders[0].verdict.value, orders[0].place


SPACE, AGENT, TEAM = "space=blue", "agent=claude", "workspace=team"

# What decides, the rules, and the answer: verdict and place.
TABLE: tuple[tuple[str, tuple[Rule, ...], tuple[str, str]], ...] = (
    ("no rule", (), ("ask", "default")),
    ("a rule that allows", (rule(ALLOW, "1"),), ("allow", "1")),
    ("a rule that denies", (rule(DENY, "1"),), ("deny", "1")),
    ("a rule that asks", (rule(ASK, "1"),), ("ask", "1")),
    ("a rule that does not fit", (rule(ALLOW, "1", Is("dev")),), ("ask", "default")),
    ("a rule of another action", (rule(ALLOW, "1", action=Action.COMMIT),), ("ask", "default")),
    ("one of two constraints does not fit", (rule(ALLOW, "1", Is(), Is("dev")),), ("ask", "default")),
    # scopes
    ("another space", (rule(ALLOW, "1", scope="space=red"),), ("ask", "default")),
    ("another agent", (rule(ALLOW, "1", scope="agent=codex"),), ("ask", "default")),
    ("another workspace", (rule(ALLOW, "1", scope="workspace=x"),), ("ask", "default")),
    ("case of a name counts", (rule(ALLOW, "1", scope="agent=Claude"),), ("ask", "default")),
    ("half of a scope", (rule(ALLOW, "1", scope="agent=claude workspace=x"),), ("ask", "default")),
    ("a whole scope", (rule(ALLOW, "1", scope="agent=claude workspace=team"),), ("allow", "1")),
    ("space beats agent", (rule(ALLOW, "1", scope=SPACE), rule(DENY, "2", scope=AGENT)), ("allow", "1")),
    ("agent beats workspace", (rule(ALLOW, "1", scope=AGENT), rule(DENY, "2", scope=TEAM)), ("allow", "1")),
    ("workspace beats everybody", (rule(ALLOW, "1", scope=TEAM), rule(DENY, "2")), ("allow", "1")),
    (
        "the narrowest of several counts",
        (rule(ALLOW, "1", scope=f"{SPACE} {TEAM}"), rule(DENY, "2", scope=AGENT)),
        ("allow", "1"),
    ),
    ("a scope beats a constraint", (rule(ALLOW, "1", scope=SPACE), rule(DENY, "2", Is())), ("allow", "1")),
    (
        "a scope whose rule does not fit says nothing",
        (rule(ALLOW, "1", Is("dev"), scope=SPACE), rule(DENY, "2")),
        ("deny", "2"),
    ),
    # inside a scope
    ("a constraint beats none", (rule(ALLOW, "1", Is()), rule(DENY, "2")), ("allow", "1")),
    ("a constraint that does not fit does not", (rule(ALLOW, "1", Is("x")), rule(DENY, "2")), ("deny", "2")),
    ("the closer one", (rule(ALLOW, "1", Is(closeness=3)), rule(DENY, "2", Is(closeness=2))), ("allow", "1")),
    (
        "the closest of several constraints counts",
        (rule(ALLOW, "1", Is(closeness=1), Is(closeness=3)), rule(DENY, "2", Is(closeness=2))),
        ("allow", "1"),
    ),
    ("deny beats ask", (rule(ASK, "1", Is()), rule(DENY, "2", Is())), ("deny", "2")),
    ("ask beats allow", (rule(ASK, "1", Is()), rule(ALLOW, "2", Is())), ("ask", "1")),
    ("deny beats allow", (rule(DENY, "1"), rule(ALLOW, "2")), ("deny", "1")),
    ("hard beats soft", (rule(DENY, "2", enforcement=SOFT), rule(DENY, "1")), ("deny", "1")),
    ("soft beats ask", (rule(ASK, "2"), rule(DENY, "1", enforcement=SOFT)), ("deny", "1")),
    # advice
    ("advice alone allows", (rule(DENY, "1", enforcement=ADVISORY),), ("allow", "1")),
    ("advice to ask allows", (rule(ASK, "1", enforcement=ADVISORY),), ("allow", "1")),
    (
        "advice is named before the allow it would have beaten",
        (rule(ALLOW, "2"), rule(DENY, "1", Is(), enforcement=ADVISORY)),
        ("allow", "1"),
    ),
    (
        "advice is not named where it would not have decided",
        (rule(ALLOW, "2", Is()), rule(DENY, "1", enforcement=ADVISORY)),
        ("allow", "2"),
    ),
    (
        "advice loosens no denial, however close it is",
        (rule(DENY, "2"), rule(DENY, "1", Is(), scope=SPACE, enforcement=ADVISORY)),
        ("deny", "2"),
    ),
    ("advice loosens no question", (rule(ASK, "2"), rule(DENY, "1", Is(), enforcement=ADVISORY)), ("ask", "2")),
    (
        "of two pieces of advice the stricter",
        (rule(ASK, "2", enforcement=ADVISORY), rule(DENY, "1", enforcement=ADVISORY)),
        ("allow", "1"),
    ),
    # expiry
    ("not yet", (rule(DENY, "1", expires=NOW + timedelta(microseconds=1)),), ("deny", "1")),
    ("at the moment", (rule(DENY, "1", expires=NOW),), ("ask", "default")),
    ("long ago", (rule(ALLOW, "1", expires=NOW - timedelta(days=1)), rule(DENY, "2")), ("deny", "2")),
    (
        "in another time zone",
        (rule(DENY, "1", expires=datetime(2030, 6, 1, 13, tzinfo=timezone(timedelta(hours=2)))),),
        ("ask", "default"),
    ),
)  # fmt: skip


@pytest.mark.parametrize(("rules", "answer"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_rules(rules: tuple[Rule, ...], answer: tuple[str, str]) -> None:
    assert decided(*rules) == answer


# Managed rules, the others, and the answer.
MANAGED: tuple[tuple[str, tuple[Rule, ...], tuple[Rule, ...], tuple[str, str]], ...] = (
    ("deny over allow", (rule(DENY, "m"),), (rule(ALLOW, "1", Is(), scope=SPACE),), ("deny", "m")),
    ("ask over allow", (rule(ASK, "m"),), (rule(ALLOW, "1"),), ("ask", "m")),
    ("ask under deny", (rule(ASK, "m"),), (rule(DENY, "1"),), ("deny", "1")),
    ("deny over the default", (rule(DENY, "m"),), (), ("deny", "m")),
    ("allow changes nothing", (rule(ALLOW, "m", Is(), scope=SPACE),), (rule(ASK, "1"),), ("ask", "1")),
    ("allow does not beat the default", (rule(ALLOW, "m"),), (), ("ask", "default")),
    ("allow opens no other managed denial", (rule(ALLOW, "m", Is()), rule(DENY, "n")), (), ("deny", "n")),
    ("one that does not fit", (rule(DENY, "m", Is("dev")),), (rule(ALLOW, "1"),), ("allow", "1")),
    ("one of another scope", (rule(DENY, "m", scope="agent=x"),), (rule(ALLOW, "1"),), ("allow", "1")),
    ("an expired one", (rule(DENY, "m", expires=NOW),), (rule(ALLOW, "1"),), ("allow", "1")),
    ("soft over allow", (rule(DENY, "m", enforcement=SOFT),), (rule(ALLOW, "1"),), ("deny", "m")),
    ("soft under hard", (rule(DENY, "m", enforcement=SOFT),), (rule(DENY, "1"),), ("deny", "1")),
    ("advice over allow", (rule(DENY, "m", enforcement=ADVISORY),), (rule(ALLOW, "1"),), ("allow", "m")),
    ("advice does not beat the default", (rule(DENY, "m", enforcement=ADVISORY),), (), ("ask", "default")),
)  # fmt: skip


@pytest.mark.parametrize(
    ("managed", "rules", "answer"), [row[1:] for row in MANAGED], ids=[row[0] for row in MANAGED]
)
def test_managed_rules(managed: tuple[Rule, ...], rules: tuple[Rule, ...], answer: tuple[str, str]) -> None:
    assert decided(*rules, managed=managed) == answer


# The word is MAIN: rules on "main" fit when they are read widely.
WIDE: tuple[tuple[str, tuple[Rule, ...], tuple[str, str]], ...] = (
    ("a denial is read widely", (rule(DENY, "1", Is()), rule(ALLOW, "2")), ("deny", "1")),
    ("a question too", (rule(ASK, "1", Is()), rule(ALLOW, "2")), ("ask", "1")),
    ("an allow is not", (rule(ALLOW, "1", Is()),), ("ask", "default")),
    ("an allow that spells it", (rule(ALLOW, "1", Is("MAIN")),), ("allow", "1")),
    ("advice is not", (rule(DENY, "1", Is(), enforcement=ADVISORY),), ("ask", "default")),
    ("a question does not push a denial aside", (rule(ASK, "1", Is()), rule(DENY, "2")), ("deny", "2")),
    ("nor in a narrower scope", (rule(ASK, "1", Is(), scope=SPACE), rule(DENY, "2")), ("deny", "2")),
    (
        "an allow in a narrower scope stands",
        (rule(ALLOW, "1", Is("MAIN"), scope=SPACE), rule(DENY, "2", Is())),
        ("allow", "1"),
    ),
)


@pytest.mark.parametrize(("rules", "answer"), [row[1:] for row in WIDE], ids=[row[0] for row in WIDE])
def test_another_spelling_tightens_and_never_loosens(
    rules: tuple[Rule, ...], answer: tuple[str, str]
) -> None:
    assert decided(*rules, word="MAIN") == answer


def test_managed_rules_are_read_widely() -> None:
    assert decided(rule(ALLOW, "1"), managed=(rule(DENY, "m", Is()),), word="MAIN") == ("deny", "m")


# --- Modes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", sorted(READ_ONLY))
def test_a_reading_mode_denies_for_good(mode: Mode) -> None:
    subject = replace(SUBJECT, mode=mode)
    assert decided(rule(ALLOW, "1", Is(), scope=SPACE), subject=subject) == ("deny", f"preset:{mode}")


def test_what_a_reading_mode_allows_follows_the_rules() -> None:
    subject = replace(SUBJECT, mode=Mode.PLAN)
    network = Word(action=Action.ACCESS_NETWORK)
    assert decide_action(RuleSet(), subject, network) == Ruling(ALLOW, "default")
    closed = rule(DENY, "1", action=Action.ACCESS_NETWORK)
    assert decide_action(RuleSet(rules=(closed,)), subject, network) == Ruling(DENY, "1", closed)


def test_a_default_that_allows_can_be_tightened() -> None:
    commit = Word(action=Action.COMMIT)
    managed = rule(ASK, "m", action=Action.COMMIT)
    assert decide_action(RuleSet(), SUBJECT, commit) == Ruling(ALLOW, "default")
    assert decide_action(RuleSet(managed=(managed,)), SUBJECT, commit) == Ruling(ASK, "m", managed)
    advice = rule(DENY, "a", action=Action.COMMIT, enforcement=ADVISORY)
    assert decide_action(RuleSet(rules=(advice,)), SUBJECT, commit) == Ruling(ALLOW, "a", advice)
    assert decide_action(RuleSet(managed=(advice,)), SUBJECT, commit) == Ruling(ALLOW, "a", advice)


def test_nobody_s_name_is_in_no_scope() -> None:
    nobody = Subject("", "", "", Mode.CHAT, NOW)
    assert decided(rule(ALLOW, "1", scope=SPACE), rule(DENY, "2", scope=TEAM), subject=nobody) == (
        "ask",
        "default",
    )


def test_the_whole_is_as_its_strictest_part() -> None:
    assert most_restrictive((ALLOW, ASK, DENY)) is DENY
    assert most_restrictive((ASK, ALLOW)) is ASK
    assert most_restrictive((ALLOW,)) is ALLOW
    assert most_restrictive(()) is DENY


# --- Laws -----------------------------------------------------------------------------------------

PLACES = count(1)
SCOPES = st.lists(st.sampled_from((SPACE, AGENT, TEAM, "agent=codex")), max_size=2, unique=True).map(
    lambda parts: " ".join({part.partition("=")[0]: part for part in parts}.values())
)
CONSTRAINTS = st.lists(st.builds(Is, st.sampled_from(("main", "MAIN", "dev")), st.integers(1, 3)), max_size=2)
RULES = st.builds(
    lambda decision, constraints, scope, enforcement, expired: rule(
        decision,
        f"config.yaml:{next(PLACES)}",
        *constraints,
        scope=scope,
        enforcement=enforcement,
        expires=NOW if expired else None,
    ),
    st.sampled_from(Verdict),
    CONSTRAINTS,
    SCOPES,
    st.sampled_from((HARD, HARD, SOFT, ADVISORY)),
    st.sampled_from((False, False, False, True)),
)
SETS = st.builds(RuleSet, st.lists(RULES, max_size=3).map(tuple), st.lists(RULES, max_size=6).map(tuple))
WORDS = st.sampled_from(("main", "MAIN", "Main", "dev"))


def strictness(ruling: Ruling) -> int:
    return (ALLOW, ASK, DENY).index(ruling.verdict)


@given(SETS, WORDS, st.data())
def test_order_never_matters(rules: RuleSet, word: str, data: st.DataObject) -> None:
    managed, own = (data.draw(st.permutations(group)) for group in (rules.managed, rules.rules))
    shuffled = RuleSet(tuple(managed), tuple(own))
    assert decide_action(shuffled, SUBJECT, Word(word)) == decide_action(rules, SUBJECT, Word(word))


@given(SETS, RULES, WORDS)
def test_a_managed_rule_never_loosens(rules: RuleSet, more: Rule, word: str) -> None:
    tightened = replace(rules, managed=(*rules.managed, more))
    before, after = (decide_action(one, SUBJECT, Word(word)) for one in (rules, tightened))
    assert strictness(after) >= strictness(before)
    binding = not more.advises and more.expires is None and more.scope.covers(SUBJECT)
    if binding and more.fit(Word(word), wide=True) is not None:
        assert strictness(after) >= (ALLOW, ASK, DENY).index(more.decision)


@given(SETS, RULES, WORDS)
def test_a_denial_never_loosens(rules: RuleSet, more: Rule, word: str) -> None:
    denial = replace(more, decision=DENY, enforcement=HARD)
    tightened = replace(rules, rules=(*rules.rules, denial))
    before, after = (decide_action(one, SUBJECT, Word(word)) for one in (rules, tightened))
    assert strictness(after) >= strictness(before)


@given(SETS, RULES, WORDS)
def test_a_denial_beats_everything_in_the_narrowest_scope(rules: RuleSet, more: Rule, word: str) -> None:
    denial = replace(more, decision=DENY, enforcement=HARD, expires=None, scope=Scope(space="blue"))
    closest = replace(denial, constraints=(Is(word, closeness=9),))
    found = decide_action(replace(rules, rules=(*rules.rules, closest)), SUBJECT, Word(word))
    assert found.verdict is DENY


@given(SETS, RULES, WORDS)
def test_advice_changes_no_verdict_of_a_rule(rules: RuleSet, more: Rule, word: str) -> None:
    advice = replace(more, enforcement=ADVISORY)
    before, after = (
        decide_action(one, SUBJECT, Word(word))
        for one in (rules, replace(rules, rules=(*rules.rules, advice)))
    )
    if before.rule is not None:
        assert after.verdict is before.verdict
    elif after != before:
        assert after.verdict is ALLOW
        assert after.rule is not None
        assert after.rule.advises


@given(SETS, WORDS)
def test_expired_rules_do_not_exist(rules: RuleSet, word: str) -> None:
    left = RuleSet(
        *(tuple(one for one in group if one.expires is None) for group in (rules.managed, rules.rules))
    )
    assert decide_action(rules, SUBJECT, Word(word)) == decide_action(left, SUBJECT, Word(word))


@given(SETS, WORDS, st.sampled_from(sorted(READ_ONLY)))
def test_nothing_opens_a_reading_mode(rules: RuleSet, word: str, mode: Mode) -> None:
    assert decide_action(rules, replace(SUBJECT, mode=mode), Word(word)).verdict is DENY


@given(SETS, WORDS)
def test_an_allow_is_always_spelt_out(rules: RuleSet, word: str) -> None:
    """Whatever is allowed has a rule of the installation's own that lets it through letter by letter."""
    if decide_action(rules, SUBJECT, Word(word)).verdict is ALLOW:
        assert any(
            one.concerns(SUBJECT) and one.fit(Word(word), wide=False) is not None
            for one in rules.rules
            if one.decision is ALLOW or one.advises
        )
