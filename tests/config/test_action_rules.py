"""Constraints of rules about commands, hosts, files and repositories: what they give, and what can never be meant."""

from pathlib import Path

import pytest

from gateway.config.action_rules import CONSTRAINTS
from gateway.policy.actions import Action
from gateway.policy.constraints import ActionRepositories, Commands, Hosts, Paths
from gateway.policy.hosts import HostPattern
from gateway.policy.repositories import parse_repository_pattern
from gateway.policy.rules import Constraint
from tests.fakes.config_files import assert_refused, load, problems


def entry(action: str, constraint: str) -> str:
    """A config with one rule."""
    return f"rules:\n  - {{action: {action}, decision: deny, {constraint}}}\n"


GIVEN: tuple[tuple[str, str, Constraint], ...] = (
    ("commit", 'commands: ["git commit --amend"]', Commands((("git", "commit", "--amend"),))),
    ("spawn_process", "commands: terraform", Commands((("terraform",),))),
    ("spawn_process", "commands: [\"echo 'a b'\", make]", Commands((("echo", "a b"), ("make",)))),
    ("install_package", 'commands: ["npm install", "pip install"]', Commands((("npm", "install"), ("pip", "install")))),
    ("install_package", "commands: [[npm, install], pip install]", Commands((("npm", "install"), ("pip", "install")))),
    ("spawn_process", "commands: [[find, -name, '*.pyc']]", Commands((("find", "-name", "*.pyc"),))),
    ("access_network", "hosts: X.Example.test", Hosts((HostPattern("x.example.test", "config.yaml:2"),))),
    ("access_network", 'hosts: ["*.x.test"]', Hosts((HostPattern("*.x.test", "config.yaml:2"),))),
    ("delete_file", 'paths: ["/srv/*", "*/dist/*"]', Paths(("/srv/*", "*/dist/*"))),
    ("write_outside", "paths: /etc/hosts", Paths(("/etc/hosts",))),
    ("access_secret", "paths: ~/.netrc", Paths((str(Path.home() / ".netrc"),))),
    ("open_pull_request", 'repositories: ["acme/*"]', ActionRepositories((parse_repository_pattern("acme/*"),))),
)  # fmt: skip


@pytest.mark.parametrize(("action", "text", "constraint"), GIVEN, ids=[" ".join(row[:2]) for row in GIVEN])
def test_constraints_arrive(tmp_path: Path, action: str, text: str, constraint: Constraint) -> None:
    (rule,) = load(tmp_path, entry(action, text)).rules
    assert (rule.action, rule.constraints) == (Action(action), (constraint,))


REFUSED = (
    ("commit", 'commands: ["git commit && git push"]', "one command, word by word"),
    ("commit", 'commands: ["git commit *"]', "one command, word by word"),
    ("commit", "commands: [\"git 'commit\"]", "a quote is not closed"),
    ("commit", 'commands: ["\'\'"]', "there is no command in it"),
    ("spawn_process", "commands: [/usr/bin/make]", "programs go by their names, wherever they are: write make"),
    ("spawn_process", "commands: [[/usr/bin/make, x]]", "begin with a program's name: write [npm, install]"),
    ("spawn_process", "commands: [[]]", "begin with a program's name"),
    ("spawn_process", "commands: [[make, [x]]]", "rules.commands must be text"),
    ("spawn_process", "commands: [[make], 'a | b']", "one command, word by word"),
    ("spawn_process", "commands: []", "is empty, so the rule can never match"),
    ("access_network", "hosts: ['http://x.test']", "rules.hosts"),
    ("access_network", "hosts: ['*']", "rules.hosts"),
    ("access_network", "paths: [/x]", "rules.paths says nothing about action access_network"),
    ("delete_file", "paths: [/srv/../x]", "can never match, paths have no .."),
    ("delete_file", "paths: ['*/../x']", "can never match, paths have no .."),
    ("delete_file", "paths: [build/*]", "can never match, paths are whole ones: write '*/build/*'"),
    ("open_pull_request", "repositories: [acme]", "rules.repositories"),
    ("write_tracker", "hosts: [x.test]", "the constraints are repositories, commands"),
)  # fmt: skip


@pytest.mark.parametrize(("action", "text", "fragment"), REFUSED, ids=[" ".join(row[:2]) for row in REFUSED])
def test_what_can_never_match_is_refused(tmp_path: Path, action: str, text: str, fragment: str) -> None:
    assert_refused(tmp_path, entry(action, text), 2, fragment)


@pytest.mark.parametrize("action", Action)
def test_every_action_has_rules(tmp_path: Path, action: Action) -> None:
    assert CONSTRAINTS[action]
    assert problems(tmp_path, f"rules: [{{action: {action}, decision: ask}}]") == ()


def test_paths_are_known_by_where_links_lead(tmp_path: Path) -> None:
    """What an agent does is held against rules without links."""
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    entries = f"paths: [{link}, {link}/x, {link}/a*b, '*/x']"
    (rule,) = load(tmp_path, entry("delete_file", entries)).rules
    globs = (link, real, link / "x", real / "x", link / "a*b", real / "a*b", "*/x")
    assert rule.constraints == (Paths(tuple(map(str, globs))),)
