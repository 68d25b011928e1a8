"""The names of audit files, and which of them belong together.

A chain is what one log of one process writes: `20260102T030405Z-4711-0123abcd-0000.jsonl`, then `…-0001.jsonl`, and so
on; `4711-0123abcd` names it. A finished file may be compressed (`.jsonl.gz`).
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PLAIN: Final = ".jsonl"
COMPRESSED: Final = ".jsonl.gz"
_NAME = re.compile(r"(\d{8}T\d{6}Z)-(\d+-[0-9a-f]{8})-(\d{4,})(\.jsonl|\.jsonl\.gz)")


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a log. `chain` is its chain's name, `rotation` its place in it, `started` when it was begun.

    A file by another name (one that somebody copied) is a chain of its own, named after it.
    """

    path: Path
    chain: str
    rotation: int
    started: str
    is_compressed: bool
    is_ours: bool


def file_name(started: str, chain: str, rotation: int) -> str:
    """The name of a file that is begun now."""
    return f"{started}-{chain}-{rotation:04d}{PLAIN}"


def named(path: Path) -> LogFile:
    """What a file's name says."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        name = path.name.removesuffix(".gz").removesuffix(PLAIN)
        return LogFile(path, name, 0, "", path.name.endswith(".gz"), is_ours=False)
    return LogFile(path, found[2], int(found[3]), found[1], found[4] == COMPRESSED, is_ours=True)


def find_files(directory: Path, since: str = "") -> tuple[LogFile, ...]:
    """The audit files of a directory, chain by chain, each in the order in which it was written; the chain that began
    first comes first. No links, no folders. Without those that were begun before `since`, spelled as names have it: the
    sooner the fewer are wanted. OSError when it cannot be read.

    A file that is there twice, plain and compressed, is the plain one: compressing it was interrupted.
    """
    with os.scandir(directory) as entries:
        names = {
            entry.name
            for entry in entries
            if not (entry.name < since and entry.name[:8].isdigit())
            and entry.name.endswith((PLAIN, COMPRESSED))
            and entry.is_file(follow_symlinks=False)
        }
    return in_order(
        named(directory / name)
        for name in names
        if not (name.endswith(COMPRESSED) and name.removesuffix(".gz") in names)
    )


def in_order(files: Iterable[LogFile]) -> tuple[LogFile, ...]:
    """The files chain by chain, as `find_files` gives them."""
    kept = tuple(files)
    begun: dict[str, str] = {}
    for file in kept:
        begun[file.chain] = min(begun.get(file.chain, file.started), file.started)
    return tuple(
        sorted(kept, key=lambda file: (begun[file.chain], file.chain, file.rotation, file.path.name))
    )
