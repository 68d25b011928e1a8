"""The sections of a report but the first: tables, each with what is not in it said below it."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.review.amounts import many
from gateway.review.records import Record, number_of, parts_of, text_of, texts_of
from gateway.review.report.charts import share_bar
from gateway.review.report.contents import Contents, Listing
from gateway.review.report.markup import NOTHING, Child, Markup, element, join
from gateway.review.report.meanings import meaning_of
from gateway.review.suggestions import Suggestion
from gateway.review.summary import Denial, Figures
from gateway.review.telling import cut, shown_bytes, shown_moment

# Rows of a table; the figures above it and `--json` have all.
HOSTS: Final = 100
ROWS: Final = 1000
# Refs of one push.
_REFS: Final = 50
# Characters of one value.
_LONG: Final = 400
# Characters of a word that still fits into a column.
_WORD: Final = 24
_TAG: Final = re.compile(r"<[^>]*>")
# Characters of a moment as the log writes it, or GitHub.
_MOMENT: Final = 32
_ZEROS: Final = "0" * 40
_SHORT_ID: Final = 10

type Row = Sequence[Child]


def table(
    header: Sequence[str], rows: Sequence[Row], total: int, numbers: frozenset[int] = frozenset()
) -> Markup:
    """A table that becomes a list of cards where there is no room. `total` rows there are, these are shown; `numbers`
    are the columns of figures."""
    if not rows:
        return element("p", "None.", class_="none")
    kind = ["number" if column in numbers else None for column in range(len(header))]
    head = element(
        "tr", (element("th", name, scope="col", class_=kind[at]) for at, name in enumerate(header))
    )
    body = [
        element(
            "tr",
            (_cell(join(cell), header[at], kind[at]) for at, cell in enumerate(row)),
        )
        for row in rows
    ]
    whole = element("table", element("thead", head), element("tbody", body))
    if total <= len(rows):
        return whole
    left = f"{many(total - len(rows), 'more row')} {'is' if total - len(rows) == 1 else 'are'} not shown."
    return join(whole, element("p", left, class_="note"))


def _cell(content: Markup, label: str, kind: str | None) -> Markup:
    # Only what would push everything else aside is broken in the middle of a word.
    longest = max(map(len, _TAG.sub(" ", content.html).split()), default=0)
    return element("td", content, data_label=label, class_="long" if longest > _WORD and not kind else kind)


def hosts(contents: Contents) -> Markup:
    """The hosts that were reached or asked for, those with most connections first."""
    found = list(contents.summary.hosts.items())
    most = max((one.allowed + one.denied for _, one in found), default=0)
    rows = [_host(contents, host, one, most) for host, one in found[:HOSTS]]
    header = (
        "host",
        "connections",
        "allowed",
        "no answer",
        "denied",
        "up",
        "down",
        "seen",
    )
    return table(header, rows, len(found), frozenset({2, 3, 4, 5, 6}))


def _host(contents: Contents, host: str, one: Figures, most: int) -> Row:
    new = element("span", "new", class_="tag") if one.reached and contents.is_new(host) else None
    return (
        join(value(host or "(none)"), (" ", new) if new else None),
        share_bar((("plain", one.allowed), ("refused", one.denied)), most),
        f"{one.allowed:,}",
        f"{one.failed:,}" if one.failed else "",
        element("b", f"{one.denied:,}", class_="refused") if one.denied else "",
        shown_bytes(one.bytes_up),
        shown_bytes(one.bytes_down),
        _seen(one.first, one.last),
    )


def denials(contents: Contents) -> Markup:
    """Every refusal of a connection, by host and code, with why and what would have let it through."""
    suggested: dict[tuple[str, str], list[Suggestion]] = {}
    for one in contents.suggestions:
        if len(one.hosts) == 1:
            suggested.setdefault((one.code, one.hosts[0]), []).append(one)
    found = contents.summary.denials
    rows = [_denial(one, suggested.get((one.code, one.host), ())) for one in found[:ROWS]]
    header = ("host", "times", "why", "what would allow it", "seen")
    wide = [one for one in contents.suggestions if len(one.hosts) > 1]
    more = [
        element("p", f"Instead of single lines for {', '.join(one.hosts[:8])}: ", _line(one)) for one in wide
    ]
    return join(table(header, rows, len(found), frozenset({1})), more)


def _seen(first: str, last: str) -> Markup:
    """From when to when."""
    return moment(first) if first == last else join(moment(first), " to ", moment(last))


def _denial(one: Denial, suggested: Sequence[Suggestion]) -> Row:
    rule = f", rule {cut(one.rule, 120)}" if one.rule else ""
    why = join(meaning_of(one.code), " ", element("span", f"code {cut(one.code, 60)}{rule}", class_="quiet"))
    allowing = join(element("div", _line(suggestion)) for suggestion in suggested) if suggested else None
    return (
        value(one.host or "(none)"),
        element("b", f"{one.count:,}", class_="refused"),
        why,
        allowing or "Nothing that stands in a list.",
        _seen(one.first, one.last),
    )


def _line(one: Suggestion) -> Markup:
    if not one.line:
        return element("span", f"{one.never[:1].upper()}{one.never[1:]}.")
    caution = [element("span", f"But: {text}.", class_="caution") for text in one.cautions]
    sent = [f" Sent there by {host}, which is allowed." for host in one.from_hosts]
    return join(element("code", f"{one.key}: {cut(one.line, _LONG)}"), sent, " ", caution)


def pushes(contents: Contents) -> Markup:
    """Every push, a row for each ref."""
    listing = contents.listing("push")
    header = ("when", "session", "repository", "ref", "what", "verdict", "why", "became")
    rows = [row for record in listing.records for row in _push(record)]
    return join(_cut_note(listing, "push", "pushes"), table(header, rows, len(rows)))


def _push(record: Record) -> list[Row]:
    where = (moment(text_of(record, "ts")), *_fields(record, "session", "repository"))
    code, approver = text_of(record, "code"), text_of(record, "approver")
    said = cut(f"{code}: {text_of(record, 'reason')}".strip(": "), _LONG)
    rows: list[Row] = []
    refs = parts_of(record, "refs")
    for ref in refs[:_REFS]:
        given = f"rule {cut(text_of(ref, 'rule'), 120)}: {cut(text_of(ref, 'reason'), _LONG)}".strip(": ")
        approved = f"; approved by {cut(approver, 80)}" if approver else ""
        what = join(text_of(ref, "kind"), " ", element("code", _moved(ref)))
        rows.append(
            (*where, value(text_of(ref, "ref")), what, verdict(text_of(ref, "verdict")), f"{given}{approved}",
             cut("; ".join(filter(None, (text_of(ref, "status"), said))), _LONG))
        )  # fmt: skip
    if not rows:
        rows.append((*where, "", "", verdict("deny"), said, ""))
    if len(refs) > _REFS:
        rows.append((*where, f"and {many(len(refs) - _REFS, 'more ref')}", "", "", "", ""))
    return rows


def _moved(ref: Record) -> str:
    """From which commit to which."""
    old, new = (text_of(ref, name) for name in ("old", "new"))
    shown = ["none" if one == _ZEROS else one[:_SHORT_ID] for one in (old, new)]
    return " → ".join(shown) if old or new else ""


def tokens(contents: Contents) -> Markup:
    """Every token: what it was good for, and what became of it."""
    listing = contents.listing("token")
    rows = [
        (
            moment(text_of(one, "ts")),
            *_fields(one, "session"),
            _state(text_of(one, "state"), bad=("revoke_failed", "mint_failed")),
            *_fields(one, "kind"),
            value(", ".join(texts_of(one, "repositories"))),
            value(_permissions(one)),
            moment(text_of(one, "expires")),
            value(text_of(one, "reason")),
        )
        for one in listing.records
    ]
    header = ("when", "session", "state", "kind", "repositories", "permissions", "ends", "why")
    return join(_cut_note(listing, "record", "records"), table(header, rows, len(rows)))


def _permissions(record: Record) -> str:
    granted = record.get("permissions")
    return (
        ", ".join(f"{name}: {level}" for name, level in granted.items())
        if isinstance(granted, Mapping)
        else ""
    )


def approvals(contents: Contents) -> Markup:
    """Every question and answer."""
    rows = [
        (
            moment(text_of(one, "ts")),
            *_fields(one, "session", "id", "summary"),
            _state(text_of(one, "state"), bad=("denied", "expired", "unattended", "crowded")),
            value(text_of(one, "approver")),
            "for the rest of the session" if one.get("remember") is True else "",
            value(text_of(one, "reason")),
        )
        for one in contents.listing("approval").records
    ]
    header = ("when", "session", "id", "question", "state", "by", "remembered", "reason")
    return join(_cut_note(contents.listing("approval"), "record", "records"), table(header, rows, len(rows)))


def violations(contents: Contents) -> Markup:
    """What the wrap refused, by what and where."""
    found = contents.summary.violations
    rows = [
        (value(one.name[0]), value(one.name[1]), value(one.name[2]), f"{one.count:,}", moment(one.last))
        for one in found[:ROWS]
    ]
    return table(("action", "target", "rule", "times", "last"), rows, len(found), frozenset({3}))


def actions(contents: Contents) -> Markup:
    """Tool calls in figures, and every one that was refused."""
    counted: dict[str, dict[str, int]] = {}
    for one in contents.summary.actions:
        tool, answer = one.name
        counted.setdefault(tool, {})[answer] = one.count
    most = max((sum(several.values()) for several in counted.values()), default=0)
    rows = [
        (
            value(tool or "(none)"),
            share_bar((("plain", several.get("allow", 0)), ("refused", several.get("deny", 0))), most),
            f"{several.get('allow', 0):,}",
            f"{several.get('deny', 0):,}",
        )
        for tool, several in counted.items()
    ]
    listing = contents.listing("action")
    refused = [
        (
            moment(text_of(one, "ts")),
            *_fields(one, "session", "tool"),
            value(text_of(one, "command") or text_of(one, "target")),
            value(text_of(one, "rule")),
            value(text_of(one, "reason")),
            f"{number_of(one, 'count', 1):,}",
        )
        for one in listing.records
    ]
    figures = table(("tool", "calls", "allowed", "denied"), rows[:ROWS], len(rows), frozenset({2, 3}))
    if not refused:
        return figures
    header = ("when", "session", "tool", "what", "rule", "why", "times")
    listed = table(header, refused, len(refused), frozenset({6}))
    return join(figures, element("h3", "Refused"), _cut_note(listing, "record", "records"), listed)


def integrity(contents: Contents) -> Markup:
    """Whether the log is what was written, and what that proves."""
    found = contents.integrity.verification
    if found is None:
        return element("p", f"Not checked: {contents.integrity.why_not}")
    signed, unsigned = contents.integrity.signed, contents.integrity.unsigned
    told = [
        f"{many(signed + unsigned, 'record')} in {many(sum(chain.files for chain in found.chains), 'file')} and "
        f"{many(len(found.chains), 'chain')}, checked against {', '.join(found.keys) or 'no key'}. "
        f"{signed:,} of them are signed: without the key nobody could have changed, removed or moved one. "
        f"{unsigned:,} came after the last signature, and whoever can write the files could have written those anew.",
        "This speaks of the whole log that was read, and of the moment this report was made. The report itself is not "
        "signed: whoever doubts it makes it again.",
    ]
    problems = [
        (value(one.file), f"{one.line or ''}", str(one.kind), value(one.text)) for one in found.problems
    ]
    damages = [
        (value(one.file), f"{one.line or ''}", "unreadable", value(one.why))
        for one in contents.summary.damages
    ]
    rows = [*problems, *damages]
    wrong = (
        table(
            ("file", "line", "what", "why"),
            rows[:ROWS],
            max(len(rows), len(problems) + contents.summary.damaged),
        )
        if rows
        else None
    )
    notes = [element("li", note) for note in found.notes[:20]]
    return join(
        wrong,
        [element("p", line) for line in told],
        element("ul", notes) if notes else None,
        element("p", "To check again: ", element("code", "agent-gateway review verify"), class_="note"),
    )


def sessions(contents: Contents) -> Markup:
    """Who ran what, where, for how long; of a single session as a list of facts."""
    found = [*contents.summary.sessions.items()][::-1]
    header = (
        "session", "agent", "wrap", "mode", "worktree", "opened", "closed", "exit", "allowed", "denied", "up", "down",
    )  # fmt: skip
    rows: list[Row] = [
        (
            value(name),
            value(one.agent),
            _wrap(one.backend, one.file_rules, one.self_test),
            value(one.mode),
            value(one.worktree),
            moment(one.opened),
            moment(one.closed) if one.closed else "no end on record",
            "" if one.exit_status is None else str(one.exit_status),
            f"{one.allowed:,}",
            f"{one.denied:,}",
            shown_bytes(one.bytes_up),
            shown_bytes(one.bytes_down),
        )
        for name, one in found[:ROWS]
    ]
    if len(rows) == 1:
        facts = [
            (element("dt", name), element("dd", cell))
            for name, cell in zip(header, rows[0], strict=True)
            if join(cell).html
        ]
        return element("dl", facts, class_="facts")
    return table(header, rows, len(found), frozenset({7, 8, 9, 10, 11}))


def _wrap(backend: str, file_rules: str, self_test: str) -> Child:
    if backend == "none":
        return element("b", "none", class_="refused")
    parts = (backend, file_rules and f"file rules {file_rules}", self_test and f"self-test: {self_test}")
    return value(", ".join(filter(None, parts)))


def value(text: str) -> Markup:
    """Somebody else's text: as much of it as anybody reads, whatever direction its letters run in."""
    return element("bdi", cut(text, _LONG)) if text else NOTHING


