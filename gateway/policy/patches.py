"""Which files a patch touches: the form of Codex's `apply_patch`, and unified diffs. Reads headers, applies nothing."""

import re
from typing import Final

_BEGIN: Final = "*** Begin Patch"
_HEADER: Final = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_MOVE: Final = re.compile(r"\*\*\* Move to: (.+)")
_DIFF: Final = re.compile(r"(---|\+\+\+) ([^\t\n]+)")
_RENAME: Final = re.compile(r"(?:rename|copy) (?:from|to) (.+)")
_NULL: Final = "/dev/null"


class PatchError(ValueError):
    """No file is named in a form that is known here."""


def patched_paths(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths that are written, and those that are deleted, as they stand in the patch. PatchError for none."""
    lines = [line.rstrip("\r") for line in text.split("\n")]
    found = _in_patch(lines) if any(line.strip() == _BEGIN for line in lines) else _in_diff(lines)
    if not found[0] and not found[1]:
        raise PatchError("this is no patch that names its files")
    return found


def _in_patch(lines: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    written: dict[str, None] = {}
    deleted: dict[str, None] = {}
    for line in lines:
        if header := _HEADER.fullmatch(line.strip()):
            (deleted if header[1] == "Delete" else written)[header[2].strip()] = None
        elif move := _MOVE.fullmatch(line.strip()):
            written[move[1].strip()] = None
    return tuple(written), tuple(deleted)


def _in_diff(lines: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The file of each pair of headers, and both names of a renamed one; git's `a/` and `b/` do not count.

    A removed line that begins with "-- " looks like a header, and then names one file more: that only tightens.
    """
    written: dict[str, None] = {}
    deleted: dict[str, None] = {}
    before = ""
    for line in lines:
        if rename := _RENAME.fullmatch(line):
            written[rename[1]] = None
        header = _DIFF.match(line)
        if header is None:
            continue
        path = header[2].strip()
        if header[1] == "---":
            before = path
        elif path == _NULL:
            deleted[_without_side(before)] = None
        else:
            written[_without_side(path)] = None
    return tuple(written), tuple(deleted)


def _without_side(path: str) -> str:
    """The path without git's `a/` or `b/`."""
    return path[2:] if path.startswith(("a/", "b/")) else path
