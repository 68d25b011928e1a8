"""Git's pkt-lines and side-band (gitprotocol-common, gitprotocol-pack): written, and read piece by piece.

Pure. Stops at each packet's end, so that what follows a flush (a pack) is never taken for packets.
"""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final

FLUSH: Final = b"0000"
DELIM: Final = b"0001"

# LARGE_PACKET_MAX of git: the longest packet, its four digits included.
LONGEST_PACKET: Final = 65520
LONGEST_PAYLOAD: Final = LONGEST_PACKET - 4
# One byte of a side-band packet names the band.
LONGEST_BAND: Final = LONGEST_PAYLOAD - 1

_LENGTH: Final = re.compile(rb"[0-9A-Fa-f]{4}")


class Flush(Enum):
    """What `PktReader.next` returns for `0000`; an empty packet (`0004`) is empty bytes."""

    FLUSH = b"0000"


class PktError(ValueError):
    """Bytes that are no pkt-line; the text is a sentence about them."""


def pkt(payload: bytes) -> bytes:
    """One packet. ValueError above 65516 bytes, which four digits cannot count."""
    if len(payload) > LONGEST_PAYLOAD:
        raise ValueError(f"a packet holds at most {LONGEST_PAYLOAD} bytes, not {len(payload)}")
    return b"%04x%s" % (len(payload) + 4, payload)


def sideband(band: int, data: bytes) -> Iterator[bytes]:
    """The packets that carry `data` on band 1 (report), 2 (text) or 3 (fatal text); none for no data."""
    if band not in (1, 2, 3):
        raise ValueError(f"there is no band {band}")
    for start in range(0, len(data), LONGEST_BAND):
        yield pkt(bytes([band]) + data[start : start + LONGEST_BAND])


class PktReader:
    """Reads packets from bytes that come in any pieces. Changes.

    Holds what was fed and not yet asked for, so ask after each `feed` until None comes. It never gets past a fault:
    where a broken stream goes on, nobody knows.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the stream."""
        del self._buffer[: self._at]
        self._at = 0
        self._buffer += data

    def next(self) -> bytes | Flush | None:
        """The next packet's payload, `Flush.FLUSH`, or None while more bytes are needed.

        PktError where the length is none: `0001` to `0003` (no packet of these messages), signs, spaces, more than
        65520. Known as soon as the four digits are there, so that nobody waits for a packet that cannot come.
        """
        length = self.length()
        if length is None:
            return None
        if length == 0:
            self._at += 4
            return Flush.FLUSH
        if len(self._buffer) < self._at + length:
            return None
        payload = bytes(self._buffer[self._at + 4 : self._at + length])
        self._at += length
        return payload

    def length(self) -> int | None:
        """Bytes of the packet that comes next, its digits included; 0 for a flush, None while the digits are not there.

        PktError as in `next`.
        """
        digits = bytes(self._buffer[self._at : self._at + 4])
        if len(digits) < 4:
            return None
        if not _LENGTH.fullmatch(digits):
            raise PktError("a packet's length is not four hexadecimal digits")
        length = int(digits, 16)
        if 0 < length < 4:
            raise PktError(f"a packet of length {length} has no place here")
        if length > LONGEST_PACKET:
            raise PktError(f"a packet is longer than {LONGEST_PACKET} bytes")
        return length

    @property
    def pending(self) -> int:
        """Bytes fed and not yet read: not 0 at the stream's end means that it was cut."""
        return len(self._buffer) - self._at

    def rest(self) -> bytes:
        """Takes out what was fed and not yet read: what follows the last flush."""
        left = bytes(self._buffer[self._at :])
        self._buffer.clear()
        self._at = 0
        return left
