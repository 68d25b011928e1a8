"""The verdict on a push from the verdicts on its refs."""

from collections.abc import Sequence

import pytest

from gateway.policy.decision import Decision, Verdict
from gateway.policy.push import UpdateKind
from gateway.push.ancestry import certain_kind
from gateway.push.capabilities import Capabilities, Report
from gateway.push.commands import BadRef, Command, PushCommands
from gateway.push.verdicts import (
    RefVerdict,
    allowed_commands,
    asked_refs,
    judge_refs,
    open_refs,
    sinks,
)

ZERO, ONE, TWO = "0" * 40, "1" * 40, "2" * 40
ALLOW, ASK, DENY = (Decision(verdict, "config.yaml:1", verdict.value) for verdict in Verdict)
# What each name stands for: its decision as a fast-forward (or whatever is certain), and as a force.
POLICY = {
    "refs/heads/allow": (ALLOW, ALLOW),
    "refs/heads/ask": (ASK, ASK),
    "refs/heads/deny": (DENY, DENY),
    "refs/heads/steady": (ALLOW, DENY),
}


def judge(command: Command, kinds: Sequence[UpdateKind]) -> Sequence[Decision]:
    gentle, force = POLICY[command.ref]
    return [force if kind is UpdateKind.FORCE else gentle for kind in kinds]


def update(name: str) -> Command:
    return Command(ONE, TWO, f"refs/heads/{name}")


def delete(name: str) -> Command:
    return Command(ONE, ZERO, f"refs/heads/{name}")


def push(*commands: Command | BadRef, atomic: bool = False) -> PushCommands:
    return PushCommands((), commands, Capabilities(Report.V2, True, False, atomic, "sha1"), 100)


def verdicts(of: PushCommands) -> tuple[RefVerdict, ...]:
    return judge_refs(of, certain_kind, judge)


BAD = BadRef(ONE, TWO, b"HEAD", "HEAD", "funny refname")

SINKING = {
    "all allowed": (push(update("allow")), False),
    "one denied": (push(update("allow"), update("deny")), True),
    "all denied": (push(update("deny")), True),
    "a name that is none": (push(update("allow"), BAD), True),
    "a question": (push(update("allow"), update("ask")), False),
    "not known yet": (push(update("steady")), False),
    "deletions go in part": (push(delete("allow"), delete("deny")), False),
    "deletions that are all denied": (push(delete("deny"), delete("deny")), True),
    "atomic deletions do not": (push(delete("allow"), delete("deny"), atomic=True), True),
    "a denied deletion beside a pack": (push(update("allow"), delete("deny")), True),
}


@pytest.mark.parametrize(("of", "sunk"), SINKING.values(), ids=SINKING.keys())
def test_what_sinks_a_push(of: PushCommands, sunk: bool) -> None:
    assert sinks(of, verdicts(of)) is sunk


def test_an_open_ref_is_decided_by_its_kind() -> None:
    [ref] = verdicts(push(update("steady")))
    assert open_refs([ref]) == (ref,)
    assert (ref.decision, ref.verdict, ref.kind_known) == (None, None, False)
    assert ref.kind is UpdateKind.FORCE, "what is not proven counts as forced"
    ref.learn(UpdateKind.FAST_FORWARD)
    assert (ref.decision, ref.kind, ref.kind_known) == (ALLOW, UpdateKind.FAST_FORWARD, True)
    assert open_refs([ref]) == ()


def test_a_kind_that_makes_no_difference_is_not_waited_for() -> None:
    [ref] = verdicts(push(update("allow")))
    assert (ref.decision, ref.kind_known) == (ALLOW, False)
    ref.learn(UpdateKind.FORCE)
    assert ref.kind is UpdateKind.FORCE


def test_certain_kinds_are_known_at_once() -> None:
    refs = verdicts(push(delete("allow"), Command(ZERO, ONE, "refs/heads/allow")))
    assert [(ref.kind, ref.kind_known) for ref in refs] == [
        (UpdateKind.DELETE, True),
        (UpdateKind.CREATE, True),
    ]


def test_what_may_go_and_what_is_asked() -> None:
    of = push(update("allow"), update("ask"), delete("allow"), BAD)
    refs = verdicts(of)
    assert allowed_commands(refs) == (of.commands[0], of.commands[2])
    assert asked_refs(refs) == (refs[1],)
    refs[1].settle(ALLOW)
    assert allowed_commands(refs) == of.commands[:3]
    assert asked_refs(refs) == ()


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (ZERO, ONE, UpdateKind.CREATE),
        (ONE, ZERO, UpdateKind.DELETE),
        (ONE, TWO, UpdateKind.FORCE),
        (ZERO, ZERO, UpdateKind.CREATE),
    ],
)
def test_a_name_that_is_none_is_denied(old: str, new: str, kind: UpdateKind) -> None:
    [ref] = verdicts(push(BadRef(old, new, b"HEAD", "HEAD", "funny refname")))
    assert ref.decision == Decision(Verdict.DENY, "built-in", "funny refname")
    assert ref.kind is kind
    assert allowed_commands([ref]) == ()
