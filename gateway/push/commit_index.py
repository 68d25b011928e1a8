"""The commits of a pack and their parents, packed tightly: a push may bring a hundred thousand, and memory stays flat.

A record is the commit's id followed by its parents' ids, in one array of bytes; an open-addressed table finds it. The
table is keyed by Python's own hash of bytes, which is seeded, so that nobody can choose ids that collide in it.
Holds what it is told: computing the ids from what was pushed is the caller's part.
"""

from array import array
from collections.abc import Iterator, Mapping
from typing import Final

# Parents per commit that there is room for on the average. Real histories have less than 1.1; only made-up ones,
# where each commit names thousands, run out of it.
_ROOM_FOR_PARENTS: Final = 1.5


class CommitIndex(Mapping[str, tuple[str, ...]]):
    """Commit id -> ids of its parents, in lower-case hex. Only grows, up to `most` commits.

    Inside, ids are bytes, `id_bytes` of them (20 or 32), and commits have numbers: 0, 1, … as they were added.
    """

    def __init__(self, id_bytes: int, most: int) -> None:
        self._width = id_bytes
        self._most = most
        self._room = int(most * (1 + _ROOM_FOR_PARENTS)) * id_bytes
        # Slots hold a number plus one; 0 is free. At least half of them stay free, so that a search ends soon.
        self._mask = (1 << max(4, (2 * most - 1).bit_length())) - 1
        self._slots = array("I", bytes(4 * (self._mask + 1)))
        self._records = bytearray()
        self._starts = array("I", [0])
        self._places = array("Q")

    def add(self, commit: bytes, parents: bytes, place: int) -> bool:
        """Takes a commit whose parents' ids stand one after the other; `place` is a number of the caller's for it.

        A commit that is there already stays as it is. False when there is no room.
        """
        slot = self._slot(commit)
        if self._slots[slot]:
            return True
        size = self._width + len(parents)
        if len(self._places) >= self._most or len(self._records) + size > self._room:
            return False
        self._records += commit
        self._records += parents
        self._starts.append(len(self._records))
        self._places.append(place)
        self._slots[slot] = len(self._places)
        return True

    def find(self, commit: bytes) -> int:
        """The commit's number, -1 when it is not here."""
        return self._slots[self._slot(commit)] - 1

    def parents(self, number: int) -> list[bytes]:
        """The ids of the parents of the commit with this number, in its order."""
        start, end, width = self._starts[number] + self._width, self._starts[number + 1], self._width
        return [bytes(self._records[at : at + width]) for at in range(start, end, width)]

    def place(self, number: int) -> int:
        """What `add` was given for it."""
        return self._places[number]

    def __getitem__(self, commit: str) -> tuple[str, ...]:
        number = self._number(commit)
        if number < 0:
            raise KeyError(commit)
        return tuple(parent.hex() for parent in self.parents(number))

    def __contains__(self, commit: object) -> bool:
        return isinstance(commit, str) and self._number(commit) >= 0

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        for number in range(len(self)):
            start = self._starts[number]
            yield self._records[start : start + self._width].hex()

    def _number(self, commit: str) -> int:
        try:
            wanted = bytes.fromhex(commit)
        except ValueError:
            return -1
        # Upper case and spaces, which `fromhex` takes, are other spellings and no ids.
        return self.find(wanted) if wanted.hex() == commit else -1

    def _slot(self, commit: bytes) -> int:
        """Where the commit stands, or the free slot where it belongs."""
        slots, starts, records, width, mask = (
            self._slots,
            self._starts,
            self._records,
            self._width,
            self._mask,
        )
        slot = hash(commit) & mask
        while entry := slots[slot]:
            start = starts[entry - 1]
            if records[start : start + width] == commit:
                break
            slot = (slot + 1) & mask
        return slot
