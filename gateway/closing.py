"""The line that a run ends with: what went out, what was refused, which hosts are new, and where the log is.

Which hosts were ever reached is kept beside the log, so that the end of a run does not read all of it. That file is a
convenience: `review --new-since` asks the log itself.
"""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.audit.names import LogFile, find_files, named
from gateway.authorizer import Counts
from gateway.errors import GatewayError
from gateway.policy.wording import printable
from gateway.push_authorizer import PushCounts
from gateway.review.files import count_bytes, iter_lines
from gateway.review.records import DamagedLine, parse_line, text_of

# Bytes of logs that are read at most at the end of a run: nobody waits for it.
_BUDGET: Final = 16 << 20
# Bytes of the file of hosts: 30,000 of them; a name more is forgotten.
_MAX_KNOWN: Final = 1 << 20
_KNOWN: Final = "known-hosts"
_HOST: Final = re.compile(r"[a-z0-9._:-]{1,253}")
# New hosts that the line names; it stays one line.
_NAMED: Final = 3


def closing_line(
    connections: Counts, pushes: PushCounts, violations: int, news: Sequence[str], log: Path
) -> str:
    """The line, with the new hosts if there are any."""
    parts = [
        f"{connections.allowed} connections allowed, {connections.denied} denied",
        f"{pushes.forwarded} pushes forwarded, {pushes.refused} refused",
        f"{violations} violations",
        *([_news(news)] if news else []),
        f"log: {log}",
    ]
    return f"agent-gateway: {'; '.join(parts)}"


def ungoverned_line(log: Path) -> str:
    """The line of a person's own shell."""
    return f"agent-gateway: connections and pushes of a terminal are not governed, so not counted; log: {log}"


def _news(news: Sequence[str]) -> str:
    names = ", ".join(printable(host) for host in news[:_NAMED])
    more = f" and {len(news) - _NAMED} more" if len(news) > _NAMED else ""
    return f"{len(news)} new host{'s' if len(news) > 1 else ''}: {names}{more}"


def note_hosts(log: Path, session: str, state: Path) -> tuple[str, ...]:
    """The hosts that this session reached and none before it, as far as the state directory knows; remembers them.

    `log` is the file that was written last. Empty for the first session of all, and where there is more to read than
    anybody would wait for, or something that cannot be read.
    """
    with suppress(GatewayError, OSError):
        own = named(log)
        ours = (name for name in os.listdir(log.parent) if f"-{own.chain}-" in name)
        begun = min((name[: len(own.started)] for name in ours), default=own.started)
        reached = _hosts(find_files(log.parent, begun), session)
        known, is_first = _known(
            state, lambda: [file for file in find_files(log.parent) if file.started < begun]
        )
        fresh = sorted(reached - known)
        _remember(state, fresh if not is_first else sorted(reached | known))
        if known or not is_first:
            return tuple(fresh)
    return ()


def _hosts(files: Sequence[LogFile], session: str = "") -> set[str]:
    """The hosts that were allowed, of one session or of all; GatewayError where it would take too long."""
    if count_bytes(tuple(files)) > _BUDGET:
        raise GatewayError("there is too much to read")
    found: set[str] = set()
    for file in files:
        for line in iter_lines(file):
            if b'"event":"egress"' not in line or b'"verdict":"allow"' not in line:
                continue
            with suppress(DamagedLine):
                record = parse_line(line)
                host = text_of(record, "host")
                if session in ("", record.get("session")) and _HOST.fullmatch(host):
                    found.add(host)
    return found


def _known(state: Path, earlier: Callable[[], Sequence[LogFile]]) -> tuple[set[str], bool]:
    """The hosts that are remembered, and whether there was nothing to remember them in; then the newest earlier logs
    say which there were: `earlier` looks for them, which takes its time where there are many."""
    try:
        descriptor = os.open(state / _KNOWN, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        newest = sorted(earlier(), key=lambda file: file.started, reverse=True)
        while newest and count_bytes(tuple(newest)) > _BUDGET:
            newest.pop()
        return _hosts(newest), True
    with open(descriptor, "rb") as file:
        words = file.read(_MAX_KNOWN).decode("ascii", "replace").split("\n")
    return {word for word in words if _HOST.fullmatch(word)}, False


def _remember(state: Path, hosts: Iterable[str]) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(state / _KNOWN, flags, 0o600), "ab") as file:
        room = _MAX_KNOWN - file.tell()
        data = "".join(f"{host}\n" for host in hosts).encode()
        if len(data) <= room:
            file.write(data)
