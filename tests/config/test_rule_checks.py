"""Rules without effect: those that are named, those that are not, and that naming one is never a false alarm."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.config.rule_checks import find_managed_denial, find_managed_shadow, find_shadow
from gateway.policy.action import decide_request
from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import Action
from gateway.policy.constraints import ActionRepositories, Commands, Hosts, Paths
from gateway.policy.decision import Verdict
from gateway.policy.hosts import HostPattern
from gateway.policy.modes import Mode
from gateway.policy.push import Kinds, PushRequest, Refs, Repositories, Tags, UpdateKind, decide_push
from gateway.policy.refs import parse_ref_pattern
from gateway.policy.repositories import parse_repository, parse_repository_pattern
from gateway.policy.rules import Constraint, Enforcement, Rule, RuleSet, Scope, Subject
from tests.fakes.config_files import assert_warned, problems, write

NOW = datetime(2030, 6, 1, tzinfo=UTC)

SHADOWED = (
    (
        "a denial of all below",
        "{action: push, decision: allow, refs: ['a/b']}",
        "{action: push, decision: deny, refs: ['a/**']}",
    ),
    (
        "a question of more",
        "{action: push, decision: ask, refs: [x], kind: create}",
        "{action: push, decision: ask, refs: [x]}",
    ),
    (
        "more repositories",
        "{action: push, decision: deny, repositories: [a/b]}",
        "{action: push, decision: deny, repositories: ['*/*']}",
    ),
    (
        "more commands",
        "{action: commit, decision: ask, commands: [git commit]}",
        "{action: commit, decision: deny, commands: [git commit, git am]}",
    ),
    (
        "more hosts",
        "{action: access_network, decision: allow, hosts: [x.test]}",
        "{action: access_network, decision: deny, hosts: [x.test, y.test]}",
    ),
    (
        "tags",
        "{action: push, decision: ask, refs: ['refs/tags/v1']}",
        "{action: push, decision: deny, tags: true}",
    ),
    (
        "an agent everywhere before the agent in one workspace",
        "{action: push, decision: allow, refs: [a], agent: x, workspace: default}",
        "{action: push, decision: deny, refs: [a, b], agent: x}",
    ),
    (
        "advice on what is denied",
        "{action: push, decision: deny, refs: [a/b], enforcement: advisory}",
        "{action: push, decision: deny, refs: ['a/**']}",
    ),
    (
        "an exception for a while from what is denied as closely",
        "{action: push, decision: allow, refs: [a], expires: 2999-01-01T00:00:00Z}",
        "{action: push, decision: deny, refs: [a]}",
    ),
)


@pytest.mark.parametrize(("rule", "above"), [row[1:] for row in SHADOWED], ids=[row[0] for row in SHADOWED])
@pytest.mark.parametrize("first", [False, True], ids=["before it", "behind it"])
def test_a_rule_without_effect_is_named(tmp_path: Path, rule: str, above: str, first: bool) -> None:
    texts, line = ((above, rule), 3) if first else ((rule, above), 2)
    content = "rules:\n" + "".join(f"  - {text}\n" for text in texts)
    assert_warned(tmp_path, content, line, f"config.yaml:{5 - line} decides about all of it")


QUIET = (
    (
        "another scope",
        "{action: push, decision: allow, refs: [a], agent: x}",
        "{action: push, decision: deny, refs: [a, b]}",
    ),
    (
        "a milder rule above",
        "{action: push, decision: deny, refs: [a]}",
        "{action: push, decision: allow, refs: ['*']}",
    ),
    (
        "a rule without constraint",
        "{action: push, decision: allow, refs: [a]}",
        "{action: push, decision: deny}",
    ),
    (
        "a longer command",
        "{action: commit, decision: allow, commands: [git commit]}",
        "{action: commit, decision: deny, commands: [git]}",
    ),
    (
        "one that ends",
        "{action: push, decision: allow, refs: [a]}",
        "{action: push, decision: deny, refs: [a, b], expires: 2999-01-01T00:00:00Z}",
    ),
    (
        "one that can be overridden",
        "{action: push, decision: ask, refs: [a]}",
        "{action: push, decision: deny, refs: [a, b], enforcement: soft}",
    ),
    ("another action", "{action: commit, decision: allow}", "{action: install_package, decision: deny}"),
    (
        "a longer command besides a host, before shorter commands",
        "{action: access_network, decision: allow, hosts: [x.test], commands: [a b]}",
        "{action: access_network, decision: deny, hosts: [x.test]}",
    ),
    (
        "advice beside what is in force",
        "{action: push, decision: allow, refs: [a]}",
        "{action: push, decision: deny, refs: [a], enforcement: advisory}",
    ),
    (
        "a workspace before an agent",
        "{action: push, decision: allow, refs: [a], workspace: default}",
        "{action: push, decision: deny, refs: [a], agent: x}",
    ),
    (
        "a name that is not ASCII",
        "{action: push, decision: allow, refs: [a/é]}",
        "{action: push, decision: allow, refs: ['a/**']}",
    ),
)


@pytest.mark.parametrize(("rule", "other"), [row[1:] for row in QUIET], ids=[row[0] for row in QUIET])
def test_a_rule_with_effect_is_not(tmp_path: Path, rule: str, other: str) -> None:
    assert problems(tmp_path, f"rules:\n  - {rule}\n  - {other}\n") == ()


COMMANDS = (
    ("another program", "commit", "npm install", False),
    ("another command", "commit", "git push", False),
    ("an option in between", "commit", "git -C dir commit", False),
    ("the program", "commit", "git", True),
    ("with an option behind it", "commit", "git commit --amend", True),
    ("another version of it", "install_package", "pip3 install", True),
    ("half of it", "install_package", "yarn global", True),
    ("a longer one", "open_pull_request", "gh pr create --draft", True),
    ("that reviews", "publish_review", "gh pr create", False),
    ("a command with an option", "install_package", "pacman -S", True),
    ("whatever runs", "spawn_process", "anything at all", True),
    ("in the network", "access_network", "anything at all", True),
)


@pytest.mark.parametrize(
    ("action", "command", "known"), [row[1:] for row in COMMANDS], ids=[row[0] for row in COMMANDS]
)
def test_commands_that_are_known_for_something_else(
    tmp_path: Path, action: str, command: str, known: bool
) -> None:
    content = f"rules:\n  - {{action: {action}, decision: deny, commands: [{command}]}}\n"
    if known:
        assert problems(tmp_path, content) == ()
    else:
        written = {"commit": "git commit", "publish_review": "gh pr merge"}[action]
        assert_warned(tmp_path, content, 2, f"write {written}, or action: spawn_process")


def test_a_managed_denial_leaves_nothing(tmp_path: Path) -> None:
    managed = tmp_path / "managed.yaml"
    managed.write_text("rules:\n  - {action: push, decision: deny, refs: ['a/**']}\n")
    write(tmp_path, "")
    content = f"managed_rules_file: {managed}\nrules:\n  - {{action: push, decision: allow, refs: [a/b], agent: x}}\n"
    assert_warned(tmp_path, content, 3, "managed.yaml:2, a managed rule, denies all of it")


MANAGED = (
    ("another agent", "{action: push, decision: deny, refs: ['a/**'], agent: y}"),
    ("a question", "{action: push, decision: ask, refs: ['a/**']}"),
    ("one that ends", "{action: push, decision: deny, refs: ['a/**'], expires: 2999-01-01T00:00:00Z}"),
    ("one that can be overridden", "{action: push, decision: deny, refs: ['a/**'], enforcement: soft}"),
)


@pytest.mark.parametrize("managed", [row[1] for row in MANAGED], ids=[row[0] for row in MANAGED])
def test_a_managed_rule_that_leaves_something(tmp_path: Path, managed: str) -> None:
    file = tmp_path / "managed.yaml"
    file.write_text(f"rules:\n  - {managed}\n")
    rule = "{action: push, decision: allow, refs: [a/b], agent: x}"
    assert problems(tmp_path, f"managed_rules_file: {file}\nrules:\n  - {rule}\n") == ()


def test_a_managed_rule_makes_a_narrower_one_needless(tmp_path: Path) -> None:
    file = tmp_path / "managed.yaml"
    file.write_text(
        "rules:\n  - {action: push, decision: deny}\n  - {action: push, decision: ask, refs: [a], agent: x}\n"
    )
    (found,) = problems(tmp_path, f"managed_rules_file: {file}\n")
    assert str(found).startswith(f"{file}:3: ")
    assert "managed.yaml:2 decides about all of it" in found.message


# --- Never a false alarm --------------------------------------------------------------------------

NAMES = ("main", "a/b", "a/c/d", "a/é", "refs/tags/v1", "A/b")
PATTERNS = ("main", "a/*", "a/**", "a/b", "a/é", "a/é*", "refs/tags/*", "**", "m*")
PUSH_CONSTRAINTS: st.SearchStrategy[Constraint] = st.one_of(
    st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2).map(
        lambda texts: Refs(tuple(map(parse_ref_pattern, texts)))
    ),
    st.sampled_from(("a/b", "a/*", "*/*")).map(lambda text: Repositories((parse_repository_pattern(text),))),
    st.sets(st.sampled_from(UpdateKind), min_size=1).map(lambda kinds: Kinds(frozenset(kinds))),
    st.just(Tags()),
)
ACTION_CONSTRAINTS: st.SearchStrategy[Constraint] = st.one_of(
    st.lists(
        st.sampled_from((("a",), ("a", "b"), ("a", "b", "c"), ("pip",), ("pip3", "e"))),
        min_size=1,
        max_size=2,
    ).map(lambda rows: Commands(tuple(rows))),
    st.lists(st.sampled_from(("x.test", "*.x.test", "y.test")), min_size=1, max_size=2).map(
        lambda texts: Hosts(tuple(HostPattern(text, "c:1") for text in texts))
    ),
    st.lists(st.sampled_from(("/a/*", "*/b", "/A/*")), min_size=1, max_size=2).map(
        lambda globs: Paths(tuple(globs))
    ),
    st.sampled_from(("a/b", "a/*")).map(lambda text: ActionRepositories((parse_repository_pattern(text),))),
)


def possible(enforcement: Enforcement, decision: Verdict) -> Enforcement:
    """What can be overridden is a denial, what only advises is no allow."""
    soft = enforcement is Enforcement.SOFT and decision is not Verdict.DENY
    return Enforcement.HARD if soft or decision is Verdict.ALLOW else enforcement


def rule_lists(action: Action, constraints: st.SearchStrategy[Constraint]) -> st.SearchStrategy[list[Rule]]:
    """Some rules about one action, each with a place of its own."""
    drafts = st.tuples(
        st.sampled_from(Verdict),
        st.sampled_from((Scope(), Scope(agent="x"), Scope(space="s"), Scope("w", "x"))),
        st.lists(constraints, max_size=2, unique_by=type),
        st.sampled_from(Enforcement),
    )

    def made(rows: list[tuple[Verdict, Scope, list[Constraint], Enforcement]]) -> list[Rule]:
        return [
            Rule(
                action,
                decision,
                f"c:{number}",
                scope,
                tuple(found),
                None,
                possible(enforcement, decision),
            )
            for number, (decision, scope, found, enforcement) in enumerate(rows)
        ]

    return st.lists(drafts, min_size=2, max_size=5).map(made)


SUBJECTS = st.sampled_from(
    tuple(Subject("w", agent, space, Mode.CHAT, NOW) for agent in ("x", "") for space in ("s", ""))
)
PUSHES = st.builds(
    PushRequest,
    st.sampled_from(("a/b", "c/d")).map(parse_repository),
    st.sampled_from(NAMES).map(lambda name: name if name.startswith("refs/") else f"refs/heads/{name}"),
    st.sampled_from(UpdateKind),
)
ACTIONS = st.builds(
    ActionRequest,
    st.just(Action.ACCESS_NETWORK),
    host=st.sampled_from(("", "x.test", "b.x.test", "y.test", "s3.x.test")),
    path=st.sampled_from(("", "/a/b", "/A/b", "/c")),
    words=st.sampled_from(((), ("a",), ("a", "b"), ("a", "b", "c"), ("pip", "e"), ("pip3", "e"))),
    repository=st.sampled_from((None, parse_repository("a/b"), parse_repository("a/c"))),
)


@pytest.mark.parametrize(
    ("lists", "requests"),
    [
        (rule_lists(Action.PUSH, PUSH_CONSTRAINTS), PUSHES),
        (rule_lists(Action.ACCESS_NETWORK, ACTION_CONSTRAINTS), ACTIONS),
    ],
    ids=["pushes", "actions"],
)
def test_what_is_called_without_effect_has_none(
    lists: st.SearchStrategy[list[Rule]], requests: st.SearchStrategy[PushRequest | ActionRequest]
) -> None:
    @settings(max_examples=500)
    @given(lists, lists, SUBJECTS, st.lists(requests, min_size=1, max_size=8))
    def check(
        own: list[Rule], managed: list[Rule], subject: Subject, asked: list[PushRequest | ActionRequest]
    ) -> None:
        managed = [rule for rule in managed if rule.decision is not Verdict.ALLOW]
        whole = RuleSet(tuple(managed), tuple(own))
        without = [
            RuleSet(tuple(managed), tuple(one for one in own if one is not rule))
            for rule in own
            if find_shadow(rule, own) or find_managed_denial(rule, managed)
        ]
        without += [
            RuleSet(tuple(one for one in managed if one is not rule), tuple(own))
            for rule in managed
            if find_managed_shadow(rule, managed)
        ]
        for request in asked:
            before = outcome(whole, subject, request)
            assert all(outcome(rules, subject, request) == before for rules in without)

    check()


def outcome(rules: RuleSet, subject: Subject, request: PushRequest | ActionRequest) -> tuple[object, ...]:
    """What would be noticed of a decision: the verdict, whether it can be overridden, whether it is advice."""
    if isinstance(request, ActionRequest):
        found = decide_request(rules, subject, request)
    else:
        found = decide_push(rules, subject, request)
    return found.verdict, found.code, "only advises" in found.reason
