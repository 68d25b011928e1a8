"""Where signed checkpoints stand, what they say, and that a log which cannot be signed says so."""

import hashlib
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.audit import AuditLog, Reason
from gateway.audit.register import FOLDER, State
from gateway.audit.sealing import EVERY, ROOM
from gateway.audit.signing import KEY_NAME, Keys, Signed
from gateway.errors import AuditError
from gateway.lifecycle import SessionRequest, close_session, open_session
from gateway.review.verify import verify
from gateway.session import SandboxStamp, Sessions
from tests.fakes.audit_log import event, files_of, read_lines, write_log
from tests.fakes.rules import rules_for
from tests.source_tree import ROOT


def checkpoints(place: Path) -> list[tuple[int, int, str]]:
    """File, number and reason of each, every one of them checked."""
    keys = Keys.read([place / KEY_NAME])
    found, before = [], b""
    for index, path in enumerate(files_of(place)):
        for line in read_lines(path):
            record = json.loads(line)
            if record["event"] == "checkpoint":
                assert keys.check(line) is Signed.GOOD
                assert record["head"] == record["prev"] == hashlib.sha256(before).hexdigest()
                assert record["count"] == record["seq"]
                assert record["chain"] in path.name
                assert len(line) < ROOM
                found.append((index, record["seq"], record["reason"]))
            before = line
    return found


def entry(place: Path) -> dict[str, Any]:
    """What the register says of the one chain there is."""
    (path,) = (place / FOLDER).iterdir()
    fields: dict[str, Any] = json.loads(path.read_text())
    return fields


