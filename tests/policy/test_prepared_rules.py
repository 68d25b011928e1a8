"""Rules made ready decide as rules that are looked at one by one: held against an engine that knows no index."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import Action, default_verdict
from gateway.policy.constraints import ActionRepositories, Commands, Hosts, Paths
from gateway.policy.decision import Verdict
from gateway.policy.hosts import HostPattern
from gateway.policy.modes import READ_ONLY, Mode
from gateway.policy.push import Kinds, PushRequest, Refs, Repositories, Tags, UpdateKind
from gateway.policy.refs import parse_ref_pattern
from gateway.policy.repositories import parse_repository, parse_repository_pattern
from gateway.policy.rules import Constraint, Enforcement, Rule, RuleSet, Ruling, Scope, Subject, decide_action

NOW = datetime(2030, 6, 1, tzinfo=UTC)
type Anything = PushRequest | ActionRequest


def restriction(rule: Rule, *, advises: bool = False) -> tuple[int, ...]:
    """How restrictive a rule is, read as what it says or as what it comes to."""
    firm = rule.enforcement is not Enforcement.SOFT
    wanted = {Verdict.ALLOW: 0, Verdict.ASK: 2, Verdict.DENY: 3 + firm}[rule.decision]
    return (1 if advises else wanted, wanted)


def strongest(rules: list[Rule], request: Anything, *, wide: bool) -> Rule | None:
    """The one that decides among these, as policy.md's order has it, each held against each."""
    fitting = [(rule, fit) for rule in rules if (fit := rule.fit(request, wide=wide)) is not None]
    kept = [
        rule
        for rule, fit in fitting
        if not any(
            other.scope.rank > rule.scope.rank
            or (
                other.scope.rank == rule.scope.rank
                and (
                    (bool(other.constraints) > bool(rule.constraints))
                    or (
                        0 < fit < better and {*map(type, rule.constraints)} <= {*map(type, other.constraints)}
                    )
                )
            )
            for other, better in fitting
        )
    ]
    return max(kept, key=lambda rule: (restriction(rule), rule.place), default=None)


def by_hand(rules: RuleSet, subject: Subject, request: Anything) -> tuple[Verdict, str]:
    """The verdict and the place, with no index, no preparation and nothing remembered."""
    default = default_verdict(request.action, subject.mode)
    if subject.mode in READ_ONLY and default is Verdict.DENY:
        return default, f"preset:{subject.mode}"
    own, managed = (
        [rule for rule in group if rule.action is request.action and rule.concerns(subject)]
        for group in (rules.rules, rules.managed)
    )
    binding = [rule for rule in own if not rule.advises]
    base = (0 if default is Verdict.ALLOW else 2,) * 2
    answers: list[tuple[tuple[int, ...], bool, str, Verdict]] = []
    for wide in (False, True):
        rule = strongest(binding, request, wide=wide)
        answers.append(
            (base, False, "default", default)
            if rule is None
            else (restriction(rule), True, rule.place, rule.decision)
        )
    advice = strongest(own, request, wide=False)
    if advice is not None and advice.advises:
        answers = answers if any(named for _, named, _, _ in answers) else []
        answers.append((restriction(advice, advises=True), True, advice.place, Verdict.ALLOW))
    for rule in managed:
        if rule.fit(request, wide=True) is not None:
            verdict = Verdict.ALLOW if rule.advises else rule.decision
            answers.append((restriction(rule, advises=rule.advises), True, rule.place, verdict))
    _, _, place, verdict = max(answers)
    return verdict, place


# --- Rules and requests ---------------------------------------------------------------------------


def some(kind: type[Constraint], entries: dict[str, object]) -> st.SearchStrategy[Constraint]:
    found = st.lists(st.sampled_from(sorted(entries)), min_size=1, max_size=2, unique=True)
    return found.map(lambda names: kind(tuple(entries[name] for name in names)))  # type: ignore[call-arg]


def possible(rule: Rule, place: str) -> Rule:
    """The rule with a place of its own; what can be overridden is a denial, what only advises is no allow."""
    soft = rule.enforcement is Enforcement.SOFT and rule.decision is not Verdict.DENY
    idle = rule.advises and rule.decision is Verdict.ALLOW
    return replace(rule, place=place, enforcement=Enforcement.HARD if soft or idle else rule.enforcement)


REPOSITORIES = {text: parse_repository_pattern(text) for text in ("a/b", "A/*", "*/b", "a*/b*")}
ON_PUSHES = st.one_of(
    some(
        Refs, {text: parse_ref_pattern(text) for text in ("main", "a/*", "**/b", "a/\u00e9", "refs/tags/**")}
    ),
    some(Repositories, dict(REPOSITORIES)),
    st.sets(st.sampled_from(UpdateKind), min_size=1).map(lambda kinds: Kinds(frozenset(kinds))),
    st.just(Tags()),
)
ON_ACTIONS = st.one_of(
    some(
        Commands,
        {
            " ".join(row): row
            for row in (("a",), ("a", "b"), ("a", "b", "c", "d", "e"), ("pip",), ("pip3", "i"))
        },
    ),
    some(Hosts, {text: HostPattern(text, "c:1") for text in ("x.test", "*.x.test", "a.*.y.test")}),
    some(Paths, {text: text for text in ("/a/*", "*/b", "/A/b/c", "*/d/*", "/\u00e9", "/e[a]")}),
    some(ActionRepositories, dict(REPOSITORIES)),
)
SCOPES = st.sampled_from(
    (
        Scope(),
        Scope(workspace="team"),
        Scope(agent="claude"),
        Scope(agent="x"),
        Scope("team", "claude"),
        Scope(space="s"),
    )
)


