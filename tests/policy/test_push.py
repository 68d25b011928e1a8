"""May this ref be updated in this way: constraints, hostile names, defaults and modes, and what the reason says."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.actions import Action
from gateway.policy.decision import Decision, Verdict
from gateway.policy.modes import READ_ONLY, Mode
from gateway.policy.push import (
    OVERRIDABLE,
    UPDATES,
    Kinds,
    PushRequest,
    Refs,
    Repositories,
    Subject,
    Tags,
    UpdateKind,
    decide_push,
)
from gateway.policy.reasons import MAX_REASON
from gateway.policy.refs import MAX_REF, full_name, parse_ref_pattern, special_ref
from gateway.policy.repositories import parse_repository, parse_repository_pattern
from gateway.policy.rules import Constraint, Enforcement, Request, Rule, RuleSet, Scope

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
NOW = datetime(2030, 6, 1, 12, tzinfo=UTC)
SUBJECT = Subject("default", "claude", "", Mode.CHAT, NOW)
CREATE, FORWARD, FORCE = UpdateKind.CREATE, UpdateKind.FAST_FORWARD, UpdateKind.FORCE
DELETE, MOVE = UpdateKind.DELETE, UpdateKind.TAG_MOVE
FORCED = frozenset({FORCE, MOVE})


def refs(*texts: str) -> Refs:
    return Refs(tuple(map(parse_ref_pattern, texts)))


def repositories(*texts: str) -> Repositories:
    return Repositories(tuple(map(parse_repository_pattern, texts)))


def rule(decision: Verdict, line: int, *constraints: Constraint, **more: object) -> Rule:
    return Rule(Action.PUSH, decision, f"config.yaml:{line}", constraints=constraints, **more)  # type: ignore[arg-type]  # as the fields ask for


def ask(
    rules: tuple[Rule, ...],
    word: str = "main",
    kind: UpdateKind = FORWARD,
    *,
    repository: str = "acme/widget",
    managed: tuple[Rule, ...] = (),
    subject: Subject = SUBJECT,
) -> Decision:
    request = PushRequest(parse_repository(repository), full_name(word), kind)
    decision = decide_push(RuleSet(managed, rules), subject, request)
    assert decision.reason.isprintable()
    assert decision.reason.startswith("Push to remote ")
    assert len(decision.reason) <= MAX_REASON
    return decision


# --- Constraints ----------------------------------------------------------------------------------

# What the rule has, then requests: word, kind, and whether the rule decides about it.
CONSTRAINTS: tuple[tuple[tuple[Constraint, ...], str, UpdateKind, bool], ...] = (
    ((), "main", FORWARD, True),
    ((), "refs/tags/v1", MOVE, True),
    ((), "refs/notes/x", CREATE, True),
    ((refs("main"),), "main", FORWARD, True),
    ((refs("main"),), "refs/tags/main", CREATE, False),
    ((refs("main"),), "maint", FORWARD, False),
    ((refs("main", "agent/**"),), "agent/a/b", DELETE, True),
    ((refs("agent/*"),), "agent/a/b", DELETE, False),
    ((refs("refs/tags/v*"),), "refs/tags/v1", MOVE, True),
    ((refs("refs/**"),), "main", FORWARD, False),
    ((repositories("acme/*"),), "main", FORWARD, True),
    ((repositories("ACME/Widget"),), "main", FORWARD, True),
    ((repositories("acme/other", "other/widget"),), "main", FORWARD, False),
    ((Kinds(frozenset({CREATE})),), "main", CREATE, True),
    ((Kinds(frozenset({CREATE})),), "main", FORWARD, False),
    ((Kinds(UPDATES),), "main", FORWARD, True),
    ((Kinds(UPDATES),), "main", FORCE, True),
    ((Kinds(UPDATES),), "refs/tags/v1", MOVE, True),
    ((Kinds(UPDATES),), "main", CREATE, False),
    ((Kinds(UPDATES),), "main", DELETE, False),
    ((Kinds(FORCED),), "main", FORCE, True),
    ((Kinds(FORCED),), "refs/tags/v1", MOVE, True),
    ((Kinds(FORCED),), "main", FORWARD, False),
    ((Kinds(frozenset({DELETE})),), "main", DELETE, True),
    ((Kinds(frozenset({DELETE})),), "main", FORCE, False),
    ((Tags(),), "refs/tags/v1", CREATE, True),
    ((Tags(),), "tags/v1", CREATE, False),
    ((Tags(),), "refs/tagsx/v1", CREATE, False),
    ((Tags(),), "main", CREATE, False),
    ((refs("main"), Kinds(FORCED)), "main", FORCE, True),
    ((refs("main"), Kinds(FORCED)), "main", FORWARD, False),
    ((refs("main"), Kinds(FORCED)), "dev", FORCE, False),
    ((refs("main"), repositories("other/*")), "main", FORWARD, False),
)


@pytest.mark.parametrize("decision", [ALLOW, DENY])
@pytest.mark.parametrize(("constraints", "word", "kind", "fits"), CONSTRAINTS)
def test_constraint(
    constraints: tuple[Constraint, ...], word: str, kind: UpdateKind, fits: bool, decision: Verdict
) -> None:
    found = ask((rule(decision, 7, *constraints),), word, kind)
    assert (found.verdict, found.rule) == ((decision, "config.yaml:7") if fits else (ASK, "default"))


class Commit:
    """A request of another action."""

    action = Action.COMMIT
    anchors = ("main",)
    text = "main"
    unknown = ()


@pytest.mark.parametrize(
    "constraint", [refs("**"), repositories("*/*"), Kinds(frozenset(UpdateKind)), Tags()]
)
def test_constraints_of_a_push_fit_nothing_else(constraint: Constraint) -> None:
    other: Request = Commit()
    assert constraint.fit(other, wide=True) is None


# --- Configurations that people want, and what is wrong with each by a hair -----------------------

ONLY_AGENT = (rule(DENY, 1), rule(ALLOW, 2, refs("agent/**")))
NEVER_MAIN = (rule(ALLOW, 1), rule(DENY, 2, refs("main")))
ASK_RELEASE = (rule(ALLOW, 1, refs("agent/**")), rule(ASK, 2, refs("release/*")), rule(DENY, 3))
CAREFUL = (
    rule(ALLOW, 1, refs("agent/**", "refs/tags/**")),
    rule(DENY, 2, Kinds(FORCED)),
    rule(DENY, 3, Kinds(frozenset({DELETE}))),
    rule(DENY, 4, Tags()),
)

WANTED = (
    ("only agent/**", ONLY_AGENT, "agent/x", CREATE, "allow", "config.yaml:2"),
    ("only agent/**", ONLY_AGENT, "agent/x/y", FORCE, "allow", "config.yaml:2"),
    ("only agent/**", ONLY_AGENT, "main", FORWARD, "deny", "config.yaml:1"),
    ("only agent/**", ONLY_AGENT, "agent", CREATE, "deny", "config.yaml:1"),
    ("only agent/**", ONLY_AGENT, "Agent/x", CREATE, "deny", "config.yaml:1"),
    ("only agent/**", ONLY_AGENT, "agents/x", CREATE, "deny", "config.yaml:1"),
    ("only agent/**", ONLY_AGENT, "refs/tags/agent/x", CREATE, "deny", "config.yaml:1"),
    ("only agent/**", ONLY_AGENT, "refs/notes/agent/x", CREATE, "deny", "config.yaml:1"),
    ("only agent/**", ONLY_AGENT, "\u0430gent/x", CREATE, "deny", "config.yaml:1"),
    ("only agent/**", ONLY_AGENT, "agent/\u0445", CREATE, "deny", "config.yaml:1"),
    ("never main", NEVER_MAIN, "main", FORWARD, "deny", "config.yaml:2"),
    ("never main", NEVER_MAIN, "main", DELETE, "deny", "config.yaml:2"),
    ("never main", NEVER_MAIN, "MAIN", CREATE, "deny", "config.yaml:2"),
    ("never main", NEVER_MAIN, "Main", CREATE, "deny", "config.yaml:2"),
    ("never main", NEVER_MAIN, "ｍain", CREATE, "deny", "config.yaml:2"),
    ("never main", NEVER_MAIN, "maintenance", CREATE, "allow", "config.yaml:1"),
    ("ask for release/*", ASK_RELEASE, "release/1", FORWARD, "ask", "config.yaml:2"),
    ("ask for release/*", ASK_RELEASE, "release/1/2", FORWARD, "deny", "config.yaml:3"),
    ("ask for release/*", ASK_RELEASE, "Release/1", FORWARD, "deny", "config.yaml:3"),
    ("ask for release/*", ASK_RELEASE, "agent/x", FORWARD, "allow", "config.yaml:1"),
    ("no force, delete, tags", CAREFUL, "agent/x", FORWARD, "allow", "config.yaml:1"),
    ("no force, delete, tags", CAREFUL, "agent/x", CREATE, "allow", "config.yaml:1"),
    ("no force, delete, tags", CAREFUL, "agent/x", FORCE, "deny", "config.yaml:2"),
    ("no force, delete, tags", CAREFUL, "agent/x", DELETE, "deny", "config.yaml:3"),
    ("no force, delete, tags", CAREFUL, "refs/tags/v1", CREATE, "deny", "config.yaml:4"),
    ("no force, delete, tags", CAREFUL, "dev", FORWARD, "ask", "default"),
)


@pytest.mark.parametrize(
    ("rules", "word", "kind", "verdict", "place"),
    [row[1:] for row in WANTED],
    ids=[f"{row[0]}: {row[2]!a} {row[3]}" for row in WANTED],
)
def test_wanted(rules: tuple[Rule, ...], word: str, kind: UpdateKind, verdict: str, place: str) -> None:
    found = ask(rules, word, kind)
    assert (found.verdict, found.rule, found.code) == (verdict, place, "")


# --- What holds without rules, and against them ---------------------------------------------------

OPEN = (rule(ALLOW, 1), rule(ALLOW, 2, refs("**"), scope=Scope(agent="claude")))


@pytest.mark.parametrize("kind", list(UpdateKind))
@pytest.mark.parametrize("word", ["main", "refs/tags/v1", "refs/notes/commits", "refs/for/main", "refs/x"])
def test_without_rules_everything_is_asked(word: str, kind: UpdateKind) -> None:
    assert (ask((), word, kind).verdict, ask((), word, kind).rule) == (ASK, "default")


@pytest.mark.parametrize("mode", sorted(READ_ONLY))
@pytest.mark.parametrize("word", ["main", "agent/x", "refs/tags/v1"])
def test_a_reading_mode_denies_for_good(word: str, mode: Mode) -> None:
    found = ask(OPEN, word, subject=replace(SUBJECT, mode=mode))
    assert (found.verdict, found.rule, found.code) == (DENY, f"preset:{mode}", "")
    assert f"mode {mode}" in found.reason


SPECIAL = (
    "refs/pull/9/head",
    "refs/Pull/9/head",
    "refs/replace/" + "a" * 40,
    "refs/stash",
    "HEAD",
    "-f",
    "refs/tags/v1",
    "heads/HEAD",
)


@pytest.mark.parametrize("word", [word for word in SPECIAL if special_ref(full_name(word)) is not None])
@pytest.mark.parametrize("kind", list(UpdateKind))
def test_special_refs_stay_shut(word: str, kind: UpdateKind) -> None:
    found = ask(OPEN, word, kind)
    assert (found.verdict, found.rule, found.code) == (DENY, "built-in", "")


def test_not_every_ref_is_special() -> None:
    assert [word for word in SPECIAL if special_ref(full_name(word)) is None] == [
        "refs/tags/v1",
        "heads/HEAD",
    ]


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "HEAD",
        "main",
        "refs/heads/",
        "refs/heads/../main",
        "refs/heads/a..b",
        "refs/heads/a\nrefs/heads/b",
        "refs/heads/a\x1b[31m",
        "refs/heads/a\0b",
        "refs/heads/\udcff",
        "refs/heads/" + "a" * MAX_REF,
    ],
)
def test_what_is_no_ref_is_denied(ref: str) -> None:
    found = decide_push(RuleSet(rules=OPEN), SUBJECT, PushRequest(parse_repository("a/b"), ref, CREATE))
    assert (found.verdict, found.rule) == (DENY, "built-in")
    assert found.reason.isprintable()
    assert len(found.reason) <= MAX_REASON


@pytest.mark.parametrize("word", ["m\u0430in", "ma\u200bin", "agent/zoe\u0308", "агент"])
def test_a_name_that_is_not_ascii_needs_an_allow_that_is_not(word: str) -> None:
    ascii_allow = (rule(ALLOW, 1, refs("**", "main", "agent/**")),)
    assert ask(ascii_allow, word).rule == "default"
    assert ask((rule(ALLOW, 2, refs(word)),), word).rule == "config.yaml:2"
    assert ask((rule(ALLOW, 3),), word).rule == "config.yaml:3"
    assert ask((rule(ALLOW, 3), rule(DENY, 4, refs("**"))), word).rule == "config.yaml:4"
    assert "not ASCII" in ask(ascii_allow, word).reason
    assert ask(ascii_allow, word).reason.isascii()


# --- The reason -----------------------------------------------------------------------------------

REASONS = (
    ("by its place", (rule(DENY, 7, refs("main")),), "main", FORWARD, "is denied for main by config.yaml:7"),
    ("an allow", (rule(ALLOW, 7),), "main", FORWARD, "is allowed for main by config.yaml:7"),
    ("a question", (rule(ASK, 7),), "main", FORWARD, "needs an approval for main by config.yaml:7"),
    ("no rule", (), "main", FORWARD, "needs an approval for main: no rule decides about it"),
    ("a new ref", (rule(DENY, 7),), "x", CREATE, "is denied for x (new) by config.yaml:7"),
    ("force", (rule(DENY, 7),), "x", FORCE, "is denied for x (forced) by config.yaml:7"),
    ("a deletion", (rule(DENY, 7),), "x", DELETE, "is denied for x (deletion) by config.yaml:7"),
    (
        "a tag",
        (rule(DENY, 7),),
        "refs/tags/v",
        MOVE,
        "is denied for refs/tags/v (moved tag) by config.yaml:7",
    ),
    (
        "a note",
        (rule(DENY, 7, note="frozen — ask Zoë"),),
        "main",
        FORWARD,
        "is denied for main by config.yaml:7 (frozen — ask Zoë)",
    ),
    (
        "advice",
        (rule(DENY, 7, enforcement=Enforcement.ADVISORY),),
        "main",
        FORWARD,
        "is allowed for main: config.yaml:7 would deny it, but only advises",
    ),
    (
        "where one may push",
        ONLY_AGENT,
        "main",
        FORWARD,
        "is denied for main by config.yaml:1; allowed here: agent/**",
    ),
    (
        "where one may push instead of being asked",
        (rule(ALLOW, 7, refs("agent/**")),),
        "main",
        CREATE,
        "needs an approval for main (new): no rule decides about it; allowed here: agent/**",
    ),
    (
        "what is allowed for this kind alone",
        CAREFUL,
        "dev",
        DELETE,
        "is denied for dev (deletion) by config.yaml:3",
    ),
    (
        "what another rule takes back is not named",
        (rule(ALLOW, 1, refs("agent/**", "fix/*")), rule(DENY, 2, refs("agent/**"))),
        "agent/x",
        FORWARD,
        "is denied for agent/x by config.yaml:2; allowed here: fix/*",
    ),
    (
        "nor what is not allowed here",
        (rule(ALLOW, 1, refs("fix/*"), repositories("other/*")), rule(DENY, 2)),
        "x",
        FORWARD,
        "is denied for x by config.yaml:2",
    ),
    (
        "nor what is over",
        (rule(ALLOW, 1, refs("fix/*"), expires=NOW), rule(DENY, 2)),
        "x",
        FORWARD,
        "is denied for x by config.yaml:2",
    ),
    (
        "tags by tags",
        (rule(ALLOW, 1, refs("refs/tags/v*")), rule(DENY, 2)),
        "refs/tags/x",
        MOVE,
        "is denied for refs/tags/x (moved tag) by config.yaml:2; allowed here: refs/tags/v*",
    ),
    (
        "no more than three",
        (rule(ALLOW, 1, refs("d/*", "b/*", "a/**", "c/*")), rule(DENY, 2)),
        "x",
        FORWARD,
        "is denied for x by config.yaml:2; allowed here: b/*, c/*, d/*",
    ),
)


@pytest.mark.parametrize(
    ("rules", "word", "kind", "reason"), [row[1:] for row in REASONS], ids=[row[0] for row in REASONS]
)
def test_reason(rules: tuple[Rule, ...], word: str, kind: UpdateKind, reason: str) -> None:
    assert ask(rules, word, kind).reason == f"Push to remote {reason}"


def test_a_soft_denial_can_be_told_from_a_hard_one() -> None:
    soft = rule(DENY, 1, enforcement=Enforcement.SOFT)
    assert (ask((soft,)).verdict, ask((soft,)).code) == (DENY, OVERRIDABLE)
    assert ask((soft, rule(DENY, 2))).code == ""
    assert ask((soft,), managed=(rule(DENY, 3),)).code == ""
    assert ask((soft,), "HEAD").code == ""
    assert ask((rule(ALLOW, 1),), managed=(soft,)).code == OVERRIDABLE


def test_managed_rules_tighten() -> None:
    managed = (rule(DENY, 9, refs("main")),)
    assert ask((rule(ALLOW, 1, refs("main")),), managed=managed).rule == "config.yaml:9"
    assert ask((rule(ALLOW, 1),), "dev", managed=managed).verdict is ALLOW
    assert "allowed here" not in ask(ONLY_AGENT, managed=(rule(DENY, 9),)).reason


def test_rules_expire() -> None:
    freeze = rule(DENY, 2, refs("main"), expires=NOW)
    rules = (rule(ALLOW, 1), freeze)
    before = replace(SUBJECT, now=NOW - timedelta(seconds=1))
    assert ask(rules, subject=before).verdict is DENY
    assert ask(rules, subject=SUBJECT).verdict is ALLOW


LONG = st.text(alphabet="a/é\u0430-", min_size=1, max_size=300)


@given(LONG, st.text(max_size=100), st.text(min_size=1, max_size=300), st.sampled_from(UpdateKind))
def test_a_reason_is_one_printable_line(name: str, note: str, place: str, kind: UpdateKind) -> None:
    loud = Rule(Action.PUSH, DENY, place, note=note)
    found = decide_push(
        RuleSet(rules=(loud, rule(ALLOW, 1, refs("x" * 60, "y" * 60, "z" * 60, "agent/**")))),
        SUBJECT,
        PushRequest(parse_repository("a" * 100 + "/b"), full_name(name), kind),
    )
    assert found.reason.isprintable()
    assert len(found.reason) <= MAX_REASON


@given(st.sampled_from(("main", "release/1", "agent/x")), st.data())
def test_case_never_opens_what_is_denied(word: str, data: st.DataObject) -> None:
    rules = (rule(ALLOW, 1, refs("agent/**")), rule(DENY, 2, refs("main", "release/*", "agent/x")))
    other = "".join(data.draw(st.sampled_from((one.lower(), one.upper()))) for one in word)
    found = ask(rules, other)
    assert (found.verdict, found.rule) == (DENY, "config.yaml:2")
