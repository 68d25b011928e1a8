"""Packs made by hand, right or wrong in one place: what no git would write."""

import hashlib
import zlib
from collections.abc import Iterable

from gateway.push.capabilities import ID_LENGTHS, ObjectFormat

COMMIT, TREE, BLOB, TAG, OFFSET_DELTA, REFERENCE_DELTA = 1, 2, 3, 4, 6, 7
_NAMES = {COMMIT: b"commit", TREE: b"tree", BLOB: b"blob", TAG: b"tag"}


def object_id(kind: int, content: bytes, object_format: ObjectFormat = "sha1") -> str:
    """The object's name, as git computes it."""
    return hashlib.new(object_format, b"%b %d\0" % (_NAMES[kind], len(content)) + content).hexdigest()


def commit(
    *parents: str, message: bytes = b"a message\n", object_format: ObjectFormat = "sha1", tree: str = ""
) -> bytes:
    """A commit's content."""
    lines = [f"tree {tree or 'e' * ID_LENGTHS[object_format]}", *(f"parent {parent}" for parent in parents)]
    lines += [f"{who} A. U. Thor <author@origin.test> 1700000000 +0000" for who in ("author", "committer")]
    return "\n".join(lines).encode() + b"\n\n" + message


def header(kind: int, size: int) -> bytes:
    """An entry's type and size; the size may be a lie."""
    groups = [kind << 4 | size & 0x0F]
    size >>= 4
    while size:
        groups[-1] |= 0x80
        groups.append(size & 0x7F)
        size >>= 7
    return bytes(groups)


def entry(kind: int, content: bytes, size: int | None = None, base: bytes = b"") -> bytes:
    """One object. `base` is what stands between header and content of a delta."""
    return header(kind, len(content) if size is None else size) + base + zlib.compress(content)


def distance(number: int) -> bytes:
    """How far before a delta its base lies."""
    groups = [number & 0x7F]
    while number >> 7:
        number = (number >> 7) - 1
        groups.append(0x80 | number & 0x7F)
    return bytes(reversed(groups))


def number(size: int) -> bytes:
    """A size in the head of a delta."""
    groups = [size & 0x7F]
    while size >> 7:
        size >>= 7
        groups[-1] |= 0x80
        groups.append(size & 0x7F)
    return bytes(groups)


def copy(start: int, length: int) -> bytes:
    """A delta's instruction that takes bytes of the base, with all seven bytes spelt out."""
    return b"\xff" + start.to_bytes(4, "little") + length.to_bytes(3, "little")


def delta(base: int, result: int, *instructions: bytes) -> bytes:
    """A delta that claims these sizes."""
    return number(base) + number(result) + b"".join(instructions)


def append(base: bytes, more: bytes) -> bytes:
    """The delta that adds up to 127 bytes to its base."""
    whole = [copy(0, len(base))] if base else []
    return delta(len(base), len(base) + len(more), *whole, bytes([len(more)]) + more)


def pack(
    entries: Iterable[bytes],
    count: int | None = None,
    version: int = 2,
    object_format: ObjectFormat = "sha1",
) -> bytes:
    """A pack with a right trailer. `count` and `version` may be lies."""
    entries = list(entries)
    body = b"PACK" + version.to_bytes(4) + (len(entries) if count is None else count).to_bytes(4)
    body += b"".join(entries)
    return body + hashlib.new(object_format, body).digest()
