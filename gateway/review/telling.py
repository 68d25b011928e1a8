"""A record in one line that a stranger understands. Whatever stands in it is made harmless to a terminal."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from gateway.policy.wording import printable
from gateway.review.records import Record, number_of, parts_of, text_of, texts_of

# Characters of one text that are shown; the record has the rest, and `--json` shows it.
_SHOWN: Final = 200
# What a session's self-test comes to where there is nothing to look into; empty where it has none.
_PROVEN: Final = frozenset({"", "holds"})
_UNITS: Final = ("kB", "MB", "GB", "TB", "PB")


class Mark(StrEnum):
    """What a line is about, for its colour."""

    PLAIN = "plain"
    REFUSED = "refused"
    FAILED = "failed"
    QUIET = "quiet"


_COLOURS: Final[Mapping[Mark, str]] = {
    Mark.REFUSED: "\x1b[31m",
    Mark.FAILED: "\x1b[33m",
    Mark.QUIET: "\x1b[2m",
}
_END: Final = "\x1b[0m"


def tell(record: Record, *, is_coloured: bool = False) -> str:
    """Time, session, kind, and what happened."""
    event = text_of(record, "event")
    telling = _TELLING.get(event, _other)
    mark, text = telling(record)
    whose = text_of(record, "session") or "-"
    if agent := text_of(record, "agent"):
        whose = f"{whose} ({agent})"
    line = f"{shown_moment(text_of(record, 'ts'))}  {cut(whose)}  {cut(event)}: {text}"
    return coloured(printable(line), mark) if is_coloured else printable(line)


def coloured(line: str, mark: Mark) -> str:
    """The line in the colour of what it is about."""
    colour = _COLOURS.get(mark, "")
    return f"{colour}{line}{_END}" if colour else line


def shown_moment(moment: str) -> str:
    """A moment of the log without what a person does not need: to the second, in UTC."""
    if len(moment) == 27 and moment.endswith("Z"):
        return f"{moment[:10]} {moment[11:19]}Z"
    return cut(moment)


def shown_bytes(count: int) -> str:
    """ "512 B", "1.2 kB", "34 MB"."""
    if count < 1000:
        return f"{count} B"
    amount = float(count)
    for unit in _UNITS:
        amount /= 1000
        if amount < 999.5 or unit == _UNITS[-1]:
            break
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:.0f} {unit}"


def shown_duration(milliseconds: int) -> str:
    """ "250 ms", "12 s", "3 min", "2.5 h"."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def target_of(record: Record) -> str:
    """Host and port of an `egress` record, or what was asked for of it: for plain HTTP the request."""
    host = text_of(record, "host")
    shown = text_of(record, "host_unicode")
    port = record.get("port")
    place = f"[{host}]" if ":" in host and host.replace(":", "").isalnum() else host
    place = f"{place}:{port}" if isinstance(port, int) else place
    if shown:
        place = f"{place} ({shown})"
    method = text_of(record, "method")
    return f"{method} {place}{text_of(record, 'path')}" if method else place


def cut(text: str, length: int = _SHOWN) -> str:
    """The text, or its beginning."""
    return text if len(text) <= length else f"{text[: length - 3]}..."


def _rule(record: Record) -> str:
    rule = text_of(record, "rule")
    return f" (rule {cut(rule)})" if rule else ""


def _times(record: Record) -> str:
    count = number_of(record, "count", 1)
    return f", {count} times" if count > 1 else ""


def _egress(record: Record) -> tuple[Mark, str]:
    target, code = cut(target_of(record)), text_of(record, "code")
    state = text_of(record, "state")
    if state == "opened":
        return Mark.PLAIN, f"allowed {target}{_rule(record)}"
    if state == "refused":
        return Mark.REFUSED, f"REFUSED {target}: {cut(code)}{_rule(record)}{_times(record)}"
    figures = (
        f"{shown_bytes(number_of(record, 'bytes_up'))} up, {shown_bytes(number_of(record, 'bytes_down'))} down, "
        f"{shown_duration(number_of(record, 'duration_ms'))}"
    )
    if text_of(record, "verdict") != "allow":
        return Mark.REFUSED, f"CUT {target}: {cut(code)}{_rule(record)}; {figures}"
    if code:
        return Mark.FAILED, f"failed {target}: {cut(code)}{_rule(record)}"
    status = f" answered {text_of(record, 'status')}," if text_of(record, "status") else ""
    word = "allowed" if text_of(record, "method") else "ended"
    return Mark.PLAIN, f"{word} {target}:{status} {figures}, {cut(text_of(record, 'close'))}"


