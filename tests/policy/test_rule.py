"""A rule on its own: for whom it is, how narrow, until when, how closely it fits, and what it cannot tell."""

from datetime import UTC, datetime, timedelta

import pytest

from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import Action
from gateway.policy.constraints import ActionRepositories, Commands, Hosts, Paths
from gateway.policy.decision import Verdict
from gateway.policy.hosts import HostPattern
from gateway.policy.modes import Mode
from gateway.policy.rule import Constraint, Enforcement, Rule, Scope, Subject

NOW = datetime(2030, 6, 1, tzinfo=UTC)
SUBJECT = Subject("team", "claude", "blue", Mode.CHAT, NOW)
HOSTS = Hosts((HostPattern("*.x.test", "config.yaml:7"),))
CURL, CURL_S = Commands((("curl",),)), Commands((("curl", "-s"),))

SCOPES = (
    (Scope(), 0, True),
    (Scope(workspace="team"), 1, True),
    (Scope(workspace="other"), 1, False),
    (Scope(agent="claude"), 2, True),
    (Scope(agent="claude", workspace="other"), 2, False),
    (Scope(space="blue", agent="claude", workspace="team"), 3, True),
    (Scope(space="blu"), 3, False),
)


@pytest.mark.parametrize(("scope", "rank", "covered"), SCOPES)
def test_scope(scope: Scope, rank: int, covered: bool) -> None:
    assert (scope.rank, scope.covers(SUBJECT)) == (rank, covered)
    assert scope.covers(Scope("team", "claude", "blue")) is covered


EXPIRES = ((None, True), (NOW, False), (NOW + timedelta(microseconds=1), True))


@pytest.mark.parametrize(("expires", "there"), EXPIRES)
def test_expiry(expires: datetime | None, there: bool) -> None:
    rule = Rule(Action.PUSH, Verdict.DENY, "config.yaml:7", expires=expires)
    assert (rule.exists(NOW), rule.concerns(SUBJECT)) == (there, there)


def rule(decision: Verdict, *constraints: Constraint) -> Rule:
    return Rule(Action.ACCESS_NETWORK, decision, "config.yaml:7", constraints=constraints)


def request(host: str = "", words: str = "") -> ActionRequest:
    return ActionRequest(Action.ACCESS_NETWORK, host=host, words=tuple(words.split()))


FITS: tuple[tuple[str, tuple[Constraint, ...], ActionRequest, int | None, str], ...] = (
    ("no constraint", (), request(), 0, ""),
    ("one without degrees", (HOSTS,), request("a.x.test"), 0, ""),
    ("the closest", (HOSTS, CURL_S), request("a.x.test", "curl -s a.x.test"), 2, ""),
    ("one that does not fit", (HOSTS, CURL_S), request("a.x.test", "curl a.x.test"), None, ""),
    ("not told", (HOSTS,), request(), None, "host"),
    ("not told, the other fits", (CURL, HOSTS), request(words="curl"), None, "host"),
    ("not told, the other does not", (HOSTS, CURL), request(words="wget"), None, ""),
    ("neither told", (HOSTS, Paths(("/x",))), request(), None, "host"),
    ("of a command all is known", (CURL,), request(), None, ""),
)


@pytest.mark.parametrize(
    ("constraints", "asked", "closeness", "fact"), [row[1:] for row in FITS], ids=[row[0] for row in FITS]
)
def test_fit(
    constraints: tuple[Constraint, ...], asked: ActionRequest, closeness: int | None, fact: str
) -> None:
    found = rule(Verdict.DENY, *constraints)
    assert (found.fit(asked, wide=True), found.lacks(asked)) == (closeness, fact)


def test_an_allow_is_never_read_widely() -> None:
    asked = ActionRequest(Action.ACCESS_NETWORK, path="/A")
    paths = Paths(("/a",))
    assert rule(Verdict.DENY, paths).fit(asked, wide=True) == 0
    assert rule(Verdict.DENY, paths).fit(asked, wide=False) is None
    assert rule(Verdict.ALLOW, paths).fit(asked, wide=True) is None


def test_kinds() -> None:
    assert rule(Verdict.DENY).kinds == frozenset()
    assert rule(Verdict.DENY, HOSTS, CURL, CURL_S).kinds == {Hosts, Commands}
    assert ActionRepositories not in rule(Verdict.DENY, HOSTS).kinds


def test_advice() -> None:
    assert Rule(Action.PUSH, Verdict.DENY, "c:1", enforcement=Enforcement.ADVISORY).advises
    assert not Rule(Action.PUSH, Verdict.DENY, "c:1", enforcement=Enforcement.SOFT).advises