def test_at_the_end(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    assert checkpoints(tmp_path) == [(0, 3, "close")]
    assert entry(tmp_path)["tip"]["count"] == 4
    assert entry(tmp_path)["state"] == "closed"


def test_a_line_word_for_word(tmp_path: Path) -> None:
    moment = 1_767_323_045_000_006_789
    log = AuditLog(tmp_path / "audit", state=tmp_path, clock=lambda: moment)
    log.append(event())
    log.close()
    first, last = read_lines(log.path)
    head = hashlib.sha256(first).hexdigest()
    chain = "-".join(log.path.stem.split("-")[1:3])
    key = Keys.read([tmp_path / KEY_NAME]).ids[0]
    assert last.startswith(
        f'{{"v":1,"ts":"2026-01-02T03:04:05.000006Z","seq":1,"prev":"{head}","session":null,"workspace":null,'
        f'"space":null,"agent":null,"sandbox":null,"event":"checkpoint","chain":"{chain}","head":"{head}","count":1,'
        f'"reason":"close","key":"{key}","signature":"'.encode()
    )


def test_every_so_many_records(tmp_path: Path) -> None:
    write_log(tmp_path, 2 * EVERY + 1)
    assert checkpoints(tmp_path) == [
        (0, EVERY, "count"),
        (0, 2 * EVERY + 1, "count"),
        (0, 2 * EVERY + 3, "close"),
    ]


def test_at_the_end_of_each_file(tmp_path: Path) -> None:
    write_log(tmp_path, 60, max_bytes=5_000)
    files = files_of(tmp_path)
    reasons = [(index, reason) for index, _, reason in checkpoints(tmp_path)]
    assert reasons == [
        *((index, "rotation") for index in range(len(files) - 1)),
        (len(files) - 1, "close"),
    ]
    assert max(path.stat().st_size for path in files) <= 5_000
    assert all(b'"reason":"rotation"' in read_lines(path)[-1] for path in files[:-1])


def test_at_the_end_of_a_session(tmp_path: Path) -> None:
    log, sessions = AuditLog(tmp_path / "audit", state=tmp_path), Sessions()
    request = SessionRequest("s1", rules_for(), SandboxStamp("native", "create-time"), "geheim")
    session = open_session(request, sessions, log)
    close_session(session, sessions, log)
    assert checkpoints(tmp_path) == [(0, 2, "session")]
    assert json.loads(read_lines(log.path)[-1])["session"] == session.id
    log.close()
    assert checkpoints(tmp_path)[1:] == [(0, 3, "close")]


def test_nothing_is_signed_twice(tmp_path: Path) -> None:
    log = write_log(tmp_path, 3, closed=False)
    for _ in range(3):
        log.checkpoint(Reason.SESSION)
    assert checkpoints(tmp_path) == [(0, 3, "session")]
    log.close()
    log.close()
    assert checkpoints(tmp_path)[1:] == [(0, 4, "close")]


def test_an_empty_log_has_none(tmp_path: Path) -> None:
    log = write_log(tmp_path, 0)
    assert log.path.read_bytes() == b""
    assert entry(tmp_path)["tip"]["count"] == 0


def test_a_log_without_a_place_for_the_key_has_none(tmp_path: Path) -> None:
    log = AuditLog(tmp_path)
    log.prepare()
    log.append(event())
    log.checkpoint(Reason.SESSION)
    log.close()
    assert len(read_lines(log.path)) == 1


def test_the_register_follows_the_log(tmp_path: Path) -> None:
    log = write_log(tmp_path, 3, closed=False)
    assert entry(tmp_path)["tip"]["count"] == 0
    log.sync()
    assert (entry(tmp_path)["tip"]["count"], entry(tmp_path)["state"]) == (3, State.OPEN)
    assert entry(tmp_path)["tip"]["head"] == hashlib.sha256(read_lines(log.path)[-1]).hexdigest()
    log.close()


def test_a_register_that_cannot_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once, and records are taken on; once it can be written again, that is said too."""
    log = write_log(tmp_path, 3, closed=False)
    (tmp_path / FOLDER).rename(tmp_path / "away")
    (tmp_path / FOLDER).write_text("")
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            log.append(event())
            log.sync()
        assert caplog.text.count("cannot be written") == 1
        (tmp_path / FOLDER).unlink()
        (tmp_path / "away").rename(tmp_path / FOLDER)
        log.sync()
    assert "can be written again" in caplog.text
    assert entry(tmp_path)["tip"]["count"] == 6
    log.close()


def test_a_key_that_is_not_ours_alone(tmp_path: Path) -> None:
    write_log(tmp_path, 1)
    (tmp_path / KEY_NAME).chmod(0o644)
    log = AuditLog(tmp_path / "audit", state=tmp_path)
    with pytest.raises(AuditError, match="not this user's alone"):
        log.prepare()
    log.close()


def test_what_was_promised_is_taken_with_checkpoints_between(tmp_path: Path) -> None:
    """A checkpoint takes no room that a record was promised."""
    log = write_log(tmp_path, EVERY - 1, closed=False)
    promised = log.reserve()
    for number in range(5):
        log.append(event(number))
    if promised:
        log.release()
    log.append(event())
    log.close()
    assert verify([tmp_path / "audit"], tmp_path).is_intact


_FULL = """
import logging, os, sys
from pathlib import Path
from gateway.audit import Reason
from gateway.authorizer import Authorizer
from gateway.errors import AuditError
from gateway.policy.egress import Transport
from gateway.review.verify import verify
from gateway.session import SandboxStamp, Session
from tests.fakes.audit_log import event, write_log
from tests.fakes.rules import rules_for
place = Path(sys.argv[1])
logging.basicConfig(level=logging.WARNING)
ballast = place / "ballast"
ballast.write_bytes(b"x" * 600_000)
log = write_log(place, 0, closed=False, max_bytes=100_000)
taken = refused = 0
while refused < 3:
    try:
        log.append(event(taken))
        taken += 1
    except AuditError as error:
        print(error)
        refused += 1
        assert log.path.read_bytes().endswith(b"}\\n")
try:
    log.checkpoint(Reason.SESSION)
except AuditError as error:
    print("checkpoint:", error)
session = Session("s1", SandboxStamp("native", "create-time"), rules_for(), "geheim")
door = Authorizer(log, lambda: 0.0)
for _ in range(3):
    assert not door.open(door.attempt(session, Transport.CONNECT, "a.test", 443)).allowed
before = verify([place / "audit"], place)
ballast.unlink()
assert door.open(door.attempt(session, Transport.CONNECT, "a.test", 443)).allowed
taken += 1
for number in range(1000):
    log.append(event(number))
log.close()
after = verify([place / "audit"], place)
print(before.as_text())
print(after.as_text())
lines = b"".join(path.read_bytes() for path in (place / "audit").iterdir())
assert lines.count(b'"event":"egress"') == taken + 1000
sys.exit(0 if before.is_intact and after.is_intact and taken > 500 else 1)
"""


def test_a_full_disk_refuses_and_recovers(tmp_path: Path) -> None:
    """A real one, of a megabyte: what was not taken is not there, what was taken is, and the chain goes on."""
    command = (
        "bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--size", "1048576", "--tmpfs", str(tmp_path),
        "--chdir", str(ROOT), "--", sys.executable, "-c", _FULL, str(tmp_path),
    )  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "half a record" in done.stdout or "No space left" in done.stdout
    assert done.stderr.count("records are lost, and every connection is refused meanwhile") == 1
    assert "the audit log takes records again; 3 were lost" in done.stderr


_READ_ONLY = """
import sys
from pathlib import Path
from gateway.audit import AuditLog
from gateway.errors import AuditError
from tests.fakes.audit_log import event
try:
    AuditLog(Path(sys.argv[1]) / "audit", state=Path(sys.argv[1]))
except AuditError as error:
    print(error)
    sys.exit(7)
"""


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    command = (
        "bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--chdir", str(ROOT), "--",
        sys.executable, "-c", _READ_ONLY, str(tmp_path),
    )  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
    assert "cannot be written" in done.stdout
    assert "Read-only file system" in done.stdout
    assert verify([tmp_path / "audit"], tmp_path).is_intact
