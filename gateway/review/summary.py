"""What a log comes to: hosts, denials, pushes, tokens, questions, violations, tool calls, sessions. Values alone.

A connection is counted once, by its last word: it was allowed (and perhaps failed) or denied. Of plain HTTP it is the
request, and it counts when it has ended. A denial that stands for several counts as many.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gateway.review.records import Damage

# The last word of a connection, or its first where there is none yet.
OPENED: Final = "opened"
CLOSED: Final = "closed"
FAILED: Final = "failed"  # allowed, and no answer from upstream
CUT: Final = "cut"  # closed by a denial
REFUSED: Final = "refused"


@dataclass(slots=True)
class Figures:
    """Connections, bytes and the time of them: first and last moment as the log writes them, empty for never. Changes
    while it is counted. `reached` is the first moment at which it was allowed."""

    allowed: int = 0
    failed: int = 0
    denied: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    first: str = ""
    last: str = ""
    reached: str = ""
    _still_open: int = field(default=0, repr=False)

    def count(self, kind: str, is_request: bool, records: int, denials: int) -> None:
        """Counts records of one kind; `denials` is what they stand for."""
        if kind in (CUT, REFUSED):
            self.denied += denials
        elif kind != OPENED:
            self.allowed += records
            self.failed += records if kind == FAILED else 0
        if not is_request and kind != FAILED and kind != REFUSED:
            # A tunnel that was opened is closed once; what is left over has no end on record.
            self._still_open += records if kind == OPENED else -records

    def see(self, first: str, last: str, is_allowed: bool) -> None:
        """Something was there between these moments."""
        self.first = min(self.first or first, first)
        self.last = max(self.last, last)
        if is_allowed:
            self.reached = min(self.reached or first, first)

    def settle(self) -> None:
        """Counts the tunnels of which there is no end. Once, after everything else."""
        self.allowed += max(0, self._still_open)
        self._still_open = 0

    def as_json(self) -> dict[str, object]:
        """For a program."""
        return {
            "allowed": self.allowed,
            "failed": self.failed,
            "denied": self.denied,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "first": self.first,
            "last": self.last,
        }


@dataclass(slots=True)
class SessionFigures(Figures):
    """The same of a session. `exit_status` is None while its command runs, or where it is not known."""

    workspace: str = ""
    space: str = ""
    agent: str = ""
    backend: str = ""
    file_rules: str = ""
    mode: str = ""
    worktree: str = ""
    opened: str = ""
    closed: str = ""
    exit_status: int | None = None
    self_test: str = ""

    def as_json(self) -> dict[str, object]:
        names = (
            "workspace", "space", "agent", "backend", "file_rules", "mode", "worktree", "opened", "closed",
            "exit_status", "self_test",
        )  # fmt: skip
        return {**{name: getattr(self, name) for name in names}, **super(SessionFigures, self).as_json()}


@dataclass(frozen=True, slots=True)
class Denial:
    """Refusals with one code for one host; `rule` is the one that refused most of them."""

    code: str
    host: str
    rule: str
    count: int
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class PushedRef:
    """What became of a ref, `count` times. `status` is "ok", or what was said instead; `forwarded`: it was sent on."""

    repository: str
    ref: str
    kind: str
    verdict: str
    rule: str
    status: str
    forwarded: bool
    count: int


@dataclass(frozen=True, slots=True)
class LivingToken:
    """Tokens that were minted and of which no revocation is on record; each ends by itself at `expires`."""

    session: str
    kind: str
    repositories: str
    expires: str
    count: int


@dataclass(frozen=True, slots=True)
class Counted:
    """A row of something that is simply counted."""

    name: tuple[str, ...]
    count: int
    last: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """All of it. Rows come in the order in which they are shown: what there is most of first."""

    records: int
    first: str
    last: str
    events: Mapping[str, int]
    hosts: Mapping[str, Figures]
    sessions: Mapping[str, SessionFigures]
    denials: tuple[Denial, ...]
    pushes: Mapping[str, int]
    refs: tuple[PushedRef, ...]
    tokens: Mapping[str, int]
    never_revoked: tuple[LivingToken, ...]
    approvals: tuple[Counted, ...]  # state, approver
    violations: tuple[Counted, ...]  # action, target, rule
    actions: tuple[Counted, ...]  # tool, verdict
    damaged: int = 0
    damages: tuple[Damage, ...] = ()

    @property
    def total(self) -> Figures:
        """Of all hosts together."""
        total = Figures(first=self.first, last=self.last)
        for one in self.hosts.values():
            total.allowed += one.allowed
            total.failed += one.failed
            total.denied += one.denied
            total.bytes_up += one.bytes_up
            total.bytes_down += one.bytes_down
        return total

    def as_json(self) -> dict[str, object]:
        """For a program."""
        total = self.total
        return {
            "records": self.records,
            "first": self.first,
            "last": self.last,
            "events": dict(self.events),
            "connections": {"allowed": total.allowed, "failed": total.failed, "denied": total.denied},
            "bytes_up": total.bytes_up,
            "bytes_down": total.bytes_down,
            "hosts": [{"host": host, **figures.as_json()} for host, figures in self.hosts.items()],
            "denials": [_row(one) for one in self.denials],
            "pushes": {**self.pushes, "refs": [_row(one) for one in self.refs]},
            "tokens": {**self.tokens, "never_revoked": [_row(one) for one in self.never_revoked]},
            "approvals": _named(self.approvals, "state", "approver"),
            "violations": _named(self.violations, "action", "target", "rule"),
            "actions": _named(self.actions, "tool", "verdict"),
            "sessions": [{"session": name, **figures.as_json()} for name, figures in self.sessions.items()],
            "damaged": self.damaged,
            "damages": [_row(one) for one in self.damages],
        }


def _row(value: Denial | PushedRef | LivingToken | Damage) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__slots__}


def _named(rows: tuple[Counted, ...], *names: str) -> list[dict[str, object]]:
    return [{**dict(zip(names, row.name, strict=True)), "count": row.count, "last": row.last} for row in rows]
