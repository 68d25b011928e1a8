"""What is kept of a pack while it streams by: its commits' ids and parents, its tags, first lines of a few messages.

Ids are computed from the bytes that were pushed, never taken from anybody's word. That is what makes every link from
a commit to a parent hold, whatever else the pack says. What cannot be read for sure (a delta whose base is not here, a
commit larger than a commit is) is left out, so that nothing is proven by it. Memory and work have fixed bounds.
"""

import hashlib
import re
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Final

from gateway.policy.wording import printable
from gateway.push.capabilities import ID_LENGTHS, ObjectFormat
from gateway.push.commit_index import CommitIndex
from gateway.push.delta import DeltaError, apply_delta

# Commits and tags larger than this are not read: the longest messages in public are a tenth of it.
LARGEST: Final = 1 << 20
# Commits and tags as they were pushed, kept since a later one may be a delta on them. The oldest go first; git writes
# a base next to its deltas. Room for some ten thousand commits.
_BASES_ROOM: Final = 4 << 20
# What one of them costs besides its bytes: the table's entry, an integer, a tuple, two headers.
_BASE_OVERHEAD: Final = 250
# Work on one pack, in bytes read and made, where a byte of a delta, often an instruction, weighs as much as this many:
# more than a hundred thousand ordinary commits need, and seconds at most. Fifty bytes may ask for a megabyte of it.
_WORK: Final = 512 << 20
_DELTA_WEIGHT: Final = 32
# No push names more refs than this, so no more tags are asked for.
_MOST_TAGS: Final = 2_000
# First lines of messages for whoever is asked about the push, and what is shown of each, in characters.
_MOST_SUBJECTS: Final = 20
_SUBJECT_LENGTH: Final = 200
# Deflated again, what was a delta: fast rather than small.
_LEVEL: Final = 1

_NEW_HASH: Final[Mapping[ObjectFormat, Callable[[bytes], "hashlib._Hash"]]] = {
    "sha1": lambda data: hashlib.sha1(data, usedforsecurity=False),
    "sha256": hashlib.sha256,
}


class PackType(IntEnum):
    """The type of a pack's entry, gitformat-pack(5)."""

    COMMIT = 1
    TREE = 2
    BLOB = 3
    TAG = 4
    OFFSET_DELTA = 6
    REFERENCE_DELTA = 7


_NAMES: Final = {PackType.COMMIT: b"commit", PackType.TAG: b"tag"}


def new_hash(object_format: ObjectFormat, data: bytes = b"") -> "hashlib._Hash":
    """The hash that names objects of this format, begun with `data`."""
    return _NEW_HASH[object_format](data)


