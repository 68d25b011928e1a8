"""The tables of a report: what stands in them, and that what is left out is said."""

import re
from html import unescape
from typing import Any

import pytest

from gateway.review.report import sections
from gateway.review.report.contents import Contents, Integrity, Listing
from gateway.review.report.markup import Markup
from gateway.review.suggestions import Suggestion
from gateway.review.summary import Counted, Denial
from tests.fakes.contents import BROKEN, contents, figures, session
from tests.fakes.review_log import push_fields, token_fields

AT = "2026-01-01T00:00:10.000000Z"
COMMON = {"ts": AT, "session": "s1"}


def rows(markup: Markup) -> list[list[str]]:
    """The cells of every row of its tables."""
    found = re.findall(r"<tr>(.*?)</tr>", markup.html, re.DOTALL)
    return [
        [
            unescape(re.sub(r"<[^>]+>", "", cell))
            for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
        ]
        for row in found
    ][1:]


def words(markup: Markup) -> str:
    return unescape(re.sub(r"<[^>]+>", " ", markup.html))


def listed(name: str, *records: dict[str, Any], total: int = 0) -> Contents:
    whole = tuple({**COMMON, **record} for record in records)
    return contents(listings={name: Listing(whole, total or len(whole))})


@pytest.mark.parametrize(("name", "draw"), [(name, draw) for _, name, draw in sections.ORDER])
def test_nothing_is_said_to_be_nothing(name: str, draw: Any) -> None:
    html = draw(contents()).html
    assert "<table" not in html
    assert "None." in html or "records in" in html or name == "Is this log complete?"


def test_hosts() -> None:
    found = sections.hosts(
        contents(
            hosts={
                "a.test": figures(
                    allowed=3, failed=1, bytes_up=2000, bytes_down=5, first=AT, last=AT, reached=AT
                ),
                "": figures(denied=1200),
            },
            known_hosts=frozenset(),
        )
    )
    assert rows(found) == [
        ["a.test new", "", "3", "1", "", "2.0 kB", "5 B", "2026-01-01 00:00:10Z"],
        ["(none)", "", "0", "", "1,200", "0 B", "0 B", ""],
    ]


def test_hosts_that_are_not_shown() -> None:
    found = sections.hosts(
        contents(hosts={f"h{number}.test": figures(allowed=1) for number in range(sections.HOSTS + 2)})
    )
    assert len(rows(found)) == sections.HOSTS
    assert "2 more rows are not shown." in words(found)


def test_denials_with_what_would_allow_them() -> None:
    denials = (
        Denial("not_listed", "a.test", "default", 3, AT, "2026-01-02T00:00:10.000000Z"),
        Denial("denied", "b.test", "deny.txt:1", 2, AT, AT),
        Denial("limit", "c.test", "", 1, AT, AT),
    )
    suggestions = (
        Suggestion(
            "egress.allow",
            "a.test",
            ("a.test",),
            "not_listed",
            3,
            ("anybody can leave data there",),
            ("z.test",),
        ),
        Suggestion("", "", ("b.test",), "denied", 2, never="never: it is denied"),
        Suggestion("egress.allow", '"*.test"', ("a.test", "d.test", "e.test"), "not_listed", 9, ("wide",)),
    )
    found = sections.denials(contents(denials=denials, suggestions=suggestions))
    assert rows(found) == [
        [
            "a.test",
            "3",
            "The host is on no list of what this session may reach. code not_listed, rule default",
            "egress.allow: a.test Sent there by z.test, which is allowed. But: anybody can leave data there.",
            "2026-01-01 00:00:10Z to 2026-01-02 00:00:10Z",
        ],
        [
            "b.test",
            "2",
            "The host or its address is on a deny list, which beats every allow entry. code denied, rule deny.txt:1",
            "Never: it is denied.",
            "2026-01-01 00:00:10Z",
        ],
        [
            "c.test",
            "1",
            "The session's limits of connections were reached. code limit",
            "Nothing that stands in a list.",
            "2026-01-01 00:00:10Z",
        ],
    ]
    assert 'Instead of single lines for a.test, d.test, e.test:  egress.allow: "*.test"' in words(found)


def test_pushes() -> None:
    two = push_fields()
    two["refs"].append(
        {**two["refs"][0], "ref": "refs/heads/x", "kind": "force", "old": "2" * 40, "verdict": "deny"}
    )
    found = sections.pushes(
        listed(
            "push",
            {**two, "approver": "user"},
            {"repository": "acme/w", "refs": [], "code": "malformed", "reason": "no push"},
            {**push_fields(status=""), "code": "outcome_unknown", "reason": "broken off"},
            total=9,
        )
    )
    when = "2026-01-01 00:00:10Z"
    why = "rule config.yaml:3: because; approved by user"
    assert rows(found) == [
        [when, "s1", "acme/w", "refs/heads/main", "create none → 1111111111", "allow", why, "ok"],
        [when, "s1", "acme/w", "refs/heads/x", "force 2222222222 → 1111111111", "deny", why, "ok"],
        [when, "s1", "acme/w", "", "", "deny", "malformed: no push", ""],
        [
            when, "s1", "acme/w", "refs/heads/main", "create none → 1111111111", "allow",
            "rule config.yaml:3: because", "outcome_unknown: broken off",
        ],
    ]  # fmt: skip
    assert "The last 3 of 9 pushes." in words(found)


