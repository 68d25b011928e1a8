"""What a reviewer is pointed at first."""

import pytest

from gateway.review.report.contents import Contents, Integrity
from gateway.review.report.sections import ORDER
from gateway.review.report.worth_a_look import Grade, notices
from gateway.review.suggestions import Suggestion
from gateway.review.summary import Counted, Denial, LivingToken, PushedRef
from tests.fakes.contents import BROKEN, UNSIGNED, contents, figures, session

LATER, EARLIER = "2026-01-01T13:00:00Z", "2026-01-01T11:00:00Z"


def ref(kind: str = "create", *, forwarded: bool = True, count: int = 1) -> PushedRef:
    return PushedRef("acme/w", "refs/heads/main", kind, "allow", "r", "ok", forwarded, count)


def denial(rule: str) -> Denial:
    return Denial("denied", "bad.test", rule, 1, "", "")


CASES = {
    "nothing": (contents(), []),
    "a log that is broken": (
        contents(Integrity(BROKEN)),
        [(Grade.BROKEN, "The log is not what was written: 1 place of it changed, missing or added.")],
    ),
    "a log that could not be checked": (
        contents(Integrity(None, "no key")),
        [(Grade.BROKEN, "Whether the log is complete could not be checked: no key")],
    ),
    "a log that nobody signed": (
        contents(Integrity(UNSIGNED)),
        [(Grade.WARNING, "No record of this log is signed by a known key: ")],
    ),
    "damage": (contents(damaged=2), [(Grade.BROKEN, "2 lines or files of the log could not be read, ")]),
    "no wrap": (
        contents(sessions={"s1": session(backend="none"), "s2": session()}),
        [(Grade.WARNING, "Session s1 ran without a wrap: ")],
    ),
    "no proof": (
        contents(sessions={"s1": session(self_test="open"), "s2": session(self_test="holds")}),
        [(Grade.BROKEN, "Session s1 had a wall that was not proven, so no command was started.")],
    ),
    "several without": (
        contents(sessions={"s1": session(backend="none"), "s2": session(backend="none")}),
        [(Grade.WARNING, "2 sessions ran without a wrap: ")],
    ),
    "no end": (
        contents(sessions={"s1": session(closed="")}),
        [(Grade.NOTE, "Session s1 has no end on record: it still runs, or was killed.")],
    ),
    "several without an end": (
        contents(sessions={"s1": session(closed=""), "s2": session(closed="")}),
        [(Grade.NOTE, "2 sessions have no end on record: they still run, or were killed.")],
    ),
    "a session that was not opened here": (contents(sessions={"s1": session(opened="", closed="")}), []),
    "violations": (
        contents(violations=(Counted(("a", "b", "c"), 2), Counted(("a", "d", "c"), 1))),
        [(Grade.WARNING, "The wrap refused 3 attempts at something outside the session.")],
    ),
    "tokens that live": (
        contents(never_revoked=(LivingToken("s", "read", "r", LATER, 1), LivingToken("s", "read", "r", EARLIER, 9))),
        [(Grade.WARNING, "1 token may still be valid, since no revocation is on record.")],
    ),
    "tokens that write": (
        contents(never_revoked=(LivingToken("s", "write", "r", LATER, 2),)),
        [(Grade.WARNING, "2 tokens may still be valid, with write access among them, ")],
    ),
    "tokens that have ended": (contents(never_revoked=(LivingToken("s", "write", "r", EARLIER, 2),)), []),
    "tokens that failed": (
        contents(tokens={"revoke_failed": 2, "mint_failed": 1}),
        [(Grade.NOTE, "2 revocations of a token failed."), (Grade.NOTE, "1 request for a token failed.")],
    ),
    "forced": (contents(refs=(ref("force", count=2),)), [(Grade.WARNING, "2 refs were rewritten or deleted: ")]),
    "forced and refused": (contents(refs=(ref("delete", forwarded=False),)), []),
    "plain pushes": (contents(refs=(ref(), ref("fast-forward"))), []),
    "refused pushes": (contents(pushes={"forwarded": 3, "refused": 1}), [(Grade.NOTE, "1 push was refused.")]),
    "the fixed deny list": (
        contents(denials=(denial("deny.txt:3"), denial("default"))),
        [(Grade.WARNING, "Something asked for what the fixed deny list refuses: bad.test.")],
    ),
    "other denials": (contents(denials=(denial("default"), denial("config.yaml:3"))), []),
    "a redirect": (
        contents(suggestions=(Suggestion("egress.allow", "b.test", ("b.test",), "not_listed", 1, (), ("a.test",)),)),
        [(Grade.NOTE, "An allowed host sent the client on to a refused one: a.test to b.test.")],
    ),
    "much went out": (
        contents(hosts={"a.test": figures(bytes_up=1), "b.test": figures(bytes_up=10_000_000)}),
        [(Grade.NOTE, "Most went out to b.test: 10 MB.")],
    ),
    "little went out": (contents(hosts={"a.test": figures(bytes_up=9_999_999)}), []),
    "new hosts": (
        contents(
            hosts={f"h{number}.test": figures(reached="x") for number in range(6)} | {"no.test": figures()},
            known_hosts=frozenset({"h0.test"}),
        ),
        [(Grade.NOTE, "5 hosts were reached for the first time: h1.test, h2.test, h3.test, h4.test and 1 more.")],
    ),
    "nobody to ask": (
        contents(approvals=(Counted(("unattended", ""), 2), Counted(("expired", ""), 1), Counted(("denied", "x"), 5))),
        [(Grade.NOTE, "3 questions found nobody to answer, which is a no.")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), CASES.values(), ids=CASES.keys())
def test_notices(given: Contents, expected: list[tuple[Grade, str]]) -> None:
    found = notices(given)
    assert [
        (one.grade, one.sentence[: len(start)]) for one, (_, start) in zip(found, expected, strict=True)
    ] == expected
    assert {one.section for one in found} <= {anchor for anchor, _, _ in ORDER}
    assert all(one.sentence.endswith((".", "no key")) for one in found)


def test_the_gravest_comes_first() -> None:
    found = notices(
        contents(
            Integrity(BROKEN), pushes={"refused": 1}, violations=(Counted(("a", "b", "c"), 1),), damaged=1
        )
    )
    assert [one.grade for one in found] == sorted(one.grade for one in found)
    assert found[0].grade is Grade.BROKEN


def test_a_long_name_is_cut() -> None:
    (found,) = notices(contents(sessions={"s" * 9999: session(closed="")}))
    assert len(found.sentence) < 200
