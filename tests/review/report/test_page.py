"""The page: what browsers are told about it, and that nothing in it came out of the log as markup."""

import base64
import hashlib
import re
from datetime import UTC, datetime

import pytest

from gateway.review.reading import Damages
from gateway.review.report.contents import Integrity
from gateway.review.report.gathering import gather
from gateway.review.report.page import page
from gateway.review.report.sections import ORDER
from gateway.review.selection import Selection
from tests.fakes.contents import BROKEN, SIGNED, contents, session
from tests.fakes.poison import ATTACKS, poisoned_log
from tests.fakes.review_log import files
from tests.review.report.test_markup import Reader

TAGS = {
    "declaration", "html", "head", "meta", "title", "style", "body", "header", "footer", "main", "section", "nav", "a",
    "h1", "h2", "h3", "p", "ul", "li", "b", "span", "div", "strong", "bdi", "code", "dl", "dt", "dd",
    "figure", "figcaption", "svg", "g", "rect", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "viewbox", "preserveaspectratio", "role",
    "aria-label", "aria-hidden", "x", "y", "width", "height", "scope", "data-label",
}  # fmt: skip


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("log")
    poisoned_log(folder)
    made = datetime(2026, 1, 1, tzinfo=UTC)
    return page(gather(files(folder), Selection(), Integrity(BROKEN), made, ATTACKS, Damages()))


def test_the_log_makes_no_markup(poisoned: str) -> None:
    reader = Reader()
    reader.feed(poisoned)
    reader.close()
    assert set(reader.tags) == TAGS
    assert {name for name, _ in reader.attributes} == ATTRIBUTES
    links = {value for name, value in reader.attributes if name == "href"}
    assert links <= {f"#{anchor}" for anchor, _, _ in ORDER}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_stands_in_the_log_is_shown_as_it_stands(poisoned: str, attack: str) -> None:
    reader = Reader()
    reader.feed(poisoned)
    shown = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in attack)
    assert shown in "".join(reader.texts)


def test_only_printable_characters_are_in_it(poisoned: str) -> None:
    body = poisoned.partition("</style>")[2]
    assert [one for one in body if not one.isprintable()] == ["\n"]


def test_its_policy_allows_its_style_and_nothing_else(poisoned: str) -> None:
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', poisoned)
    (css,) = re.findall(r"<style>(.*)</style>", poisoned, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    assert policy.replace("&#x27;", "'") == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    assert "url(" not in css and "@import" not in css


@pytest.mark.parametrize(
    ("sessions", "title"),
    [
        (0, "Security review of 0 sessions"),
        (1, "Security review of session s0"),
        (2, "Security review of 2 sessions"),
    ],
)
def test_title(sessions: int, title: str) -> None:
    html = page(contents(sessions={f"s{number}": session() for number in range(sessions)}))
    assert f"<title>{title}</title>" in html
    assert f"<h1>{title}</h1>" in html


def test_what_was_left_out_is_said() -> None:
    selection = Selection(
        sessions=frozenset({"s1"}), hosts=("*.test",), since="2026-01-01T00:00:00.000000Z", texts=("x",)
    )
    html = page(contents(selection=selection))
    assert "Only: session s1; hosts *.test; since 2026-01-01 00:00:00Z; text &#x27;x&#x27;." in html
    assert "Everything that is on record." in page(contents())


def test_a_log_that_holds_is_said_to_hold() -> None:
    assert "The log is what was written; 8 records are signed." in page(contents())
    for bad in (contents(damaged=1), contents(Integrity(BROKEN)), contents(Integrity(None, "x"))):
        assert "The log is what was written;" not in page(bad)


def test_every_section_is_there() -> None:
    html = page(contents(Integrity(SIGNED)))
    assert re.findall(r'<section id="([a-z]+)">', html) == [
        "glance",
        "timeline",
        *(anchor for anchor, _, _ in ORDER),
    ]
    assert "Made 2026-01-01 12:00:00Z by agent-gateway 0.1.0 from /log." in html
