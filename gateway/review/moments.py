"""Points in time as a reviewer writes them: RFC 3339, a date, or so long ago. Reads no clock."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from gateway.errors import UsageError

_AGO: Final = re.compile(r"([0-9]{1,6})(s|m|h|d|w)")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_HINT: Final = "write 2026-01-31, 2026-01-31T12:00:00Z, or how long ago: 90s, 30m, 2h, 3d, 1w"


def parse_moment(text: str, now: datetime) -> str:
    """The moment as the log writes it: UTC, microseconds, so that texts compare as times do. A date is its first
    moment, a time without a zone is UTC. `now` is aware. UsageError for anything else."""
    found = _AGO.fullmatch(text.strip())
    try:
        if found:
            moment = now - timedelta(**{_UNITS[found[2]]: int(found[1])})
        else:
            moment = datetime.fromisoformat(text.strip())
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return written(moment)
    except (ValueError, OverflowError):
        raise UsageError(f"{text[:100]!r} is no date or time", _HINT) from None


def written(moment: datetime) -> str:
    """An aware time as the log writes it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def is_moment(text: str) -> bool:
    """Whether this reads as a moment, and not as the name of a session."""
    if _AGO.fullmatch(text.strip()):
        return True
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True
