"""Signed audit logs as a run leaves them, for those who read or spoil them."""

from collections.abc import Iterable
from pathlib import Path

from gateway.audit import AuditEvent, AuditLog, EventKind, Reason


def write_log(
    place: Path,
    records: int = 10,
    *,
    max_bytes: int = 256 << 20,
    sessions: Iterable[int] = (),
    closed: bool = True,
) -> AuditLog:
    """A log of so many records in `place/audit`, its key and register in `place`. Behind the records whose numbers are
    in `sessions` stands a checkpoint, as at the end of a session."""
    (place / "audit-looked").unlink(missing_ok=True)  # the last look for old files was long ago
    log = AuditLog(place / "audit", state=place, max_bytes=max_bytes)
    log.prepare()
    ends = frozenset(sessions)
    for number in range(records):
        log.append(event(number))
        if number in ends:
            log.checkpoint(Reason.SESSION)
    if closed:
        log.close()
    return log


def event(number: int = 0) -> AuditEvent:
    """A record like those of the door."""
    fields = {
        "connection": f"c{number}",
        "state": "opened",
        "host": "a.test",
        "port": 443,
        "verdict": "allow",
    }
    return AuditEvent(EventKind.EGRESS, fields)


def files_of(place: Path) -> list[Path]:
    """The log's files, in order."""
    return sorted((place / "audit").iterdir(), key=lambda path: path.name.split("-", 1)[1])


def read_lines(path: Path) -> list[bytes]:
    """The lines of a file, which ends with one."""
    data = path.read_bytes()
    assert data.endswith(b"\n")
    return data.split(b"\n")[:-1]


def write_lines(path: Path, lines: Iterable[bytes]) -> None:
    """Puts them in the place of what is there."""
    path.write_bytes(b"".join(line + b"\n" for line in lines))