class PackHistory:
    """Takes commits, tags and deltas on them, in the pack's order. `place` is an entry's offset in the pack, in bytes.

    `tags`: tag id -> type and id of what it names. `subjects`: id and first line of the first commits, which are the
    newest in packs that git writes; the line is printable, cut, and whatever the committer wrote.
    `left_out`: commits and tags that were not understood. `overflow`: a bound was reached, and no more are taken.
    """

    def __init__(self, object_format: ObjectFormat, max_commits: int) -> None:
        self._format = object_format
        digits = ID_LENGTHS[object_format]
        self.commits = CommitIndex(digits // 2, max_commits)
        self.tags: dict[str, tuple[str, str]] = {}
        self.subjects: list[tuple[str, str]] = []
        self.left_out = 0
        self.overflow = False
        hexadecimal = rb"[0-9a-f]{%d}" % digits
        # Exactly what git writes, so that no reader of git's sees other parents: they follow the tree, and end where
        # the author begins.
        self._commit = re.compile(rb"tree %b\n((?:parent %b\n)*)author " % (hexadecimal, hexadecimal))
        self._tag = re.compile(rb"object (%b)\ntype (commit|tree|blob|tag)\ntag " % hexadecimal)
        self._bases: dict[int, tuple[PackType, bytes]] = {}
        # A queue of its own: finding a dict's first entry takes time for every one that was taken out before it.
        self._oldest_bases: deque[int] = deque()
        self._bases_size = 0
        self._tag_places: dict[bytes, int] = {}
        self._work = _WORK

    def wants(self, kind: PackType, base: int | bytes | None, size: int) -> bool:
        """Should the entry be collected for `add`? `base`, a delta's, is a place or an id; `size` is a claim."""
        if kind not in _NAMES and self._base_place(base) not in self._bases:
            return False
        if size > LARGEST or self.overflow:
            self.left_out += 1
            return False
        return True

    def add(
        self, place: int, kind: PackType, base: int | bytes | None, content: bytes, deflated: bytes
    ) -> None:
        """Takes an entry that was wanted; `deflated` is its content as pushed, empty when it came in pieces."""
        if base is not None:
            resolved = self._resolve(base, content)
            if resolved is None:
                self.left_out += 1
                return
            kind, content = resolved
            deflated = b""
        self._spend(len(content))
        name = new_hash(self._format, b"%b %d\0" % (_NAMES[kind], len(content)))
        name.update(content)
        if kind is PackType.COMMIT:
            self._add_commit(place, name.digest(), content)
        else:
            self._add_tag(place, name.digest(), content)
        self._keep(place, kind, deflated or zlib.compress(content, _LEVEL))

    def _resolve(self, base: int | bytes, delta: bytes) -> tuple[PackType, bytes] | None:
        kept = self._bases.get(self._base_place(base))
        if kept is None:
            return None
        kind, deflated = kept
        # As long as it was when it was kept, so no longer than LARGEST.
        content = zlib.decompress(deflated)
        self._spend(len(content) + len(delta) * _DELTA_WEIGHT)
        try:
            return kind, apply_delta(content, delta, LARGEST)
        except DeltaError:
            return None

    def _spend(self, work: int) -> None:
        self._work -= work
        self.overflow = self.overflow or self._work < 0

    def _base_place(self, base: int | bytes | None) -> int:
        """-1 when it is nowhere."""
        if isinstance(base, bytes):
            number = self.commits.find(base)
            return self.commits.place(number) if number >= 0 else self._tag_places.get(base, -1)
        return -1 if base is None else base

    def _add_commit(self, place: int, commit: bytes, content: bytes) -> None:
        match = self._commit.match(content)
        if match is None:
            self.left_out += 1
            return
        parents = match[1].replace(b"parent ", b"").replace(b"\n", b"")
        if not self.commits.add(commit, bytes.fromhex(parents.decode("ascii")), place):
            self.left_out += 1
            self.overflow = True
            return
        if len(self.subjects) < _MOST_SUBJECTS:
            self.subjects.append((commit.hex(), _subject(content)))

    def _add_tag(self, place: int, tag: bytes, content: bytes) -> None:
        match = self._tag.match(content)
        if match is None:
            self.left_out += 1
            return
        if len(self.tags) >= _MOST_TAGS:
            self.left_out += 1
            return
        self.tags[tag.hex()] = (match[2].decode("ascii"), match[1].decode("ascii"))
        self._tag_places[tag] = place

    def _keep(self, place: int, kind: PackType, deflated: bytes) -> None:
        self._bases[place] = kind, deflated
        self._oldest_bases.append(place)
        self._bases_size += len(deflated) + _BASE_OVERHEAD
        while self._bases_size > _BASES_ROOM:
            _, deflated = self._bases.pop(self._oldest_bases.popleft())
            self._bases_size -= len(deflated) + _BASE_OVERHEAD


def _subject(content: bytes) -> str:
    """The first line of a commit's message."""
    message = content.partition(b"\n\n")[2].lstrip(b"\n")
    # Four bytes are the most that a character takes.
    line = message[: 4 * _SUBJECT_LENGTH].partition(b"\n")[0]
    return printable(line.decode("utf-8", "replace")[:_SUBJECT_LENGTH])