def moment(text: str) -> Markup:
    """A moment of the log."""
    if len(text) > _MOMENT:
        return value(text)  # whatever it is, it is none
    return element("span", shown_moment(text), class_="moment") if text else NOTHING


def verdict(text: str) -> Child:
    """A verdict, which is no colour alone."""
    return element("b", text, class_="plain" if text == "allow" else "refused") if text else ""


def _state(text: str, bad: Sequence[str]) -> Child:
    shown = text.replace("_", " ")
    return element("b", shown, class_="refused") if text in bad else value(shown)


def _fields(record: Record, *names: str) -> list[Child]:
    return [value(text_of(record, name)) for name in names]


def _cut_note(listing: Listing, one: str, several: str) -> Child:
    if listing.total <= len(listing.records):
        return None
    return element(
        "p", f"The last {len(listing.records)} of {many(listing.total, one, several)}.", class_="note"
    )


# What stands below one another: anchor, title, and what draws it.
ORDER: Final[tuple[tuple[str, str, Callable[[Contents], Markup]], ...]] = (
    ("sessions", "Sessions", sessions),
    ("hosts", "Hosts", hosts),
    ("denials", "Refused connections", denials),
    ("pushes", "Pushes", pushes),
    ("tokens", "Tokens", tokens),
    ("approvals", "Questions to a person", approvals),
    ("violations", "Violations of the wrap", violations),
    ("actions", "Tool calls", actions),
    ("integrity", "Is this log complete?", integrity),
)
