"""The linter of lists: each fault with its line, one that is none, and silence about the shipped lists."""

import pytest

from gateway.allowlists import ShippedLists, load_cautions, load_shipped
from gateway.policy.cautions import Cautions
from gateway.policy.hosts import HostPattern
from gateway.policy.list_checks import Cover, Listing, ListKind, breadth, check_list, never
from gateway.policy.lists import ParsedList


def listing(
    *patterns: str,
    name: str = "own.txt",
    kind: ListKind = ListKind.ALLOW,
    trusted: frozenset[str] = frozenset(),
) -> Listing:
    entries = tuple(HostPattern(text, f"{name}:{line}") for line, text in enumerate(patterns, start=1))
    return Listing(name, kind, entries, trusted)


OTHERS = (
    listing("known.test", "*.wide.test", name="base.txt"),
    listing("bad.test", "*.worse.test", name="deny.txt", kind=ListKind.DENY),
)


@pytest.fixture(scope="module")
def cautions() -> Cautions:
    return load_cautions()


@pytest.fixture(scope="module")
def lists() -> ShippedLists:
    return load_shipped()


@pytest.mark.parametrize(
    ("patterns", "line", "is_error", "fragment"),
    [
        (("x.onion",), 1, True, "can never match"),
        (("a.invalid",), 1, True, "can never match"),
        (("bad.test",), 1, True, "deny.txt:1 denies it"),
        (("*.sub.worse.test",), 1, True, "deny.txt:2 denies it (*.worse.test)"),
        (("fine.test", "fine.test"), 2, False, "stands in own.txt:1 already"),
        (("known.test",), 1, False, "allowed already by base.txt:1"),
        (("a.wide.test",), 1, False, "allowed already by base.txt:2 (*.wide.test)"),
        (("*.zone.test", "a.zone.test"), 2, False, "covered by own.txt:1"),
        (("*.co.uk",), 1, False, "anybody can register a name below co.uk"),
        (("a.*.com.au",), 1, False, "anybody can register a name below com.au"),
        (("co.uk",), 1, False, "no host of anybody's"),
        (("*.github.io",), 1, False, "strangers' names come in"),
        (("*.core.windows.net",), 1, False, "strangers' names come in"),
        (("storage.googleapis.com",), 1, False, "keep it only if you mean all of it"),
        (("pastebin.com",), 1, False, "anybody can leave data there"),
    ],
)
def test_faults(
    cautions: Cautions, patterns: tuple[str, ...], line: int, is_error: bool, fragment: str
) -> None:
    (problem,) = check_list(listing(*patterns), OTHERS, cautions)
    assert (problem.file, problem.line, problem.warning) == ("own.txt", line, not is_error)
    assert fragment in problem.message


@pytest.mark.parametrize(
    "patterns",
    [
        ("fine.test",),
        ("worse.test",),
        ("*.bad.test",),
        ("wide.test",),
        ("a.zone.test", "b.zone.test", "*.other.test"),
        ("acme.blob.core.windows.net",),
        ("me.github.io",),
        ("*.acme.s3.amazonaws.com",),
        ("bedrock.*.amazonaws.com",),
        ("*.example.co.uk",),
        ("localhost.test",),
    ],
)
def test_what_is_none(cautions: Cautions, patterns: tuple[str, ...]) -> None:
    assert check_list(listing(*patterns), OTHERS, cautions) == ()


def test_deny_lists(cautions: Cautions) -> None:
    """Too broad is no fault there, and a name that is nowhere is denied to no harm."""
    deny = listing("*.github.io", "*.co.uk", "x.onion", "new.test", "a.worse.test", kind=ListKind.DENY)
    (problem,) = check_list(deny, OTHERS, cautions)
    assert (problem.line, problem.warning) == (5, True)
    assert "denied already by deny.txt:2" in problem.message


def test_an_author_who_has_thought_of_it(cautions: Cautions) -> None:
    trusted = frozenset({"own.txt:1", "own.txt:3"})
    assert (
        check_list(listing("*.github.io", "*.zone.test", "a.zone.test", trusted=trusted), OTHERS, cautions)
        == ()
    )


def _listing(parsed: ParsedList, kind: ListKind) -> Listing:
    marked = frozenset(f"{parsed.name}:{entry.line}" for entry in parsed.entries if entry.risk)
    return Listing(parsed.name, kind, parsed.patterns, marked)


def test_no_false_alarm_about_the_shipped_lists(lists: ShippedLists, cautions: Cautions) -> None:
    shipped = (
        _listing(lists.baseline, ListKind.ALLOW),
        _listing(lists.github, ListKind.ALLOW),
        _listing(lists.deny, ListKind.DENY),
    )
    for one in shipped:
        assert check_list(one, [other for other in shipped if other is not one], cautions) == ()


@pytest.mark.parametrize(
    ("entry", "pattern", "covers"),
    [
        ("*.a.test", "x.a.test", True),
        ("*.a.test", "*.x.a.test", True),
        ("*.a.test", "*.a.test", True),
        ("*.a.test", "a.test", False),
        ("*.a.test", "x.*.a.test", True),
        ("x.*.a.test", "x.y.a.test", True),
        ("x.*.a.test", "*.a.test", False),
        ("a.test", "*.a.test", False),
    ],
)
def test_cover(entry: str, pattern: str, covers: bool) -> None:
    found = Cover([HostPattern(entry, "a:1")]).find(HostPattern(pattern, "b:1"))
    assert (found is not None) is covers


def test_single_answers(cautions: Cautions) -> None:
    assert breadth(HostPattern("a.test", "x:1"), cautions) == ""
    assert never(HostPattern("a.test", "x:1")) == ""
    assert never(HostPattern("*.test.onion", "x:1"))
