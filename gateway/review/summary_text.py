"""A summary for a person: what matters first, the rest in tables that a screen holds."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gateway.policy.wording import printable
from gateway.review.amounts import many
from gateway.review.summary import Counted, Figures, Summary
from gateway.review.tables import as_table
from gateway.review.telling import shown_bytes, shown_moment

# Rows of a table; `--json` has all of them.
ROWS: Final = 20
HOST_HEADER: Final = (
    "host", "connections", "failed", "denied", "up", "down", "first seen", "last seen",
)  # fmt: skip


def summary_text(summary: Summary, rows: int = ROWS) -> str:
    """The summary, with so many rows of each table."""
    if not summary.records:
        return "\n".join(["nothing is recorded", *_damages(summary)])
    parts = [_head(summary), *_tables(summary, rows)]
    damages = "\n".join(_damages(summary))
    return "\n\n".join(filter(None, (*parts, damages)))


def _head(summary: Summary) -> str:
    total, pushes, tokens = summary.total, summary.pushes, summary.tokens
    living = sum(one.count for one in summary.never_revoked)
    told = [
        f"{many(summary.records, 'record')} of {many(len(summary.sessions), 'session')}, "
        f"{shown_moment(summary.first)} to {shown_moment(summary.last)}",
        f"connections: {total.allowed} allowed ({total.failed} of them without an answer), {total.denied} denied; "
        f"{shown_bytes(total.bytes_up)} up, {shown_bytes(total.bytes_down)} down, {len(summary.hosts)} hosts",
        f"pushes: {pushes.get('forwarded', 0)} forwarded, {pushes.get('refused', 0)} refused",
        f"tokens: {tokens.get('minted', 0)} minted, {tokens.get('revoked', 0)} revoked, {living} never revoked"
        + (f", {tokens['mint_failed']} could not be minted" if tokens.get("mint_failed") else "")
        + (f", {tokens['revoke_failed']} revocations failed" if tokens.get("revoke_failed") else ""),
        f"questions: {_by_name(summary.approvals, 0) or 'none'}",
        f"tool calls: {_by_name(summary.actions, 1) or 'none'}",
        f"violations: {sum(one.count for one in summary.violations) or 'none'}",
    ]
    return "\n".join(printable(line) for line in told)


def _by_name(rows: Iterable[Counted], part: int) -> str:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.name[part]] = counts.get(row.name[part], 0) + row.count
    return ", ".join(f"{count} {name or 'unknown'}" for name, count in counts.items())


def _tables(summary: Summary, rows: int) -> Iterator[str]:
    for title, header, lines, right in (
        *_of_connections(summary),
        *_of_github(summary),
        *_of_others(summary),
        _of_sessions(summary),
    ):
        yield _table(title, header, lines, rows, right)


# Title, names of columns, rows, and the columns of numbers.
type _Table = tuple[str, Sequence[str], Sequence[Sequence[str]], frozenset[int]]


def _of_connections(summary: Summary) -> Iterator[_Table]:
    hosts = [host_row(host, one) for host, one in summary.hosts.items() if one.allowed]
    yield "hosts", HOST_HEADER, hosts, frozenset({1, 2, 3, 4, 5})
    denials = [
        (one.code, one.host, str(one.count), one.rule, shown_moment(one.first), shown_moment(one.last))
        for one in summary.denials
    ]
    yield "denied", ("code", "host", "times", "rule", "first", "last"), denials, frozenset({2})


def _of_github(summary: Summary) -> Iterator[_Table]:
    refs = [
        (one.repository, one.ref, one.kind, one.verdict, one.rule, one.status, str(one.count))
        for one in summary.refs
    ]
    header = ("repository", "ref", "kind", "verdict", "rule", "became", "times")
    yield "pushes", header, refs, frozenset({6})
    living = [
        (one.session, one.kind, one.repositories, one.expires, str(one.count))
        for one in summary.never_revoked
    ]
    header_of_tokens = ("session", "kind", "repositories", "ends", "tokens")
    yield "tokens never revoked", header_of_tokens, living, frozenset({4})


def _of_others(summary: Summary) -> Iterator[_Table]:
    yield "questions", ("state", "approver", "times"), _counted(summary.approvals), frozenset({2})
    yield "tool calls", ("tool", "verdict", "times"), _counted(summary.actions), frozenset({2})
    header = ("action", "target", "rule", "times")
    yield "violations", header, _counted(summary.violations), frozenset({3})


def _of_sessions(summary: Summary) -> _Table:
    header = ("session", "agent", "wrap", "mode", "opened", "closed", "exit", "allowed", "denied", "up")
    rows = [
        (
            name,
            one.agent,
            one.backend,
            one.mode,
            shown_moment(one.opened),
            shown_moment(one.closed) if one.closed else "no end on record",
            "" if one.exit_status is None else str(one.exit_status),
            str(one.allowed),
            str(one.denied),
            shown_bytes(one.bytes_up),
        )
        for name, one in reversed(list(summary.sessions.items()))
    ]
    return "sessions", header, rows, frozenset({6, 7, 8, 9})


def host_row(host: str, one: Figures) -> tuple[str, ...]:
    """A host's cells, for `HOST_HEADER`."""
    return (
        host,
        str(one.allowed),
        str(one.failed),
        str(one.denied),
        shown_bytes(one.bytes_up),
        shown_bytes(one.bytes_down),
        shown_moment(one.first),
        shown_moment(one.last),
    )


def _counted(rows: Iterable[Counted]) -> list[tuple[str, ...]]:
    return [(*row.name, str(row.count)) for row in rows]


def _table(
    title: str, header: Sequence[str], lines: Sequence[Sequence[str]], rows: int, right: frozenset[int]
) -> str:
    if not lines:
        return ""
    more = f"\nand {len(lines) - rows} more: --json has them" if len(lines) > rows else ""
    return f"{title}\n{as_table(header, lines[:rows], right)}{more}"


def _damages(summary: Summary) -> Iterator[str]:
    if summary.damaged:
        yield f"damaged: {summary.damaged} lines or files could not be read and are not counted above"
        yield from (printable(f"  {one}") for one in summary.damages[:ROWS])
