"""The lines of audit files, plain or compressed, as bytes. It parses nothing and judges nothing.

Whoever reads a log that is being written sees whole lines alone: what stands behind the last newline is given apart.
"""

import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

from gateway.audit.names import LogFile, find_files, in_order, named
from gateway.errors import GatewayError

# Bytes read at a time: few calls, little memory.
_BLOCK: Final = 1 << 20
# Bytes that a line may have: no record comes near it, and a file without newlines must not fill the memory.
MAX_LINE: Final = 32 << 20


class UnreadableFile(GatewayError):
    """A file cannot be read, or not to its end."""


def audit_files(*places: Path) -> tuple[LogFile, ...]:
    """The files of directories and single files, chain by chain, each in the order in which it was written.
    UnreadableFile for a place that is not there."""
    files: dict[Path, LogFile] = {}
    for place in places:
        try:
            if place.is_dir():
                files |= {file.path: file for file in find_files(place)}
            else:
                place.stat()
                files[place] = named(place)
        except OSError as error:
            raise UnreadableFile(f"{place} cannot be read: {error.strerror or error}") from error
    return in_order(files.values())


def chains(*places: Path) -> dict[str, tuple[LogFile, ...]]:
    """The same, by chain."""
    found: dict[str, list[LogFile]] = {}
    for file in audit_files(*places):
        found.setdefault(file.chain, []).append(file)
    return {chain: tuple(files) for chain, files in found.items()}


def iter_lines(file: LogFile, offset: int = 0) -> Iterator[bytes]:
    """The whole lines of a file, without their newlines. UnreadableFile when it cannot be read to its end.

    `offset` is a position in the (unpacked) text behind a newline: that of the last call plus the lines it gave.
    """
    for lines, _ in iter_blocks(file, offset):
        yield from lines


def iter_blocks(file: LogFile, offset: int = 0) -> Iterator[tuple[list[bytes], bytes]]:
    """The same in lists of lines, which is faster, each with what is left behind its last newline."""
    rest = b""
    for block in _blocks(file, offset):
        data = rest + block
        lines = data.split(b"\n")
        rest = lines.pop()
        if len(rest) > MAX_LINE:
            raise UnreadableFile(f"{file.path} has a line of more than {MAX_LINE} bytes")
        yield lines, rest


def count_bytes(files: tuple[LogFile, ...]) -> int:
    """How much there is to read, as the files lie on the disk; what has gone meanwhile counts as nothing."""
    total = 0
    for file in files:
        try:
            total += file.path.stat().st_size
        except OSError:
            continue
    return total


def _blocks(file: LogFile, offset: int) -> Iterator[bytes]:
    try:
        with _open(file) as stream:
            if offset:
                stream.seek(offset)
            read: Callable[[], bytes] = lambda: stream.read(_BLOCK)  # noqa: E731
            while block := read():
                yield block
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise UnreadableFile(f"{file.path} cannot be read: {reason}") from error


def _open(file: LogFile) -> BinaryIO:
    """The text of a file, which may be compressed between its being found and its being opened."""
    if file.is_compressed:
        return gzip.open(file.path)  # type: ignore[return-value]  # it is read as one
    try:
        return open(file.path, "rb", buffering=0)
    except FileNotFoundError:
        packed = Path(os.fspath(file.path) + ".gz")
        if not file.is_ours or not packed.exists():
            raise
        return gzip.open(packed)  # type: ignore[return-value]  # it is read as one