def _session(record: Record) -> tuple[Mark, str]:
    if text_of(record, "state") == "opened":
        sandbox = record.get("sandbox")
        wrap = text_of(sandbox, "backend") if isinstance(sandbox, dict) else ""
        network = "" if text_of(record, "network") != "false" else ", no network"
        where = cut(text_of(record, "worktree"))
        mode = text_of(record, "mode")
        tested = text_of(record, "self_test")
        proven = f", self-test: {cut(tested)}" if tested else ""
        mark = Mark.PLAIN if tested in _PROVEN else Mark.FAILED
        return mark, f"opened: {mode} in {where}, wrap {wrap or 'unknown'}{proven}{network}"
    status = text_of(record, "exit_status")
    return Mark.PLAIN, f"closed, {f'exit status {status}' if status else 'exit status not known'}"


def _push(record: Record) -> tuple[Mark, str]:
    refs = parts_of(record, "refs")
    code, repository = text_of(record, "code"), cut(text_of(record, "repository") or "an unknown repository")
    told = [_ref(ref) for ref in refs[:5]]
    if len(refs) > 5:
        told.append(f"and {len(refs) - 5} more refs")
    if code or not refs:
        told.insert(0, cut(f"{code}: {text_of(record, 'reason')}".strip(": ")))
    refused = bool(code) or any(text_of(ref, "verdict") != "allow" for ref in refs)
    approver = f", approved by {cut(text_of(record, 'approver'))}" if text_of(record, "approver") else ""
    word = "REFUSED, or in part," if refused else "forwarded"
    if refused and not any(text_of(ref, "verdict") == "allow" for ref in refs):
        word = "REFUSED"
    line = f"{word} to {repository}: {'; '.join(filter(None, told))}{approver}{_times(record)}"
    return Mark.REFUSED if refused else Mark.PLAIN, line


def _ref(ref: Record) -> str:
    status = text_of(ref, "status")
    end = f", {cut(status, 100)}" if status else ""
    return (
        f"{cut(text_of(ref, 'ref'))} {text_of(ref, 'kind')} {text_of(ref, 'verdict')} "
        f"(rule {cut(text_of(ref, 'rule'))}){end}"
    )


def _token(record: Record) -> tuple[Mark, str]:
    state, reason = text_of(record, "state"), text_of(record, "reason")
    whose = cut(", ".join(texts_of(record, "repositories")) or "no repository")
    why = f": {cut(reason)}" if reason else ""
    mark = Mark.REFUSED if "failed" in state else Mark.PLAIN
    until = f", ends {cut(text_of(record, 'expires'))}" if state == "minted" else ""
    return mark, f"{cut(text_of(record, 'kind'))} token for {whose} {state.replace('_', ' ')}{until}{why}"


def _action(record: Record) -> tuple[Mark, str]:
    verdict = text_of(record, "verdict")
    what = text_of(record, "command") or text_of(record, "target")
    approver = f", approved by {cut(text_of(record, 'approver'))}" if text_of(record, "approver") else ""
    line = f"{cut(text_of(record, 'tool') or 'a tool')} {cut(what)}".rstrip()
    if verdict == "allow":
        return Mark.PLAIN, f"allowed {line}{_rule(record)}{approver}"
    return Mark.REFUSED, f"REFUSED {line}{_rule(record)}: {cut(text_of(record, 'reason'))}{_times(record)}"


def _approval(record: Record) -> tuple[Mark, str]:
    state = text_of(record, "state")
    who = f" by {cut(text_of(record, 'approver'))}" if text_of(record, "approver") else ""
    kept = ", and for the rest of the session" if record.get("remember") is True else ""
    why = f": {cut(text_of(record, 'reason'))}" if text_of(record, "reason") else ""
    summary = cut(text_of(record, "summary"))
    mark = Mark.PLAIN if state in ("approved", "asked") else Mark.REFUSED
    return mark, f"question {text_of(record, 'id')} {state}{who}{kept} ({summary}){why}"


def _violation(record: Record) -> tuple[Mark, str]:
    what = f"{cut(text_of(record, 'action'))} {cut(text_of(record, 'target'))}"
    return Mark.REFUSED, f"the wrap refused {what}{_rule(record)}{_times(record)}"


def _config(record: Record) -> tuple[Mark, str]:
    state = text_of(record, "state")
    mark = Mark.PLAIN if state == "loaded" else Mark.REFUSED
    return mark, f"{cut(state)}: {cut(text_of(record, 'source'))}"


def _checkpoint(record: Record) -> tuple[Mark, str]:
    return Mark.QUIET, f"{number_of(record, 'count')} records signed ({cut(text_of(record, 'reason'))})"


def _other(record: Record) -> tuple[Mark, str]:
    return Mark.PLAIN, "a kind of record that this version does not know; --json shows it"


_TELLING: Final[Mapping[str, Callable[[Record], tuple[Mark, str]]]] = {
    "session": _session,
    "egress": _egress,
    "push": _push,
    "token": _token,
    "action": _action,
    "approval": _approval,
    "violation": _violation,
    "config": _config,
    "checkpoint": _checkpoint,
}
