"""What reports are made of, for tests: nothing in it but what a test puts there."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gateway.review.findings import ChainReport, Problem, ProblemKind
from gateway.review.findings import Report as Verification
from gateway.review.report.contents import Contents, Integrity
from gateway.review.selection import Selection
from gateway.review.summary import Figures, SessionFigures, Summary

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SIGNED = Verification((ChainReport("c", 1, 10, 8, 2, 0, "closed"),), (), (), ("key1",))
UNSIGNED = replace(SIGNED, chains=(ChainReport("c", 1, 10, 0, 10, 0, "closed"),))
BROKEN = replace(SIGNED, problems=(Problem(ProblemKind.EDITED, "/log/a.jsonl", 3, "c", "does not follow"),))


def summary(**more: Any) -> Summary:
    """A summary of nothing, but for this."""
    nothing = Summary(0, "", "", {}, {}, {}, (), {}, (), {}, (), (), (), ())
    return replace(nothing, **more)


def contents(integrity: Integrity | None = None, **more: Any) -> Contents:
    """A report of nothing, but for this: fields of the summary, or of the contents."""
    own = {name: more.pop(name) for name in list(more) if name in Contents.__slots__}
    nothing = Contents(
        NOW, "0.1.0", ("/log",), Selection(), summary(**more), None, {}, (), integrity or Integrity(SIGNED)
    )
    return replace(nothing, **own)


def figures(**more: Any) -> Figures:
    """Figures of a host."""
    return Figures(**more)


def session(**more: Any) -> SessionFigures:
    """Figures of a session."""
    return SessionFigures(
        **{"backend": "native", "opened": "2026-01-01T00:00:00.000000Z", "closed": "x", **more}
    )
