"""What a reviewer should begin with: a few sentences out of all the figures, the gravest first. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from gateway.review.amounts import many
from gateway.review.moments import written
from gateway.review.report.contents import Contents
from gateway.review.telling import cut, shown_bytes

# Bytes to one host from which on they are told.
MUCH: Final = 10_000_000
# Names in one sentence.
_NAMED: Final = 4
_REWRITING: Final = frozenset({"force", "delete", "tag-move"})


class Grade(IntEnum):
    """How grave something is."""

    BROKEN = 0  # the log or the wall cannot be relied on
    WARNING = 1
    NOTE = 2


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing. `section` is where the report has more of it."""

    grade: Grade
    sentence: str
    section: str


def notices(contents: Contents) -> tuple[Notice, ...]:
    """All there are, the gravest first. None: nothing stands out."""
    found = [
        *_of_the_log(contents),
        *_of_the_wall(contents),
        *_of_tokens(contents),
        *_of_pushes(contents),
        *_of_hosts(contents),
        *_of_questions(contents),
    ]
    return tuple(sorted(found, key=lambda one: one.grade))


def _of_the_log(contents: Contents) -> Iterator[Notice]:
    verification = contents.integrity.verification
    if verification is None:
        sentence = f"Whether the log is complete could not be checked: {contents.integrity.why_not}"
        yield Notice(Grade.BROKEN, sentence, "integrity")
    elif not verification.is_intact:
        count = len(verification.problems)
        sentence = f"The log is not what was written: {many(count, 'place')} of it changed, missing or added."
        yield Notice(Grade.BROKEN, sentence, "integrity")
    elif contents.integrity.unsigned and not contents.integrity.signed:
        sentence = (
            "No record of this log is signed by a known key: each follows from the one before, but whoever can "
            "write the files could have written all of them anew."
        )
        yield Notice(Grade.WARNING, sentence, "integrity")
    if contents.summary.damaged:
        damaged = many(contents.summary.damaged, "line or file", "lines or files")
        sentence = f"{damaged} of the log could not be read, and what stood there is not in this report."
        yield Notice(Grade.BROKEN, sentence, "integrity")


def _of_the_wall(contents: Contents) -> Iterator[Notice]:
    sessions = contents.summary.sessions
    unproven = [name for name, one in sessions.items() if one.self_test in ("open", "untested")]
    if unproven:
        sentence = f"{_sessions(unproven)} had a wall that was not proven, so no command was started."
        yield Notice(Grade.BROKEN, sentence, "sessions")
    bare = [name for name, one in sessions.items() if one.backend == "none"]
    if bare:
        sentence = (
            f"{_sessions(bare)} ran without a wrap: connections that used no proxy were neither refused nor recorded, "
            "and the agent could read what its user can, the key that signs this log included."
        )
        yield Notice(Grade.WARNING, sentence, "sessions")
    violations = sum(one.count for one in contents.summary.violations)
    if violations:
        sentence = f"The wrap refused {many(violations, 'attempt')} at something outside the session."
        yield Notice(Grade.WARNING, sentence, "violations")
    unended = [name for name, one in sessions.items() if one.opened and not one.closed]
    if unended:
        sentence = f"{_sessions(unended)} has no end on record: it still runs, or was killed."
        if len(unended) > 1:
            sentence = f"{_sessions(unended)} have no end on record: they still run, or were killed."
        yield Notice(Grade.NOTE, sentence, "sessions")


def _of_tokens(contents: Contents) -> Iterator[Notice]:
    now = written(contents.made)
    living = [one for one in contents.summary.never_revoked if one.expires > now]
    if count := sum(one.count for one in living):
        writing = any(one.kind == "write" for one in living)
        sentence = (
            f"{many(count, 'token')} may still be valid, {'with write access among them, ' if writing else ''}"
            "since no revocation is on record."
        )
        yield Notice(Grade.WARNING, sentence, "tokens")
    for state, what in (("revoke_failed", "revocation of a token"), ("mint_failed", "request for a token")):
        if count := contents.summary.tokens.get(state, 0):
            whole = many(count, what, what.replace("tion of", "tions of").replace("request ", "requests "))
            yield Notice(Grade.NOTE, f"{whole} failed.", "tokens")


def _of_pushes(contents: Contents) -> Iterator[Notice]:
    rewritten = sum(one.count for one in contents.summary.refs if one.forwarded and one.kind in _REWRITING)
    if rewritten:
        sentence = (
            f"{many(rewritten, 'ref')} {_were(rewritten)} rewritten or deleted: forced, deleted or moved."
        )
        yield Notice(Grade.WARNING, sentence, "pushes")
    if refused := contents.summary.pushes.get("refused", 0):
        yield Notice(Grade.NOTE, f"{many(refused, 'push', 'pushes')} {_were(refused)} refused.", "pushes")


def _of_hosts(contents: Contents) -> Iterator[Notice]:
    fixed = [one for one in contents.summary.denials if one.rule.startswith("deny.txt:")]
    if fixed:
        hosts = _names([one.host for one in fixed])
        sentence = f"Something asked for what the fixed deny list refuses: {hosts}."
        yield Notice(Grade.WARNING, sentence, "denials")
    sent_on = [
        f"{one.from_hosts[0]} to {one.hosts[0]}"
        for one in contents.suggestions
        if one.from_hosts and one.hosts
    ]
    if sent_on:
        sentence = f"An allowed host sent the client on to a refused one: {_names(sent_on)}."
        yield Notice(Grade.NOTE, sentence, "denials")
    most = max(contents.summary.hosts.items(), key=lambda item: item[1].bytes_up, default=None)
    if most is not None and most[1].bytes_up >= MUCH:
        sentence = f"Most went out to {cut(most[0], 80)}: {shown_bytes(most[1].bytes_up)}."
        yield Notice(Grade.NOTE, sentence, "hosts")
    new = [host for host, one in contents.summary.hosts.items() if one.reached and contents.is_new(host)]
    if new:
        sentence = f"{many(len(new), 'host')} {_were(len(new))} reached for the first time: {_names(new)}."
        yield Notice(Grade.NOTE, sentence, "hosts")


def _of_questions(contents: Contents) -> Iterator[Notice]:
    unanswered = sum(
        one.count for one in contents.summary.approvals if one.name[0] in ("expired", "unattended", "crowded")
    )
    if unanswered:
        sentence = f"{many(unanswered, 'question')} found nobody to answer, which is a no."
        yield Notice(Grade.NOTE, sentence, "approvals")


def _were(count: int) -> str:
    return "was" if count == 1 else "were"


def _sessions(names: list[str]) -> str:
    return f"Session {cut(names[0], 80)}" if len(names) == 1 else many(len(names), "session")


def _names(names: list[str]) -> str:
    shown = [cut(name, 120) for name in dict.fromkeys(names)]
    more = len(shown) - _NAMED
    return ", ".join(shown[:_NAMED]) + (f" and {more} more" if more > 0 else "")
