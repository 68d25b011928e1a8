"""A question in lines for people, as the operator API tells it.

Whoever asks wrote most of it: every line is printable, and one that is cut says so.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.policy.wording import printable

# Lines of a question that are shown one by one, and characters of a line.
_SHOWN: Final = 20
_WIDTH: Final = 1000

Json = Mapping[str, Any]


def describe(question: Json, name: str) -> Iterator[str]:
    """A question in lines for people: what exactly is asked, how long it may still wait, how it is answered."""
    agent = question.get("agent")
    who = f"session {question.get('session')}" + (f", agent {agent}" if agent else "")
    left = _minutes(float(question.get("left") or 0))
    yield printable(
        f"{name}  {question.get('action')}  {who}, asked {_minutes(float(question.get('age') or 0))} ago"
    )
    yield printable(f"    {question.get('summary')}")
    details = question.get("details")
    lines = list(_details(details if isinstance(details, dict) else {}))
    yield from (f"      {_line(line)}" for line in lines[:_SHOWN])
    if len(lines) > _SHOWN:
        yield f"      and {len(lines) - _SHOWN} more: --json has them"
    name = printable(name)
    reason = " --reason TEXT" if question.get("override") else ""
    if question.get("override"):
        yield "    a rule denies it: a yes needs a reason, and is on record"
    remember = " [--remember]" if question.get("rememberable") else ""
    yield f"    {left} left: agent-gateway approvals approve {name}{reason}{remember}"
    yield f"    or: agent-gateway approvals deny {name} [--message TEXT]"


def _details(details: Json) -> Iterator[str]:
    """What a question is about, a line each."""
    for ref in _dicts(details.get("refs")):
        note = "" if ref.get("ascii", True) else "  (not ASCII: letters may look like others)"
        ids = f"{str(ref.get('old'))[:12]}..{str(ref.get('new'))[:12]}"
        yield f"{ref.get('kind')} {ref.get('ref')}  {ids}{note}"
    for commit in _dicts(details.get("commits")):
        yield f"{str(commit.get('id'))[:12]} {commit.get('subject')}"
    if details.get("others"):
        yield f"with {details['others']} more that nobody has to be asked about"
    # Before the command, which may have as many lines as whoever wrote it likes.
    if effects := details.get("effects"):
        yield "effects: " + ", ".join(map(str, effects))
    if targets := details.get("target"):
        yield "on: " + ", ".join(map(str, targets if isinstance(targets, list) else [targets]))
    if command := details.get("command"):
        yield f"in {details.get('directory') or 'an unknown directory'}:"
        yield from (f"| {line}" for line in str(command).split("\n"))
    for part in _dicts(details.get("parts")):
        yield f"{part.get('text')}: {part.get('reason')}"


def _line(text: str) -> str:
    """It, printable; one that is too long to be read says so."""
    more = len(text) - _WIDTH
    return printable(text) if more <= 0 else f"{printable(text[:_WIDTH])} and {more} characters more: --json"


def _dicts(found: object) -> Sequence[Json]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else ()


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
