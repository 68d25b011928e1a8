"""Charts as SVG. Each is stretched to the width there is, so it holds shapes alone: words stand beside it, in HTML."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gateway.review.amounts import many
from gateway.review.report.markup import Markup, element, join
from gateway.review.telling import shown_bytes
from gateway.review.timeline import OTHERS, Timeline

_DAY: Final = 86_400
_MINUTE: Final = 60
# Units of a drawing: a span is so wide, a panel so high; what happened at all is so high at least.
_SPAN, _GAP, _HIGH, _LEAST = 10, 1, 100, 3
_STRIPS: Final = {
    "pushed": ("pushes", "plain"),
    "push refused": ("pushes refused", "refused"),
    "question": ("questions", "plain"),
    "tool call refused": ("tool calls refused", "refused"),
    "violation": ("violations", "refused"),
}


@dataclass(frozen=True, slots=True)
class _Series:
    """Numbers of one colour, and how one of them is told."""

    colour: str
    values: Sequence[int]
    told: Callable[[int], str]


def timeline_chart(timeline: Timeline) -> Markup:
    """Connections, bytes and other events over the same axis of time."""
    panels = [
        _panel(
            timeline,
            "connections",
            f"most in one span: {max(map(sum, zip(timeline.allowed, timeline.denied, strict=True))):,}",
            _Series("plain", timeline.allowed, lambda count: f"{count:,} allowed"),
            _Series("refused", timeline.denied, lambda count: f"{count:,} denied"),
        ),
        _bytes(timeline, "bytes up", timeline.bytes_up),
        _bytes(timeline, "bytes down", timeline.bytes_down),
        *(_strip(timeline, name) for name in OTHERS if name in timeline.others),
    ]
    return element("div", *panels, _axis(timeline), class_="timeline")


def share_bar(parts: Sequence[tuple[str, int]], whole: int) -> Markup:
    """A bar lying down: parts of a whole, each as (colour, number)."""
    at, drawn = 0.0, []
    for colour, value in parts:
        width = 1000 * value / whole if whole else 0
        if value:
            drawn.append(
                element("rect", class_=colour, x=round(at, 1), y=0, width=round(max(width, 4), 1), height=10)
            )
        at += width
    return element(
        "svg", drawn, class_="bar", viewBox="0 0 1000 10", preserveAspectRatio="none", aria_hidden="true"
    )


def _bytes(timeline: Timeline, name: str, values: Sequence[int]) -> Markup:
    most = f"most in one span: {shown_bytes(max(values))}"
    return _panel(timeline, name, most, _Series("plain", values, shown_bytes))


def _panel(timeline: Timeline, name: str, most: str, *series: _Series) -> Markup:
    scale = max(1, *(sum(several) for several in zip(*(one.values for one in series), strict=True)))
    columns = []
    for span in range(timeline.spans):
        there = [(one, one.values[span]) for one in series if one.values[span]]
        if there:
            columns.append(_column(timeline, span, there, scale))
    total = "; ".join(one.told(sum(one.values)) for one in series)
    drawing = element(
        "svg",
        columns,
        class_="panel",
        viewBox=f"0 0 {timeline.spans * _SPAN} {_HIGH}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{name}: {total}",
    )
    caption = element("figcaption", element("b", name), " ", total, element("span", most, class_="most"))
    return element("figure", caption, drawing)


def _column(timeline: Timeline, span: int, there: Sequence[tuple[_Series, int]], scale: int) -> Markup:
    """What one span has, one on the other, and in words for whoever points at it."""
    left, top, shapes = span * _SPAN + _GAP / 2, float(_HIGH), []
    for one, value in there:
        height = max(_LEAST, _HIGH * value / scale)
        top = max(0.0, top - height)
        shape = element(
            "rect", class_=one.colour, x=left, y=round(top, 2), width=_SPAN - _GAP, height=round(height, 2)
        )
        shapes.append(shape)
    # All of the height can be pointed at, not the column alone.
    shapes.append(element("rect", class_="touch", x=span * _SPAN, y=0, width=_SPAN, height=_HIGH))
    words = ", ".join(one.told(value) for one, value in there)
    return element("g", element("title", f"{span_told(timeline, span)}: {words}"), shapes)


def _strip(timeline: Timeline, name: str) -> Markup:
    """When something happened; how often is in the words."""
    label, colour = _STRIPS[name]
    values = timeline.others[name]
    marks = [
        element(
            "g",
            element("title", f"{span_told(timeline, span)}: {value:,} {label}"),
            element("rect", class_=colour, x=span * _SPAN, y=0, width=_SPAN, height=_HIGH),
        )
        for span, value in enumerate(values)
        if value
    ]
    drawing = element(
        "svg",
        marks,
        class_="strip",
        viewBox=f"0 0 {timeline.spans * _SPAN} {_HIGH}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{label}: {sum(values):,}",
    )
    return element("figure", element("figcaption", element("b", label), f" {sum(values):,}"), drawing)


def _axis(timeline: Timeline) -> Markup:
    marks = (0, timeline.spans // 2, timeline.spans) if timeline.spans > 2 else (0, timeline.spans)
    labels = [element("span", moment_told(timeline.moment(span), timeline.width)) for span in marks]
    note = f"Spans of {width_told(timeline.width)}. Times are UTC. Bytes count when their connection ended."
    return join(element("div", labels, class_="axis"), element("p", note, class_="note"))


def span_told(timeline: Timeline, span: int) -> str:
    """When a span was."""
    return f"{moment_told(timeline.moment(span), timeline.width)} ({width_told(timeline.width)})"


def moment_told(moment: datetime, width: int) -> str:
    """A moment as exactly as spans of this many seconds have it."""
    if width >= _DAY:
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%Y-%m-%d %H:%M}" if width >= _MINUTE else f"{moment:%Y-%m-%d %H:%M:%S}"


def width_told(seconds: int) -> str:
    """ "15 minutes"."""
    for unit, size in (("day", _DAY), ("hour", 3600), ("minute", _MINUTE)):
        if seconds % size == 0:
            return many(seconds // size, unit)
    return many(seconds, "second")
