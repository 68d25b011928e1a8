"""The values of a summary."""

import json

from gateway.review.records import Damage
from gateway.review.summary import (
    CLOSED,
    CUT,
    FAILED,
    OPENED,
    REFUSED,
    Counted,
    Denial,
    Figures,
    LivingToken,
    PushedRef,
    SessionFigures,
    Summary,
)


def counted(*kinds: tuple[str, bool, int]) -> Figures:
    figures = Figures()
    for kind, is_request, records in kinds:
        figures.count(kind, is_request, records, records)
    figures.settle()
    return figures


def test_a_connection_counts_once() -> None:
    assert counted((OPENED, False, 3), (CLOSED, False, 3)).allowed == 3
    assert counted((OPENED, False, 3), (CLOSED, False, 1)).allowed == 3
    assert counted((OPENED, False, 2), (CUT, False, 2)).allowed == 0
    assert counted((CLOSED, True, 4), (OPENED, True, 1)).allowed == 4
    # A part of a log has ends without beginnings.
    assert counted((CLOSED, False, 3)).allowed == 3
    both = counted((FAILED, False, 2), (REFUSED, False, 5))
    assert (both.allowed, both.failed, both.denied) == (2, 2, 5)


def test_when_it_was_seen() -> None:
    figures = Figures()
    figures.see("2026-02", "2026-03", is_allowed=False)
    assert (figures.first, figures.last, figures.reached) == ("2026-02", "2026-03", "")
    figures.see("2026-01", "2026-01", is_allowed=True)
    figures.see("2026-04", "2026-05", is_allowed=True)
    assert (figures.first, figures.last, figures.reached) == ("2026-01", "2026-05", "2026-01")


def example() -> Summary:
    return Summary(
        records=9,
        first="2026-01-01T00:00:00.000000Z",
        last="2026-01-02T00:00:00.000000Z",
        events={"egress": 9},
        hosts={"a.test": Figures(3, 1, 2, 1000, 2000), "b.test": Figures(0, 0, 1)},
        sessions={"s1": SessionFigures(3, 1, 3, 1000, 2000, agent="claude")},
        denials=(Denial("not_listed", "b.test", "default", 3, "", ""),),
        pushes={"forwarded": 1, "refused": 0},
        refs=(PushedRef("acme/w", "refs/heads/main", "create", "allow", "r", "ok", True, 1),),
        tokens={"minted": 1, "revoked": 0},
        never_revoked=(LivingToken("s1", "read", "acme/w", "2026", 1),),
        approvals=(Counted(("approved", "dev"), 1),),
        violations=(Counted(("file-write-create", "/x", "hooks"), 4),),
        actions=(Counted(("Bash", "allow"), 2),),
        damaged=1,
        damages=(Damage("f", 3, "no JSON"),),
    )


def test_for_a_program() -> None:
    told = json.loads(json.dumps(example().as_json()))
    assert told["connections"] == {"allowed": 3, "failed": 1, "denied": 3}
    assert (told["bytes_up"], told["bytes_down"], told["damaged"]) == (1000, 2000, 1)
    assert told["hosts"][0]["host"] == "a.test" and told["hosts"][0]["allowed"] == 3
    assert told["pushes"]["refs"][0]["ref"] == "refs/heads/main"
    assert told["tokens"]["never_revoked"][0]["kind"] == "read"
    assert told["violations"] == [
        {"action": "file-write-create", "target": "/x", "rule": "hooks", "count": 4, "last": ""}
    ]
    assert told["sessions"][0]["session"] == "s1"
    assert told["damages"] == [{"file": "f", "line": 3, "why": "no JSON"}]
