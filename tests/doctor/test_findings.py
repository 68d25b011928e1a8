"""Findings as text and JSON: readable by a stranger, harmless to a terminal."""

import pytest

from gateway.doctor.findings import Finding, Verdict, as_text, count, failed, ok, warning, worst

FINDINGS = (
    ok("python", "Python 3.13.0"),
    warning("dns", "no listed name can be looked up", "see /etc/resolv.conf"),
    failed("disk", "only 3 MiB are free", "free some"),
)
TEXT = """\
ok      python            Python 3.13.0
warning dns               no listed name can be looked up
                          -> see /etc/resolv.conf
failed  disk              only 3 MiB are free
                          -> free some

1 ok, 1 warning, 1 failed"""


def test_text() -> None:
    assert as_text(FINDINGS) == TEXT


def test_colour_is_around_the_verdict_alone() -> None:
    first = as_text(FINDINGS, is_coloured=True).splitlines()[0]
    assert first == "\x1b[32mok      \x1b[0mpython            Python 3.13.0"


def test_lines_are_as_wide_as_the_terminal_and_words_stay_whole() -> None:
    cure = "/a/very/long/path/" * 6
    text = as_text((warning("x", "word " * 40, cure),), width=80)
    assert max(len(line) for line in text.splitlines() if "/a/" not in line) <= 80
    assert cure in text


@pytest.mark.parametrize("bad", ["\x1b[2J", "\n", "\u202e", "\udc80"])
def test_nothing_of_what_was_found_reaches_the_terminal(bad: str) -> None:
    finding = failed("x", f"a{bad}b", f"c{bad}d")
    assert bad not in as_text((finding,)).removesuffix("\n\n0 ok, 0 warnings, 1 failed").replace("\n", "", 1)
    assert bad not in str(finding.as_json())


@pytest.mark.parametrize(
    ("findings", "verdict"),
    [
        ((), Verdict.OK),
        (FINDINGS[:1], Verdict.OK),
        (FINDINGS[:2], Verdict.WARNING),
        (FINDINGS, Verdict.FAILED),
    ],
)
def test_worst(findings: tuple[Finding, ...], verdict: Verdict) -> None:
    assert worst(findings) is verdict


def test_count() -> None:
    assert count((*FINDINGS, FINDINGS[1])) == "1 ok, 2 warnings, 1 failed"


def test_json() -> None:
    assert FINDINGS[2].as_json() == {
        "name": "disk",
        "verdict": "failed",
        "reason": "only 3 MiB are free",
        "cure": "free some",
    }
