"""What a report says of itself."""

import pytest

from gateway.review.report.contents import Integrity, Listing
from tests.fakes.contents import BROKEN, SIGNED, UNSIGNED, contents, session


@pytest.mark.parametrize(
    ("integrity", "told", "proven"),
    [
        (Integrity(SIGNED), "intact", True),
        (Integrity(UNSIGNED), "intact, but nothing of it is signed", False),
        (Integrity(BROKEN), "BROKEN", False),
        (Integrity(None, "why"), "not checked", False),
    ],
)
def test_whether_the_log_holds(integrity: Integrity, told: str, proven: bool) -> None:
    assert (str(integrity), integrity.is_proven) == (told, proven)
    one = contents(integrity, records=1200, sessions={"s1": session()})
    assert one.headline == f"1,200 records of 1 session, log {told}:"


def test_what_is_new() -> None:
    assert not contents().is_new("a.test")
    assert contents(known_hosts=frozenset({"a.test"})).is_new("b.test")
    assert not contents(known_hosts=frozenset({"a.test"})).is_new("a.test")


def test_a_listing_that_is_not_there() -> None:
    assert contents().listing("push") == Listing((), 0)
