"""The verdict on a whole from its parts."""

import pytest

from gateway.policy.action_request import ActionRequest
from gateway.policy.actions import Action
from gateway.policy.decision import Verdict
from gateway.policy.judgement import Judgement, whole

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


def part(verdict: Verdict, rule: str = "default", *actions: Action) -> Judgement:
    return Judgement(verdict, rule, "why", requests=tuple(map(ActionRequest, actions)))


@pytest.mark.parametrize(
    ("verdicts", "worst"),
    [
        ((ALLOW,), 0),
        ((ALLOW, ASK), 1),
        ((ASK, DENY, ALLOW), 1),
        ((ASK, ALLOW, ASK), 0),
        ((DENY, ASK, DENY), 0),
    ],
)
def test_the_most_restrictive_part_decides(verdicts: tuple[Verdict, ...], worst: int) -> None:
    found = whole(part(verdict, str(place)) for place, verdict in enumerate(verdicts))
    assert (found.verdict, found.worst.rule) == (verdicts[worst], str(worst))


def test_effects_and_questions() -> None:
    found = whole(
        [part(ASK, "a", Action.COMMIT, Action.PUSH), part(ALLOW, "b", Action.COMMIT), part(ASK, "c")]
    )
    assert found.effects == (Action.COMMIT, Action.PUSH)
    assert [one.rule for one in found.asked] == ["a", "c"]


def test_nothing_is_no_whole() -> None:
    with pytest.raises(ValueError, match="without parts"):
        whole([])
