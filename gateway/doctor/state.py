"""Checks of what the product keeps: the log's integrity, room on the disk, who may read and write."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.audit.signing import KEY_NAME
from gateway.doctor.findings import Finding, failed, ok, warning
from gateway.doctor.place import Place
from gateway.review.verify import verify

# Bytes of room without which records will soon be refused, and with them everything they are about.
_TOO_LITTLE: Final = 64 << 20
# Files that can still be made: a run makes about ten.
_FEW_FILES: Final = 1000


def look_at_log(place: Place, name: str) -> Iterator[Finding]:
    """Whether the log is what was written."""
    report = verify([place.audit], place.state, must_exist=False)
    if report.problems:
        more = f" (and {len(report.problems) - 1} more)" if len(report.problems) > 1 else ""
        cure = (
            "agent-gateway review verify names them all; keep the files as they are until somebody has looked"
        )
        yield failed(name, f"{report.problems[0]}{more}", cure)
        return
    records = sum(chain.records for chain in report.chains)
    unsigned = sum(chain.unsigned for chain in report.chains)
    if not records:
        yield ok(name, f"nothing is recorded in {place.audit} yet")
        return
    killed = sum(chain.state == "ended" for chain in report.chains)
    left = f"; {killed} ended without a close (killed, say)" if killed else ""
    yield ok(
        name,
        f"intact: {records} records in {len(report.chains)} chains, {records - unsigned} of them signed{left}",
    )


def look_at_disk(place: Place, name: str) -> Iterator[Finding]:
    """Room where the log and the state are: a record that cannot be written is a denial."""
    seen: set[int] = set()
    for what, folder in (("audit log", place.audit), ("state directory", place.state)):
        there = _existing(folder)
        device = os.stat(there).st_dev
        if device not in seen:
            seen.add(device)
            yield _room(place, name, what, there)


def _room(place: Place, name: str, what: str, folder: Path) -> Finding:
    found = os.statvfs(folder)
    free, wanted = found.f_bavail * found.f_frsize, place.config.audit.max_file_mb << 20
    shown = f"{free >> 20} MiB are free for the {what} in {folder}"
    cure = f"free some; audit.keep_days ({place.config.audit.keep_days}) and audit.max_file_mb say how much is kept"
    if found.f_flag & os.ST_RDONLY:
        return failed(
            name,
            f"the file system of {folder}, for the {what}, is read-only",
            "remount it, or audit.directory",
        )
    if free < _TOO_LITTLE:
        return failed(name, f"only {shown}: without room for records everything is refused", cure)
    if found.f_files and found.f_favail < _FEW_FILES:
        return failed(name, f"only {found.f_favail} more files can be made in {folder}, for the {what}", cure)
    if free < wanted:
        return warning(name, f"only {shown}, less than one file of the log may take", cure)
    return ok(name, shown)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    return next((one for one in (folder, *folder.parents) if one.is_dir()), Path("/"))


def look_at_permissions(place: Place, name: str) -> Iterator[Finding]:
    """What holds logins, records and the signing key belongs to this user alone."""
    folders = dict.fromkeys((place.state, place.audit, place.sockets))
    key = place.state / KEY_NAME
    found = [one for path in (*folders, key) if (one := _owner_alone(path, name)) is not None]
    yield from found
    if not found:
        there = [str(path) for path in (*folders, key) if path.exists()]
        yield ok(
            name, f"this user's alone: {', '.join(there)}" if there else f"{place.state} is not made yet"
        )


def _owner_alone(path: Path, name: str) -> Finding | None:
    """What is wrong with one; None where nothing is, or nothing is there."""
    try:
        about = path.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return failed(name, f"{path} cannot be looked at: {error.strerror or error}", f"ls -ld {path}")
    mode = "700" if stat.S_ISDIR(about.st_mode) else "600"
    if stat.S_ISLNK(about.st_mode):
        return warning(name, f"{path} is a link: what it leads to is not looked at", f"ls -ld {path}")
    if about.st_uid != os.geteuid():
        return failed(name, f"{path} belongs to user {about.st_uid}", f"chown {os.geteuid()} {path}")
    others = stat.S_IMODE(about.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    if others & (stat.S_IWGRP | stat.S_IWOTH):
        return failed(
            name, f"others may write {path} (mode {stat.S_IMODE(about.st_mode):04o})", f"chmod {mode} {path}"
        )
    if others:
        return warning(
            name,
            f"others may look into {path} (mode {stat.S_IMODE(about.st_mode):04o})",
            f"chmod {mode} {path}",
        )
    return None
