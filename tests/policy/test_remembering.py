"""What a remembered yes allows: what was asked, in its folder, and nothing that is wider by a hair."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import Action
from gateway.policy.decision import Verdict
from gateway.policy.modes import Mode
from gateway.policy.push import PushRequest, UpdateKind
from gateway.policy.remembering import NO_PLACE, covers, remembered_action, remembered_push
from gateway.policy.repositories import parse_repository
from gateway.policy.rules import Rule, Subject

SUBJECT = Subject("team", "claude", "blue", Mode.CHAT, datetime(2030, 6, 1, tzinfo=UTC))
CREATE, FORWARD, FORCE = UpdateKind.CREATE, UpdateKind.FAST_FORWARD, UpdateKind.FORCE


def push(ref: str, kind: UpdateKind = CREATE, repository: str = "acme/widget") -> PushRequest:
    full = ref if ref.startswith("refs/") else f"refs/heads/{ref}"
    return PushRequest(parse_repository(repository), full, kind)


PUSHES = (
    ("the same", push("feature/login"), push("feature/login"), True),
    ("in its folder", push("feature/login"), push("feature/a/b"), True),
    ("the folder itself", push("feature/login"), push("feature"), False),
    ("beside its folder", push("feature/login"), push("features/x"), False),
    ("above its folder", push("team/feature/login"), push("team/x"), False),
    ("main", push("feature/login"), push("main"), False),
    ("another branch than main", push("main"), push("main2"), False),
    ("main again", push("main"), push("main"), True),
    ("below main", push("main"), push("main/x"), False),
    ("forced", push("feature/login"), push("feature/login", FORCE), False),
    ("moved on", push("feature/login"), push("feature/login", FORWARD), True),
    ("moved on again", push("feature/login", FORWARD), push("feature/x", FORWARD), True),
    ("moved on, then a new one", push("feature/login", FORWARD), push("feature/x"), True),
    ("deleted", push("feature/login"), push("feature/login", UpdateKind.DELETE), False),
    ("forced, then moved on", push("feature/login", FORCE), push("feature/login", FORWARD), False),
    ("forced again", push("feature/login", FORCE), push("feature/x", FORCE), True),
    ("another repository", push("feature/login"), push("feature/login", repository="acme/other"), False),
    ("the repository in capitals", push("feature/login"), push("feature/x", repository="ACME/Widget"), True),
    ("a tag", push("refs/tags/v1/a"), push("refs/tags/v1/a"), True),
    ("another tag", push("refs/tags/v1/a"), push("refs/tags/v1/b"), False),
    ("letters that look alike", push("feature/login"), push("feature/lоgin"), False),
    ("another case", push("feature/login"), push("Feature/x"), False),
)


@pytest.mark.parametrize(
    ("asked", "later", "is_covered"), [row[1:] for row in PUSHES], ids=[row[0] for row in PUSHES]
)
def test_push(asked: PushRequest, later: PushRequest, is_covered: bool) -> None:
    rule = remembered_push(asked)
    assert rule is not None
    assert (rule.decision, rule.place) == (Verdict.ALLOW, NO_PLACE)
    assert covers((rule,), SUBJECT, later) is (rule if is_covered else None)


def words(text: str) -> ActionRequest:
    return ActionRequest(Action.INSTALL_PACKAGE, target=text, words=tuple(text.split()))


def web(host: str, tool: str = "WebFetch", path: str = "/") -> ActionRequest:
    return ActionRequest(Action.ACCESS_NETWORK, target=f"https://{host}{path}", host=host, tool=tool)


def act(target: str, tool: str = "mcp__tracker__create", repository: str = "a/b") -> ActionRequest:
    found = parse_repository(repository)
    return ActionRequest(Action.WRITE_TRACKER, target=target, tool=tool, repository=found)


ACTIONS = (
    ("the same words", words("npm install a"), words("npm install a"), True),
    ("one word more", words("npm install a"), words("npm install a b"), False),
    ("one word less", words("npm install a"), words("npm install"), False),
    (
        "another action",
        words("npm install a"),
        ActionRequest(Action.SPAWN_PROCESS, words=("npm", "install", "a")),
        False,
    ),
    ("another page of a host", web("x.test"), web("x.test", path="/b"), True),
    ("below the host", web("x.test"), web("a.x.test"), False),
    ("another tool", web("x.test"), web("x.test", tool="Browser"), False),
    (
        "the same file",
        ActionRequest(Action.DELETE_FILE, path="/a"),
        ActionRequest(Action.DELETE_FILE, path="/a"),
        True,
    ),
    (
        "a file in it",
        ActionRequest(Action.DELETE_FILE, path="/a"),
        ActionRequest(Action.DELETE_FILE, path="/a/b"),
        False,
    ),
    ("the same issue", act("issue 1"), act("issue 1"), True),
    ("another issue", act("issue 1"), act("issue 2"), False),
    ("another tracker", act("issue 1"), act("issue 1", repository="a/c"), False),
    ("another tool on it", act("issue 1"), act("issue 1", tool="mcp__tracker__close"), False),
)


@pytest.mark.parametrize(
    ("asked", "later", "is_covered"), [row[1:] for row in ACTIONS], ids=[row[0] for row in ACTIONS]
)
def test_action(asked: ActionRequest, later: ActionRequest, is_covered: bool) -> None:
    rule = remembered_action(asked)
    assert rule is not None
    assert covers((rule,), SUBJECT, later) is (rule if is_covered else None)


@pytest.mark.parametrize(
    "request_",
    [
        words("npm install $PKG"),
        words("rm *"),
        words("x `y`"),
        ActionRequest(Action.COMMIT),
        ActionRequest(Action.COMMIT, tool="t"),
    ],
)
def test_what_may_mean_something_else_next_time_is_not_remembered(request_: ActionRequest) -> None:
    assert remembered_action(request_) is None


def test_only_allows_cover_and_only_with_a_constraint() -> None:
    asked = words("npm install a")
    assert covers((Rule(asked.action, Verdict.ALLOW, "c:1"),), SUBJECT, asked) is None
    denial = remembered_action(asked)
    assert denial is not None
    assert (
        covers((Rule(asked.action, Verdict.DENY, "c:1", constraints=denial.constraints),), SUBJECT, asked)
        is None
    )


SEGMENTS = st.text("ab/é-", min_size=1, max_size=8).filter(
    lambda text: (
        "//" not in text and not text.startswith(("/", "-")) and not text.endswith("/") and "/-" not in text
    )
)


@given(
    SEGMENTS,
    SEGMENTS,
    st.sampled_from(UpdateKind),
    st.sampled_from(UpdateKind),
    st.sampled_from(("a/b", "a/c")),
)
def test_never_wider_than_the_folder(
    first: str, second: str, kind: UpdateKind, other: UpdateKind, repository: str
) -> None:
    rule = remembered_push(push(first, kind, "a/b"))
    if rule is None:
        return
    if covers((rule,), SUBJECT, push(second, other, repository)) is not None:
        folder = first.rpartition("/")[0]
        assert repository == "a/b"
        assert other is kind or {kind, other} == {CREATE, FORWARD}
        assert second == first or (folder and second.startswith(f"{folder}/"))
