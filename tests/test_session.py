"""A session cannot be changed and shows no secret; the registry holds each id once."""

from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime

import pytest

from gateway.policy.rules import RuleSet, Subject
from gateway.session import FileRules, Mode, SandboxStamp, Session, Sessions
from tests.fakes.rules import rules_for


def session(session_id: str = "s1") -> Session:
    return Session(session_id, SandboxStamp("native", "create-time"), rules_for(), "geheim")


def test_defaults() -> None:
    made = session()
    assert (made.workspace, made.space, made.agent, made.mode, made.worktree) == (
        "default",
        "",
        "",
        Mode.CHAT,
        "",
    )
    assert made.rules == RuleSet()


def test_subject_is_who_the_session_is_for() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    assert session().subject(moment) == Subject("default", "", "", Mode.CHAT, moment)
    made = replace(session(), workspace="team", agent="claude", space="blue", mode=Mode.PLAN)
    assert made.subject(moment) == Subject("team", "claude", "blue", Mode.PLAN, moment)


def test_names_are_the_contract_s() -> None:
    assert [rules.value for rules in FileRules] == ["create-time", "existing-only"]


def test_a_session_is_frozen_and_hides_its_secret() -> None:
    made = session()
    with pytest.raises(FrozenInstanceError):
        made.mode = Mode.PLAN  # type: ignore[misc]  # the point of the test
    assert "geheim" not in repr(made)
    assert "geheim" not in str(made)


def test_the_registry_holds_each_id_once() -> None:
    sessions = Sessions()
    first, second = session("a"), session("b")
    sessions.add(first)
    sessions.add(second)
    with pytest.raises(ValueError, match="'a' is already open"):
        sessions.add(session("a"))
    assert sessions.get("a") is first
    assert list(sessions) == [first, second]
    assert len(sessions) == 2


def test_what_is_not_there_is_none() -> None:
    sessions = Sessions()
    assert sessions.get("a") is None
    assert sessions.remove("a") is None


def test_a_removed_id_is_free() -> None:
    sessions = Sessions()
    first = session()
    sessions.add(first)
    assert sessions.remove("s1") is first
    assert (len(sessions), sessions.get("s1")) == (0, None)
    sessions.add(session())
    assert len(sessions) == 1


def test_sessions_may_go_while_one_walks_over_them() -> None:
    sessions = Sessions()
    opened = [session(name) for name in "abc"]
    for one in opened:
        sessions.add(one)
    assert [sessions.remove(one.id) for one in sessions] == opened
    assert list(sessions) == []
