"""What a constraint fits, exactly and widely, how closely, and what it cannot tell."""

import pytest

from gateway.policy.action_request import ActionRequest, command_anchor, host_anchor
from gateway.policy.actions import Action
from gateway.policy.constraints import ActionRepositories, Commands, Hosts, Paths
from gateway.policy.hosts import HostPattern
from gateway.policy.marks import ANYTHING, MarkIndex
from gateway.policy.push import PushRequest, UpdateKind
from gateway.policy.repositories import parse_repository, parse_repository_pattern
from gateway.policy.rules import Constraint


def host(name: str) -> ActionRequest:
    return ActionRequest(Action.ACCESS_NETWORK, host=name)


def path(text: str) -> ActionRequest:
    return ActionRequest(Action.DELETE_FILE, path=text)


def write(text: str) -> ActionRequest:
    return ActionRequest(Action.WRITE_OUTSIDE, path=text)


def words(text: str) -> ActionRequest:
    return ActionRequest(Action.COMMIT, words=tuple(text.split()))


def repository(text: str) -> ActionRequest:
    return ActionRequest(Action.WRITE_TRACKER, repository=parse_repository(text))


HOSTS = Hosts(
    (HostPattern("x.test", "c:1"), HostPattern("*.y.test", "c:1"), HostPattern("a.*.z.test", "c:1"))
)
PATHS = Paths(("/srv/*", "*/dist/*.js", "/etc/hosts"))
BUILDS = Paths(("*/dist/*",))
LETTERS = Paths(("/u/e*", "/v/\u00e9", "/w/[ab]"))
COMMANDS = Commands((("git", "commit"), ("git", "commit", "--amend"), ("make",)))
PIP = Commands((("pip", "install"), ("pip3.11", "download")))
REPOSITORIES = ActionRepositories((parse_repository_pattern("acme/*"), parse_repository_pattern("a/b")))

# constraint, request, exactly, widely
ROWS: tuple[tuple[Constraint, ActionRequest, int | None, int | None], ...] = (
    (HOSTS, host("x.test"), 0, 0),
    (HOSTS, host("a.x.test"), None, None),
    (HOSTS, host("a.b.y.test"), 0, 0),
    (HOSTS, host("y.test"), None, None),
    (HOSTS, host("a.b.z.test"), 0, 0),
    (HOSTS, host("a.s3.z.test"), None, 0),
    (HOSTS, host("localhost"), None, None),
    (PATHS, path("/srv/a/b"), 0, 0),
    (PATHS, path("/SRV/a"), None, 0),
    (PATHS, path("/srv"), None, 0),  # deletes all of it
    (PATHS, path("/srv/"), 0, 0),
    (PATHS, path("/sr"), None, None),
    (PATHS, path("/"), None, 0),
    (PATHS, path("/ETC"), None, 0),
    (PATHS, path("/a/dist"), None, None),  # nobody knows what is in it
    (PATHS, write("/srv"), None, None),
    (BUILDS, path("/a/dist"), None, 0),
    (BUILDS, path("/a/dist/x"), 0, 0),
    (BUILDS, path("/a/dis"), None, None),
    (BUILDS, write("/a/dist"), None, None),
    (LETTERS, path("/u/e\u0301a"), 0, 0),
    (LETTERS, path("/u/E\u0301a"), None, None),
    (LETTERS, path("/u/\u00e9a"), None, None),
    (LETTERS, path("/v/\u00e9"), 0, 0),
    (LETTERS, path("/V/e\u0301"), None, 0),
    (LETTERS, path("/w/[x"), None, None),
    (LETTERS, path("/w/b"), 0, 0),
    (PATHS, path("/a/dist/b/c.js"), 0, 0),
    (PATHS, path("/a/dist/c.ts"), None, None),
    (PATHS, path("/etc/hosts\n"), None, None),
    (PATHS, path("/etc/hosts/a"), None, 0),  # what lies in it
    (PATHS, write("/ETC/hosts/a/b"), None, 0),
    (PATHS, path("/etc/hosts2"), None, None),
    (COMMANDS, words("git commit -m x"), 2, 2),
    (COMMANDS, words("git commit --amend"), 3, 3),
    (COMMANDS, words("git commi"), None, None),
    (COMMANDS, words("Make"), None, 1),
    (COMMANDS, words("make"), 1, 1),
    (PIP, words("pip3 install x"), None, 2),
    (PIP, words("pip install x"), 2, 2),
    (PIP, words("pip3.11 download"), 2, 2),
    (PIP, words("pip download"), None, 2),
    (PIP, words("pip3 uninstall x"), None, None),
    (PIP, words("pipx install x"), None, None),
    (REPOSITORIES, repository("ACME/x"), 0, 0),
    (REPOSITORIES, repository("a/b"), 0, 0),
    (REPOSITORIES, repository("a/c"), None, None),
)


@pytest.mark.parametrize(("constraint", "request_", "exactly", "widely"), ROWS)
def test_fit(
    constraint: Constraint, request_: ActionRequest, exactly: int | None, widely: int | None
) -> None:
    assert constraint.fit(request_, wide=False) == exactly
    assert constraint.fit(request_, wide=True) == widely
    marks = MarkIndex([(request_.action, constraint.marks or ANYTHING, constraint)])
    if widely is not None:
        assert marks.find(request_.action, request_.anchors, request_.text)


@pytest.mark.parametrize("constraint", [HOSTS, PATHS, COMMANDS, REPOSITORIES])
def test_fits_neither_a_push_nor_what_says_nothing(constraint: Constraint) -> None:
    push = PushRequest(parse_repository("acme/x"), "refs/heads/x", UpdateKind.CREATE)
    assert constraint.fit(push, wide=True) is None
    assert constraint.fit(ActionRequest(Action.COMMIT), wide=True) is None


@pytest.mark.parametrize(
    ("constraint", "fact", "known"),
    [
        (HOSTS, "host", host("q.test")),
        (PATHS, "path", path("/q")),
        (REPOSITORIES, "repository", repository("q/q")),
        (COMMANDS, "", words("q")),
    ],
)
def test_what_may_not_be_known(constraint: Constraint, fact: str, known: ActionRequest) -> None:
    assert constraint.fact == fact
    assert fact not in known.unknown
    assert not fact or fact in ActionRequest(Action.COMMIT).unknown


def test_anchors_of_two_kinds_never_meet() -> None:
    assert host_anchor("a.b.c.test") == "c.test"
    assert host_anchor("localhost") == "localhost"
    assert command_anchor(("localhost",)) != host_anchor("localhost")
