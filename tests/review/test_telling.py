"""Records in a line each: golden lines, and nothing a record says reaches the terminal."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.review.telling import Mark, coloured, shown_bytes, shown_duration, shown_moment, tell
from tests.fakes.review_log import push_fields, token_fields

MOMENT = "2026-01-02T03:04:05.000006Z"
EGRESS = {"host": "a.test", "port": 443, "verdict": "allow", "code": "", "rule": "baseline.txt:1"}
FIGURES = {"bytes_up": 1234, "bytes_down": 56789, "duration_ms": 250, "close": "finished"}


def told(event: str, *, session: str = "s1", agent: str = "claude", **fields: Any) -> str:
    return tell({"ts": MOMENT, "event": event, "session": session, "agent": agent, **fields})


@pytest.mark.parametrize(
    ("event", "fields", "line"),
    [
        ("egress", {**EGRESS, "state": "opened"}, "allowed a.test:443 (rule baseline.txt:1)"),
        (
            "egress",
            {**EGRESS, **FIGURES, "state": "closed"},
            "ended a.test:443: 1.2 kB up, 57 kB down, 250 ms, finished",
        ),
        (
            "egress",
            {
                **EGRESS,
                **FIGURES,
                "state": "closed",
                "method": "GET",
                "path": "/p",
                "status": 302,
                "port": 80,
            },
            "allowed GET a.test:80/p: answered 302, 1.2 kB up, 57 kB down, 250 ms, finished",
        ),
        (
            "egress",
            {**EGRESS, "state": "refused", "verdict": "deny", "code": "limit", "count": 70},
            "REFUSED a.test:443: limit (rule baseline.txt:1), 70 times",
        ),
        (
            "egress",
            {**EGRESS, **FIGURES, "state": "closed", "verdict": "deny", "code": "sni_mismatch"},
            "CUT a.test:443: sni_mismatch (rule baseline.txt:1); 1.2 kB up, 57 kB down, 250 ms",
        ),
        (
            "egress",
            {**EGRESS, **FIGURES, "state": "closed", "code": "dns_failed"},
            "failed a.test:443: dns_failed (rule baseline.txt:1)",
        ),
        ("egress", {**EGRESS, "state": "opened", "host": "::1"}, "allowed [::1]:443 (rule baseline.txt:1)"),
        (
            "session",
            {"state": "opened", "mode": "chat", "worktree": "/src/w", "sandbox": {"backend": "native"}},
            "opened: chat in /src/w, wrap native",
        ),
        (
            "session",
            {"state": "opened", "mode": "chat", "worktree": "/w"},
            "opened: chat in /w, wrap unknown",
        ),
        (
            "session",
            {"state": "opened", "mode": "chat", "worktree": "/w", "self_test": "open", "network": False},
            "opened: chat in /w, wrap unknown, self-test: open, no network",
        ),
        ("session", {"state": "closed", "exit_status": 3}, "closed, exit status 3"),
        ("session", {"state": "closed", "exit_status": None}, "closed, exit status not known"),
        (
            "push",
            push_fields(),
            "forwarded to acme/w: refs/heads/main create allow (rule config.yaml:3), ok",
        ),
        (
            "push",
            push_fields("deny", "denied"),
            "REFUSED to acme/w: refs/heads/main create deny (rule config.yaml:3), denied",
        ),
        (
            "push",
            {"repository": "", "refs": [], "code": "no_app", "reason": "no App", "count": 3},
            "REFUSED to an unknown repository: no_app: no App, 3 times",
        ),
        ("token", token_fields("minted"), "read token for acme/w minted, ends 2026-01-01T01:00:00Z"),
        ("token", {**token_fields("revoke_failed"), "reason": "x"}, "read token for acme/w revoke failed: x"),
        (
            "action",
            {"tool": "Bash", "command": "ls", "verdict": "allow", "rule": "preset", "approver": "dev"},
            "allowed Bash ls (rule preset), approved by dev",
        ),
        (
            "action",
            {"tool": "Write", "target": "/x", "verdict": "deny", "rule": "preset", "reason": "no"},
            "REFUSED Write /x (rule preset): no",
        ),
        (
            "approval",
            {
                "id": 4,
                "state": "approved",
                "approver": "dev",
                "remember": True,
                "summary": "push",
                "reason": "ok",
            },
            "question 4 approved by dev, and for the rest of the session (push): ok",
        ),
        (
            "violation",
            {"action": "file-write-create", "target": "/x", "rule": "hooks", "count": 2},
            "the wrap refused file-write-create /x (rule hooks), 2 times",
        ),
        ("config", {"state": "loaded", "source": "/c.yaml"}, "loaded: /c.yaml"),
        ("checkpoint", {"count": 12, "reason": "session"}, "12 records signed (session)"),
        ("later", {}, "a kind of record that this version does not know; --json shows it"),
    ],
)
def test_lines(event: str, fields: dict[str, Any], line: str) -> None:
    assert told(event, **fields) == f"2026-01-02 03:04:05Z  s1 (claude)  {event}: {line}"


def test_who_it_was() -> None:
    assert told("config", session="", agent="", state="loaded").startswith("2026-01-02 03:04:05Z  -  config")


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (9949, "9.9 kB"),
        (9951, "10 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (5 * 10**9, "5.0 GB"),
        (10**20, "100000 PB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert shown_bytes(count) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(0, "0 ms"), (999, "999 ms"), (1500, "2 s"), (180_000, "3 min"), (9_000_000, "2.5 h")],
)
def test_durations(milliseconds: int, text: str) -> None:
    assert shown_duration(milliseconds) == text


def test_moments_of_another_kind_are_shown_as_they_are() -> None:
    assert shown_moment("then") == "then"


def test_colour_is_asked_for() -> None:
    record = {
        "ts": MOMENT,
        "event": "egress",
        **EGRESS,
        "state": "refused",
        "verdict": "deny",
        "code": "denied",
    }
    assert tell(record, is_coloured=True) == coloured(tell(record), Mark.REFUSED) != tell(record)
    assert tell(record, is_coloured=True).startswith("\x1b[31m")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
NAMES = [
    "host",
    "host_unicode",
    "port",
    "verdict",
    "code",
    "rule",
    "state",
    "method",
    "path",
    "status",
    "bytes_up",
    "duration_ms",
    "close",
    "refs",
    "repository",
    "count",
    "kind",
    "repositories",
    "expires",
    "reason",
    "tool",
    "command",
    "target",
    "approver",
    "id",
    "remember",
    "summary",
    "action",
    "exit_status",
    "sandbox",
    "worktree",
    "mode",
    "network",
    "source",
    "agent",
    "session",
]


@given(
    st.sampled_from(
        ["session", "egress", "push", "token", "action", "approval", "violation", "config", "x\x1b"]
    ),
    st.dictionaries(st.sampled_from(NAMES), ANYTHING, max_size=8),
    st.text(max_size=40),
)
def test_any_record_is_one_harmless_line(event: str, fields: dict[str, Any], moment: str) -> None:
    line = tell({**fields, "ts": moment, "event": event})
    assert line.isprintable()
