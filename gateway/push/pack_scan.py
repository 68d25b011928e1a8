"""Reads a pack as it streams by, gitformat-pack(5), and learns its commits' ancestry on the way.

Checks that it is one whole pack and nothing else: header, every entry's inflated size, the count, the trailer, nothing
after it. Keeps nothing of an object but what `pack_history` takes. The pack is the agent's: no claim in it is believed,
nothing is allocated by a size it names, and it never decides anything; `ancestry` draws the conclusions.
"""

import zlib
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.push.capabilities import ID_LENGTHS, ObjectFormat
from gateway.push.commit_index import CommitIndex
from gateway.push.pack_history import PackHistory, PackType, new_hash

# Commits whose ancestry is learnt: more than the whole of most projects, and some ten megabytes of memory.
MAX_COMMITS: Final = 100_000
# Bytes that all entries together may inflate to, and so the work a pack can ask for (a minute or two): GitHub takes
# packs of 2 GiB, which would have to deflate to a thirtieth to come near it.
MAX_INFLATED: Final = 64 << 30

_SIGNATURE: Final = b"PACK"
_VERSIONS: Final = frozenset({2, 3})
_HEADER: Final = 12
# Sizes and offsets have 64 bits at most; in groups of seven that is ten bytes.
_NUMBER_BYTES: Final = 10
# Given to zlib at a time, since it copies what it did not use; inflated at a time, since it is thrown away.
_PIECE: Final = 64 << 10
_ROOM: Final = 128 << 10
# A deflated object is longer than the object by at most this, and a thousandth (zlib's own worst case).
_DEFLATE_EXTRA: Final = 64

_TYPES: Final[Mapping[int, PackType]] = {kind.value: kind for kind in PackType}


class PackError(ValueError):
    """What came is not a whole pack, and nothing but a pack. The text is a sentence."""


class _Entry:
    """The object that is being inflated. Changes. `missing` is the bytes still to come, by what its header says."""

    __slots__ = ("base", "content", "fresh", "inflater", "kind", "missing", "offer", "place")

    def __init__(self, place: int, kind: PackType, base: int | bytes | None, size: int, wanted: bool) -> None:
        self.place = place
        self.kind = kind
        self.base = base
        self.missing = size
        self.content = bytearray() if wanted else None
        self.fresh = True
        self.offer = min(_PIECE, size + (size >> 10) + _DEFLATE_EXTRA)
        self.inflater = zlib.decompressobj()


