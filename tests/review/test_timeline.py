"""The timeline: which span things are counted in, and that nothing is lost or counted twice."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audit import EventKind
from gateway.authorizer import Figures
from gateway.review.selection import Selection
from gateway.review.summing import sum_up
from gateway.review.timeline import SPANS, Timeline, draw_timeline, place_spans
from tests.fakes.review_log import START, Writer, files, push_fields


def drawn(place: Path, selection: Selection | None = None) -> Timeline:
    chosen = selection or Selection()
    summary = sum_up(files(place), chosen)
    timeline = draw_timeline(files(place), chosen, summary.first, summary.last)
    assert timeline is not None
    return timeline


@pytest.mark.parametrize(
    ("first", "last", "width", "spans"),
    [
        ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.000000Z", 1, 1),
        ("2026-01-01T00:00:00.900000Z", "2026-01-01T00:00:01.100000Z", 1, 2),
        ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:01:35.000000Z", 1, 96),
        ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:01:36.000000Z", 2, 49),
        ("2026-01-01T00:00:30.000000Z", "2026-01-01T08:00:00.000000Z", 600, 49),
        ("2026-01-01T00:00:00.000000Z", "2026-02-01T00:00:00.000000Z", 43_200, 63),
        ("2020-01-01T00:00:00.000000Z", "2026-02-01T00:00:00.000000Z", 30 * 86_400, 75),
        ("0001-01-01T00:00:00.000000Z", "9999-12-31T00:00:00.000000Z", 86_400 * 60 * 1024, 60),
    ],
)
def test_spans_cover_what_there_is(first: str, last: str, width: int, spans: int) -> None:
    placed = place_spans(first, last)
    assert placed is not None
    start, found, number = placed
    assert (found, number) == (width, spans)
    assert start % width == 0
    assert number <= SPANS


@pytest.mark.parametrize(
    ("first", "last"),
    [("", ""), ("yesterday", "today"), ("2026-01-02T00:00:00.000000Z", "2026-01-01T00:00:00.000000Z")],
)
def test_moments_that_are_none(first: str, last: str) -> None:
    assert place_spans(first, last) is None


def test_spans_at_the_edge_of_the_calendar() -> None:
    """A record may say any year."""
    placed = place_spans("0001-01-01T00:00:00.000000Z", "9999-12-31T00:00:00.000000Z")
    assert placed is not None
    start, width, spans = placed
    none = (0,) * spans
    timeline = Timeline(start, width, none, none, none, none, {})
    assert f"{timeline.moment(0):%m-%d}, {timeline.moment(spans):%Y-%m-%d}" == "01-01, 9999-12-31"


def test_a_connection_counts_where_it_began_and_its_bytes_where_it_ended(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    session = writer.open()
    attempt = writer.attempt(session, "a.test")
    writer.at = 10
    writer.door.open(attempt)
    writer.at = 40
    writer.door.close(attempt, Figures(100, 2000, 30_000, "finished"))
    writer.at = 50
    writer.refuse(session, "b.test")
    writer.tunnel(session, "c.test", ends=False)
    writer.cut(session, "d.test")
    writer.note(EventKind.PUSH, session, **push_fields())
    writer.note(EventKind.PUSH, session, **push_fields("deny", "", "denied"))
    writer.note(EventKind.VIOLATION, session, action="x", target="y", rule="z", raw="", count=4)
    writer.log.close()
    timeline = drawn(tmp_path)
    assert (timeline.start, timeline.width, timeline.spans) == (START, 1, 51)

    def told(values: tuple[int, ...]) -> dict[int, int]:
        return {span: value for span, value in enumerate(values) if value}

    # What has no end began where its beginning is on record. The cut one took a millisecond.
    assert told(timeline.allowed) == {9: 1, 50: 1}
    assert told(timeline.denied) == {49: 1, 50: 1}
    assert (told(timeline.bytes_up), told(timeline.bytes_down)) == ({40: 100, 50: 5}, {40: 2000})
    assert {name: told(values) for name, values in timeline.others.items()} == {
        "pushed": {50: 1},
        "push refused": {50: 1},
        "violation": {50: 4},
    }


def test_what_began_before_the_log_counts_at_its_edge(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    session = writer.open()
    attempt = writer.attempt(session, "a.test")
    writer.door.open(attempt)
    writer.at = 5
    writer.door.close(attempt, Figures(1, 2, 3_600_000, "finished"))
    writer.log.close()
    assert sum(drawn(tmp_path).allowed) == 1
    assert drawn(tmp_path).allowed[0] == 1


def test_only_what_is_wanted(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    first, second = writer.open("s1"), writer.open("s2")
    writer.tunnel(first, "a.test")
    writer.tunnel(second, "b.test")
    writer.refuse(second, "c.test")
    writer.log.close()
    timeline = drawn(tmp_path, Selection(sessions=frozenset({"s2"})))
    assert (sum(timeline.allowed), sum(timeline.denied)) == (1, 1)


STEPS = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.sampled_from(("tunnel", "open", "request", "refuse", "cut", "fail")),
        st.sampled_from(("a.test", "b.test")),
    ),
    max_size=40,
)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_it_adds_up_to_the_summary(steps: list[tuple[int, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        writer = Writer(Path(folder))
        session = writer.open()
        for seconds, what, host in steps:
            writer.at += seconds
            match what:
                case "open":
                    writer.tunnel(session, host, ends=False)
                case _:
                    getattr(writer, what)(session, host)
        writer.log.close()
        timeline, total = drawn(Path(folder)), sum_up(files(Path(folder)), Selection()).total
        assert (sum(timeline.allowed), sum(timeline.denied)) == (total.allowed, total.denied)
        assert (sum(timeline.bytes_up), sum(timeline.bytes_down)) == (total.bytes_up, total.bytes_down)
