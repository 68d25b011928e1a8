"""Log, disk and permissions: as they should be, and damaged."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.audit import AuditEvent, AuditLog, EventKind
from gateway.doctor.findings import Verdict
from gateway.doctor.place import Place
from gateway.doctor.state import look_at_disk, look_at_log, look_at_permissions
from tests.fakes.doctor import only, place_in, verdicts
from tests.source_tree import ROOT


def write_log(place: Place, records: int = 3) -> Path:
    """A log of one process that has ended; its file."""
    place.state.mkdir(mode=0o700, parents=True)
    log = AuditLog(place.audit, state=place.state)
    for number in range(records):
        log.append(AuditEvent(EventKind.CONFIG, {"state": "loaded", "number": number}))
    log.close()
    return log.path


# --- The log --------------------------------------------------------------------------------------


def test_no_log_yet(tmp_path: Path) -> None:
    finding = only(list(look_at_log(place_in(tmp_path), "audit log")))
    assert (finding.verdict, "nothing is recorded" in finding.reason) == (Verdict.OK, True)


def test_a_whole_log(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write_log(place)
    finding = only(list(look_at_log(place, "audit log")))
    assert finding.verdict is Verdict.OK
    assert finding.reason.startswith("intact: 4 records in 1 chains, ")


@pytest.mark.parametrize("damage", ["edit", "cut", "remove"])
def test_a_damaged_log(tmp_path: Path, damage: str) -> None:
    place = place_in(tmp_path)
    path = write_log(place)
    lines = path.read_bytes().splitlines(keepends=True)
    if damage == "edit":
        path.write_bytes(b"".join(lines).replace(b'"number":1', b'"number":7'))
    elif damage == "cut":
        path.write_bytes(b"".join(lines[:2]))
    else:
        path.unlink()
    finding = only(list(look_at_log(place, "audit log")))
    assert finding.verdict is Verdict.FAILED
    assert finding.cure.startswith("agent-gateway review verify")


# --- The disk -------------------------------------------------------------------------------------


def test_room(tmp_path: Path) -> None:
    finding = only(list(look_at_disk(place_in(tmp_path), "disk")))
    assert (finding.verdict, "MiB are free for the audit log in" in finding.reason) == (Verdict.OK, True)


def test_less_room_than_a_file_may_take(tmp_path: Path) -> None:
    place = place_in(tmp_path, "audit: {max_file_mb: 100000}\n")
    free = os.statvfs(tmp_path)
    verdict = Verdict.WARNING if free.f_bavail * free.f_frsize < 100000 << 20 else Verdict.OK
    assert only(list(look_at_disk(place, "disk"))).verdict is verdict


# Mounts a small file system over the argument, then tells what the doctor says of it.
SMALL = """
import subprocess, sys
from pathlib import Path
from gateway.doctor.state import look_at_disk
from tests.fakes.doctor import place_in
folder, options = sys.argv[1:]
Path(folder, "state").mkdir()
subprocess.run(("mount", "-t", "tmpfs", "-o", options, "none", f"{folder}/state"), check=True)
place = place_in(Path(folder))
for finding in look_at_disk(place, "disk"):
    print(finding.verdict.value, finding.reason)
"""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("size=8m", "failed only 8 MiB are free for the audit log in"),
        ("size=200m", "warning only 200 MiB are free for the audit log in"),
        ("size=1g,nr_inodes=100", "failed only 99 more files can be made in"),
        ("size=1g,ro", "failed the file system of"),
        ("size=1g", "ok 1024 MiB are free for the audit log in"),
    ],
)
def test_a_small_disk(tmp_path: Path, options: str, words: str) -> None:
    command = ("unshare", "--map-root-user", "--mount", sys.executable, "-c", SMALL, str(tmp_path), options)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(words), done.stdout


def test_both_where_they_are_apart(tmp_path: Path) -> None:
    place = replace(place_in(tmp_path), audit=Path("/dev/shm/agent-gateway-nowhere"))
    assert len(list(look_at_disk(place, "disk"))) == 2


# --- Permissions ----------------------------------------------------------------------------------


def test_nothing_is_made_yet(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    finding = only(list(look_at_permissions(place, "permissions")))
    assert (finding.verdict, finding.reason) == (Verdict.OK, f"{place.state} is not made yet")


def test_as_they_are_made(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write_log(place)
    finding = only(list(look_at_permissions(place, "permissions")))
    assert finding.verdict is Verdict.OK
    assert str(place.audit) in finding.reason


@pytest.mark.parametrize(
    ("mode", "verdict"),
    [(0o700, Verdict.OK), (0o750, Verdict.WARNING), (0o770, Verdict.FAILED), (0o1777, Verdict.FAILED)],
)
def test_wider_ones(tmp_path: Path, mode: int, verdict: Verdict) -> None:
    place = place_in(tmp_path)
    write_log(place)
    place.state.chmod(mode)
    found = list(look_at_permissions(place, "permissions"))
    assert verdicts(found) == [verdict]
    if verdict is not Verdict.OK:
        assert found[0].cure == f"chmod 700 {place.state}"


def test_a_key_that_others_can_read(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    write_log(place)
    (place.state / "audit-key").chmod(0o644)
    finding = only(list(look_at_permissions(place, "permissions")))
    assert (finding.verdict, finding.cure) == (Verdict.WARNING, f"chmod 600 {place.state}/audit-key")


def test_a_link_in_its_place(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    place.state.parent.mkdir()
    place.state.symlink_to(tmp_path)
    assert Verdict.WARNING in verdicts(list(look_at_permissions(place, "permissions")))


def test_somebody_elses(tmp_path: Path) -> None:
    place = place_in(tmp_path)
    if os.geteuid() == 0:  # nobody else can give a directory away
        place.state.mkdir(mode=0o700, parents=True)
        os.chown(place.state, 65534, 65534)
    else:
        place = replace(place, state=Path("/usr"))
    finding = only(list(look_at_permissions(place, "permissions")))
    assert (finding.verdict, finding.cure) == (Verdict.FAILED, f"chown {os.geteuid()} {place.state}")
