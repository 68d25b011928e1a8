"""One file: where it starts and ends, how far it is signed, and what was asked for on the way."""

import hashlib
from pathlib import Path

import pytest

from gateway.audit import GENESIS, EventKind
from gateway.audit.names import named
from gateway.audit.register import Mark
from gateway.audit.signing import KEY_NAME, Keys, Signer
from gateway.review.findings import ProblemKind
from gateway.review.scan import Scan, scan_file
from tests.fakes.audit_log import files_of, read_lines, write_lines, write_log


def scan(place: Path, path: Path, *wanted: int) -> Scan:
    return scan_file(named(path), frozenset(wanted), Keys.read([place / KEY_NAME]).raw)


def test_a_whole_file(tmp_path: Path) -> None:
    log = write_log(tmp_path, 5, sessions=[2])
    lines = read_lines(log.path)
    found = scan(tmp_path, log.path, 0, 3, 7, 99)
    assert (found.lines, found.signed, found.is_closed, found.half) == (7, 7, True, 0)
    assert found.start == Mark(0, GENESIS)
    assert found.tip == Mark(7, hashlib.sha256(lines[-1]).hexdigest())
    assert found.heads == {seq: hashlib.sha256(lines[seq - 1]).hexdigest() for seq in (3, 7)}
    assert found.claims in log.path.name
    assert found.problems == []


def test_a_file_in_the_middle(tmp_path: Path) -> None:
    write_log(tmp_path, 60, max_bytes=5_000)
    first, second = files_of(tmp_path)[:2]
    assert scan(tmp_path, first).tip == scan(tmp_path, second).start
    assert not scan(tmp_path, second).is_closed


def test_an_empty_file(tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    path = tmp_path / "audit" / "empty.jsonl"
    path.write_bytes(b"")
    found = scan(tmp_path, path)
    assert (found.lines, found.start, found.tip, found.half) == (0, None, None, 0)


def test_half_a_line(tmp_path: Path) -> None:
    log = write_log(tmp_path, 3)
    with log.path.open("ab") as file:
        file.write(b"half")
    assert (scan(tmp_path, log.path).half, scan(tmp_path, log.path).lines) == (4, 4)


def test_a_field_that_looks_like_a_checkpoint(tmp_path: Path) -> None:
    from gateway.audit import AuditEvent, AuditLog

    log = AuditLog(tmp_path / "audit", state=tmp_path)
    log.prepare()
    # `event` deep inside a record is not the record's own.
    deep = {"event": "checkpoint", "chain": "x", "head": "x", "count": 1, "reason": "close"}
    log.append(AuditEvent(EventKind.ACTION, {"arguments": deep}))
    log.append(
        AuditEvent(
            EventKind.ACTION, {"arguments": deep, "chain": "c", "head": "h", "count": 1, "reason": "close"}
        )
    )
    log.close()
    found = scan(tmp_path, log.path)
    assert found.problems == []
    assert found.lines == 3


@pytest.mark.parametrize("where", ["first", "last"])
def test_a_broken_file_has_ends_all_the_same(tmp_path: Path, where: str) -> None:
    log = write_log(tmp_path, 9)
    lines = read_lines(log.path)
    write_lines(
        log.path, [line.replace(b"a.test", b"b.test") if n == 4 else line for n, line in enumerate(lines)]
    )
    found = scan(tmp_path, log.path)
    assert [(one.kind, one.line) for one in found.problems] == [(ProblemKind.EDITED, 5)]
    assert (found.lines, found.signed, found.is_closed) == (10, 10, True)
    assert found.start == Mark(0, GENESIS)
    assert found.tip == Mark(10, hashlib.sha256(lines[-1]).hexdigest())


def test_foreign_signatures_are_named_once(tmp_path: Path) -> None:
    log = write_log(tmp_path, 9, sessions=[2, 5])
    Signer(tmp_path / "other").prepare()
    found = scan(tmp_path / "other", log.path)
    assert [(one.kind, one.line) for one in found.problems] == [(ProblemKind.FOREIGN_KEY, 4)]
    assert found.signed == 0