def test_a_push_of_everything() -> None:
    push = push_fields()
    found = rows(sections.pushes(listed("push", {**push, "refs": push["refs"] * 52})))
    assert (len(found), found[-1][3]) == (51, "and 2 more refs")


def test_tokens() -> None:
    found = sections.tokens(
        listed(
            "token", token_fields("minted", "write"), {**token_fields("revoke_failed"), "reason": "no answer"}
        )
    )
    when = "2026-01-01 00:00:10Z"
    ends = "2026-01-01T01:00:00Z"
    assert rows(found) == [
        [when, "s1", "minted", "write", "acme/w", "contents: read", ends, ""],
        [when, "s1", "revoke failed", "read", "acme/w", "contents: read", ends, "no answer"],
    ]
    assert '<b class="refused">revoke failed</b>' in found.html


def test_questions() -> None:
    one = {
        "id": 3,
        "state": "approved",
        "approver": "user",
        "remember": True,
        "summary": "push",
        "reason": "fine",
    }
    found = sections.approvals(listed("approval", one, {"id": 4, "state": "expired", "summary": "push"}))
    assert rows(found) == [
        [
            "2026-01-01 00:00:10Z",
            "s1",
            "3",
            "push",
            "approved",
            "user",
            "for the rest of the session",
            "fine",
        ],
        ["2026-01-01 00:00:10Z", "s1", "4", "push", "expired", "", "", ""],
    ]


def test_violations() -> None:
    found = sections.violations(contents(violations=(Counted(("file-write", "/x", "r"), 1200, AT),)))
    assert rows(found) == [["file-write", "/x", "r", "1,200", "2026-01-01 00:00:10Z"]]


def test_tool_calls() -> None:
    counted = (Counted(("Bash", "allow"), 5), Counted(("Bash", "deny"), 2), Counted(("", "deny"), 1))
    refused = {
        "tool": "Bash",
        "command": "rm x",
        "rule": "r",
        "reason": "because",
        "count": 2,
        "verdict": "deny",
    }
    given = listed("action", refused, {"tool": "Write", "target": "/x", "verdict": "deny"})
    found = sections.actions(contents(actions=counted, listings=given.listings))
    assert rows(found)[:2] == [["Bash", "", "5", "2"], ["(none)", "", "0", "1"]]
    assert rows(found)[3:] == [
        ["2026-01-01 00:00:10Z", "s1", "Bash", "rm x", "r", "because", "2"],
        ["2026-01-01 00:00:10Z", "s1", "Write", "/x", "", "", "1"],
    ]


def test_one_session_is_a_list_of_facts() -> None:
    one = session(agent="claude", file_rules="create-time", mode="chat", exit_status=0, opened=AT, closed="")
    told = words(sections.sessions(contents(sessions={"s1": one})))
    assert "wrap native, file rules create-time" in " ".join(told.split())
    assert "closed no end on record" in " ".join(told.split())
    assert "worktree" not in told


def test_several_sessions_the_last_one_first() -> None:
    several = {"s1": session(backend="none"), "s2": session(exit_status=3, closed=AT)}
    found = sections.sessions(contents(sessions=several))
    assert [(row[0], row[2], row[6], row[7]) for row in rows(found)] == [
        ("s2", "native", "2026-01-01 00:00:10Z", "3"),
        ("s1", "none", "x", ""),
    ]


@pytest.mark.parametrize(
    ("integrity", "told"),
    [
        (None, "10 records in 1 file and 1 chain, checked against key1. 8 of them are signed"),
        (Integrity(BROKEN), "/log/a.jsonl"),
        (Integrity(None, "no key"), "Not checked: no key"),
    ],
)
def test_whether_the_log_holds(integrity: Integrity | None, told: str) -> None:
    assert told in words(sections.integrity(contents(integrity)))


def test_what_is_wrong_with_the_log() -> None:
    found = sections.integrity(contents(Integrity(BROKEN)))
    assert rows(found) == [["/log/a.jsonl", "3", "edited", "does not follow"]]


@pytest.mark.parametrize(
    ("cell", "kind", "attribute"),
    [
        ("x" * 24, None, ""),
        ("x " * 24, None, ""),
        ("x" * 25, None, ' class="long"'),
        (sections.value("x" * 25), None, ' class="long"'),
        ("1" * 25, 0, ' class="number"'),
    ],
)
def test_a_long_word_is_broken(cell: Any, kind: int | None, attribute: str) -> None:
    found = sections.table(("name",), [(cell,)], 1, frozenset() if kind is None else frozenset({kind}))
    assert f'<td data-label="name"{attribute}>' in found.html


def test_a_long_text_is_cut() -> None:
    assert len(sections.value("x" * 100_000).html) < 500
    assert sections.value("").html == ""
    assert sections.moment("x" * 33).html == f"<bdi>{'x' * 33}</bdi>"
