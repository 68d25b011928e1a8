"""The whole report as one page: head, what to look at first, figures, timeline, and the sections below one another.

No script, no address, no file beside it: the content security policy in it forbids all of that, so that even a mistake
of ours could not make a browser load or run anything.
"""

import base64
import hashlib
from importlib import resources
from typing import Final

from gateway.review.amounts import many
from gateway.review.report.charts import timeline_chart
from gateway.review.report.contents import Contents
from gateway.review.report.markup import Child, Markup, element, join, style
from gateway.review.report.sections import ORDER
from gateway.review.report.worth_a_look import Grade, notices
from gateway.review.telling import cut, shown_bytes, shown_moment

_DOCTYPE: Final = "<!doctype html>\n"
_WORDS: Final = {Grade.BROKEN: "Alarm", Grade.WARNING: "Look at", Grade.NOTE: "Note"}


def page(contents: Contents) -> str:
    """The report as HTML."""
    css = resources.files("gateway.review.report").joinpath("report.css").read_text("utf-8")
    title = _title(contents)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(css)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        style(css),
    )
    body = element("body", _top(contents, title), element("main", _main(contents)), _foot(contents))
    return f"{_DOCTYPE}{element('html', head, body, lang='en').html}\n"


def _policy(css: str) -> str:
    """Nothing at all, but this one style sheet."""
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _title(contents: Contents) -> str:
    sessions = list(contents.summary.sessions)
    if len(sessions) == 1:
        return f"Security review of session {cut(sessions[0], 80)}"
    return f"Security review of {many(len(sessions), 'session')}"


def _top(contents: Contents, title: str) -> Markup:
    summary = contents.summary
    span = (
        f"{shown_moment(summary.first)} to {shown_moment(summary.last)}" if summary.records else "no records"
    )
    chosen = _selection(contents)
    return element(
        "header",
        element("h1", title),
        element("p", f"{span}, {many(summary.records, 'record')}. {chosen}", class_="scope"),
        element("nav", (element("a", name, href=f"#{anchor}") for anchor, name, _ in ORDER)),
    )


def _selection(contents: Contents) -> str:
    """What was left out, in words."""
    one = contents.selection
    parts = [
        *((f"session {', '.join(sorted(one.sessions))}",) if one.sessions else ()),
        *((f"hosts {', '.join(one.hosts)}",) if one.hosts else ()),
        *((f"verdict {', '.join(sorted(one.verdicts))}",) if one.verdicts else ()),
        *((f"code {', '.join(sorted(one.codes))}",) if one.codes else ()),
        *((f"rules {', '.join(one.rules)}",) if one.rules else ()),
        *((f"events {', '.join(sorted(one.events))}",) if one.events else ()),
        *((f"since {shown_moment(one.since)}",) if one.since else ()),
        *((f"until {shown_moment(one.until)}",) if one.until else ()),
        *((f"text {', '.join(map(repr, one.texts))}",) if one.texts else ()),
    ]
    return cut(f"Only: {'; '.join(parts)}.", 1000) if parts else "Everything that is on record."


def _main(contents: Contents) -> Child:
    first = element(
        "section", element("h2", "At a glance"), _notices(contents), _figures(contents), id="glance"
    )
    timeline = element("section", element("h2", "Timeline"), _timeline(contents), id="timeline")
    rest = [
        element("section", element("h2", name), draw(contents), id=anchor) for anchor, name, draw in ORDER
    ]
    return [first, timeline, *rest]


def _timeline(contents: Contents) -> Markup:
    if contents.timeline is None:
        return element("p", "There is nothing to draw.", class_="none")
    return timeline_chart(contents.timeline)


def _notices(contents: Contents) -> Markup:
    found = notices(contents)
    good: Child = []
    if contents.integrity.is_proven and not contents.summary.damaged:
        good = element(
            "li",
            element("b", "Intact"),
            " ",
            f"The log is what was written; {contents.integrity.signed:,} records are signed.",
            class_="good",
        )
    rows = [
        element(
            "li",
            element("b", _WORDS[one.grade]),
            " ",
            element("span", one.sentence),
            " ",
            element("a", "more", href=f"#{one.section}"),
            class_=one.grade.name.lower(),
        )
        for one in found
    ]
    return element("ul", rows, good, class_="notices")


def _figures(contents: Contents) -> Markup:
    summary = contents.summary
    total, pushed, tokens = summary.total, summary.pushes, summary.tokens
    living = sum(one.count for one in summary.never_revoked)
    violations = sum(one.count for one in summary.violations)
    calls = [
        sum(one.count for one in summary.actions if (one.name[1] == "allow") is yes) for yes in (True, False)
    ]
    asked, approved = (
        sum(one.count for one in summary.approvals if one.name[0] == state) for state in ("asked", "approved")
    )
    refused = pushed.get("refused", 0)
    # Name, the figure, what is said below it, and whether that is bad.
    tiles = (
        ("connections", f"{total.allowed:,}", f"{total.denied:,} denied", total.denied),
        ("hosts reached", f"{sum(bool(one.allowed) for one in summary.hosts.values()):,}", _new(contents), 0),
        ("bytes up", shown_bytes(total.bytes_up), f"{shown_bytes(total.bytes_down)} down", 0),
        ("pushes", f"{pushed.get('forwarded', 0):,}", f"{refused:,} refused", refused),
        ("tokens", f"{tokens.get('minted', 0):,}", f"{living:,} never revoked", living),
        ("questions", f"{asked:,}", f"{approved:,} approved", 0),
        ("tool calls", f"{calls[0]:,}", f"{calls[1]:,} refused", calls[1]),
        ("violations", f"{violations:,}", "", 0),
    )
    return element(
        "div",
        (
            element(
                "div",
                element("span", name, class_="name"),
                element("strong", figure),
                element("span", more, class_="refused" if bad else "quiet"),
                class_="tile",
            )
            for name, figure, more, bad in tiles
        ),
        class_="tiles",
    )


def _new(contents: Contents) -> str:
    if contents.known_hosts is None:
        return ""
    new = sum(bool(one.reached) and contents.is_new(host) for host, one in contents.summary.hosts.items())
    return f"{new:,} for the first time"


def _foot(contents: Contents) -> Markup:
    places = ", ".join(contents.places)
    lines = (
        f"Made {contents.made:%Y-%m-%d %H:%M:%S}Z by agent-gateway {contents.version} from {cut(places, 600)}.",
        "A connection counts once, by its last word. Query strings, credentials and tokens are not in the log, so they "
        "are not here. Values that agents, servers or repositories chose are shown with everything escaped that is not "
        "printable.",
    )
    return element("footer", join(element("p", line) for line in lines))
