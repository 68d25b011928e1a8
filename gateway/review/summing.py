"""Sums a log up: one pass of the database over all of it, whose groups are then put where they belong."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from gateway.audit.names import LogFile
from gateway.review.picking import condition
from gateway.review.reading import Damages, Progress
from gateway.review.records import Record, parts_of, text_of, texts_of
from gateway.review.selection import Selection
from gateway.review.store import Store
from gateway.review.summary import (
    CUT,
    REFUSED,
    Counted,
    Denial,
    Figures,
    LivingToken,
    PushedRef,
    SessionFigures,
    Summary,
)

# Codes of pushes that GitHub has, or may have.
_ON_ITS_WAY: Final = frozenset({"", "outcome_unknown"})
# What of an event besides connections tells two of them apart, as JSON.
_DETAILS: Final = {
    "session": ("state", "mode", "worktree", "exit_status", "sandbox", "self_test", "ts"),
    "push": ("repository", "code", "refs"),
    "token": ("state", "kind", "repositories", "expires"),
    "approval": ("state", "approver"),
    "violation": ("action", "target", "rule"),
    "action": ("tool", "verdict"),
}
# The sets of groups, in the order of their bits in `grouping`: whatever is not in a set is NULL in its rows.
_BY_EVENT, _BY_SESSION, _BY_HOST, _BY_DETAIL = range(4)


def _pass(where: str) -> str:
    packed = {event: ", ".join(f'{name} := "{name}"' for name in names) for event, names in _DETAILS.items()}
    details = " ".join(
        f"WHEN '{event}' THEN CAST(to_json(struct_pack({names})) AS VARCHAR)"
        for event, names in packed.items()
    )
    return f"""
        WITH picked AS (
            SELECT
                event, ts, session, workspace, space, agent, host, code, rule, filename,
                CASE WHEN event = 'egress' THEN coalesce(
                    CASE state || ' ' || verdict
                        WHEN 'opened allow' THEN 'opened'
                        WHEN 'closed allow' THEN if(coalesce(code, '') = '', 'closed', 'failed')
                        WHEN 'closed deny' THEN 'cut'
                    END, 'refused') END AS kind,
                method IS NOT NULL AS is_request,
                greatest(coalesce("count", 1), 0) AS times,
                greatest(coalesce(bytes_up, 0), 0) AS up,
                greatest(coalesce(bytes_down, 0), 0) AS down,
                CASE event {details} END AS detail,
                event IS NULL OR ts IS NULL AS is_damaged
            FROM lines WHERE (event IS NULL OR ts IS NULL) OR ({where})
        )
        SELECT
            CASE WHEN grouping(is_damaged) = 0 THEN {_BY_EVENT} WHEN grouping(workspace) = 0 THEN {_BY_SESSION}
                 WHEN grouping(host) = 0 THEN {_BY_HOST} ELSE {_BY_DETAIL} END AS which,
            event, is_damaged, session, workspace, space, agent, host, code, rule, kind, is_request, detail,
            count(*), sum(times), sum(up), sum(down), min(ts), max(ts)
        FROM picked
        GROUP BY GROUPING SETS (
            (event, is_damaged),
            (session, workspace, space, agent, kind, is_request),
            (host, code, rule, kind, is_request),
            (event, session, detail)
        )"""


def sum_up(
    files: Sequence[LogFile],
    selection: Selection,
    progress: Progress | None = None,
    *,
    threads: int = 0,
) -> Summary:
    """What the wanted records of these files come to, and what of them is damaged. GatewayError, UnreadableFile."""
    where, values = condition(selection)
    damages = Damages()
    with Store(files, threads=threads) as store:
        rows = store.query(_pass(where), values, progress)
        if any(row[0] == _BY_EVENT and row[2] for row in rows):
            store.damages(damages)
    summing = _Summing()
    for row in rows:
        summing.take(row)
    return summing.finish(damages)


class _Summing:
    """Puts rows where they belong. Changes."""

    def __init__(self) -> None:
        self._records = 0
        self._first = self._last = ""
        self._events: Counter[str] = Counter()
        self._hosts: dict[str, Figures] = {}
        self._sessions: dict[str, SessionFigures] = {}
        # Code and host -> the rows of its denials: rule, count, first, last.
        self._denials: dict[tuple[str, str], list[tuple[str, int, str, str]]] = {}
        self._pushes: Counter[str] = Counter(forwarded=0, refused=0)
        self._refs: Counter[tuple[str, str, str, str, str, str, bool]] = Counter()
        self._tokens: Counter[str] = Counter(minted=0, revoked=0, revoke_failed=0, mint_failed=0)
        self._living: Counter[tuple[str, str, str, str]] = Counter()
        self._named: dict[str, dict[tuple[str, ...], Counted]] = {}

    def take(self, row: tuple[Any, ...]) -> None:
        """One row of the pass."""
        (
            which,
            event,
            is_damaged,
            session,
            workspace,
            space,
            agent,
            host,
            code,
            rule,
            kind,
            is_request,
            detail,
        ) = row[:13]
        records, times, up, down, first, last = row[13:]
        if which == _BY_EVENT and not is_damaged:
            self._records += records
            self._events[event] += records
            self._first, self._last = min(self._first or first, first), max(self._last, last)
        elif which == _BY_SESSION and session is not None and first is not None:
            one = self._sessions.setdefault(session, SessionFigures())
            one.workspace, one.space, one.agent = workspace or "", space or "", agent or ""
            _add(one, kind, is_request, records, times, up, down, first, last)
        elif which == _BY_HOST and kind is not None:
            one_host = self._hosts.setdefault(host or "", Figures())
            _add(one_host, kind, is_request, records, times, up, down, first, last)
            if kind in (CUT, REFUSED):
                rows = self._denials.setdefault((code or "", host or ""), [])
                rows.append((rule or "", times if kind == REFUSED else records, first, last))
        elif which == _BY_DETAIL and detail is not None:
            self._take_detail(event, session or "", json.loads(detail), records, times, last)

    def _take_detail(
        self, event: str, session: str, detail: Record, records: int, times: int, last: str
    ) -> None:
        if event == "session":
            self._take_session(session, detail)
        elif event == "push":
            self._take_push(detail, records, times)
        elif event == "token":
            self._take_token(session, detail, records)
        else:
            names = _DETAILS[event]
            key = tuple(text_of(detail, name) for name in names)
            rows = self._named.setdefault(event, {})
            before = rows.get(key, Counted(key, 0))
            rows[key] = Counted(key, before.count + times, max(before.last, last))

    def _take_session(self, session: str, detail: Record) -> None:
        one = self._sessions.setdefault(session, SessionFigures())
        moment = text_of(detail, "ts")
        one.mode, one.worktree = text_of(detail, "mode"), text_of(detail, "worktree")
        sandbox = detail.get("sandbox")
        if isinstance(sandbox, dict):
            one.backend, one.file_rules = text_of(sandbox, "backend"), text_of(sandbox, "file_rules")
        if text_of(detail, "state") == "opened":
            one.opened = min(one.opened or moment, moment)
            one.self_test = text_of(detail, "self_test")
        elif moment >= one.closed:
            one.closed = moment
            status = detail.get("exit_status")
            one.exit_status = status if isinstance(status, int) else None

    def _take_push(self, detail: Record, records: int, times: int) -> None:
        refs = parts_of(detail, "refs")
        # Sent on is what some rule allowed and no code stopped; GitHub may still have refused it, as the refs say.
        is_on_its_way = text_of(detail, "code") in _ON_ITS_WAY
        is_sent = is_on_its_way and any(text_of(ref, "verdict") == "allow" for ref in refs)
        self._pushes["forwarded" if is_sent else "refused"] += times
        for ref in refs:
            name, kind, verdict, rule, status = (
                text_of(ref, field) for field in ("ref", "kind", "verdict", "rule", "status")
            )
            forwarded = is_on_its_way and verdict == "allow"
            key = (text_of(detail, "repository"), name, kind, verdict, rule, status, forwarded)
            self._refs[key] += records

    def _take_token(self, session: str, detail: Record, records: int) -> None:
        state = text_of(detail, "state")
        self._tokens[state] += records
        repositories = ", ".join(texts_of(detail, "repositories"))
        # Records name no token: two with the same session, kind, repositories and expiry are alike in their end too.
        key = (session, text_of(detail, "kind"), repositories, text_of(detail, "expires"))
        self._living[key] += {"minted": records, "revoked": -records}.get(state, 0)

    def finish(self, damages: Damages) -> Summary:
        """All of it, in the order in which it is shown."""
        for one in (*self._hosts.values(), *self._sessions.values()):
            one.settle()
        hosts = sorted(self._hosts.items(), key=lambda item: (-item[1].allowed, -item[1].denied, item[0]))
        sessions = sorted(self._sessions.items(), key=lambda item: (item[1].opened or item[1].first, item[0]))
        living = ((key, count) for key, count in self._living.items() if count > 0)
        return Summary(
            self._records,
            self._first,
            self._last,
            dict(self._events.most_common()),
            dict(hosts),
            dict(sessions),
            tuple(sorted(self._denied(), key=lambda one: (-one.count, one.code, one.host))),
            dict(self._pushes),
            tuple(PushedRef(*key, count) for key, count in self._refs.most_common()),
            dict(self._tokens),
            tuple(LivingToken(*key, count) for key, count in sorted(living, key=lambda item: item[0][3])),
            self._counted("approval"),
            self._counted("violation"),
            self._counted("action"),
            damages.count,
            tuple(damages.named),
        )

    def _denied(self) -> Iterable[Denial]:
        for (code, host), rows in self._denials.items():
            rule = max(rows, key=lambda row: row[1])[0]
            count = sum(row[1] for row in rows)
            yield Denial(code, host, rule, count, min(row[2] for row in rows), max(row[3] for row in rows))

    def _counted(self, event: str) -> tuple[Counted, ...]:
        rows = self._named.get(event, {}).values()
        return tuple(sorted(rows, key=lambda row: (-row.count, row.name)))


def _add(
    figures: Figures,
    kind: str | None,
    is_request: bool,
    records: int,
    times: int,
    up: int,
    down: int,
    first: str,
    last: str,
) -> None:
    figures.see(first, last, kind is not None and kind not in (CUT, REFUSED))
    if kind is not None:
        figures.count(kind, is_request, records, times if kind == REFUSED else records)
        figures.bytes_up += int(up)
        figures.bytes_down += int(down)
