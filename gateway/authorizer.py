"""The door: the only caller of `decide`, and the only writer of decision events, so that none can be forgotten.

An unexpected exception while deciding, or a decision that cannot be recorded, is a denial.
"""

import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, assert_never

from gateway.audit import AuditLog, EventKind
from gateway.errors import AuditError
from gateway.policy.addresses import Address
from gateway.policy.decision import Decision, Verdict
from gateway.policy.egress import (
    AddressRequest,
    AuthorityRequest,
    Code,
    EgressRequest,
    EgressRules,
    NameRequest,
    TargetRequest,
    Transport,
    decide,
    decide_address,
    decide_authority,
    decide_name,
    decide_target,
)
from gateway.policy.hosts import literal_text
from gateway.policy.idn import unicode_form
from gateway.policy.limits import Allowance, Limits, decide_limit
from gateway.policy.masking import mask_host, mask_path
from gateway.policy.record import write_once, write_text
from gateway.session import Session

Request = EgressRequest | AddressRequest | NameRequest | AuthorityRequest | TargetRequest

INTERNAL: Final = Decision(
    Verdict.DENY, "built-in", "the gateway could not decide or record this, so it is refused", Code.INTERNAL
)
_RECORDED: Final = Decision(Verdict.ALLOW, "built-in", "recorded")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Attempt:
    """One connection or request on its way through the gateway; gains facts as they become known.

    `host` is the normal form, or the text as asked when it is malformed; `port` is -1 when its text was no number.
    """

    session: Session
    connection: str
    transport: Transport
    host: str
    port: int
    rule: str = ""
    address: str = ""
    sni: str = ""
    method: str = ""
    path: str = ""
    opened: bool = False
    refused: bool = False
    # A plain request that is recorded once, at its end; and whether its end was recorded.
    owed: bool = False
    closed: bool = False
    # What every record of this attempt says alike, once it was written for the first of them; whether it was cut.
    written: str = field(default="", repr=False)
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """What went through a connection: bytes by direction, milliseconds, and why it ended."""

    bytes_up: int = 0
    bytes_down: int = 0
    duration_ms: int = 0
    close: str = ""
    status: int = 0


@dataclass(slots=True)
class _Coalesced:
    """Refusals with code `limit` of one session: `more` than were recorded by the end of the second before. The
    attempt and its decision are the latest ones."""

    second: int
    attempt: Attempt
    decision: Decision
    more: int = 0


@dataclass(slots=True)
class Counts:
    """What a session's closing line says: connections (of plain HTTP, requests), each by its last verdict."""

    allowed: int = 0
    denied: int = 0


