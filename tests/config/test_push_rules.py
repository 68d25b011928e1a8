"""Constraints of rules about pushes, as the config file spells them: what they give, and what cannot be meant."""

from pathlib import Path

import pytest

from gateway.policy.push import FORCED, UPDATES, Kinds, Refs, Repositories, Tags, UpdateKind
from gateway.policy.refs import parse_ref_pattern
from gateway.policy.repositories import parse_repository_pattern
from gateway.policy.rules import Constraint
from tests.fakes.config_files import assert_refused, assert_warned, load, problems


def entry(constraints: str, decision: str = "deny") -> str:
    """A config whose second line is a rule with these constraints."""
    return f"rules:\n  - {{action: push, decision: {decision}, {constraints}}}\n"


def refs(*texts: str) -> Refs:
    return Refs(tuple(map(parse_ref_pattern, texts)))


ACME = Repositories((parse_repository_pattern("acme/*"), parse_repository_pattern("other/Widget")))
CREATE, DELETE = UpdateKind.CREATE, UpdateKind.DELETE

READ: tuple[tuple[str, tuple[Constraint, ...]], ...] = (
    ("refs: [main, 'release/*']", (refs("main", "release/*"),)),
    ("refs: main", (refs("main"),)),
    ("refs: ['**']", (refs("**"),)),
    ("refs: ['refs/tags/v*', 'refs/**', agent/x]", (refs("refs/tags/v*", "refs/**", "agent/x"),)),
    ("refs: ['1.0']", (refs("1.0"),)),
    ("refs: [release/1.0, v1, on, no]", (refs("release/1.0", "v1", "on", "no"),)),
    ("refs: [фича/x]", (refs("фича/x"),)),
    ("repositories: ['acme/*', other/Widget]", (ACME,)),
    ("kind: create", (Kinds(frozenset({CREATE})),)),
    ("kind: [create, delete]", (Kinds(frozenset({CREATE, DELETE})),)),
    ("kind: update", (Kinds(UPDATES),)),
    ("force: true", (Kinds(FORCED),)),
    ("force: on", (Kinds(FORCED),)),
    ("kind: update, force: true", (Kinds(FORCED),)),
    ("kind: [create, update], force: true", (Kinds(FORCED),)),
    ("tags: true", (Tags(),)),
    ("refs: ['refs/tags/v*'], tags: true", (refs("refs/tags/v*"), Tags())),
    ("refs: ['**'], tags: true", (refs("**"), Tags())),
    (
        "refs: [main], repositories: ['acme/*', other/Widget], force: true",
        (refs("main"), ACME, Kinds(FORCED)),
    ),
)


@pytest.mark.parametrize(("constraints", "found"), READ)
def test_constraints_arrive(tmp_path: Path, constraints: str, found: tuple[Constraint, ...]) -> None:
    assert problems(tmp_path, entry(constraints)) == ()
    assert load(tmp_path, entry(constraints)).rules[0].constraints == found


REFUSED = (
    ("refs of a number", "refs: [1.0]", "deny", "rules.refs must be text, not a number"),
    ("refs of nothing", "refs: null", "deny", "rules.refs must be text, not empty"),
    ("an empty list", "refs: []", "deny", "the rule can never match"),
    ("an empty entry", "refs: ['']", "deny", "is an empty text"),
    ("a mapping", "refs: {main: x}", "deny", "rules.refs must be a list"),
    ("a list in a list", "refs: [[main]]", "deny", "rules.refs must be text"),
    ("a full name of a branch", "refs: [refs/heads/main]", "deny", "write it without refs/heads/"),
    ("** in a segment", "refs: ['agent**']", "deny", "a segment of its own"),
    ("a negation", "refs: ['!main']", "deny", "write a rule of its own"),
    ("a name that no ref has", "refs: [a..b]", "deny", "no ref has such a name"),
    ("an invisible character", 'refs: ["ma\\u200bin"]', "deny", "an invisible character"),
    ("pull requests opened", "refs: ['refs/pull/**']", "allow", "can never be pushed to"),
    ("pull requests asked", "refs: [refs/pull/1/head]", "ask", "can never be pushed to"),
    ("HEAD opened", "refs: [HEAD]", "allow", "can never be pushed to"),
    ("a branch among tags", "refs: [main], tags: true", "deny", "matches no tag"),
    ("notes among tags", "refs: ['refs/notes/*'], tags: true", "deny", "matches no tag"),
    ("a repository alone", "repositories: [widget]", "deny", "write owner/name"),
    ("a repository with .git", "repositories: [acme/widget.git]", "deny", "without .git"),
    ("no repository", "repositories: []", "deny", "the rule can never match"),
    ("kind force", "kind: force", "deny", "force: true"),
    ("kind fast-forward", "kind: [create, fast-forward]", "deny", "write create, update or delete"),
    ("no kind", "kind: []", "deny", "the rule can never match"),
    ("a forced creation", "kind: create, force: true", "deny", "the rule can never match"),
    ("a forced deletion", "kind: [create, delete], force: true", "deny", "the rule can never match"),
    ("force false", "force: false", "deny", "rules.force is true or not there"),
    ("force off", "force: off", "deny", "rules.force is true or not there"),
    ("force yes", "force: yes", "deny", "rules.force must be on or off"),
    ("force null", "force: null", "deny", "rules.force must be on or off"),
    ("tags false", "tags: false", "deny", "rules.tags is true or not there"),
    ("tags of names", "tags: ['v*']", "deny", "rules.tags must be on or off"),
)


@pytest.mark.parametrize(
    ("constraints", "decision", "fragment"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_constraint_is_refused(tmp_path: Path, constraints: str, decision: str, fragment: str) -> None:
    assert_refused(tmp_path, entry(constraints, decision), 2, fragment)


@pytest.mark.parametrize(
    ("constraints", "fragment"),
    [
        ("refs: [a, b, a]", "'a' stands there twice"),
        ("repositories: [a/b, a/b]", "'a/b' stands there twice"),
        ("kind: [create, create]", "'create' stands there twice"),
        ("refs: [tags/v1]", "read as a branch of this very name: if another is meant, write refs/tags/x"),
        ("refs: ['heads/*']", "read as a branch of this very name"),
        ("refs: [origin/main]", "read as a branch of this very name"),
        ("refs: [remotes/origin/main]", "read as a branch of this very name"),
    ],
)
def test_constraint_is_doubted(tmp_path: Path, constraints: str, fragment: str) -> None:
    assert_warned(tmp_path, entry(constraints), 2, fragment)


def test_what_is_shut_may_be_denied_once_more(tmp_path: Path) -> None:
    assert problems(tmp_path, entry("refs: ['refs/pull/**', HEAD]")) == ()


def test_every_entry_has_its_line(tmp_path: Path) -> None:
    content = (
        "rules:\n  - action: push\n    decision: deny\n    refs:\n      - main\n      - a b\n      - c..d\n"
    )
    assert [problem.line for problem in problems(tmp_path, content)] == [6, 7]