def rules_of(
    actions: tuple[Action, ...], constraints: st.SearchStrategy[Constraint]
) -> st.SearchStrategy[RuleSet]:
    drafts = st.builds(
        Rule,
        st.sampled_from(actions),
        st.sampled_from(Verdict),
        st.just("config.yaml:0"),
        SCOPES,
        st.lists(constraints, max_size=3, unique_by=type).map(tuple),
        st.sampled_from((None, None, None, NOW, NOW + timedelta(seconds=1))),
        st.sampled_from(Enforcement),
    )

    def numbered(groups: tuple[list[Rule], list[Rule]]) -> RuleSet:
        names = ("managed.yaml", "config.yaml")
        return RuleSet(
            *(
                tuple(possible(rule, f"{name}:{line:03}") for line, rule in enumerate(group))
                for name, group in zip(names, groups, strict=True)
            )
        )

    return st.tuples(st.lists(drafts, max_size=3), st.lists(drafts, max_size=9)).map(numbered)


PUSHES = st.builds(
    PushRequest,
    st.sampled_from(("a/b", "A/c", "ab/bc")).map(parse_repository),
    st.sampled_from(("heads/main", "heads/Main", "heads/a/b", "heads/b", "heads/a/E\u0301", "tags/a/b")).map(
        lambda name: f"refs/{name}"
    ),
    st.sampled_from(UpdateKind),
)
ACTIONS = st.builds(
    ActionRequest,
    st.sampled_from((Action.ACCESS_NETWORK, Action.DELETE_FILE)),
    host=st.sampled_from(("", "x.test", "a.x.test", "a.s3.y.test", "a.b.y.test", "localhost")),
    path=st.sampled_from(("", "/", "/a", "/a/b", "/A/B", "/x/d", "/e\u0301", "/ea", "/c/b")),
    words=st.sampled_from(
        ((), ("a",), ("a", "b"), tuple("abcdef"), ("pip", "i"), ("pip3", "i", "x"), ("d",))
    ),
    repository=st.sampled_from((None, parse_repository("A/b"), parse_repository("ab/bc"))),
)
SUBJECTS = st.builds(
    Subject,
    st.sampled_from(("team", "other")),
    st.sampled_from(("claude", "")),
    st.sampled_from(("s", "")),
    st.sampled_from((Mode.CHAT, Mode.CHAT, Mode.PLAN)),
    st.just(NOW),
)


@pytest.mark.parametrize(
    ("rules", "requests"),
    [
        (rules_of((Action.PUSH,), ON_PUSHES), PUSHES),
        (rules_of((Action.ACCESS_NETWORK, Action.DELETE_FILE), ON_ACTIONS), ACTIONS),
    ],
    ids=["pushes", "actions"],
)
def test_prepared_rules_decide_as_all_of_them(
    rules: st.SearchStrategy[RuleSet], requests: st.SearchStrategy[Anything]
) -> None:
    @settings(max_examples=500)
    @given(rules, SUBJECTS, st.lists(requests, min_size=1, max_size=6))
    def check(drawn: RuleSet, subject: Subject, asked: list[Anything]) -> None:
        for request in asked:
            found = decide_action(drawn, subject, request)
            assert (found.verdict, found.place) == by_hand(drawn, subject, request)

    check()


def test_what_is_for_others_or_over_is_not_found() -> None:
    subject = Subject("team", "claude", "", Mode.CHAT, NOW)
    commit = ActionRequest(Action.COMMIT)
    deny = Rule(Action.COMMIT, Verdict.DENY, "managed.yaml:1", constraints=(Paths(("/a",)),))
    mine = replace(deny, place="config.yaml:1", scope=Scope(agent="claude"))
    rules = RuleSet(
        (deny,),
        (mine, replace(deny, scope=Scope(agent="x")), replace(mine, expires=NOW), replace(deny, place="c:2")),
    )
    prepared = rules.prepared(subject)
    assert prepared.find(commit, NOW) == ([], [])
    assert prepared.find(ActionRequest(Action.COMMIT, path="/a"), NOW) == ([mine, rules.rules[3]], [deny])
    assert prepared.restricting(commit, NOW) == [(rules.rules[3], 0), (mine, 2), (deny, 4)]


def test_of_rules_about_everything_the_firmest_is_left() -> None:
    plain = [Rule(Action.COMMIT, verdict, f"c:{line}") for line, verdict in enumerate(Verdict)]
    prepared = RuleSet((), tuple(plain)).prepared(Subject("", "", "", Mode.CHAT, NOW))
    assert prepared.find(ActionRequest(Action.COMMIT), NOW) == ([plain[2]], [])
    assert decide_action(
        RuleSet((), tuple(plain)), Subject("", "", "", Mode.CHAT, NOW), ActionRequest(Action.COMMIT)
    ) == (Ruling(Verdict.DENY, "c:2", plain[2]))


def test_sets_are_values_whatever_they_have_made_ready() -> None:
    one, other = (RuleSet((), (Rule(Action.COMMIT, Verdict.DENY, "c:1"),)) for _ in range(2))
    for number in range(200):
        one.prepared(Subject("team", f"agent-{number}", "", Mode.CHAT, NOW))
    assert (one, hash(one), repr(one)) == (other, hash(other), repr(other))
    assert one != RuleSet(one.rules, ())
