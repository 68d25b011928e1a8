"""Charts: that what is drawn is what there is."""

import re
from xml.etree import ElementTree

import pytest

from gateway.review.report.charts import moment_told, share_bar, timeline_chart, width_told
from gateway.review.report.markup import Markup
from gateway.review.timeline import Timeline
from tests.fakes.review_log import START

TIMELINE = Timeline(
    START, 60, (10, 0, 5, 1000), (0, 0, 5, 0), (0, 0, 0, 1_000_000), (5, 0, 0, 0), {"violation": (0, 3, 0, 0)}
)


def drawings(markup: Markup) -> list[ElementTree.Element]:
    """The SVGs of a piece of HTML: each is well-formed by itself."""
    return [ElementTree.fromstring(one) for one in re.findall(r"<svg.*?</svg>", markup.html, re.DOTALL)]


def shapes(drawing: ElementTree.Element, colour: str) -> list[tuple[float, float, float]]:
    """Left edge, top and height of each shape of this colour."""
    found = [one for one in drawing.iter("rect") if one.get("class") == colour]
    return [(float(one.get("x", "")), float(one.get("y", "")), float(one.get("height", ""))) for one in found]


def test_columns_stand_on_the_ground_and_on_each_other() -> None:
    connections, up, down, violations = drawings(timeline_chart(TIMELINE))
    assert connections.get("viewBox") == "0 0 40 100"
    # 5 of 1000 would not be seen: everything that is there has a height.
    assert shapes(connections, "plain") == [(0.5, 97, 3), (20.5, 97, 3), (30.5, 0, 100)]
    assert shapes(connections, "refused") == [(20.5, 94, 3)]
    assert (shapes(up, "plain"), shapes(down, "plain")) == ([(30.5, 0, 100)], [(0.5, 0, 100)])
    assert shapes(violations, "refused") == [(10, 0, 100)]


def test_what_is_drawn_is_told() -> None:
    html = timeline_chart(TIMELINE).html
    connections, *_ = drawings(timeline_chart(TIMELINE))
    assert connections.get("aria-label") == "connections: 1,015 allowed; 5 denied"
    assert [one.text for one in connections.iter("title")] == [
        "2026-01-01 00:00 (1 minute): 10 allowed",
        "2026-01-01 00:02 (1 minute): 5 allowed, 5 denied",
        "2026-01-01 00:03 (1 minute): 1,000 allowed",
    ]
    assert "2026-01-01 00:01 (1 minute): 3 violations" in html
    for words in (
        "most in one span: 1,000",
        "most in one span: 1.0 MB",
        "most in one span: 5 B",
        "Spans of 1 minute.",
    ):
        assert words in html
    axis = re.findall(r"<span>([^<]*)</span>", html.partition('class="axis"')[2])
    assert axis == ["2026-01-01 00:00", "2026-01-01 00:02", "2026-01-01 00:04"]


def test_nothing_at_all() -> None:
    none = (0, 0)
    html = timeline_chart(Timeline(START, 1, none, none, none, none, {})).html
    assert '<rect class="plain"' not in html
    assert "0 allowed; 0 denied" in html


@pytest.mark.parametrize(
    ("parts", "whole", "drawn"),
    [
        ((("plain", 3), ("refused", 1)), 4, [("plain", "0.0", "750.0"), ("refused", "750.0", "250.0")]),
        ((("plain", 1), ("refused", 0)), 1_000_000, [("plain", "0.0", "4")]),
        ((("plain", 0), ("refused", 0)), 0, []),
    ],
)
def test_bars(parts: list[tuple[str, int]], whole: int, drawn: list[tuple[str, str, str]]) -> None:
    (drawing,) = drawings(share_bar(parts, whole))
    assert [(one.get("class"), one.get("x"), one.get("width")) for one in drawing.iter("rect")] == drawn


@pytest.mark.parametrize(
    ("seconds", "told", "moment"),
    [
        (1, "1 second", "2026-01-01 00:00:00"),
        (90, "90 seconds", "2026-01-01 00:00"),
        (60, "1 minute", "2026-01-01 00:00"),
        (900, "15 minutes", "2026-01-01 00:00"),
        (7200, "2 hours", "2026-01-01 00:00"),
        (86_400, "1 day", "2026-01-01"),
        (86_400 * 60, "60 days", "2026-01-01"),
    ],
)
def test_spans_in_words(seconds: int, told: str, moment: str) -> None:
    assert width_told(seconds) == told
    assert moment_told(TIMELINE.moment(0), seconds) == moment
