"""Finished files are compressed while others are written, and the end waits for nothing long."""

import os
import threading
from pathlib import Path

import pytest

from gateway.audit import AuditLog, retention
from gateway.audit.tending import STAYS_PLAIN, Tending, is_due
from gateway.review.verify import verify
from tests.fakes.audit_log import event, files_of, write_log

MOMENT = 1_767_323_045_000_000_000


@pytest.fixture(autouse=True)
def short_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of these tests are shorter than those that are worth it."""
    monkeypatch.setattr(retention, "_SAVES_NOTHING", 0)


def settle() -> None:
    for thread in threading.enumerate():
        if thread.name == "audit compression":
            thread.join()


def age(path: Path, seconds: float) -> None:
    moment = MOMENT - int(seconds * 10**9)
    os.utime(path, ns=(moment, moment))


def test_what_is_finished_for_a_while_is_compressed(tmp_path: Path) -> None:
    write_log(tmp_path, 60, max_bytes=5_000)
    files = files_of(tmp_path)
    for path in files:
        age(path, STAYS_PLAIN - 1)
    age(files[1], STAYS_PLAIN + 1)
    tending = Tending(tmp_path / "audit", lambda: MOMENT)
    tending.compress_now_and_then()
    settle()
    assert [path for path in files if not path.exists()] == [files[1]]
    assert verify([tmp_path / "audit"], tmp_path).is_intact
    age(files[0], STAYS_PLAIN + 1)
    tending.compress_now_and_then()
    settle()
    assert files[0].exists(), "it was not yet time"
    tending.stop()


def test_nothing_begins_once_it_is_stopped(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    (path,) = files_of(tmp_path)
    age(path, STAYS_PLAIN + 1)
    tending = Tending(tmp_path / "audit", lambda: MOMENT)
    tending.stop()
    tending.stop()
    tending.compress_now_and_then()
    settle()
    assert path.exists()


def test_a_log_compresses_what_others_left(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    (old,) = files_of(tmp_path)
    os.utime(old, (1, 1 + 10**9))
    log = write_log(tmp_path, 3, closed=False)
    log.keep_days = 10**6
    log.sync()
    settle()
    assert not old.exists()
    log.append(event())
    log.close()
    assert verify([tmp_path / "audit"], tmp_path).is_intact


def test_a_directory_that_has_gone(tmp_path: Path) -> None:
    tending = Tending(tmp_path / "nowhere", lambda: MOMENT)
    tending.compress_now_and_then()
    settle()
    tending.stop()


def test_old_files_are_looked_for_once_an_hour(tmp_path: Path) -> None:
    hour = 3600 * 10**9
    now = 1_767_225_600 * 10**9
    looks = [is_due(tmp_path, now + after) for after in (0, 1, hour - 1, hour, hour + 1, 2 * hour)]
    assert looks == [True, False, False, True, False, True]
    # A clock that was set back is no reason to wait.
    assert is_due(tmp_path, now - 30 * 24 * hour)
    assert (tmp_path / "audit-looked").stat().st_mode & 0o777 == 0o600


def test_what_cannot_be_noted_is_looked_for(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / "audit-looked").symlink_to(victim)
    before = victim.stat().st_mtime_ns
    assert is_due(None, 0)
    assert is_due(tmp_path / "missing", 0)
    assert is_due(tmp_path, 0)
    assert (victim.read_text(), victim.stat().st_mtime_ns) == ("kept", before)


def test_runs_one_after_the_other_look_once(tmp_path: Path) -> None:
    write_log(tmp_path, 3)
    (old,) = files_of(tmp_path)
    os.utime(old, (1, 1))
    for looked_long_ago in (False, True):
        if looked_long_ago:
            os.utime(tmp_path / "audit-looked", (1, 1))
        log = AuditLog(tmp_path / "audit", state=tmp_path)
        log.append(event())
        log.close()
        assert old.exists() is not looked_long_ago
    assert verify([tmp_path / "audit"], tmp_path).is_intact
