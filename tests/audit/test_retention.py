"""Finished files are compressed or removed whole, in order, and never one that is written."""

import fcntl
import gzip
import hashlib
import logging
import os
import resource
from pathlib import Path

import pytest

from gateway.audit import retention
from gateway.audit.names import named
from gateway.audit.register import Mark
from gateway.audit.retention import Removal, compress_finished, old_files, remove
from gateway.review.verify import verify
from tests.fakes.audit_log import event, files_of, read_lines, write_log

LATER = 2**62


@pytest.fixture(autouse=True)
def short_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of these tests are shorter than those that are worth it."""
    monkeypatch.setattr(retention, "_SAVES_NOTHING", 0)


def always() -> bool:
    return True


def never() -> bool:
    return False


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Several files of a chain whose process has ended."""
    write_log(tmp_path, 60, max_bytes=5_000)
    return tmp_path


def age(*paths: Path) -> None:
    for path in paths:
        os.utime(path, (1, 1))


def removals(place: Path, own: str = "") -> list[Removal]:
    return list(old_files(place / "audit", 10**15, own))


# --- Removing -------------------------------------------------------------------------------------


def test_the_first_files_of_a_chain(place: Path) -> None:
    files = files_of(place)
    age(files[0], files[1], files[3])
    (removal,) = removals(place)
    assert [file.path for file in removal.files] == files[:2]
    seq = sum(len(read_lines(path)) for path in files[:2])
    assert removal.mark == Mark(seq, hashlib.sha256(read_lines(files[1])[-1]).hexdigest())
    remove(removal)
    assert files_of(place) == files[2:]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_whole_chain(place: Path, compressed: bool) -> None:
    age(*files_of(place))
    if compressed:
        compress_finished(place / "audit", LATER, always)
    (removal,) = removals(place)
    assert len(removal.files) == len(files_of(place))
    assert removal.mark is not None
    assert removal.mark.count == verify([place / "audit"], place).chains[0].records
    remove(removal)
    assert files_of(place) == []


def test_nothing_old(place: Path) -> None:
    age(*files_of(place)[1:])
    assert removals(place) == []


def test_a_chain_that_is_written_is_its_own_process_s(place: Path) -> None:
    log = write_log(place, 60, max_bytes=5_000, closed=False)
    log.sync()
    age(*place.joinpath("audit").iterdir())
    chain = named(log.path).chain
    assert [removal.chain == chain for removal in removals(place)] == [False]
    own = next(removal for removal in removals(place, chain) if removal.chain == chain)
    assert log.path not in [file.path for file in own.files]
    log.append(event())
    log.close()


def test_a_mark_that_cannot_be_read(place: Path) -> None:
    files = files_of(place)
    age(files[0])
    files[1].write_text("rubbish\n")
    assert removals(place)[0].mark is None


def test_what_cannot_be_removed_stays(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = place / "audit" / "20250101T000000Z-1-0123abcd-0000.jsonl"
    folder.mkdir()
    with caplog.at_level(logging.WARNING):
        remove(Removal("1-0123abcd", (named(folder), named(files_of(place)[0])), None))
    assert "cannot be removed" in caplog.text
    assert folder.exists()


# --- Compressing ----------------------------------------------------------------------------------


def test_finished_files_are_compressed(place: Path) -> None:
    files = files_of(place)
    age(*files)
    data = [path.read_bytes() for path in files]
    compress_finished(place / "audit", LATER, always)
    packed = files_of(place)
    assert [path.name for path in packed] == [f"{path.name}.gz" for path in files]
    assert [gzip.decompress(path.read_bytes()) for path in packed] == data
    assert {path.stat().st_mode & 0o777 for path in packed} == {0o600}
    assert {path.stat().st_mtime for path in packed} == {1.0}
    assert verify([place / "audit"], place).is_intact
    compress_finished(place / "audit", LATER, always)
    assert files_of(place) == packed


def test_what_is_not_compressed(place: Path) -> None:
    files = files_of(place)
    other = place / "audit" / "copy.jsonl"
    other.write_bytes(files[0].read_bytes())
    log = write_log(place, 3, closed=False)
    compress_finished(place / "audit", 0, always)
    compress_finished(place / "audit", LATER, never)
    assert not list(place.glob("audit/*.gz"))
    with files[0].open("rb") as reader:
        fcntl.flock(reader, fcntl.LOCK_EX)
        compress_finished(place / "audit", LATER, always)
    assert files[0].exists()
    assert log.path.exists()
    assert other.exists()
    assert not files[1].exists()
    log.append(event())
    log.close()


def test_short_files_stay_plain(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_SAVES_NOTHING", 4096)
    sizes = {path.name: path.stat().st_size for path in files_of(place)}
    compress_finished(place / "audit", LATER, always)
    left = {path.name for path in files_of(place) if path.suffix == ".jsonl"}
    assert left == {name for name, size in sizes.items() if size <= 4096}


def test_compressing_that_is_broken_off(place: Path) -> None:
    """Half a file never stands under a name that is read."""
    files = files_of(place)
    words = iter([True, True, False])
    compress_finished(place / "audit", LATER, lambda: next(words, False))
    assert [path for path in files_of(place) if path.suffix == ".gz"] != files
    assert not list(place.glob("audit/.*"))
    assert verify([place / "audit"], place).is_intact


def test_what_a_crash_left(place: Path) -> None:
    """Between the two steps both files are there; the next one takes the plain one, and a half-made file goes."""
    files = files_of(place)
    gz = files[0].with_name(files[0].name + ".gz")
    gz.write_bytes(gzip.compress(files[0].read_bytes()))
    half = place / "audit" / ".x.jsonl.0123abcd.part"
    half.write_bytes(b"half")
    age(*files, half)
    assert verify([place / "audit"], place).is_intact
    compress_finished(place / "audit", 200_000 * 10**9, always)
    assert not files[0].exists()
    assert not half.exists()
    assert verify([place / "audit"], place).is_intact


def test_a_full_disk_loses_nothing(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    files = files_of(place)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        compress_finished(place / "audit", LATER, always)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files_of(place) == files
    assert not list(place.glob("audit/.*"))
    assert "cannot be compressed" in caplog.text
