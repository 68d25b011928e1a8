"""Violations on their way to the launcher: one JSON line each, floods as counts. It never waits and never fails.

The first of a kind (action, target, rule) goes out at once. What repeats is counted and told a second later, and kinds
beyond a bound are told together: a program that tries names in a loop fills neither the log nor this process.
"""

import os
from _collections_abc import Callable

# Seconds between two tellings of what repeats.
INTERVAL = 1.0
# Kinds told one by one within an interval.
KINDS_LIMIT = 100
# Bytes that wait for a launcher that does not read; what comes after is counted, not kept.
WAITING_LIMIT = 256 << 10
# Of a target or raw text; a path is shorter, and nobody reads more.
TEXT_LIMIT = 4096

Kind = tuple[str, str, str]


type Value = str | int | list[Value] | dict[str, Value]


def to_json(value: Value) -> bytes:
    """JSON in ASCII. The `json` module takes longer to import than all of the supervisor."""
    if isinstance(value, str):
        return b'"%s"' % b"".join(map(_escaped, value))
    if isinstance(value, list):
        return b"[%s]" % b", ".join(map(to_json, value))
    if isinstance(value, dict):
        return b"{%s}" % b", ".join(b"%s: %s" % (to_json(name), to_json(one)) for name, one in value.items())
    return b"%d" % value


def _escaped(character: str) -> bytes:
    if " " <= character <= "~" and character not in '"\\':
        return character.encode("ascii")
    units = character.encode("utf-16-be", "surrogatepass")
    return b"".join(b"\\u%02x%02x" % (units[at], units[at + 1]) for at in range(0, len(units), 2))


class Reporter:
    """Writes to a non-blocking descriptor. `clock` counts seconds. Not thread-safe."""

    def __init__(self, descriptor: int, clock: Callable[[], float]) -> None:
        self._descriptor = descriptor
        self._clock = clock
        self._counts: dict[Kind, int] = {}  # kinds of this interval; how many were not told yet
        self._raw: dict[Kind, str] = {}
        self._until = 0.0
        self._unread = b""

    def violation(self, action: str, target: str, rule: str, describe: Callable[[], str]) -> None:
        """One refusal. `describe` gives the raw line; it is called where one is told."""
        kind = (action, target[:TEXT_LIMIT], rule)
        now = self._clock()
        if now >= self._until:
            self.flush()
            self._until = now + INTERVAL
        if kind not in self._counts and len(self._counts) >= KINDS_LIMIT:
            kind = (action, "", rule)  # a few of these at most: the actions times the rules
        if kind in self._counts:
            self._counts[kind] += 1
            return
        raw = self._raw[kind] = describe()[:TEXT_LIMIT]
        self._counts[kind] = 0 if kind[1] else 1
        if kind[1]:
            self._say_violation(kind, raw, 1)

    @property
    def due(self) -> float | None:
        """Seconds until `flush` wants to be called; None when nothing waits."""
        if not self._unread and not any(self._counts.values()):
            return None
        return max(0.0, self._until - self._clock())

    def flush(self) -> None:
        """Tells the counts, and tries again what the launcher had no room for."""
        self._send(b"")
        counts, self._counts = self._counts, {}
        raw, self._raw = self._raw, {}
        for kind, count in counts.items():
            if count:
                self._say_violation(kind, raw.get(kind, ""), count)

    def say(self, word: str, value: "Value") -> None:
        """Any other line."""
        self._send(b"{%s: %s}\n" % (to_json(word), to_json(value)))

    def _say_violation(self, kind: Kind, raw: str, count: int) -> None:
        action, target, rule = kind
        if len(self._unread) > WAITING_LIMIT:
            others = (action, "", rule)
            self._counts[others] = self._counts.get(others, 0) + count
            return
        self.say("violation", [action, target, raw, rule, count])

    def _send(self, line: bytes) -> None:
        """Writes what it can; the rest waits. A launcher that is gone is noticed elsewhere."""
        data = self._unread + line
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                break
            except OSError:
                data = b""
        self._unread = data
