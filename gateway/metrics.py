"""What an operator's monitoring reads: counters as Prometheus text (exposition format 0.0.4). Pure.

Counters belong to one process and begin with it; further processes of a session tell theirs every second. Whoever does
something counts it here; the operator socket renders.
Labels have few values by construction: codes and states, never hosts, repositories or names of agents.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

_COUNTERS: Final = ("connections", "denials", "pushes", "tokens")
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_PREFIX: Final = "agent_gateway_"


@dataclass(slots=True)
class Metrics:
    """The counters of a process. Changes; used from one event loop.

    `connections` by verdict (`allow`, `deny`; of plain HTTP, requests; one that is refused after it was allowed counts
    as both), `denials` by code, `pushes` by what became of them (`forwarded`, `refused`), `tokens` by what happened
    (`minted`, `revoked`, `revoke_failed`, `mint_failed`).
    """

    connections: Counter[str] = field(default_factory=Counter)
    denials: Counter[str] = field(default_factory=Counter)
    pushes: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    bytes_up: int = 0
    bytes_down: int = 0
    # Those of further processes, by a name of theirs: the last that each told.
    others: dict[str, "Metrics"] = field(default_factory=dict)

    @property
    def total(self) -> "Metrics":
        """These and those of further processes together."""
        total = Metrics()
        for one in (self, *self.others.values()):
            for name in _COUNTERS:
                getattr(total, name).update(getattr(one, name))
            total.count_bytes(one.bytes_up, one.bytes_down)
        return total

    def as_json(self) -> dict[str, object]:
        """What one process tells another."""
        counters = {name: dict(getattr(self, name)) for name in _COUNTERS}
        return {**counters, "bytes_up": self.bytes_up, "bytes_down": self.bytes_down}

    @staticmethod
    def read(told: Mapping[str, Any]) -> "Metrics":
        """What another process told. KeyError, TypeError, ValueError for what is none of it."""
        found = Metrics(bytes_up=int(told["bytes_up"]), bytes_down=int(told["bytes_down"]))
        for name in _COUNTERS:
            getattr(found, name).update({str(key): int(value) for key, value in told[name].items()})
        return found

    def count_connection(self, verdict: str, code: str = "") -> None:
        """One connection that was allowed, or denied with this code."""
        self.connections[verdict] += 1
        if code and verdict == "deny":
            self.denials[code] += 1

    def count_bytes(self, up: int, down: int) -> None:
        """What went through a connection that is over."""
        self.bytes_up += up
        self.bytes_down += down

    def count_push(self, state: str) -> None:
        """One push that has come to its end."""
        self.pushes[state] += 1

    def count_token(self, state: str) -> None:
        """One token that was made or revoked, or could not be."""
        self.tokens[state] += 1


@dataclass(frozen=True, slots=True)
class Gauges:
    """What is so at this moment."""

    sessions: int = 0
    approvals_pending: int = 0
    is_attended: bool = False


# Values that always have a line, so that a rate can be told from the first one on.
_CONNECTIONS: Final = ("allow", "deny")
_PUSHES: Final = ("forwarded", "refused")
_TOKENS: Final = ("minted", "revoked", "revoke_failed", "mint_failed")


def exposition(metrics: Metrics, gauges: Gauges, version: str) -> str:
    """The text for a scrape, ending with a line end."""
    lines = [
        *_family("build_info", "gauge", "The version that runs.", "version", {version: 1}),
        *_family("sessions", "gauge", "Sessions that are open.", "", {"": gauges.sessions}),
        *_family("approvals_pending", "gauge", "Questions that wait for a person.", "", {"": gauges.approvals_pending}),
        *_family("approver_attached", "gauge", "Whether there is somebody to ask.", "", {"": int(gauges.is_attended)}),
        *_counted("connections_total", "Connections by verdict.", "verdict", metrics.connections, _CONNECTIONS),
        *_counted("denials_total", "Denied connections by code.", "code", metrics.denials),
        *_family("bytes_up_total", "counter", "Bytes from sessions to hosts.", "", {"": metrics.bytes_up}),
        *_family("bytes_down_total", "counter", "Bytes from hosts to sessions.", "", {"": metrics.bytes_down}),
        *_counted("pushes_total", "Pushes by what became of them.", "state", metrics.pushes, _PUSHES),
        *_counted("tokens_total", "Tokens of the App by what happened to them.", "state", metrics.tokens, _TOKENS),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _counted(
    name: str, text: str, label: str, counted: Mapping[str, int], always: tuple[str, ...] = ()
) -> Iterator[str]:
    return _family(name, "counter", text, label, {**dict.fromkeys(always, 0), **counted})


def _family(name: str, kind: str, text: str, label: str, samples: Mapping[str, int]) -> Iterator[str]:
    """One metric: what it is, then a line for each value of its label (without one: the number alone)."""
    yield f"# HELP {_PREFIX}{name} {text}"
    yield f"# TYPE {_PREFIX}{name} {kind}"
    for value, number in sorted(samples.items()):
        labels = f'{{{label}="{_escaped(value)}"}}' if label else ""
        yield f"{_PREFIX}{name}{labels} {number}"


def _escaped(value: str) -> str:
    """A label's value (exposition format: backslash, quote and line end)."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
