"""Decisions about single effects: scope, constraint, mode, enforcement and expiry, and what cannot be told."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.action import decide_request
from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import CHANGING, Action
from gateway.policy.constraints import ActionRepositories, Commands, Hosts, Paths
from gateway.policy.decision import Verdict
from gateway.policy.hosts import HostPattern
from gateway.policy.modes import READ_ONLY, Mode
from gateway.policy.reasons import MAX_REASON
from gateway.policy.repositories import parse_repository, parse_repository_pattern
from gateway.policy.rules import Constraint, Enforcement, Rule, RuleSet, Scope, Subject

NOW = datetime(2030, 6, 1, tzinfo=UTC)
ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
SUBJECT = Subject("team", "claude", "", Mode.CHAT, NOW)


def rule(
    action: Action,
    decision: Verdict,
    *constraints: Constraint,
    line: int = 7,
    agent: str = "",
    enforcement: Enforcement = Enforcement.HARD,
    expires: datetime | None = None,
    note: str = "",
) -> Rule:
    place = f"config.yaml:{line}"
    return Rule(action, decision, place, Scope(agent=agent), constraints, expires, enforcement, note)


def commands(*texts: str) -> Commands:
    return Commands(tuple(tuple(text.split()) for text in texts))


def hosts(*texts: str) -> Hosts:
    return Hosts(tuple(HostPattern(text, "config.yaml:7") for text in texts))


COMMIT, INSTALL, NETWORK, DELETE = (
    Action.COMMIT,
    Action.INSTALL_PACKAGE,
    Action.ACCESS_NETWORK,
    Action.DELETE_FILE,
)
NPM = ActionRequest(INSTALL, words=("npm", "install", "left-pad"))
CURL = ActionRequest(NETWORK, host="api.x.test", target="https://api.x.test/a")
ANY_HOST = ActionRequest(NETWORK, target='curl "$URL"')
REMOVE = ActionRequest(DELETE, path="/srv/data/a", target="/srv/data/a")
PULL = ActionRequest(Action.OPEN_PULL_REQUEST, repository=parse_repository("acme/widget"))

ROWS: tuple[tuple[str, ActionRequest, tuple[Rule, ...], Mode, Verdict, str], ...] = (
    # defaults
    ("commit", ActionRequest(COMMIT), (), Mode.CHAT, ALLOW, "default"),
    ("install", NPM, (), Mode.CHAT, ASK, "default"),
    ("install in plan", NPM, (), Mode.PLAN, DENY, "preset:plan"),
    ("commit in review", ActionRequest(COMMIT), (), Mode.REVIEW, DENY, "preset:review"),
    ("network in plan", CURL, (), Mode.PLAN, ALLOW, "default"),
    # commands: the longest row of words is the closest
    ("command", NPM, (rule(INSTALL, ALLOW, commands("npm install")),), Mode.CHAT, ALLOW, "config.yaml:7"),
    ("other command", NPM, (rule(INSTALL, ALLOW, commands("npm ci")),), Mode.CHAT, ASK, "default"),
    ("word for word", NPM, (rule(INSTALL, ALLOW, commands("npm inst")),), Mode.CHAT, ASK, "default"),
    (
        "longer command",
        NPM,
        (
            rule(INSTALL, DENY, commands("npm")),
            rule(INSTALL, ALLOW, commands("npm install left-pad"), line=8),
        ),
        Mode.CHAT,
        ALLOW,
        "config.yaml:8",
    ),
    (
        "equally long",
        NPM,
        (
            rule(INSTALL, ASK, commands("npm install")),
            rule(INSTALL, DENY, commands("npm install", "pip"), line=8),
        ),
        Mode.CHAT,
        DENY,
        "config.yaml:8",
    ),
    (
        "five words",
        ActionRequest(COMMIT, words=tuple("abcdef")),
        (rule(COMMIT, DENY, commands("a b c d e")),),
        Mode.CHAT,
        DENY,
        "config.yaml:7",
    ),
    (
        "five other words",
        ActionRequest(COMMIT, words=tuple("abcdef")),
        (rule(COMMIT, DENY, commands("a b c d x")),),
        Mode.CHAT,
        ALLOW,
        "default",
    ),
    # hosts
    ("host", CURL, (rule(NETWORK, DENY, hosts("*.x.test")),), Mode.CHAT, DENY, "config.yaml:7"),
    ("apex", CURL, (rule(NETWORK, DENY, hosts("x.test")),), Mode.CHAT, ALLOW, "default"),
    ("host in plan", CURL, (rule(NETWORK, DENY, hosts("*.x.test")),), Mode.PLAN, DENY, "config.yaml:7"),
    ("unknown host", ANY_HOST, (rule(NETWORK, DENY, hosts("*.x.test")),), Mode.CHAT, ASK, "config.yaml:7"),
    (
        "unknown host in plan",
        ANY_HOST,
        (rule(NETWORK, DENY, hosts("*.x.test")),),
        Mode.PLAN,
        DENY,
        "config.yaml:7",
    ),
    ("asked", CURL, (rule(NETWORK, ASK, hosts("*.x.test")),), Mode.CHAT, ASK, "config.yaml:7"),
    (
        "nobody is asked in plan",
        CURL,
        (rule(NETWORK, ASK, hosts("*.x.test")),),
        Mode.PLAN,
        DENY,
        "config.yaml:7",
    ),
    (
        "advice to ask in plan",
        CURL,
        (rule(NETWORK, ASK, enforcement=Enforcement.ADVISORY),),
        Mode.PLAN,
        ALLOW,
        "config.yaml:7",
    ),
    (
        "unknown host, allowed some",
        ANY_HOST,
        (rule(NETWORK, ALLOW, hosts("*.x.test")),),
        Mode.CHAT,
        ALLOW,
        "default",
    ),
    (
        "unknown host, another command",
        ActionRequest(NETWORK, words=("curl", "$URL")),
        (rule(NETWORK, DENY, hosts("*.x.test"), commands("wget")),),
        Mode.CHAT,
        ALLOW,
        "default",
    ),
    (
        "unknown host, denied anyway",
        ANY_HOST,
        (rule(NETWORK, DENY, line=3), rule(NETWORK, DENY, hosts("*.x.test"))),
        Mode.CHAT,
        DENY,
        "config.yaml:3",
    ),
    (
        "unknown host, a narrower rule decides whatever it is",
        ANY_HOST,
        (rule(NETWORK, DENY, hosts("*.x.test")), rule(NETWORK, ALLOW, agent="claude", line=8)),
        Mode.CHAT,
        ALLOW,
        "config.yaml:8",
    ),
    (
        "unknown host, a rule as narrow",
        ANY_HOST,
        (rule(NETWORK, DENY, hosts("*.x.test")), rule(NETWORK, ALLOW, line=8)),
        Mode.CHAT,
        ASK,
        "config.yaml:7",
    ),
    # kinds of constraints: none is closer than another
    (
        "a longer command does not open a host",
        ActionRequest(NETWORK, host="a.x.test", words=("curl", "-s", "a.x.test")),
        (rule(NETWORK, DENY, hosts("*.x.test")), rule(NETWORK, ALLOW, commands("curl -s"), line=8)),
        Mode.CHAT,
        DENY,
        "config.yaml:7",
    ),
    (
        "nor a host a command",
        ActionRequest(NETWORK, host="a.x.test", words=("curl", "-k", "a.x.test")),
        (rule(NETWORK, ALLOW, hosts("*.x.test")), rule(NETWORK, DENY, commands("curl -k"), line=8)),
        Mode.CHAT,
        DENY,
        "config.yaml:8",
    ),
    (
        "a longer command with a host",
        ActionRequest(NETWORK, host="a.x.test", words=("curl", "-s", "a.x.test")),
        (
            rule(NETWORK, DENY, commands("curl")),
            rule(NETWORK, ALLOW, commands("curl -s"), hosts("*.x.test"), line=8),
        ),
        Mode.CHAT,
        ALLOW,
        "config.yaml:8",
    ),
    (
        "a shorter command with a host",
        ActionRequest(NETWORK, host="a.x.test", words=("curl", "-s", "a.x.test")),
        (
            rule(NETWORK, DENY, commands("curl"), hosts("*.x.test")),
            rule(NETWORK, ALLOW, commands("curl -s"), line=8),
        ),
        Mode.CHAT,
        DENY,
        "config.yaml:7",
    ),
    # paths
    (
        "what contains the path goes with it",
        ActionRequest(DELETE, path="/srv"),
        (rule(DELETE, DENY, Paths(("/srv/data/*",))),),
        Mode.CHAT,
        DENY,
        "config.yaml:7",
    ),
    (
        "what is beside it does not",
        ActionRequest(DELETE, path="/srv/dat"),
        (rule(DELETE, DENY, Paths(("/srv/data/*",))),),
        Mode.CHAT,
        ALLOW,
        "default",
    ),
    ("path", REMOVE, (rule(DELETE, DENY, Paths(("/srv/*",))),), Mode.CHAT, DENY, "config.yaml:7"),
    (
        "path in another case",
        REMOVE,
        (rule(DELETE, DENY, Paths(("/SRV/*",))),),
        Mode.CHAT,
        DENY,
        "config.yaml:7",
    ),
    ("almost the path", REMOVE, (rule(DELETE, DENY, Paths(("/srv2/*",))),), Mode.CHAT, ALLOW, "default"),
    (
        "an allow is read as written",
        ActionRequest(Action.WRITE_OUTSIDE, path="/srv/a"),
        (rule(Action.WRITE_OUTSIDE, ALLOW, Paths(("/SRV/*",))),),
        Mode.CHAT,
        ASK,
        "default",
    ),
    (
        "unknown path",
        ActionRequest(DELETE),
        (rule(DELETE, ASK, Paths(("/srv/*",))),),
        Mode.CHAT,
        ASK,
        "config.yaml:7",
    ),
    # repositories
    (
        "repository",
        PULL,
        (rule(Action.OPEN_PULL_REQUEST, ALLOW, ActionRepositories((parse_repository_pattern("Acme/*"),))),),
        Mode.CHAT,
        ALLOW,
        "config.yaml:7",
    ),
    (
        "another repository",
        PULL,
        (rule(Action.OPEN_PULL_REQUEST, ALLOW, ActionRepositories((parse_repository_pattern("other/*"),))),),
        Mode.CHAT,
        ASK,
        "default",
    ),
    # scopes, expiry, enforcement
    (
        "agent before everybody",
        NPM,
        (rule(INSTALL, DENY), rule(INSTALL, ALLOW, agent="claude", line=8)),
        Mode.CHAT,
        ALLOW,
        "config.yaml:8",
    ),
    ("another agent", NPM, (rule(INSTALL, ALLOW, agent="codex"),), Mode.CHAT, ASK, "default"),
    ("over", NPM, (rule(INSTALL, ALLOW, expires=NOW),), Mode.CHAT, ASK, "default"),
    (
        "not over",
        NPM,
        (rule(INSTALL, ALLOW, expires=NOW + timedelta(seconds=1)),),
        Mode.CHAT,
        ALLOW,
        "config.yaml:7",
    ),
    (
        "advice",
        ActionRequest(COMMIT),
        (rule(COMMIT, DENY, enforcement=Enforcement.ADVISORY),),
        Mode.CHAT,
        ALLOW,
        "config.yaml:7",
    ),
    ("no rule opens a mode", NPM, (rule(INSTALL, ALLOW),), Mode.ORCHESTRATE, DENY, "preset:orchestrate"),
)


@pytest.mark.parametrize(
    ("request_", "rules", "mode", "verdict", "place"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_decision(
    request_: ActionRequest, rules: tuple[Rule, ...], mode: Mode, verdict: Verdict, place: str
) -> None:
    subject = Subject("team", "claude", "", mode, NOW)
    for order in (rules, rules[::-1]):
        found = decide_request(RuleSet((), order), subject, request_)
        assert (found.verdict, found.rule) == (verdict, place)
        assert found.reason.isprintable()
        assert len(found.reason) <= MAX_REASON


WORDS = (
    (NPM, (), "Install package needs an approval for npm install left-pad: no rule decides about it"),
    (
        CURL,
        (rule(NETWORK, DENY, hosts("*.x.test"), note="ask the team"),),
        "Access network is denied for https://api.x.test/a by config.yaml:7 (ask the team)",
    ),
    (
        ANY_HOST,
        (rule(NETWORK, DENY, hosts("*.x.test")),),
        'Access network needs an approval for curl "$URL": the host cannot be told, and config.yaml:7 would deny some',
    ),
    (
        ActionRequest(COMMIT, target="a\nb"),
        (rule(COMMIT, ASK, enforcement=Enforcement.ADVISORY),),
        "Create commit is allowed for a\\nb: config.yaml:7 would ask about it, but only advises",
    ),
)


def test_words_of_a_mode_that_asks_nobody() -> None:
    rules = RuleSet((), (rule(NETWORK, ASK, hosts("*.x.test"), note="mind the cost"),))
    found = decide_request(rules, replace(SUBJECT, mode=Mode.PLAN), CURL)
    assert found.reason == (
        "Access network is denied for https://api.x.test/a by config.yaml:7 (mind the cost), which asks first: "
        "in mode plan nobody is asked"
    )


@pytest.mark.parametrize(("request_", "rules", "reason"), WORDS, ids=[row[2][:30] for row in WORDS])
def test_reason(request_: ActionRequest, rules: tuple[Rule, ...], reason: str) -> None:
    assert decide_request(RuleSet((), rules), SUBJECT, request_).reason == reason


def test_a_soft_denial_can_be_overridden() -> None:
    rules = RuleSet((), (rule(INSTALL, DENY, enforcement=Enforcement.SOFT),))
    assert decide_request(rules, SUBJECT, NPM).code == "overridable"
    hard = RuleSet((rule(INSTALL, DENY, line=2),), rules.rules)
    assert decide_request(hard, SUBJECT, NPM).code == ""


# --- Properties -----------------------------------------------------------------------------------

CONSTRAINTS: st.SearchStrategy[Constraint] = st.sampled_from(
    (
        commands("a"),
        commands("a b", "c"),
        commands("a b c d e"),
        hosts("x.test"),
        hosts("*.x.test", "y.test"),
        Paths(("/a/*",)),
        Paths(("*/B",)),
        ActionRepositories((parse_repository_pattern("a/*"),)),
    )
)
RULES = st.lists(
    st.builds(
        Rule,
        st.sampled_from((NETWORK, DELETE)),
        st.sampled_from(Verdict),
        st.integers(1, 99).map(lambda line: f"config.yaml:{line}"),
        st.sampled_from((Scope(), Scope(agent="claude"), Scope(agent="codex"), Scope(space="s"))),
        st.lists(CONSTRAINTS, max_size=2).map(tuple),
    ),
    max_size=6,
)
REQUESTS = st.builds(
    ActionRequest,
    st.sampled_from((NETWORK, DELETE)),
    host=st.sampled_from(("", "x.test", "a.x.test", "y.test", "localhost")),
    path=st.sampled_from(("", "/a/b", "/A/B", "/c")),
    words=st.sampled_from(((), ("a",), ("a", "b"), tuple("abcdef"), ("c", "a"))),
    repository=st.sampled_from((None, parse_repository("A/b"), parse_repository("b/a"))),
)
MODES = st.sampled_from(Mode)
ORDER = (ALLOW, ASK, DENY)


@given(RULES, RULES, REQUESTS, MODES, st.randoms(use_true_random=False))
def test_order_never_matters(
    own: list[Rule], managed: list[Rule], request_: ActionRequest, mode: Mode, chance: Random
) -> None:
    subject = Subject("team", "claude", "", mode, NOW)
    before = decide_request(RuleSet(tuple(managed), tuple(own)), subject, request_)
    chance.shuffle(own)
    chance.shuffle(managed)
    after = decide_request(RuleSet(tuple(managed), tuple(own)), subject, request_)
    assert (before.verdict, before.code) == (after.verdict, after.code)


@given(RULES, RULES, REQUESTS, MODES)
def test_managed_rules_only_tighten(
    own: list[Rule], managed: list[Rule], request_: ActionRequest, mode: Mode
) -> None:
    subject = Subject("team", "claude", "", mode, NOW)
    alone = decide_request(RuleSet((), tuple(own)), subject, request_)
    both = decide_request(RuleSet(tuple(managed), tuple(own)), subject, request_)
    assert ORDER.index(both.verdict) >= ORDER.index(alone.verdict)


@given(RULES, REQUESTS, MODES, st.lists(CONSTRAINTS, max_size=2))
def test_one_more_denial_in_the_narrowest_scope_never_allows_more(
    own: list[Rule], request_: ActionRequest, mode: Mode, constraints: list[Constraint]
) -> None:
    subject = Subject("team", "claude", "", mode, NOW)
    before = decide_request(RuleSet((), tuple(own)), subject, request_)
    more = Rule(request_.action, DENY, "config.yaml:1", Scope(agent="claude"), tuple(constraints))
    after = decide_request(RuleSet((more,), tuple(own)), subject, request_)
    assert ORDER.index(after.verdict) >= ORDER.index(before.verdict)


@given(RULES, RULES, REQUESTS, st.sampled_from(sorted(READ_ONLY)))
def test_denials_of_a_reading_mode_are_final(
    own: list[Rule], managed: list[Rule], request_: ActionRequest, mode: Mode
) -> None:
    subject = Subject("team", "claude", "", mode, NOW)
    found = decide_request(RuleSet(tuple(managed), tuple(own)), subject, request_)
    if request_.action in CHANGING:
        assert (found.verdict, found.rule) == (DENY, f"preset:{mode}")
