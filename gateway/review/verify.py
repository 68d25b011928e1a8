"""Whether an audit log is what was written: every line, every file, every signature, and the register beside it.

What it proves, it proves against whoever can write the log, but has not the key. Who has the key can write it anew.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from gateway.audit.names import LogFile
from gateway.audit.register import Entry, Register
from gateway.audit.signing import KEY_NAME, Keys
from gateway.review.files import chains as find_chains
from gateway.review.files import count_bytes
from gateway.review.findings import ChainReport, Problem, ProblemKind, Report
from gateway.review.linking import Chain, gone, judge_entry, link
from gateway.review.scan import Scan, scan_file

# Bytes from which on further processes are worth their start.
_WORTH_IT: Final = 32 << 20

# How much shorter a compressed file is, about: what counts is the text.
_SHRUNK: Final = 5
# macOS has system libraries that do not survive a fork.
_METHOD: Final = "fork" if sys.platform == "linux" else "spawn"

type Progress = Callable[[int, int], None]


def verify(
    places: Sequence[Path],
    state: Path,
    key_files: Sequence[Path] = (),
    progress: Progress = lambda done, total: None,
    *,
    processes: int = 1,
    must_exist: bool = True,
) -> Report:
    """Verifies directories and single files against the key and the register in `state`, and further keys.

    `progress` hears the bytes done and all bytes, again and again. Where there is much to read, so many `processes` do
    it: copies of this one, which then must have no other threads. UnreadableFile for a place that is not there
    (where it must exist), AuditError for a key file that holds no key.
    """
    own = (state / KEY_NAME,) if (state / KEY_NAME).exists() else ()
    keys = Keys.read((*own, *key_files))
    register = Register(state)
    # Before the files, which only grow: so no entry is ahead of its files.
    believed, problems = _entries(register, keys)
    found = find_chains(
        *(place for place in places if place.exists() or (must_exist and not _is_known(place, believed)))
    )
    scans = _scan_all(found, believed, keys, progress, processes)
    directories = {str(place.resolve()) for place in places if place.is_dir() or not place.exists()}
    reports: list[ChainReport] = []
    notes: list[str] = []
    for chain in _chains(found, scans, register, keys, believed, directories):
        report, wrong, told = link(chain)
        reports.append(report)
        problems += wrong
        notes += told
    problems += _gone(believed, found, scans, register, keys, directories)
    problems += _twice(scans)
    return Report(tuple(reports), tuple(problems), tuple(notes), keys.ids)


def _entries(register: Register, keys: Keys) -> tuple[dict[str, Entry], list[Problem]]:
    """The register's entries that may be believed, and what is wrong with the others."""
    believed: dict[str, Entry] = {}
    problems: list[Problem] = []
    for name in register.chains():
        entry, problem = judge_entry(register.read(name, keys))
        if entry is not None:
            believed[name] = entry
        if problem is not None:
            problems.append(problem)
    return believed, problems


def _is_known(place: Path, believed: Mapping[str, Entry]) -> bool:
    """Whether the register speaks of this directory, which is not there: then that is what is to be told."""
    return any(entry.directory == str(place.resolve()) for entry in believed.values())


def _scan_all(
    found: Mapping[str, Sequence[LogFile]],
    believed: Mapping[str, Entry],
    keys: Keys,
    progress: Progress,
    processes: int,
) -> dict[str, list[Scan]]:
    """Every file's scan, by chain and in order; by several processes where there is much to read."""
    jobs = [
        (file, frozenset({believed[chain].tip.count} if chain in believed else ()))
        for chain, files in found.items()
        for file in files
    ]
    sizes = {file: count_bytes((file,)) * (_SHRUNK if file.is_compressed else 1) for file, _ in jobs}
    total, done = sum(sizes.values()), 0
    scans: dict[LogFile, Scan] = {}
    if total < _WORTH_IT or min(processes, len(jobs)) < 2:
        for file, wanted in jobs:
            scans[file] = scan_file(file, wanted, keys.raw)
            done += sizes[file]
            progress(done, total)
    else:
        # The longest first, so that no process is left alone with one at the end.
        jobs.sort(key=lambda job: sizes[job[0]], reverse=True)
        with ProcessPoolExecutor(min(processes, len(jobs)), get_context(_METHOD)) as pool:
            running = {pool.submit(scan_file, file, wanted, keys.raw): file for file, wanted in jobs}
            for future in as_completed(running):
                scans[running[future]] = future.result()
                done += sizes[running[future]]
                progress(done, total)
    return {chain: [scans[file] for file in files] for chain, files in found.items()}


def _chains(
    found: Mapping[str, Sequence[LogFile]],
    scans: Mapping[str, Sequence[Scan]],
    register: Register,
    keys: Keys,
    believed: Mapping[str, Entry],
    directories: set[str],
) -> Iterator[Chain]:
    for name, files in found.items():
        # A file by another name says in its checkpoints whose it is.
        real = name if files[0].is_ours else scans[name][0].claims or name
        entry = believed.get(real)
        if entry is not None:
            entry = _with_removals(entry, register, keys)
        is_whole = all(str(file.path.resolve().parent) in directories for file in files)
        yield Chain(name, scans[name], entry, is_whole)


def _with_removals(entry: Entry, register: Register, keys: Keys) -> Entry:
    """The entry as it was, but with what retention removed since."""
    now, _ = judge_entry(register.read(entry.chain, keys))
    return entry if now is None else Entry(entry.chain, entry.directory, entry.tip, entry.state, now.removed)


def _gone(
    believed: Mapping[str, Entry],
    found: Mapping[str, Sequence[LogFile]],
    scans: Mapping[str, Sequence[Scan]],
    register: Register,
    keys: Keys,
    directories: set[str],
) -> Iterator[Problem]:
    """Chains of these directories that are in the register and nowhere else."""
    there = {*found, *(scan.claims for several in scans.values() for scan in several)}
    for name, entry in believed.items():
        if name in there or entry.directory not in directories:
            continue
        if not _with_removals(entry, register, keys).is_removed:
            yield gone(entry)


def _twice(scans: Mapping[str, Sequence[Scan]]) -> Iterator[Problem]:
    """Files of another name that hold a chain which is there already."""
    for name, several in scans.items():
        for scan in several:
            if not scan.file.is_ours and scan.claims in scans and scan.claims != name:
                text = f"chain {scan.claims} is here a second time"
                yield Problem(ProblemKind.FOREIGN_FILE, str(scan.file.path), 1, name, text)