@dataclass(slots=True)
class Authorizer:
    """Decides and records. Changes (counts, coalesced refusals); used from one event loop.

    `clock` returns seconds of a monotonic clock.
    """

    log: AuditLog
    clock: Callable[[], float]
    _limited: dict[str, _Coalesced] = field(default_factory=dict)
    _counts: dict[str, Counts] = field(default_factory=dict)
    _serial: "count[int]" = field(default_factory=count)
    _run: str = field(default_factory=lambda: secrets.token_hex(4))
    _lost: int = 0

    def attempt(
        self, session: Session, transport: Transport, host: str, port: int, connection: str = ""
    ) -> Attempt:
        """A new attempt, with a connection id of its own unless it goes on over a `connection` that is there."""
        return Attempt(session, connection or f"{self._run}{next(self._serial):06x}", transport, host, port)

    def authorize(self, attempt: Attempt, request: Request) -> Decision:
        """Decides. A denial is recorded before it is returned; that of an `opened` attempt is recorded by `close`."""
        try:
            decision = _decide(attempt.session.egress, request)
        except Exception:
            _log.exception("a rule failed; the request is refused")
            decision = INTERNAL
        if decision.allowed:
            # The rule that allowed the host stays the record's rule; later checks only confirm it.
            attempt.rule = attempt.rule or decision.rule
        elif not attempt.opened:
            self._refused(attempt, decision)
        return decision

    def authorize_addresses(
        self, attempt: Attempt, requests: Sequence[AddressRequest]
    ) -> tuple[Decision, tuple[Address, ...]]:
        """Which of a name's addresses may be dialled. With none left the denial of the first one is recorded."""
        vetted: list[Address] = []
        refusal = INTERNAL
        for request in reversed(requests):
            try:
                decision = _decide(attempt.session.egress, request)
            except Exception:
                _log.exception("a rule failed; the address is refused")
                decision = INTERNAL
            if decision.allowed:
                vetted.insert(0, request.address)
            else:
                refusal, attempt.address = decision, literal_text(request.address)
        if vetted:
            attempt.address = ""
            return Decision(Verdict.ALLOW, attempt.rule, "the address is public or listed"), tuple(vetted)
        self._refused(attempt, refusal)
        return refusal, ()

    def authorize_connection(
        self, attempt: Attempt, limits: Limits, live: int, allowance: Allowance
    ) -> Decision:
        """May the session have one more connection? Refusals beyond the first of a second are counted into one."""
        decision = decide_limit(limits, live, allowance)
        if not decision.allowed:
            self._refused_by_limit(attempt, decision)
        return decision

    def refuse(self, attempt: Attempt, decision: Decision) -> Decision:
        """Records a denial that was found while parsing or waiting (`malformed_request`, `timeout`, `internal`)."""
        if not attempt.opened:
            self._refused(attempt, decision)
        return decision

    def open(self, attempt: Attempt) -> Decision:
        """Records an allowed connection, or a request that takes long, before the client is told yes."""
        if not self._record(attempt, "opened", Verdict.ALLOW, "", attempt.rule):
            if not attempt.opened:
                attempt.refused = True
                self._count(attempt.session).denied += 1
                self.log.metrics.count_connection(Verdict.DENY, Code.INTERNAL)
            return INTERNAL
        self._opened(attempt)
        return _RECORDED

    def begin(self, attempt: Attempt) -> Decision:
        """Allows one plain request, whose one record comes at its end (`close`) and has its status and figures too. The
        log must be sure to take that record; where it is not, the request is recorded now as well."""
        if not attempt.owed:
            _write_asked(attempt)  # should this fail, it does so before anything is forwarded
            if not self.log.reserve():
                return self.open(attempt)
            attempt.owed = True
            self._opened(attempt)
        return _RECORDED

    def close(self, attempt: Attempt, figures: Figures, decision: Decision | None = None) -> None:
        """Records the end of a connection or of a request, once. `decision` is a denial after `opened`, or an upstream
        failure's code. What was refused before it was opened has its one record already."""
        if attempt.closed or (attempt.refused and not attempt.opened):
            return
        attempt.closed = True
        verdict, code, rule = Verdict.ALLOW, "", attempt.rule
        if decision is not None:
            verdict, code = decision.verdict, decision.code
            rule = decision.rule or rule
        self._count_end(attempt, verdict, code)
        self.log.metrics.count_bytes(figures.bytes_up, figures.bytes_down)
        self._record(attempt, "closed", verdict, code, rule, _written(figures))

    def counts(self, session_id: str) -> Counts:
        """What was allowed and denied in a session so far; goes on counting until `forget`."""
        return self._counts.setdefault(session_id, Counts())

    def add_counts(self, session_id: str, more: Counts) -> None:
        """Adds what another process has allowed and denied for the session."""
        counts = self.counts(session_id)
        counts.allowed += more.allowed
        counts.denied += more.denied

    def flush(self, session_id: str | None = None) -> None:
        """Writes the counted refusals whose second is over (all of a session's when it is named)."""
        now = int(self.clock())
        for key, held in list(self._limited.items()):
            if key == session_id or held.second < now:
                self._end_second(held, now)

    def forget(self, session_id: str) -> None:
        """Drops a closed session's counts, once what they stand for is written."""
        self.flush(session_id)
        self._limited.pop(session_id, None)
        self._counts.pop(session_id, None)

    def _opened(self, attempt: Attempt) -> None:
        if not attempt.opened:
            attempt.opened = True
            self._count(attempt.session).allowed += 1
            self.log.metrics.count_connection(Verdict.ALLOW)

    def _refused(self, attempt: Attempt, decision: Decision) -> None:
        attempt.refused = True
        self._count(attempt.session).denied += 1
        self.log.metrics.count_connection(Verdict.DENY, decision.code)
        self._write_refusal(attempt, decision)

    def _refused_by_limit(self, attempt: Attempt, decision: Decision) -> None:
        attempt.refused = True
        self._count(attempt.session).denied += 1
        self.log.metrics.count_connection(Verdict.DENY, decision.code)
        now = int(self.clock())
        held = self._limited.get(attempt.session.id)
        if held is not None and held.second != now:
            held = self._end_second(held, now)
        if held is None:
            # The first is recorded at once, so that nobody waits for the news; from then on one record a second.
            self._limited[attempt.session.id] = _Coalesced(now, attempt, decision)
            self._write_refusal(attempt, decision)
        else:
            held.attempt, held.decision = attempt, decision
            held.more += 1

    def _end_second(self, held: _Coalesced, now: int) -> _Coalesced | None:
        """Writes what was counted, and counts on; a second without a refusal ends the counting."""
        if not held.more:
            del self._limited[held.attempt.session.id]
            return None
        self._write_refusal(held.attempt, held.decision, f',"count":{held.more}')
        held.second, held.more = now, 0
        return held

    def _write_refusal(self, attempt: Attempt, decision: Decision, more: str = "") -> None:
        self._record(attempt, "refused", Verdict.DENY, decision.code, decision.rule, more)

    def _record(
        self, attempt: Attempt, state: str, verdict: Verdict, code: str, rule: str, more: str = ""
    ) -> bool:
        """Whether the record stands in the log. Says so loudly when it begins to fail, and when it has recovered.
        `more` are further fields, written."""
        owed, attempt.owed = attempt.owed, False
        if owed:
            self.log.release()
        try:
            text = _described(attempt, state, verdict, code, rule)
            self.log.append_written(EventKind.EGRESS, attempt.session, text + more, attempt.cut)
        except AuditError as error:
            if not self._lost:
                _log.error("records are lost, and every connection is refused meanwhile: %s", error)
            self._lost += 1
            if owed:
                # Forwarded already: this is the one place left to say what it was.
                _log.error("the record of a request that was forwarded is lost: %s", attempt.written)
            return False
        if self._lost:
            _log.error("the audit log takes records again; %d were lost", self._lost)
            self._lost = 0
        return True

    def _count(self, session: Session) -> Counts:
        return self.counts(session.id)

    def _count_end(self, attempt: Attempt, verdict: Verdict, code: str) -> None:
        """A dial that failed was allowed; what was refused after it was opened was not."""
        counts = self._count(attempt.session)
        if verdict is not Verdict.DENY:
            counts.allowed += not attempt.opened
            if not attempt.opened:
                self.log.metrics.count_connection(verdict)
        elif not attempt.refused:
            self.log.metrics.count_connection(verdict, code)
            counts.denied += 1
            counts.allowed -= attempt.opened


