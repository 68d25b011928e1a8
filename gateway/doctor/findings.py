"""What the doctor finds, as values, and all of it as text and JSON. It looks at nothing."""

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.policy.wording import printable

# Terminal colours (ECMA-48, SGR), by verdict.
_COLOURS: Final = {"ok": "32", "warning": "33", "failed": "31"}
# Columns of verdict and name.
_MARGIN: Final = 8
_NAME: Final = 18
# A line for people is hardly read beyond this.
_WIDEST: Final = 120
_NARROWEST: Final = 60


class Verdict(StrEnum):
    """`warning`: something is weaker or could not be looked at; nothing that was asked for fails because of it."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. `cure` is the command or edit that mends it; empty where nothing is to be done."""

    name: str
    verdict: Verdict
    reason: str
    cure: str = ""

    def as_json(self) -> dict[str, str]:
        """For programs."""
        return {
            "name": self.name,
            "verdict": self.verdict.value,
            "reason": printable(self.reason),
            "cure": printable(self.cure),
        }


def ok(name: str, reason: str) -> Finding:
    """All is well."""
    return Finding(name, Verdict.OK, reason)


def warning(name: str, reason: str, cure: str = "") -> Finding:
    """It works, with less than one may think."""
    return Finding(name, Verdict.WARNING, reason, cure)


def failed(name: str, reason: str, cure: str = "") -> Finding:
    """It does not work."""
    return Finding(name, Verdict.FAILED, reason, cure)


def worst(findings: Sequence[Finding]) -> Verdict:
    """The verdict of all of them together."""
    order = tuple(Verdict)
    return max((finding.verdict for finding in findings), key=order.index, default=Verdict.OK)


def as_text(findings: Sequence[Finding], *, width: int = 100, is_coloured: bool = False) -> str:
    """The table for people: verdict, name, reason; the cure below, behind an arrow. `width` in columns."""
    width = max(_NARROWEST, min(width, _WIDEST))
    lines = [line for finding in findings for line in _rows(finding, width, is_coloured)]
    return "\n".join([*lines, "", count(findings)])


def count(findings: Sequence[Finding]) -> str:
    """The last line: how many there are of each."""
    number = {verdict: sum(one.verdict is verdict for one in findings) for verdict in Verdict}
    warnings = number[Verdict.WARNING]
    return f"{number[Verdict.OK]} ok, {warnings} warning{'' if warnings == 1 else 's'}, {number[Verdict.FAILED]} failed"


def _rows(finding: Finding, width: int, is_coloured: bool) -> Iterator[str]:
    verdict = finding.verdict.value.ljust(_MARGIN)
    if is_coloured:
        verdict = f"\x1b[{_COLOURS[finding.verdict]}m{verdict}\x1b[0m"
    margin = " " * (_MARGIN + _NAME)
    reason = _wrapped(printable(finding.reason), width - len(margin))
    yield f"{verdict}{finding.name.ljust(_NAME)}{reason[0]}"
    yield from (margin + line for line in reason[1:])
    if finding.cure:
        first, *rest = _wrapped(printable(finding.cure), width - len(margin) - 3)
        yield f"{margin}-> {first}"
        yield from (f"{margin}   {line}" for line in rest)


def _wrapped(text: str, width: int) -> list[str]:
    """Words stay whole: what is copied from here must not be broken."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]
