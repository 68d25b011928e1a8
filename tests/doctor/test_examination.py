"""The table of checks, and what becomes of one that raises, hangs, or is for another platform."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.doctor.examination import CHECKS, Check, examine
from gateway.doctor.findings import Finding, Verdict, failed, ok
from gateway.doctor.place import Place
from gateway.errors import GatewayError
from tests.fakes.doctor import place_in


def fine(_: Place, name: str) -> Iterator[Finding]:
    yield ok(name, "fine")


def several(_: Place, name: str) -> Iterator[Finding]:
    yield ok(name, "one")
    yield failed(name, "two", "mend it")


def raising(_: Place, name: str) -> Iterator[Finding]:
    yield ok(name, "so far")
    raise ZeroDivisionError("a fault")


def refusing(_: Place, name: str) -> Iterator[Finding]:
    raise GatewayError("it cannot be", "do this")
    yield ok(name, "never")


def test_findings_come_in_the_order_of_the_table(tmp_path: Path) -> None:
    found = examine(place_in(tmp_path), (Check("a", several), Check("b", fine)))
    assert [(one.name, one.verdict) for one in found] == [
        ("a", Verdict.OK),
        ("a", Verdict.FAILED),
        ("b", Verdict.OK),
    ]


def test_a_check_that_raises_is_a_failed_finding(tmp_path: Path) -> None:
    found = examine(place_in(tmp_path), (Check("a", raising), Check("b", fine)))
    assert [one.verdict for one in found] == [Verdict.FAILED, Verdict.OK]
    assert found[0].reason == "this look failed: ZeroDivisionError: a fault"


def test_what_cannot_be_is_told_with_its_hint(tmp_path: Path) -> None:
    assert examine(place_in(tmp_path), (Check("a", refusing),)) == (failed("a", "it cannot be", "do this"),)


@pytest.mark.parametrize("late", [Verdict.WARNING, Verdict.FAILED])
def test_a_check_that_hangs_is_given_up(tmp_path: Path, late: Verdict) -> None:
    over = threading.Event()

    def hanging(_: Place, name: str) -> Iterator[Finding]:
        over.wait()
        yield ok(name, "at last")

    try:
        hangs = Check("a", hanging, seconds=0.05, late=late, cure="wait")
        found = examine(place_in(tmp_path), (hangs, Check("b", fine)))
    finally:
        over.set()
    assert [(one.name, one.verdict, one.cure) for one in found] == [
        ("a", late, "wait"),
        ("b", Verdict.OK, ""),
    ]
    assert found[0].reason == "this look did not come to an end within 0.05 seconds"


@pytest.mark.parametrize(
    ("platform", "names"), [("linux", ["a", "c"]), ("darwin", ["b", "c"]), ("win32", [])]
)
def test_each_platform_has_its_checks(tmp_path: Path, platform: str, names: list[str]) -> None:
    checks = (Check("a", fine, ("linux",)), Check("b", fine, ("darwin",)), Check("c", fine))
    assert [one.name for one in examine(place_in(tmp_path, platform=platform), checks)] == names


def test_the_table() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(0 < check.seconds <= 90 and check.platforms for check in CHECKS)
