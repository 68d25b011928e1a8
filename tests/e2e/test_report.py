"""The report in a real browser: it runs nothing, asks for nothing, and can be read on a screen, a phone and paper."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from gateway.review.report.sections import ORDER
from tests.fakes.browser import Look, look_at, open_browser
from tests.fakes.console import Console
from tests.fakes.poison import ATTACKS, poisoned_log
from tests.fakes.review_log import Writer

BLUE, RED, DARK_RED = (0x5B, 0x94, 0xC9), (0xA4, 0x16, 0x1A), (0xFF, 0x8F, 0x80)
WHITE, BLACK = (0xFF, 0xFF, 0xFF), (0x14, 0x17, 0x1A)
# What could run or load something.
LOADING = (
    "script, img, iframe, object, embed, link, form, base, input, video, [onload], [onerror], [src], [style]"
)
# The middle of the first shape of a class, on the screen.
MIDDLE = """selector => {
    const shape = document.querySelector(selector);
    shape.scrollIntoView({block: 'center'});
    const box = shape.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2, box.width, box.height];
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Console:
    """A machine with a plain log, and one whose every value is an attack."""
    console = Console(tmp_path_factory.mktemp("report"))
    writer = Writer(console.folder / "plain")
    session = writer.open()
    for at in range(60):
        writer.at = at
        writer.tunnel(session, f"host{at % 7}.test", up=100 * at)
        if at % 5 == 0:
            writer.refuse(session, f"refused{at % 3}.test")
            writer.refuse(session, f"refused{at % 3}.test")
    writer.close(session)
    writer.log.close()
    poisoned_log(console.folder / "poisoned")
    return console


def report(console: Console, name: str) -> Path:
    place = console.folder / f"{name}.html"
    if not place.exists():
        done = console.call("review", "--log", str(console.folder / name), "--report", str(place))
        assert (done.status, done.said) == (0, []), done
    return place


def colour_of(look: Look, selector: str) -> tuple[int, int, int]:
    x, y, width, height = look.page.evaluate(MIDDLE, selector)
    assert width > 1 and height > 1
    return look.pixels().at(x, y)


@pytest.mark.parametrize("name", ["plain", "poisoned"])
@pytest.mark.parametrize("width", [1200, 390])
def test_it_runs_nothing_and_asks_for_nothing(
    browser: Browser, console: Console, name: str, width: int
) -> None:
    place = report(console, name)
    with look_at(browser, place, width=width) as look:
        assert look.said == []
        assert set(look.asked) == {place.as_uri()}
        assert look.page.evaluate("window.poisoned") is None
        assert (
            look.page.locator(
                "script, img, iframe, object, embed, link, form, base, input, video, [onload]"
            ).count()
            == 0
        )
        # Nothing stands beside the window, however long a value is.
        assert look.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_page_that_would_run_something_is_told(browser: Browser, console: Console) -> None:
    """The tests above can fail: the same attacks, in a page that does not escape them."""
    place = console.folder / "naive.html"
    place.write_text(f"<p>{' '.join(one for one in ATTACKS if 'refresh' not in one)}</p>")
    with look_at(browser, place) as look:
        assert look.page.evaluate("window.poisoned") == 1
        assert "http://evil.test/a.png" in look.asked
        assert look.said
        assert look.page.locator(LOADING).count() > 3


def test_charts_are_drawn(browser: Browser, console: Console) -> None:
    with look_at(browser, report(console, "plain"), height=700) as look:
        assert look.pixels().colours().most_common(1)[0][0] == bytes(WHITE)
        assert len(look.pixels().colours()) > 50
        assert colour_of(look, ".panel rect.plain") == BLUE
        assert colour_of(look, ".panel rect.refused") == RED
        assert colour_of(look, ".bar rect.plain") == BLUE
        # Sixty tunnels ended on sixty seconds: they began a moment earlier, and the first two share a column.
        assert look.page.locator(".panel").first.locator("g").count() == 59
        assert look.page.locator(".panel").first.locator("rect.refused").count() == 12


def test_light_and_dark(browser: Browser, console: Console) -> None:
    for scheme, ground, refused in (("light", WHITE, RED), ("dark", BLACK, DARK_RED)):
        with look_at(browser, report(console, "plain"), height=700, color_scheme=scheme) as look:
            assert look.pixels().at(2, 2) == ground
            assert colour_of(look, ".panel rect.refused") == refused


def test_the_figures_are_those_of_the_summary(browser: Browser, console: Console) -> None:
    log = str(console.folder / "plain")
    summary = json.loads(console.call("review", "--log", log, "--summary", "--json").stdout)
    with look_at(browser, report(console, "plain")) as look:
        tiles = look.page.locator(".tile").all_inner_texts()
        assert tiles[0].split("\n") == ["connections", str(summary["connections"]["allowed"]), "24 denied"]
        assert summary["connections"]["denied"] == 24
        hosts = look.page.locator("#hosts tbody tr td:first-child").all_inner_texts()
        assert [host.strip() for host in hosts] == [one["host"] for one in summary["hosts"]]
        denied = look.page.locator("#denials tbody tr").all_inner_texts()
        assert len(denied) == len(summary["denials"]) == 3
        assert all("egress.allow: refused" in row for row in denied)


def test_a_phone_shows_every_cell_with_its_name(browser: Browser, console: Console) -> None:
    with look_at(browser, report(console, "plain"), width=390, height=844, is_mobile=True) as look:
        cell = look.page.locator("#denials td[data-label='why']").first
        assert cell.is_visible()
        assert cell.evaluate("cell => getComputedStyle(cell, '::before').content") == '"why"'
        assert cell.evaluate("cell => cell.getBoundingClientRect().right <= innerWidth")
        assert look.page.locator("#denials thead").first.is_hidden()
        size = look.page.locator("td").first.evaluate("cell => parseFloat(getComputedStyle(cell).fontSize)")
        assert size >= 12


def test_on_paper(browser: Browser, console: Console) -> None:
    with look_at(browser, report(console, "plain"), color_scheme="dark") as look:
        look.page.emulate_media(media="print")
        # Paper is white, whatever the screen is.
        assert look.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert look.page.locator("nav").is_hidden()
        assert look.page.locator("#denials thead").is_visible()
        assert all(row.is_visible() for row in look.page.locator("#denials tbody tr").all())
        paper = look.page.pdf(format="A4")
        assert paper.startswith(b"%PDF-")
        assert paper.count(b"/Type /Page\n") + paper.count(b"/Type /Page ") >= 2


def test_links_lead_to_its_sections(browser: Browser, console: Console) -> None:
    with look_at(browser, report(console, "plain")) as look:
        _follow_all(look.page)
        assert look.said == []


def _follow_all(page: Page) -> None:
    for anchor, name, _ in ORDER:
        page.locator("nav a", has_text=name).click()
        assert page.evaluate("location.hash") == f"#{anchor}"
        assert page.locator(f"#{anchor} h2").is_visible()