def explain(rules: EgressRules, request: EgressRequest) -> Decision:
    """The decision without a record, for the `check` commands."""
    return decide(rules, request)


def _decide(rules: EgressRules, request: Request) -> Decision:
    match request:
        case EgressRequest():
            return decide(rules, request)
        case AddressRequest():
            return decide_address(rules, request)
        case NameRequest():
            return decide_name(rules, request)
        case TargetRequest():
            return decide_target(rules, request)
        case AuthorityRequest():
            return decide_authority(rules, request)
        case _:
            assert_never(request)


def _described(attempt: Attempt, state: str, verdict: Verdict, code: str, rule: str) -> str:
    """The fields of an `egress` record, written. Two are written for every connection, so they go straight into text;
    what a client may have put into them goes through `policy.record`."""
    _write_asked(attempt)
    # A StrEnum in a format string is its text, without the cost of `.value`.
    text = (
        f'{attempt.written},"state":"{state}","verdict":"{verdict}","code":"{code}"{write_text("rule", rule)}'
    )
    if attempt.address:
        text += write_text("address", attempt.address)
    if attempt.sni:
        text += write_text("sni", mask_host(attempt.sni))
    return text


def _write_asked(attempt: Attempt) -> None:
    """Writes which attempt it is and what it asks for, unless that was done."""
    if attempt.written:
        return
    port = attempt.port if attempt.port >= 0 else "null"
    text = (
        f',"connection":"{attempt.connection}","transport":"{attempt.transport}"'
        f'{write_text("host", mask_host(attempt.host))},"port":{port}'
    )
    if shown := unicode_form(attempt.host):
        text += write_text("host_unicode", shown)
    if attempt.method:
        path, attempt.cut = write_once("path", mask_path(attempt.path))
        text += write_text("method", attempt.method) + path
    attempt.written = text


def _written(figures: Figures) -> str:
    text = (
        f',"bytes_up":{figures.bytes_up},"bytes_down":{figures.bytes_down},"duration_ms":{figures.duration_ms}'
        f"{write_text('close', figures.close)}"
    )
    return f'{text},"status":{figures.status}' if figures.status else text
