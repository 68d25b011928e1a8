"""What becomes of finished files: they are compressed after a while, and removed when they are too old.

Nothing here touches a file that is written, of another user, or by another name. What cannot be compressed or removed
stays as it is: no record is lost by it.
"""

import contextlib
import gzip
import hashlib
import json
import logging
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, takewhile
from pathlib import Path
from typing import BinaryIO, Final

from gateway.audit.event import GENESIS
from gateway.audit.names import COMPRESSED, LogFile, find_files
from gateway.audit.register import Mark
from gateway.audit.written_file import is_written, lock
from gateway.errors import AuditError

# The lowest level: it takes a quarter of the time of the usual one, and the text shrinks to a fifth all the same.
_LEVEL: Final = 1
# A block of a disk: compressing what is shorter saves nothing.
_SAVES_NOTHING: Final = 4096
# Bytes between two looks whether to go on.
_BLOCK: Final = 1 << 20
# Seconds after which a half-made compressed file is nobody's.
_ABANDONED: Final = 86_400
_HALF_MADE: Final = ".part"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Removal:
    """Files of one chain that are too old: its first ones. `mark` says where the chain goes on, or ends; None when
    that cannot be read."""

    chain: str
    files: tuple[LogFile, ...]
    mark: Mark | None


def old_files(directory: Path, oldest: int, own_chain: str) -> Iterator[Removal]:
    """What was last written before `oldest` (nanoseconds since the epoch), of chains whose process has ended and of
    our own. OSError when the directory cannot be read."""
    if oldest <= 0:
        return
    for chain, group in groupby(find_files(directory), key=lambda file: file.chain):
        files = [file for file in group if file.is_ours]
        old = list(takewhile(lambda file: _is_ours(file.path, oldest), files))
        if old and chain == own_chain:
            old = [file for file in old if not _is_in_use(file)]
        elif old and any(_is_in_use(file) for file in files):
            # The process that writes it also removes its old files, and notes it.
            continue
        if old:
            yield Removal(chain, tuple(old), _mark_behind(old, files))


def remove(removal: Removal) -> None:
    """Removes the files. One that cannot be removed stays, with those behind it."""
    for file in removal.files:
        try:
            _log.info("audit file %s is old enough and is removed", file.path.name)
            file.path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("audit file %s cannot be removed: %s", file.path.name, error.strerror or error)
            return


def compress_finished(directory: Path, before: int, goes_on: Callable[[], bool]) -> None:
    """Compresses the finished files that were last written before a moment (nanoseconds since the epoch), as long as
    `goes_on` says so. OSError when the directory cannot be read."""
    for path in directory.glob(f".*{_HALF_MADE}"):
        with contextlib.suppress(OSError):
            if _is_ours(path, before - _ABANDONED * 10**9):
                path.unlink()
    for file in find_files(directory):
        if not goes_on():
            return
        if not file.is_ours or file.is_compressed or not _is_ours(file.path, before):
            continue
        try:
            _compress(file.path, goes_on)
        except OSError as error:
            _log.warning("audit file %s cannot be compressed: %s", file.path.name, error.strerror or error)


def _compress(path: Path, goes_on: Callable[[], bool]) -> None:
    """The compressed file takes the place of the plain one in one step, once it is on the disk. Until the plain one is
    removed, both are there with the same records, and readers take the plain one."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}{_HALF_MADE}")
    with open(descriptor, "rb") as source:
        facts = os.fstat(descriptor)
        if facts.st_size <= _SAVES_NOTHING or not lock(descriptor) or not path.exists():
            return  # short, or written, or another process was faster
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            with open(os.open(fresh, flags, 0o600), "wb") as target:
                if not _copy(source, target, facts, goes_on) or _size(descriptor) != facts.st_size:
                    return
                os.utime(target.fileno(), ns=(facts.st_atime_ns, facts.st_mtime_ns))
                os.fsync(target.fileno())
            fresh.rename(path.with_name(path.name.removesuffix(".jsonl") + COMPRESSED))
            _bring_to_disk(path.parent)
            path.unlink()
        finally:
            fresh.unlink(missing_ok=True)


def _copy(source: BinaryIO, target: BinaryIO, facts: os.stat_result, goes_on: Callable[[], bool]) -> bool:
    """Whether all of it was copied."""
    with gzip.GzipFile("", "wb", _LEVEL, target, mtime=facts.st_mtime) as packed:
        while block := source.read(_BLOCK):
            if not goes_on():
                return False
            packed.write(block)
    target.flush()
    return True


def _size(descriptor: int) -> int:
    return os.fstat(descriptor).st_size


def _bring_to_disk(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_in_use(file: LogFile) -> bool:
    try:
        return not file.is_compressed and is_written(file.path)
    except FileNotFoundError:
        return False
    except OSError:
        return True  # what cannot be looked at is left alone


def _is_ours(path: Path, oldest: int) -> bool:
    """A file of this user's that was last written before this moment."""
    try:
        facts = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and facts.st_mtime_ns < oldest


def _mark_behind(old: list[LogFile], files: list[LogFile]) -> Mark | None:
    """Where the chain goes on behind the old files: its next file says so; else the last line of the last of them."""
    following = files[len(old) :]
    try:
        with _open((following or old[-1:])[0]) as stream:
            if following:
                record = json.loads(stream.readline())
                return Mark(int(record["seq"]), str(record["prev"]))
            last = b""
            for line in stream:
                last = line
        if not last and len(files) == 1:
            return Mark(0, GENESIS)  # nothing was ever recorded
        return Mark(int(json.loads(last)["seq"]) + 1, hashlib.sha256(last.removesuffix(b"\n")).hexdigest())
    except (OSError, EOFError, ValueError, KeyError, TypeError, AuditError):
        return None


def _open(file: LogFile) -> BinaryIO:
    return gzip.open(file.path) if file.is_compressed else file.path.open("rb")  # type: ignore[return-value]  # as one