class PackScanner:
    """Fed with the pack in pieces of any size (64 to 256 KiB are good), then finished. Changes; one thread at a time.

    zlib and the hash let other threads run, so feed it from a worker thread. After any PackError it takes no more.
    What it has learnt so far is true at any time, also of a pack that turns out to be broken. `size`: bytes fed.
    `past_commits`: a tree or a file has come, before which git writes all commits, save those it kept as deltas.
    """

    def __init__(
        self,
        object_format: ObjectFormat,
        *,
        max_commits: int = MAX_COMMITS,
        max_inflated: int = MAX_INFLATED,
    ) -> None:
        self.complete = False
        self.size = 0
        self.past_commits = False
        self._history = PackHistory(object_format, max_commits)
        self._id_bytes = ID_LENGTHS[object_format] // 2
        self._max_inflated = max_inflated
        self._inflatable = max_inflated
        self._digest = new_hash(object_format)
        self._rest = b""
        self._place = 0
        self._started = False
        self._objects = 0
        self._entry: _Entry | None = None
        self._fault = ""

    @property
    def commits(self) -> CommitIndex:
        """Commit id -> parents' ids, of the commits understood so far."""
        return self._history.commits

    @property
    def tags(self) -> Mapping[str, tuple[str, str]]:
        """Tag id -> type and id of what it names."""
        return self._history.tags

    @property
    def subjects(self) -> Sequence[tuple[str, str]]:
        """Id and first line (printable, cut, the committer's words) of the first commits of the pack, at most 20."""
        return self._history.subjects

    @property
    def left_out(self) -> int:
        """Commits and tags that were not understood: too large, not as git writes them, a delta that does not fit."""
        return self._history.left_out

    @property
    def overflow(self) -> bool:
        """A bound on memory or work was reached: one of them, and all that came after it, were left out."""
        return self._history.overflow

    def feed(self, data: bytes) -> None:
        """Takes the next bytes. Raises PackError."""
        if self._fault:
            raise PackError(self._fault)
        self.size += len(data)
        data = self._rest + data if self._rest else data
        try:
            used = self._read(data)
        except PackError as error:
            self._fault = str(error)
            self._entry = None
            raise
        self._rest = data[used:]
        self._place += used

    def finish(self) -> None:
        """Says that no more comes. Raises PackError unless the pack was whole."""
        if not self.complete:
            self._fault = self._fault or "the pack is cut off"
            raise PackError(self._fault)

    def _read(self, data: bytes) -> int:
        """How much of the data was used; the rest is the beginning of something that is not all there."""
        if self.complete:
            return self._expect_nothing(data)
        position = 0
        if not self._started:
            if len(data) < _HEADER:
                return 0
            self._read_header(data[:_HEADER])
            position = _HEADER
        view = memoryview(data)
        while self._objects or self._entry is not None:
            if self._entry is None:
                after = self._begin_entry(data, position)
                if after < 0:
                    break
                position = after
            position = self._inflate(view, position)
            if self._entry is not None:
                break
        self._digest.update(view[:position])
        if not self._objects and self._entry is None:
            position = self._read_trailer(data, position)
        return position

    def _read_header(self, header: bytes) -> None:
        if not header.startswith(_SIGNATURE):
            raise PackError("what follows the commands is not a pack")
        version = int.from_bytes(header[4:8])
        if version not in _VERSIONS:
            raise PackError(f"the pack has version {version}, which is not known")
        self._objects = int.from_bytes(header[8:])
        self._started = True

    def _begin_entry(self, data: bytes, position: int) -> int:
        """Reads an entry's header. Where its deflated bytes begin, or -1 when the header is not all there."""
        start, end = position, len(data)
        byte, size, shift = 0x80, 0, 4
        while byte & 0x80:
            if position >= end:
                return -1
            byte = data[position]
            if position == start:
                size = byte & 0x0F
            else:
                size |= (byte & 0x7F) << shift
                shift += 7
            position += 1
            if position - start > _NUMBER_BYTES:
                raise PackError("an object's header is longer than any size needs")
        kind = _TYPES.get(data[start] >> 4 & 7)
        if kind is None:
            raise PackError("the pack has an object of a type that does not exist")
        base: int | bytes | None = None
        if kind is PackType.OFFSET_DELTA:
            base, position = self._read_offset(data, position, self._place + start)
        elif kind is PackType.REFERENCE_DELTA:
            base = data[position : position + self._id_bytes]
            position = position + self._id_bytes if len(base) == self._id_bytes else -1
        if position >= 0:
            self._start_entry(self._place + start, kind, base, size)
        return position

    def _read_offset(self, data: bytes, position: int, place: int) -> tuple[int, int]:
        """The place of the base of the delta at `place`, and the position behind it, which is -1 when it is cut off."""
        distance = -1
        for count in range(_NUMBER_BYTES):
            if position + count >= len(data):
                return 0, -1
            byte = data[position + count]
            distance = distance + 1 << 7 | byte & 0x7F
            if not byte & 0x80:
                break
        else:
            distance = 0
        if not 0 < distance <= place - _HEADER:
            raise PackError("a delta in the pack names a base that does not lie before it")
        return place - distance, position + count + 1

    def _start_entry(self, place: int, kind: PackType, base: int | bytes | None, size: int) -> None:
        self._inflatable -= size
        if self._inflatable < 0:
            raise PackError(f"the pack claims to inflate to more than {self._max_inflated} bytes")
        wanted = self._history.wants(kind, base, size)
        self.past_commits = self.past_commits or (
            base is None and kind is not PackType.COMMIT and kind is not PackType.TAG
        )
        self._objects -= 1
        self._entry = _Entry(place, kind, base, size, wanted)

    def _inflate(self, view: memoryview, position: int) -> int:
        """Goes on with the entry. The position after what was used: its end, or the end of the data."""
        entry = self._entry
        assert entry is not None
        inflate, start, end = entry.inflater.decompress, position, len(view)
        whole, entry.fresh = entry.fresh, False
        while position < end:
            piece = view[position : position + entry.offer]
            try:
                # One byte more than is missing shows an object that is too long; 0 would mean no limit at all.
                inflated = inflate(piece, min(entry.missing + 1, _ROOM))
            except zlib.error as error:
                raise PackError("an object in the pack does not inflate") from error
            entry.missing -= len(inflated)
            if entry.missing < 0:
                raise PackError("an object in the pack is longer than its header says")
            if entry.content is not None:
                entry.content += inflated
            if entry.inflater.eof:
                # Not `unconsumed_tail`, in which CPython leaves the same bytes once more.
                position += len(piece) - len(entry.inflater.unused_data)
                self._end_entry(entry, view[start:position] if whole else b"")
                break
            position += len(piece) - len(entry.inflater.unconsumed_tail)
        return position

    def _end_entry(self, entry: _Entry, deflated: bytes | memoryview) -> None:
        if entry.missing:
            raise PackError("an object in the pack is shorter than its header says")
        if entry.content is not None:
            self._history.add(entry.place, entry.kind, entry.base, bytes(entry.content), bytes(deflated))
        self._entry = None

    def _read_trailer(self, data: bytes, position: int) -> int:
        end = position + self._id_bytes
        if len(data) < end:
            return position
        if data[position:end] != self._digest.digest():
            raise PackError("the pack does not have the checksum it ends with")
        self.complete = True
        return self._expect_nothing(data[end:]) + end

    def _expect_nothing(self, data: bytes) -> int:
        if data:
            self.complete = False
            raise PackError("bytes follow the end of the pack")
        return 0
